// RUN: inr-opt -p lut-quantize %s | filecheck %s
// RUN: inr-opt -p lut-quantize,lut-quantize %s | filecheck %s
// RUN: inr-opt -p 'lut-quantize{bits=4 scheme=per_tensor layers=floats}' %s | filecheck %s --check-prefix=FOUR
// RUN: inr-opt -p 'lut-quantize{bits=4}' %s | filecheck %s --check-prefix=FEWER
// RUN: not inr-opt -p 'lut-quantize{bits=9}' %s 2>&1 | filecheck %s --check-prefix=BITS
// RUN: not inr-opt -p 'lut-quantize{scheme=per_row}' %s 2>&1 | filecheck %s --check-prefix=SCHEME

// BITS: lut-quantize: bits=9; 2 to 8
// SCHEME: lut-quantize: scheme 'per_row' is not one of per_column, per_tensor

// The largest number of each column becomes 127: 1.27 / 127 = 0.01, 254 / 127 = 2. Halves to even:
// -3 / 2 = -1.5 is -2; the most that this can matter is 1 in the second column.

// CHECK-LABEL: func.func @floats(
// CHECK-DAG:     arith.constant {inr.name = "floats.table"} dense<{{\[\[\[}}127, 3], [-50, 127]], {{\[\[}}0, 0], [1, -2]]]> : tensor<2x2x2xi8>
// CHECK-DAG:     arith.constant {inr.name = "floats.scale"} dense<[1.000000e-02, 2.000000e+00]> : tensor<2xf32>
// CHECK:         lut.linear layer "floats" {{.*}} quant <bits = 8, scheme = per_column> error <vq_rel_mse = 0.25, q_bound = 1.0, acc = [-50, 128]> -> tensor<8x2xf64>
// FOUR-LABEL: func.func @floats(
// FOUR:         arith.constant {inr.name = "floats.scale"} dense<36.28571{{[0-9]*}}> : tensor<1xf32>
// FOUR:         quant <bits = 4, scheme = per_tensor>
func.func @floats(%x: tensor<8x2xf64>, %c: tensor<2x2x1xi16>, %s: tensor<2xf32>) -> tensor<8x2xf64> {
  %t = arith.constant {inr.name = "floats.table"} dense<[[[1.27, 6.0], [-0.5, 254.0]], [[0.0, 0.0], [0.01, -3.0]]]> : tensor<2x2x2xf32>
  %0 = lut.linear layer "floats" %x : tensor<8x2xf64> search %c : tensor<2x2x1xi16> steps %s : tensor<2xf32> table %t : tensor<2x2x2xf32> spec <vec = 1, k = 2, cb = 2> error <vq_rel_mse = 0.25, rel_mse = 0.2> -> tensor<8x2xf64>
  func.return %0 : tensor<8x2xf64>
}

// Eight bits become four where that is asked for, and stay otherwise. 127 -> 7: 18.142857.

// CHECK-LABEL: func.func @integers(
// CHECK:         lut.linear layer "integers" {{.*}} quant <bits = 8, scheme = per_column> error <rel_mse = 0.2, q_bound = 0.5, acc = [0, 200]>
// FEWER-LABEL: func.func @integers(
// FEWER-DAG:     dense<{{\[\[\[}}7], [3]]]> : tensor<1x2x1xi8>
// FEWER-DAG:     dense<9.071428{{[0-9]*}}> : tensor<1xf32>
// FEWER:         lut.linear layer "integers" {{.*}} quant <bits = 4, scheme = per_column> error <q_bound = 3.2857{{[0-9]}}, acc = [0, 7]>
func.func @integers(%x: tensor<8x1xf64>, %c: tensor<1x2x1xi16>, %s: tensor<1xf32>) -> tensor<8x1xf64> {
  %t = arith.constant dense<[[[127], [60]]]> : tensor<1x2x1xi8>
  %scale = arith.constant dense<[0.5]> : tensor<1xf32>
  %0 = lut.linear layer "integers" %x : tensor<8x1xf64> search %c : tensor<1x2x1xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x1xi8> scale %scale : tensor<1xf32> spec <vec = 1, k = 2, cb = 1> quant <bits = 8> error <rel_mse = 0.2, q_bound = 0.5, acc = [0, 200]> -> tensor<8x1xf64>
  func.return %0 : tensor<8x1xf64>
}
