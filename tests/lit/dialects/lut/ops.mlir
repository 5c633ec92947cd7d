// RUN: INR_ROUNDTRIP
// RUN: INR_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func @search
func.func @search(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) -> tensor<8x3xui8> {
  // CHECK: lut.encode %{{.*}} by %{{.*}} steps %{{.*}} spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3, metric = l2, encoder = nearest, form = grid12> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return %0 : tensor<8x3xui8>
}

// CHECK-LABEL: func.func @tree
func.func @tree(%x: tensor<8x10xf32>, %c: tensor<3x4xi32>, %t: tensor<3x15xf32>) -> tensor<8x3xui8> {
  // CHECK: lut.encode_tree %{{.*}} by %{{.*}}, %{{.*}} spec <vec = 4, k = 16, cb = 3, encoder = tree, form = float32> : (tensor<8x10xf32>, tensor<3x4xi32>, tensor<3x15xf32>) -> tensor<8x3xui8>
  %0 = lut.encode_tree %x by %c, %t spec <vec = 4, k = 16, cb = 3, encoder = tree> : (tensor<8x10xf32>, tensor<3x4xi32>, tensor<3x15xf32>) -> tensor<8x3xui8>
  func.return %0 : tensor<8x3xui8>
}

// CHECK-LABEL: func.func @sums
func.func @sums(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>, %f: tensor<3x16x5xf32>) -> (tensor<8x5xi32>, tensor<8x5xi16>, tensor<8x5xf64>) {
  // CHECK: lut.lookup %{{.*}} in %{{.*}} quant <bits = 8, scheme = per_column> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  // Three entries of 6 bits reach 93, which 16 bits hold whatever the table is.
  // CHECK-NEXT: lut.lookup layer "fc1" %{{.*}} in %{{.*}} quant <bits = 6, scheme = per_tensor> error <vq_rel_mse = 0.25, rel_mse = 1.0e-05, q_bound = 0.0, acc = [-93, 93]> : {{.*}} -> tensor<8x5xi16>
  %1 = lut.lookup layer "fc1" %i in %t quant <bits = 6, scheme = per_tensor> error <vq_rel_mse = 0.25, rel_mse = 1.0e-5, q_bound = 0.0, acc = [-93, 93]> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi16>
  // CHECK-NEXT: lut.lookup %{{.*}} in %{{.*}} : (tensor<8x3xui8>, tensor<3x16x5xf32>) -> tensor<8x5xf64>
  %2 = lut.lookup %i in %f : (tensor<8x3xui8>, tensor<3x16x5xf32>) -> tensor<8x5xf64>
  func.return %0, %1, %2 : tensor<8x5xi32>, tensor<8x5xi16>, tensor<8x5xf64>
}

// CHECK-LABEL: func.func @outputs
func.func @outputs(%a: tensor<8x5xi32>, %f: tensor<8x5xf32>, %s: tensor<5xf32>, %b: tensor<5xf32>, %one: tensor<1xf32>, %m: tensor<5xi32>, %h: tensor<1xi8>) {
  // CHECK: lut.dequant %{{.*}} : tensor<8x5xi32> scale %{{.*}} : tensor<5xf32> bias %{{.*}} : tensor<5xf32> -> tensor<8x5xf64>
  %0 = lut.dequant %a : tensor<8x5xi32> scale %s : tensor<5xf32> bias %b : tensor<5xf32> -> tensor<8x5xf64>
  // CHECK-NEXT: lut.dequant %{{.*}} : tensor<8x5xi32> scale %{{.*}} : tensor<1xf32> -> tensor<8x5xf32>
  %1 = lut.dequant %a : tensor<8x5xi32> scale %one : tensor<1xf32> -> tensor<8x5xf32>
  // CHECK-NEXT: lut.dequant %{{.*}} : tensor<8x5xf32> bias %{{.*}} : tensor<5xf32> -> tensor<8x5xf64>
  %2 = lut.dequant %f : tensor<8x5xf32> bias %b : tensor<5xf32> -> tensor<8x5xf64>
  // CHECK-NEXT: lut.requant "half_up" %{{.*}} multiplier %{{.*}} shift %{{.*}} : (tensor<8x5xi32>, tensor<5xi32>, tensor<1xi8>) -> tensor<8x5xi8>
  %3 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<5xi32>, tensor<1xi8>) -> tensor<8x5xi8>
  func.return
}

// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<8x10xf64>, %w: tensor<2x5xf32>, %y: tensor<8x5xf64>) {
  // CHECK: lut.residual_matmul %{{.*}} channels [9, 0] by %{{.*}} into %{{.*}} : (tensor<8x10xf64>, tensor<2x5xf32>, tensor<8x5xf64>) -> tensor<8x5xf64>
  %0 = lut.residual_matmul %x channels [9, 0] by %w into %y : (tensor<8x10xf64>, tensor<2x5xf32>, tensor<8x5xf64>) -> tensor<8x5xf64>
  // CHECK-NEXT: lut.residual_matmul %{{.*}} channels [9, 0] by %{{.*}} : (tensor<8x10xf64>, tensor<2x5xf32>) -> tensor<8x5xf64>
  %1 = lut.residual_matmul %x channels [9, 0] by %w : (tensor<8x10xf64>, tensor<2x5xf32>) -> tensor<8x5xf64>
  func.return
}

