// RUN: python -c "import numpy as np; r = np.random.default_rng(0); np.savez(r'%t.npz', x=r.normal(size=(600, 2)) @ r.normal(size=(2, 8)))"
// RUN: inr-opt -p 'convert-matmul-to-lut{vec=2 k=4 fit=kmeans calibration="%t.npz"},lut-refit{calibration="%t.npz"}' %s -o %t.once.mlir
// RUN: inr-opt -p 'lut-refit{calibration="%t.npz"}' %t.once.mlir | diff %t.once.mlir -
// RUN: filecheck %s --input-file %t.once.mlir
// RUN: not inr-opt -p lut-refit %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not inr-opt -p 'convert-matmul-to-lut{vec=2 k=4 keep-weights=false calibration="%t.npz"},lut-refit{calibration="%t.npz"}' %s 2>&1 | filecheck %s --check-prefix=WEIGHT
// RUN: not inr-opt -p 'convert-matmul-to-lut{vec=2 k=4 calibration="%t.npz"},lut-refit' %s 2>&1 | filecheck %s --check-prefix=FILE

// NONE: lut-refit: layers='.*' selects no layer of tables; there are: none at all
// WEIGHT: lut.linear: fc1 has no weight beside its tables (of); convert it with keep-weights=true
// FILE: lut-refit: needs calibration=FILE.npz with inputs of layer: x: 4x8; rows may be more

// Inputs of rank two have much to tell about one channel from the others: less than half of the error is left.

// CHECK-LABEL: func.func @layer(
// CHECK:         lut.linear layer "fc1" {{.*}} error <vq_rel_mse = 0.4{{[0-9]*}}, rel_mse = 0.1{{[0-9]*}}, q_bound = {{.*}}, acc = [{{.*}}]> -> tensor<4x2xf64>
func.func @layer(%x: tensor<4x8xf64>) -> tensor<4x2xf64> {
  %w = arith.constant {inr.name = "fc1.weight"} dense<[[1.0, -2.0], [3.0, 0.5], [0.25, 1.0], [2.0, 0.0], [-1.0, 1.0], [0.5, 0.75], [1.5, -1.0], [0.0, 2.0]]> : tensor<8x2xf64>
  %b = arith.constant {inr.name = "fc1.bias"} dense<[0.5, -1.0]> : tensor<2xf64>
  %0 = inr.matmul %x, %w bias %b : (tensor<4x8xf64>, tensor<8x2xf64>, tensor<2xf64>) -> tensor<4x2xf64>
  func.return %0 : tensor<4x2xf64>
}
