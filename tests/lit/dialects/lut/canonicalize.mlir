// RUN: inr-opt -p canonicalize --split-input-file %s | filecheck %s
// RUN: inr-opt -p canonicalize,canonicalize --split-input-file %s | filecheck %s
// RUN: inr-opt -p lut-expand-linear,canonicalize,cse --split-input-file %s | filecheck %s

// A search, a lookup and a scaling that nobody else reads are one layer.

// CHECK-LABEL: func.func @parts_join(
// CHECK-NEXT:    lut.linear layer "fc1" %{{.*}} : tensor<8x10xf64> search {{.*}} table %{{.*}} scale %{{.*}} bias %{{.*}} spec <vec = 4, k = 16, cb = 3> quant <bits = 8, scheme = per_column> error <{{.*}}> -> tensor<8x5xf64>
// CHECK-NEXT:    func.return
func.func @parts_join(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<8x5xf64> {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %1 = lut.lookup layer "fc1" %0 in %t quant <bits = 8> error <vq_rel_mse = 0.1, rel_mse = 0.1, q_bound = 0.1, acc = [-381, 381]> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  %2 = lut.dequant %1 : tensor<8x5xi32> scale %scale : tensor<5xf32> bias %b : tensor<5xf32> -> tensor<8x5xf64>
  func.return %2 : tensor<8x5xf64>
}

// -----

// So is the product of the residual channels; a layer of floats has no scale.

// CHECK-LABEL: func.func @residual_joins(
// CHECK-NEXT:    lut.linear %{{.*}} : tensor<8x10xf64> search {{.*}} table %{{.*}} : tensor<3x16x5xf32> residual %{{.*}} : tensor<1x5xf32> channels [7] spec <vec = 4, k = 16, cb = 3> -> tensor<8x5xf64>
// CHECK-NEXT:    func.return
func.func @residual_joins(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xf32>, %w: tensor<1x5xf32>) -> tensor<8x5xf64> {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %1 = lut.lookup %0 in %t : (tensor<8x3xui8>, tensor<3x16x5xf32>) -> tensor<8x5xf64>
  %2 = lut.dequant %1 : tensor<8x5xf64> -> tensor<8x5xf64>
  %3 = lut.residual_matmul %x channels [7] by %w into %2 : (tensor<8x10xf64>, tensor<1x5xf32>, tensor<8x5xf64>) -> tensor<8x5xf64>
  func.return %3 : tensor<8x5xf64>
}

// -----

// Indices that somebody else reads are searched for once.

// CHECK-LABEL: func.func @shared_indices(
// CHECK-NEXT:    %[[I:.*]] = lut.encode
// CHECK-NEXT:    lut.lookup %[[I]]
// CHECK-NEXT:    lut.dequant
// CHECK-NEXT:    func.return %{{.*}}, %[[I]]
func.func @shared_indices(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>) -> (tensor<8x5xf64>, tensor<8x3xui8>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %1 = lut.lookup %0 in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  %2 = lut.dequant %1 : tensor<8x5xi32> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
  func.return %2, %0 : tensor<8x5xf64>, tensor<8x3xui8>
}

// -----

// Sums in i16 are a decision, and stay. Equal searches are one.

// CHECK-LABEL: func.func @narrow_sums(
// CHECK:         lut.lookup {{.*}} -> tensor<8x5xi16>
// CHECK-NEXT:    lut.dequant
func.func @narrow_sums(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>) -> tensor<8x5xf64> {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %1 = lut.lookup %0 in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi16>
  %2 = lut.dequant %1 : tensor<8x5xi16> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
  func.return %2 : tensor<8x5xf64>
}

// -----

// No residual channels, no residual.

// CHECK-LABEL: func.func @empty_residual(
// CHECK-NEXT:    lut.linear %{{.*}} table %{{.*}} : tensor<3x16x5xf32> spec
// CHECK-NEXT:    func.return
func.func @empty_residual(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xf32>, %w: tensor<0x5xf32>) -> tensor<8x5xf64> {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xf32> residual %w : tensor<0x5xf32> channels [] spec <vec = 4, k = 16, cb = 3> -> tensor<8x5xf64>
  func.return %0 : tensor<8x5xf64>
}

// -----

// CHECK-LABEL: func.func @unused_go(
// CHECK-NEXT:    func.return
func.func @unused_go(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<10x5xf64>, %t: tensor<3x16x5xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  %1 = lut.build_table %c steps %s by %w : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> tensor<3x16x5xf32>
  %2 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xf32> spec <vec = 4, k = 16, cb = 3> -> tensor<8x5xf64>
  func.return
}

// -----

// A table of constants folds: 2·(1, 3) by rows (1, 2) and (10, 20), then its largest entry is 127.

// CHECK-LABEL: func.func @table_folds(
// CHECK-DAG:     arith.constant dense<{{\[\[\[}}0.000000e+00, 0.000000e+00], [6.200000e+01, 1.240000e+02]]]> : tensor<1x2x2xf32>
// CHECK-DAG:     arith.constant dense<{{\[\[\[}}0, 0], [127, 127]]]> : tensor<1x2x2xi8>
// CHECK-DAG:     arith.constant dense<[0.488188982, 0.976377964]> : tensor<2xf32>
// CHECK-NOT:     lut.
// CHECK:         func.return
func.func @table_folds() -> (tensor<1x2x2xf32>, tensor<1x2x2xi8>, tensor<2xf32>) {
  %c = arith.constant dense<[[[0, 0], [1, 3]]]> : tensor<1x2x2xi16>
  %s = arith.constant dense<[2.0]> : tensor<1xf32>
  %w = arith.constant dense<[[1.0, 2.0], [10.0, 20.0]]> : tensor<2x2xf64>
  %0 = lut.build_table %c steps %s by %w : (tensor<1x2x2xi16>, tensor<1xf32>, tensor<2x2xf64>) -> tensor<1x2x2xf32>
  %1, %2 = lut.build_table %c steps %s by %w quant <bits = 8> : (tensor<1x2x2xi16>, tensor<1xf32>, tensor<2x2xf64>) -> (tensor<1x2x2xi8>, tensor<2xf32>)
  func.return %0, %1, %2 : tensor<1x2x2xf32>, tensor<1x2x2xi8>, tensor<2xf32>
}

// -----

// A lookup in zeros is 0; of constants it is its sum. (-7 + 2)·0.5 + 1 = -1.5; 5·3 / 2 = 7.5.

// CHECK-LABEL: func.func @sums_fold(
// CHECK-DAG:     %[[Z:.*]] = arith.constant dense<0> : tensor<8x1xi32>
// CHECK-DAG:     %[[Y:.*]] = arith.constant dense<-1.500000e+00> : tensor<1x1xf64>
// CHECK-DAG:     %[[UP:.*]] = arith.constant dense<-7> : tensor<1x1xi8>
// CHECK-DAG:     %[[EVEN:.*]] = arith.constant dense<-8> : tensor<1x1xi8>
// CHECK-NOT:     lut.
// CHECK:         func.return %[[Z]], %[[Y]], %[[UP]], %[[EVEN]]
func.func @sums_fold(%i: tensor<8x2xui8>) -> (tensor<8x1xi32>, tensor<1x1xf64>, tensor<1x1xi8>, tensor<1x1xi8>) {
  %zero = arith.constant dense<0> : tensor<2x2x1xi8>
  %t = arith.constant dense<[[[1], [-7]], [[7], [2]]]> : tensor<2x2x1xi8>
  %k = arith.constant dense<1> : tensor<1x2xui8>
  %s = arith.constant dense<[0.5]> : tensor<1xf32>
  %b = arith.constant dense<[1.0]> : tensor<1xf32>
  %m = arith.constant dense<[3]> : tensor<1xi32>
  %h = arith.constant dense<[1]> : tensor<1xi8>
  %0 = lut.lookup %i in %zero quant <bits = 8> : (tensor<8x2xui8>, tensor<2x2x1xi8>) -> tensor<8x1xi32>
  %1 = lut.lookup %k in %t quant <bits = 4> : (tensor<1x2xui8>, tensor<2x2x1xi8>) -> tensor<1x1xi32>
  %2 = lut.dequant %1 : tensor<1x1xi32> scale %s : tensor<1xf32> bias %b : tensor<1xf32> -> tensor<1x1xf64>
  %3 = lut.requant "half_up" %1 multiplier %m shift %h : (tensor<1x1xi32>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1xi8>
  %4 = lut.requant "half_even" %1 multiplier %m shift %h : (tensor<1x1xi32>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1xi8>
  func.return %0, %2, %3, %4 : tensor<8x1xi32>, tensor<1x1xf64>, tensor<1x1xi8>, tensor<1x1xi8>
}
