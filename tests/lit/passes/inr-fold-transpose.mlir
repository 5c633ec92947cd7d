// RUN: inr-opt -p inr-fold-transpose %s | filecheck %s
// RUN: inr-opt -p inr-fold-transpose,inr-fold-transpose %s | filecheck %s
// RUN: xdsl-opt -p inr-fold-transpose %s | filecheck %s

// CHECK-LABEL: func.func @constant
func.func @constant() -> tensor<2x3xf64> {
  // CHECK-NEXT: arith.constant {inr.name = "w"} dense<{{\[\[}}1.000000e+00, 3.000000e+00, 5.000000e+00], [2.000000e+00, 4.000000e+00, 6.000000e+00]]> : tensor<2x3xf64>
  // CHECK-NEXT: func.return
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf64>
  %t = inr.transpose %w [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  func.return %t : tensor<2x3xf64>
}

// CHECK-LABEL: func.func @pair
func.func @pair(%x: tensor<3x2xf64>) -> tensor<3x2xf64> {
  // CHECK-NEXT: func.return %x
  %0 = inr.transpose %x [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  %1 = inr.transpose %0 [1, 0] : tensor<2x3xf64> to tensor<3x2xf64>
  func.return %1 : tensor<3x2xf64>
}

// CHECK-LABEL: func.func @nothing_moves
func.func @nothing_moves(%x: tensor<3x1xf64>) -> tensor<1x3xf64> {
  // CHECK-NEXT: inr.reshape %x : tensor<3x1xf64> to tensor<1x3xf64>
  %0 = inr.transpose %x [1, 0] : tensor<3x1xf64> to tensor<1x3xf64>
  func.return %0 : tensor<1x3xf64>
}

// CHECK-LABEL: func.func @meet_through_elementwise
func.func @meet_through_elementwise(%x: tensor<3x2xf64>) -> tensor<3x2xf64> {
  // CHECK-NEXT: %[[S:.*]] = math.sin %x : tensor<3x2xf64>
  // CHECK-NEXT: func.return %[[S]]
  %0 = inr.transpose %x [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  %1 = math.sin %0 : tensor<2x3xf64>
  %2 = inr.transpose %1 [1, 0] : tensor<2x3xf64> to tensor<3x2xf64>
  func.return %2 : tensor<3x2xf64>
}

// A layer written as W·xᵀ is x·Wᵀ.
// CHECK-LABEL: func.func @weights_on_the_left
func.func @weights_on_the_left(%x: tensor<3x2xf64>) -> tensor<3x2xf64> {
  // CHECK-NEXT: %[[W:.*]] = arith.constant {inr.name = "w"} dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]>
  // CHECK-NEXT: %[[P:.*]] = inr.matmul %x, %[[W]]
  // CHECK-NEXT: func.return %[[P]]
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %0 = inr.transpose %x [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  %1 = inr.matmul %w, %0 : (tensor<2x2xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %2 = inr.transpose %1 [1, 0] : tensor<2x3xf64> to tensor<3x2xf64>
  func.return %2 : tensor<3x2xf64>
}

// CHECK-LABEL: func.func @one_serves_all
func.func @one_serves_all(%x: tensor<3x2xf64>, %y: tensor<3x4xf64>) -> (tensor<2x4xf64>, tensor<2x3xf64>) {
  // CHECK-NEXT: %[[T:.*]] = inr.transpose %x [1, 0]
  // CHECK-NEXT: %[[P:.*]] = inr.matmul %[[T]], %y
  // CHECK-NEXT: func.return %[[P]], %[[T]]
  %0 = inr.transpose %x [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  %1 = inr.matmul %0, %y : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  %2 = inr.transpose %x [1, 0] : tensor<3x2xf64> to tensor<2x3xf64>
  func.return %1, %2 : tensor<2x4xf64>, tensor<2x3xf64>
}
