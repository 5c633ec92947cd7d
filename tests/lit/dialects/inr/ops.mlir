// RUN: INR_ROUNDTRIP
// RUN: INR_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<4x2xf64>, %s: f32) -> (tensor<4x2xf64>, f32) {
  // CHECK: %{{.*}} = inr.sinq %{{.*}} : tensor<4x2xf64>
  %0 = inr.sinq %x : tensor<4x2xf64>
  // CHECK-NEXT: inr.cosq %{{.*}} : tensor<4x2xf64>
  %1 = inr.cosq %0 : tensor<4x2xf64>
  // CHECK-NEXT: inr.sigmoid %{{.*}} : tensor<4x2xf64>
  %2 = inr.sigmoid %1 : tensor<4x2xf64>
  // CHECK-NEXT: inr.softplus %{{.*}} : tensor<4x2xf64>
  %3 = inr.softplus %2 : tensor<4x2xf64>
  // CHECK-NEXT: inr.sign %{{.*}} : tensor<4x2xf64>
  %4 = inr.sign %3 : tensor<4x2xf64>
  // CHECK-NEXT: inr.reciprocal %{{.*}} : tensor<4x2xf64>
  %5 = inr.reciprocal %4 : tensor<4x2xf64>
  // The same operations take scalars, in the body of a process.
  // CHECK-NEXT: inr.sinq %{{.*}} : f32
  %6 = inr.sinq %s : f32
  func.return %5, %6 : tensor<4x2xf64>, f32
}

// CHECK-LABEL: func.func @masks
func.func @masks(%x: tensor<4xf64>, %y: tensor<4xf64>) -> tensor<4xf64> {
  // CHECK: inr.compare lt %{{.*}}, %{{.*}} : tensor<4xf64>
  %0 = inr.compare lt %x, %y : tensor<4xf64>
  // CHECK-NEXT: inr.compare eq %{{.*}}, %{{.*}} : tensor<4xf64>
  %1 = inr.compare eq %0, %y : tensor<4xf64>
  // CHECK-NEXT: inr.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf64>
  %2 = inr.select %1, %x, %y : tensor<4xf64>
  func.return %2 : tensor<4xf64>
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<8x2xf64>, %w: tensor<2x3xf64>, %b: tensor<3xf64>)
    -> (tensor<8x3xf64>, tensor<8x3xf64>) {
  // CHECK: inr.matmul %{{.*}}, %{{.*}} : (tensor<8x2xf64>, tensor<2x3xf64>) -> tensor<8x3xf64>
  %0 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<2x3xf64>) -> tensor<8x3xf64>
  // CHECK-NEXT: inr.matmul %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<8x2xf64>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<8x3xf64>
  %1 = inr.matmul %x, %w bias %b : (tensor<8x2xf64>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<8x3xf64>
  func.return %0, %1 : tensor<8x3xf64>, tensor<8x3xf64>
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<4x1x3xf64>) -> tensor<f64> {
  // CHECK: inr.transpose %{{.*}} [2, 1, 0] : tensor<4x1x3xf64> to tensor<3x1x4xf64>
  %0 = inr.transpose %x [2, 1, 0] : tensor<4x1x3xf64> to tensor<3x1x4xf64>
  // CHECK-NEXT: inr.broadcast %{{.*}} : tensor<3x1x4xf64> to tensor<3x5x4xf64>
  %1 = inr.broadcast %0 : tensor<3x1x4xf64> to tensor<3x5x4xf64>
  // CHECK-NEXT: inr.reshape %{{.*}} : tensor<3x5x4xf64> to tensor<15x4xf64>
  %2 = inr.reshape %1 : tensor<3x5x4xf64> to tensor<15x4xf64>
  // CHECK-NEXT: inr.pad %{{.*}} low [1, 0] high [0, 2] : tensor<15x4xf64> to tensor<16x6xf64>
  %3 = inr.pad %2 low [1, 0] high [0, 2] : tensor<15x4xf64> to tensor<16x6xf64>
  // CHECK-NEXT: inr.reduce_sum %{{.*}} over [0, 1] : tensor<16x6xf64> to tensor<f64>
  %4 = inr.reduce_sum %3 over [0, 1] : tensor<16x6xf64> to tensor<f64>
  func.return %4 : tensor<f64>
}