// CHECK-LABEL: func.func @tables
func.func @tables(%c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<10x5xf64>) {
  // CHECK: lut.build_table %{{.*}} steps %{{.*}} by %{{.*}} : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> tensor<3x16x5xf32>
  %0 = lut.build_table %c steps %s by %w : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> tensor<3x16x5xf32>
  // CHECK-NEXT: %{{.*}}, %{{.*}} = lut.build_table %{{.*}} steps %{{.*}} by %{{.*}} quant <bits = 8, scheme = per_column> : {{.*}} -> (tensor<3x16x5xi8>, tensor<5xf32>)
  %1, %2 = lut.build_table %c steps %s by %w quant <bits = 8> : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> (tensor<3x16x5xi8>, tensor<5xf32>)
  func.return
}

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<8x10xf64>, %w: tensor<10x5xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %f: tensor<3x16x5xf32>, %scale: tensor<5xf32>, %b: tensor<5xf32>, %rows: tensor<1x5xf32>) {
  // CHECK: lut.linear layer "fc1" %{{.*}} : tensor<8x10xf64> of %{{.*}} : tensor<10x5xf64> plus %{{.*}} : tensor<5xf32> search %{{.*}} : tensor<3x16x4xi16> steps %{{.*}} : tensor<3xf32>
  // CHECK-SAME: table %{{.*}} : tensor<3x16x5xi8> scale %{{.*}} : tensor<5xf32> bias %{{.*}} : tensor<5xf32> residual %{{.*}} : tensor<1x5xf32> channels [7]
  // CHECK-SAME: spec <vec = 4, k = 16, cb = 3> quant <bits = 8, scheme = per_column> error <vq_rel_mse = 0.25, rel_mse = 0.125, q_bound = 0.5, acc = [-381, 381]> -> tensor<8x5xf64>
  %0 = lut.linear layer "fc1" %x : tensor<8x10xf64> of %w : tensor<10x5xf64> plus %b : tensor<5xf32> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> bias %b : tensor<5xf32> residual %rows : tensor<1x5xf32> channels [7] spec <vec = 4, k = 16, cb = 3> quant <bits = 8> error <vq_rel_mse = 0.25, rel_mse = 0.125, q_bound = 0.5, acc = [-381, 381]> -> tensor<8x5xf64>
  // CHECK-NEXT: lut.linear %{{.*}} : tensor<8x10xf64> search %{{.*}} : tensor<3x16x4xi16> steps %{{.*}} : tensor<3xf32> table %{{.*}} : tensor<3x16x5xf32> spec <vec = 4, k = 16, cb = 3> error <vq_rel_mse = 0.5> -> tensor<8x5xf32>
  %1 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %f : tensor<3x16x5xf32> spec <vec = 4, k = 16, cb = 3> error <vq_rel_mse = 0.5> -> tensor<8x5xf32>
  func.return
}

// Constants of more than a hundred numbers are bytes; indices are unsigned ones.

// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<1x3xui8>, tensor<7x2x8xi16>) {
  // CHECK: arith.constant dense<{{\[\[}}0, 200, 255]]> : tensor<1x3xui8>
  %0 = arith.constant dense<[[0, 200, 255]]> : tensor<1x3xui8>
  // CHECK-NEXT: arith.constant {inr.name = "fc1.centroids"} dense<-2> : tensor<7x2x8xi16>
  %1 = arith.constant {inr.name = "fc1.centroids"} dense<-2> : tensor<7x2x8xi16>
  func.return %0, %1 : tensor<1x3xui8>, tensor<7x2x8xi16>
}

// CHECK-LABEL: func.func @bytes
func.func @bytes(%x: tensor<8x10xf64>, %step: tensor<1xf32>, %w: tensor<10x5xi8>, %scale: tensor<5xf32>, %b: tensor<5xf32>) {
  // CHECK: lut.to_int8 %{{.*}} by %{{.*}} : (tensor<8x10xf64>, tensor<1xf32>) -> tensor<8x10xi8>
  %0 = lut.to_int8 %x by %step : (tensor<8x10xf64>, tensor<1xf32>) -> tensor<8x10xi8>
  // CHECK-NEXT: lut.int8_linear layer "fc1" %{{.*}} : tensor<8x10xf64> step %{{.*}} : tensor<1xf32> weight %{{.*}} : tensor<10x5xi8> scale %{{.*}} : tensor<5xf32> bias %{{.*}} : tensor<5xf32> -> tensor<8x5xf64>
  %1 = lut.int8_linear layer "fc1" %x : tensor<8x10xf64> step %step : tensor<1xf32> weight %w : tensor<10x5xi8> scale %scale : tensor<5xf32> bias %b : tensor<5xf32> -> tensor<8x5xf64>
  // CHECK-NEXT: lut.int8_linear %{{.*}} : tensor<8x10xf64> step %{{.*}} : tensor<1xf32> weight %{{.*}} : tensor<10x5xi8> scale %{{.*}} : tensor<5xf32> -> tensor<8x5xf32>
  %2 = lut.int8_linear %x : tensor<8x10xf64> step %step : tensor<1xf32> weight %w : tensor<10x5xi8> scale %scale : tensor<5xf32> -> tensor<8x5xf32>
  func.return
}
