// RUN: inr-opt -p cse,canonicalize %s | filecheck %s

// Every operation is pure: equal ones are one, unused ones go. What changes shapes or values has
// its rules in inr-fold-transpose and inr-simplify, not here.

// CHECK-LABEL: func.func @equal_operations_merge
func.func @equal_operations_merge(%x: tensor<8x2xf64>, %w: tensor<2x2xf64>) -> tensor<8x2xf64> {
  // CHECK-NEXT: %[[P:.*]] = inr.matmul %x, %w
  // CHECK-NEXT: %[[S:.*]] = inr.sinq %[[P]]
  // CHECK-NEXT: %[[R:.*]] = arith.mulf %[[S]], %[[S]]
  // CHECK-NEXT: func.return %[[R]]
  %0 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  %1 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  %2 = inr.sinq %0 : tensor<8x2xf64>
  %3 = inr.sinq %1 : tensor<8x2xf64>
  %4 = arith.mulf %2, %3 : tensor<8x2xf64>
  func.return %4 : tensor<8x2xf64>
}

// CHECK-LABEL: func.func @other_attributes_stay_apart
func.func @other_attributes_stay_apart(%x: tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2x2xf64>) {
  // CHECK-NEXT: inr.compare lt
  // CHECK-NEXT: inr.compare le
  // CHECK-NEXT: func.return
  %0 = inr.compare lt %x, %x : tensor<2x2xf64>
  %1 = inr.compare le %x, %x : tensor<2x2xf64>
  func.return %0, %1 : tensor<2x2xf64>, tensor<2x2xf64>
}

// CHECK-LABEL: func.func @unused_operations_go
func.func @unused_operations_go(%x: tensor<1x4xf64>) -> tensor<1x4xf64> {
  // CHECK-NEXT: func.return %x
  %0 = inr.broadcast %x : tensor<1x4xf64> to tensor<3x4xf64>
  %1 = inr.reduce_sum %0 over [0] : tensor<3x4xf64> to tensor<4xf64>
  %2 = inr.pad %x low [0, 1] high [0, 0] : tensor<1x4xf64> to tensor<1x5xf64>
  func.return %x : tensor<1x4xf64>
}
