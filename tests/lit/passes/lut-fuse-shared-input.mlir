// RUN: inr-opt -p lut-fuse-shared-input %s | filecheck %s
// RUN: inr-opt -p lut-fuse-shared-input,lut-fuse-shared-input %s | filecheck %s

// Two searches with equal centroids and steps are one; tables, scales and biases stand side by side.

// CHECK-LABEL: func.func @shared(
// CHECK-DAG:     %[[T:.*]] = arith.constant {inr.name = "q+k.table"} dense<{{\[\[\[}}1, 7, 8], [2, 9, 100]]]> : tensor<1x2x3xi8>
// CHECK-DAG:     %[[S:.*]] = arith.constant {inr.name = "q+k.scale"} dense<[5.000000e-01, 2.500000e-01, 2.500000e-01]> : tensor<3xf32>
// CHECK-DAG:     %[[B:.*]] = arith.constant {inr.name = "q+k.table_bias"} dense<[3.000000e+00, 0.000000e+00, 0.000000e+00]> : tensor<3xf32>
// CHECK:         %[[Y:.*]] = lut.linear layer "q+k" %x : tensor<8x2xf64> search {{.*}} table %[[T]] : {{.*}} scale %[[S]] : {{.*}} bias %[[B]] : {{.*}} quant <bits = 8, scheme = per_column> error <acc = [0, 100]> -> tensor<8x3xf64>
// CHECK-NEXT:    %[[Q:.*]] = tensor.extract_slice %[[Y]][0, 0] [8, 1] [1, 1]
// CHECK-NEXT:    %[[K:.*]] = tensor.extract_slice %[[Y]][0, 1] [8, 2] [1, 1]
// CHECK-NOT:     lut.linear
// CHECK:         func.return %[[Q]], %[[K]]
func.func @shared(%x: tensor<8x2xf64>) -> (tensor<8x1xf64>, tensor<8x2xf64>) {
  %c = arith.constant dense<[[[0, 0], [9, -9]]]> : tensor<1x2x2xi16>
  %s = arith.constant dense<[0.5]> : tensor<1xf32>
  %tq = arith.constant dense<[[[1], [2]]]> : tensor<1x2x1xi8>
  %sq = arith.constant dense<[0.5]> : tensor<1xf32>
  %bq = arith.constant dense<[3.0]> : tensor<1xf32>
  %0 = lut.linear layer "q" %x : tensor<8x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %tq : tensor<1x2x1xi8> scale %sq : tensor<1xf32> bias %bq : tensor<1xf32> spec <vec = 2, k = 2, cb = 1> quant <bits = 6> -> tensor<8x1xf64>
  %c2 = arith.constant dense<[[[0, 0], [9, -9]]]> : tensor<1x2x2xi16>
  %s2 = arith.constant dense<[0.5]> : tensor<1xf32>
  %tk = arith.constant dense<[[[7, 8], [9, 100]]]> : tensor<1x2x2xi8>
  %sk = arith.constant dense<[0.25]> : tensor<1xf32>
  %1 = lut.linear layer "k" %x : tensor<8x2xf64> search %c2 : tensor<1x2x2xi16> steps %s2 : tensor<1xf32> table %tk : tensor<1x2x2xi8> scale %sk : tensor<1xf32> spec <vec = 2, k = 2, cb = 1> quant <bits = 8, scheme = per_tensor> -> tensor<8x2xf64>
  func.return %0, %1 : tensor<8x1xf64>, tensor<8x2xf64>
}

// Other centroids, another input, floats beside integers: nothing is shared.

// CHECK-LABEL: func.func @apart(
// CHECK-COUNT-4: lut.linear
// CHECK-NOT:     extract_slice
// CHECK:         func.return
func.func @apart(%x: tensor<8x2xf64>, %z: tensor<8x2xf64>) -> (tensor<8x1xf64>, tensor<8x1xf64>, tensor<8x1xf64>, tensor<8x1xf64>) {
  %c = arith.constant dense<[[[0, 0], [9, -9]]]> : tensor<1x2x2xi16>
  %c2 = arith.constant dense<[[[0, 0], [9, -8]]]> : tensor<1x2x2xi16>
  %s = arith.constant dense<[0.5]> : tensor<1xf32>
  %t = arith.constant dense<[[[1], [2]]]> : tensor<1x2x1xi8>
  %f = arith.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>
  %0 = lut.linear %x : tensor<8x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x1xi8> scale %s : tensor<1xf32> spec <vec = 2, k = 2, cb = 1> quant <bits = 6> -> tensor<8x1xf64>
  %1 = lut.linear %x : tensor<8x2xf64> search %c2 : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x1xi8> scale %s : tensor<1xf32> spec <vec = 2, k = 2, cb = 1> quant <bits = 6> -> tensor<8x1xf64>
  %2 = lut.linear %z : tensor<8x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x1xi8> scale %s : tensor<1xf32> spec <vec = 2, k = 2, cb = 1> quant <bits = 6> -> tensor<8x1xf64>
  %3 = lut.linear %x : tensor<8x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %f : tensor<1x2x1xf32> spec <vec = 2, k = 2, cb = 1> -> tensor<8x1xf64>
  func.return %0, %1, %2, %3 : tensor<8x1xf64>, tensor<8x1xf64>, tensor<8x1xf64>, tensor<8x1xf64>
}
