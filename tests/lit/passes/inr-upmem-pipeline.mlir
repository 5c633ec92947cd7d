// RUN: python -c "import numpy as np; r = np.random.default_rng(0); np.savez(r'%t.npz', x=r.normal(size=(400, 6)))"
// RUN: inr-opt -p 'inr-upmem-pipeline{vec=2 k=8 dpus=4 calibration="%t.npz"}' %s | filecheck %s
// RUN: inr-opt -p 'convert-matmul-to-lut{vec=2 k=8 calibration="%t.npz"},inr-upmem-pipeline{dpus=4}' %s | filecheck %s
// RUN: inr-opt -p 'inr-upmem-pipeline{vec=2 k=8 dpus=4 calibration="%t.npz"}' -t 'dpu-c{model=net}' %s | filecheck %s --check-prefix=DEVICE
// RUN: not inr-opt -p inr-upmem-pipeline %s 2>&1 | filecheck %s --check-prefix=NONE

// NONE: convert-matmul-to-lut: {{.*}}calibration

// CHECK: upmem.symbol @fc1_table resident : memref<{{.*}}, #upmem.mram>
// CHECK: upmem.kernel @fc1(
// CHECK: upmem.kernel @fc2(
// CHECK: func.func @upmem_open()
// CHECK: func.func @network(%grid: !upmem.grid<dpus = {{[1-4]}}, groups = 1, tasklets = {{[0-9]+}}>, %x: tensor<4x6xf64>)
// CHECK: lut.encode %x
// CHECK: upmem.launch @fc1 on
// CHECK: math.tanh
// CHECK: upmem.launch @fc2 on
// CHECK: lut.dequant
// DEVICE: case NET_FC1:
// DEVICE: case NET_FC2:
func.func @network(%x: tensor<4x6xf64>) -> tensor<4x2xf64> {
  %w1 = arith.constant {inr.name = "fc1.weight"} dense<[[1.0, -2.0, 0.5], [3.0, 0.5, 1.0], [0.25, 1.0, -1.0], [2.0, 0.0, 1.5], [-1.0, 1.0, 0.0], [0.5, 0.75, -0.5]]> : tensor<6x3xf64>
  %b1 = arith.constant {inr.name = "fc1.bias"} dense<[0.5, 0.0, -0.5]> : tensor<3xf64>
  %w2 = arith.constant {inr.name = "fc2.weight"} dense<[[1.0, 2.0], [-1.0, 0.5], [0.5, 1.0]]> : tensor<3x2xf64>
  %0 = inr.matmul %x, %w1 bias %b1 : (tensor<4x6xf64>, tensor<6x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  %1 = math.tanh %0 : tensor<4x3xf64>
  %2 = inr.matmul %1, %w2 : (tensor<4x3xf64>, tensor<3x2xf64>) -> tensor<4x2xf64>
  func.return %2 : tensor<4x2xf64>
}
