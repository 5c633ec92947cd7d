// RUN: inr-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: cannot multiply 8x2 with 3x4 into 8x4
func.func @inner_extents(%x: tensor<8x2xf64>, %w: tensor<3x4xf64>) {
  %0 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<3x4xf64>) -> tensor<8x4xf64>
  func.return
}

// -----

// CHECK: the bias of 3 columns has shape 8
func.func @bias(%x: tensor<8x2xf64>, %w: tensor<2x3xf64>, %b: tensor<8xf64>) {
  %0 = inr.matmul %x, %w bias %b : (tensor<8x2xf64>, tensor<2x3xf64>, tensor<8xf64>) -> tensor<8x3xf64>
  func.return
}

// -----

// CHECK: [0, 0] is no permutation of 2 axes
func.func @permutation(%x: tensor<8x2xf64>) {
  %0 = inr.transpose %x [0, 0] : tensor<8x2xf64> to tensor<8x8xf64>
  func.return
}

// -----

// CHECK: 8x2 permuted by [1, 0] is not 8x2
func.func @permuted_shape(%x: tensor<8x2xf64>) {
  %0 = inr.transpose %x [1, 0] : tensor<8x2xf64> to tensor<8x2xf64>
  func.return
}

// -----

// CHECK: 2x8 does not broadcast to 4x8
func.func @broadcast(%x: tensor<2x8xf64>) {
  %0 = inr.broadcast %x : tensor<2x8xf64> to tensor<4x8xf64>
  func.return
}

// -----

// CHECK: 2x8 and 4x8 differ in their number of elements
func.func @reshape(%x: tensor<2x8xf64>) {
  %0 = inr.reshape %x : tensor<2x8xf64> to tensor<4x8xf64>
  func.return
}

// -----

// CHECK: dims [2] are not axes of 2x8
func.func @sum_axes(%x: tensor<2x8xf64>) {
  %0 = inr.reduce_sum %x over [2] : tensor<2x8xf64> to tensor<2xf64>
  func.return
}

// -----

// CHECK: 2x8 summed over [0] is not 2
func.func @sum_shape(%x: tensor<2x8xf64>) {
  %0 = inr.reduce_sum %x over [0] : tensor<2x8xf64> to tensor<2xf64>
  func.return
}

// -----

// CHECK: 2x8 needs 2 amounts on either side
func.func @pad_amounts(%x: tensor<2x8xf64>) {
  %0 = inr.pad %x low [1] high [0] : tensor<2x8xf64> to tensor<3x8xf64>
  func.return
}

// -----

// CHECK: 2x8 is not padded to 2x8
func.func @pad_shape(%x: tensor<2x8xf64>) {
  %0 = inr.pad %x low [1, 0] high [0, 0] : tensor<2x8xf64> to tensor<2x8xf64>
  func.return
}
