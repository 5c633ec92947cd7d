// RUN: inr-opt -p lut-expand-linear %s | filecheck %s
// RUN: inr-opt -p lut-expand-linear,lut-expand-linear %s | filecheck %s
// RUN: inr-opt -p 'lut-expand-linear{narrow=true}' %s | filecheck %s --check-prefix=NARROW
// RUN: inr-opt -p lut-expand-linear,canonicalize %s | filecheck %s --check-prefix=BACK

// CHECK-LABEL: func.func @layer(
// CHECK:         %[[I:.*]] = lut.encode %x by %{{.*}} steps %{{.*}} spec <vec = 2, k = 2, cb = 1>
// CHECK-NEXT:    %[[S:.*]] = lut.lookup layer "fc1" %[[I]] in %{{.*}} quant <bits = 8, scheme = per_column> : (tensor<8x1xui8>, tensor<1x2x2xi8>) -> tensor<8x2xi32>
// CHECK-NEXT:    %[[D:.*]] = lut.dequant %[[S]] : tensor<8x2xi32> scale %{{.*}} : tensor<2xf32> -> tensor<8x2xf64>
// CHECK-NEXT:    %[[Y:.*]] = lut.residual_matmul %x channels [1] by %{{.*}} into %[[D]]
// CHECK-NEXT:    func.return %[[Y]]
// NARROW-LABEL: func.func @layer(
// NARROW:       lut.lookup {{.*}} -> tensor<8x2xi16>
// BACK-LABEL: func.func @layer(
// BACK:         %[[Y:.*]] = lut.linear layer "fc1" %x : {{.*}} residual %{{.*}} : tensor<1x2xf32> channels [1]
// BACK-NEXT:    func.return %[[Y]]
func.func @layer(%x: tensor<8x2xf64>, %w: tensor<2x2xf64>) -> tensor<8x2xf64> {
  %c = arith.constant dense<[[[0, 0], [9, 0]]]> : tensor<1x2x2xi16>
  %s = arith.constant dense<[0.5]> : tensor<1xf32>
  %t = arith.constant dense<[[[127, 3], [4, -5]]]> : tensor<1x2x2xi8>
  %scale = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %r = arith.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %0 = lut.linear layer "fc1" %x : tensor<8x2xf64> of %w : tensor<2x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x2xi8> scale %scale : tensor<2xf32> residual %r : tensor<1x2xf32> channels [1] spec <vec = 2, k = 2, cb = 1> quant <bits = 8> -> tensor<8x2xf64>
  func.return %0 : tensor<8x2xf64>
}

// A table of floats: sums in float64, no scale.

// CHECK-LABEL: func.func @floats(
// CHECK:         lut.lookup %{{.*}} in %{{.*}} : (tensor<8x1xui8>, tensor<1x2x2xf32>) -> tensor<8x2xf64>
// CHECK-NEXT:    lut.dequant %{{.*}} : tensor<8x2xf64> -> tensor<8x2xf64>
// BACK-LABEL: func.func @floats(
// BACK-NEXT:    lut.linear
func.func @floats(%x: tensor<8x2xf64>, %c: tensor<1x2x2xi16>, %s: tensor<1xf32>, %t: tensor<1x2x2xf32>) -> tensor<8x2xf64> {
  %0 = lut.linear %x : tensor<8x2xf64> search %c : tensor<1x2x2xi16> steps %s : tensor<1xf32> table %t : tensor<1x2x2xf32> spec <vec = 2, k = 2, cb = 1> -> tensor<8x2xf64>
  func.return %0 : tensor<8x2xf64>
}
