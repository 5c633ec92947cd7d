// RUN: python -c "import numpy as np; r = np.random.default_rng(0); np.savez(r'%t.npz', x=r.normal(size=(400, 6)))"
// RUN: inr-opt -p 'lut-select-layers{budget=0.05 rows=1000000 vec=1,2 k=8 calibration="%t.npz"}' %s -o %t.once.mlir
// RUN: filecheck %s --input-file %t.once.mlir
// RUN: inr-opt -p 'lut-select-layers{budget=0.05}' %t.once.mlir | diff %t.once.mlir -
// RUN: inr-opt -p 'lut-select-layers{budget=0 rows=1000000 vec=2 k=8 calibration="%t.npz"}' %s | filecheck %s --check-prefix=EXACT
// RUN: not inr-opt -p 'lut-select-layers' %s 2>&1 | filecheck %s --check-prefix=BUDGET
// RUN: not inr-opt -p 'lut-select-layers{budget=0.1 limit=time}' %s 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not inr-opt -p 'lut-select-layers{budget=0.1 layers=conv}' %s 2>&1 | filecheck %s --check-prefix=EMPTY

// BUDGET: lut-select-layers: needs budget=NUMBER, the error allowed; 0 or more
// LIMIT: lut-select-layers: limit 'time' is not one of error, cost
// EMPTY: lut-select-layers: layers='conv' selects no layer; products by a constant weight are: wide, tall

// A product of six numbers is never slower than what goes to another machine and back. What was
// decided before stays.

// CHECK-LABEL: func.func @network(
// CHECK:         inr.matmul {{.*}}{lut.dense}
// CHECK:         inr.matmul {{.*}}{lut.dense}
// EXACT-LABEL: func.func @network(
// EXACT:         inr.matmul {{.*}}{lut.dense}
// EXACT:         inr.matmul {{.*}}{lut.dense}
func.func @network(%x: tensor<4x6xf64>) -> tensor<4x1xf64> {
  %w1 = arith.constant {inr.name = "wide.weight"} dense<[[1.0, -2.0, 0.5], [3.0, 0.5, 1.0], [0.25, 1.0, -1.0], [2.0, 0.0, 1.5], [-1.0, 1.0, 0.0], [0.5, 0.75, -0.5]]> : tensor<6x3xf64>
  %w2 = arith.constant {inr.name = "tall.weight"} dense<[[1.0], [-1.0], [0.5]]> : tensor<3x1xf64>
  %0 = inr.matmul %x, %w1 : (tensor<4x6xf64>, tensor<6x3xf64>) -> tensor<4x3xf64>
  %1 = math.tanh %0 : tensor<4x3xf64>
  %2 = inr.matmul %1, %w2 {lut.dense} : (tensor<4x3xf64>, tensor<3x1xf64>) -> tensor<4x1xf64>
  func.return %2 : tensor<4x1xf64>
}
