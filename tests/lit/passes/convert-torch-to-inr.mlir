// RUN: inr-opt -p convert-torch-to-inr %s | filecheck %s

// CHECK-LABEL: func.func @named(%x: tensor<8x2xf64> {inr.name = "x"}) -> (tensor<8x4xf64> {inr.name = "y"})
func.func @named(%x: !torch.vtensor<[8,2],f32> {inr.name = "x"}) -> (!torch.vtensor<[8,4],f32> {inr.name = "y"}) {
  // CHECK-NEXT: %[[W:.*]] = arith.constant {inr.name = "layers.0.weight"} dense<5.000000e-01> : tensor<4x2xf64>
  %w = torch.vtensor.literal(dense<0.5> : tensor<4x2xf32>) {inr.name = "layers.0.weight"} : !torch.vtensor<[4,2],f32>
  // CHECK-NEXT: %[[B:.*]] = arith.constant {inr.name = "layers.0.bias"} dense<[1.0{{.*}}, 2.0{{.*}}, 3.0{{.*}}, 4.0{{.*}}]> : tensor<4xf64>
  %b = torch.vtensor.literal(dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>) {inr.name = "layers.0.bias"} : !torch.vtensor<[4],f32>
  // CHECK-NEXT: %[[T:.*]] = inr.transpose %[[W]] [1, 0] : tensor<4x2xf64> to tensor<2x4xf64>
  %t = torch.aten.t %w : !torch.vtensor<[4,2],f32> -> !torch.vtensor<[2,4],f32>
  %1 = torch.constant.int 1
  // CHECK-NEXT: %[[Z:.*]] = inr.matmul %x, %[[T]] bias %[[B]]
  %z = torch.aten.addmm %b, %x, %t, %1, %1 : !torch.vtensor<[4],f32>, !torch.vtensor<[8,2],f32>, !torch.vtensor<[2,4],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,4],f32>
  %c = torch.constant.float 3.000000e+01
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<3.000000e+01> : tensor<8x4xf64>
  // CHECK-NEXT: %[[A:.*]] = arith.mulf %[[Z]], %[[C]] : tensor<8x4xf64>
  %a = torch.aten.mul.Scalar %z, %c : !torch.vtensor<[8,4],f32>, !torch.float -> !torch.vtensor<[8,4],f32>
  // CHECK-NEXT: %[[Y:.*]] = math.sin %[[A]] : tensor<8x4xf64>
  %y = torch.aten.sin %a : !torch.vtensor<[8,4],f32> -> !torch.vtensor<[8,4],f32>
  // CHECK-NEXT: func.return %[[Y]] : tensor<8x4xf64>
  return %y : !torch.vtensor<[8,4],f32>
}

// CHECK-LABEL: func.func @broadcasting
func.func @broadcasting(%x: !torch.vtensor<[3,4],f32>, %row: !torch.vtensor<[4],f32>) -> !torch.vtensor<[3,4],f32> {
  // CHECK-NEXT: %[[R:.*]] = inr.reshape %row : tensor<4xf64> to tensor<1x4xf64>
  // CHECK-NEXT: %[[B:.*]] = inr.broadcast %[[R]] : tensor<1x4xf64> to tensor<3x4xf64>
  // CHECK-NEXT: arith.mulf %x, %[[B]] : tensor<3x4xf64>
  %y = torch.aten.mul.Tensor %x, %row : !torch.vtensor<[3,4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[3,4],f32>
  return %y : !torch.vtensor<[3,4],f32>
}

// CHECK-LABEL: func.func @scatter_into_zeros
func.func @scatter_into_zeros(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8,3],f32> {
  %8 = torch.constant.int 8
  %3 = torch.constant.int 3
  %1 = torch.constant.int 1
  %none = torch.constant.none
  %0 = torch.constant.float 0.0
  %size = torch.prim.ListConstruct %8, %3 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.aten.full %size, %0, %none, %none, %none, %none : !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[8,3],f32>
  // CHECK: %[[C:.*]] = inr.reshape %x : tensor<8xf64> to tensor<8x1xf64>
  // CHECK-NEXT: inr.pad %[[C]] low [0, 1] high [0, 1] : tensor<8x1xf64> to tensor<8x3xf64>
  %y = torch.aten.select_scatter %zeros, %x, %1, %1 : !torch.vtensor<[8,3],f32>, !torch.vtensor<[8],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,3],f32>
  return %y : !torch.vtensor<[8,3],f32>
}

// CHECK-LABEL: func.func @masks_are_numbers
func.func @masks_are_numbers(%g: !torch.vtensor<[8],f32>, %x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32> {
  %0 = torch.constant.int 0
  // CHECK: %[[M:.*]] = inr.compare le %x, %{{.*}} : tensor<8xf64>
  // CHECK: inr.select %[[M]], %{{.*}}, %g : tensor<8xf64>
  %y = torch.aten.threshold_backward %g, %x, %0 : !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>, !torch.int -> !torch.vtensor<[8],f32>
  return %y : !torch.vtensor<[8],f32>
}

// CHECK-LABEL: func.func @powers
func.func @powers(%x: !torch.vtensor<[8],f32>) -> !torch.vtensor<[8],f32> {
  %e = torch.constant.float -1.5
  // CHECK-NEXT: %[[R:.*]] = math.sqrt %x
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %x, %[[R]]
  // CHECK-NEXT: inr.reciprocal %[[P]]
  %y = torch.aten.pow.Tensor_Scalar %x, %e : !torch.vtensor<[8],f32>, !torch.float -> !torch.vtensor<[8],f32>
  return %y : !torch.vtensor<[8],f32>
}
