// RUN: python -c "import numpy as np; r = np.random.default_rng(0); np.savez(r'%t.npz', x=r.normal(size=(400, 6)))"
// RUN: inr-opt -p 'convert-matmul-to-lut{vec=4 k=8 calibration="%t.npz"}' %s | filecheck %s
// RUN: inr-opt -p 'convert-matmul-to-lut{vec=4 k=8 calibration="%t.npz"},convert-matmul-to-lut' %s | filecheck %s
// RUN: inr-opt -p 'convert-matmul-to-lut{vec=2 k=8 bits=6 residual=1 layers=fc1 keep-weights=false calibration="%t.npz"}' %s | filecheck %s --check-prefix=ONE
// RUN: inr-opt -p 'convert-matmul-to-lut{k=8 fit=kmeans quantize=false layers=fc1 calibration="%t.npz"}' %s | filecheck %s --check-prefix=FLOAT


// CHECK-LABEL: func.func @network(
// CHECK-DAG:     %[[W:.*]] = arith.constant {inr.name = "fc1.weight"} dense<{{.*}}> : tensor<6x3xf64>
// CHECK-DAG:     arith.constant {inr.name = "fc1.centroids"} dense<{{.*}}> : tensor<2x8x4xi16>
// CHECK-DAG:     arith.constant {inr.name = "fc1.steps"} dense<{{.*}}> : tensor<2xf32>
// CHECK-DAG:     arith.constant {inr.name = "fc1.table"} dense<{{.*}}> : tensor<2x8x3xi8>
// CHECK-DAG:     arith.constant {inr.name = "fc1.scale"} dense<{{.*}}> : tensor<3xf32>
// CHECK:         lut.linear layer "fc1" %x : tensor<4x6xf64> of %[[W]] : tensor<6x3xf64> plus %{{.*}} : tensor<3xf64> search {{.*}} bias {{.*}} spec <vec = 4, k = 8, cb = 2> quant <bits = 8, scheme = per_column> error <vq_rel_mse = {{.*}}, rel_mse = {{.*}}, q_bound = {{.*}}, acc = [{{.*}}]> -> tensor<4x3xf64>
// CHECK:         math.tanh
// It is said of a product that it stays one, or how it is cut.
// CHECK:         inr.matmul
// CHECK:         lut.linear layer "network.matmul2" {{.*}} spec <vec = 1, k = 4, cb = 2> quant <bits = 8
// CHECK:         func.return
// ONE-LABEL: func.func @network(
// ONE-NOT:      "fc1.weight"
// ONE:          lut.linear layer "fc1" %x : tensor<4x6xf64> search {{.*}} residual %{{.*}} : tensor<1x3xf32> channels [{{[0-5]}}] spec <vec = 2, k = 8, cb = 3> quant <bits = 6
// ONE-NOT:      lut.linear
// ONE:          func.return
// FLOAT-LABEL: func.func @network(
// FLOAT-NOT:    xi8>
// FLOAT:        arith.constant {inr.name = "fc1.table"} dense<{{.*}}> : tensor<2x8x3xf32>
// FLOAT:        lut.linear layer "fc1" {{.*}} table %{{.*}} : tensor<2x8x3xf32> bias {{.*}} spec <vec = 4, k = 8, cb = 2> error <vq_rel_mse = {{[0-9.]*}}> ->
func.func @network(%x: tensor<4x6xf64>) -> tensor<4x2xf64> {
  %w1 = arith.constant {inr.name = "fc1.weight"} dense<[[1.0, -2.0, 0.5], [3.0, 0.5, 1.0], [0.25, 1.0, -1.0], [2.0, 0.0, 1.5], [-1.0, 1.0, 0.0], [0.5, 0.75, -0.5]]> : tensor<6x3xf64>
  %b1 = arith.constant {inr.name = "fc1.bias"} dense<[0.5, 0.0, -0.5]> : tensor<3xf64>
  %w2 = arith.constant {inr.name = "fc2.weight"} dense<[[1.0, 2.0], [-1.0, 0.5], [0.5, 1.0]]> : tensor<3x2xf64>
  %w3 = arith.constant dense<[[1.0, 2.0], [-3.0, 0.5]]> : tensor<2x2xf64>
  %0 = inr.matmul %x, %w1 bias %b1 : (tensor<4x6xf64>, tensor<6x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  %1 = math.tanh %0 : tensor<4x3xf64>
  %2 = inr.matmul %1, %w2 {lut.dense} : (tensor<4x3xf64>, tensor<3x2xf64>) -> tensor<4x2xf64>
  %3 = inr.matmul %2, %w3 {lut.spec = #lut.spec<vec = 1, k = 4, cb = 2>} : (tensor<4x2xf64>, tensor<2x2xf64>) -> tensor<4x2xf64>
  func.return %3 : tensor<4x2xf64>
}
