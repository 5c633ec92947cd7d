// RUN: inr-opt -p inr-simplify %s | filecheck %s
// RUN: inr-opt -p inr-simplify,inr-simplify %s | filecheck %s
// RUN: inr-opt -p 'inr-simplify{quarter-turns=false fold-scales=false}' %s | filecheck %s --check-prefix=PLAIN

// CHECK-LABEL: func.func @sine_layer
// PLAIN-LABEL: func.func @sine_layer
func.func @sine_layer(%x: tensor<8x2xf64>) -> (tensor<8x2xf64>, tensor<8x2xf64>) {
  // CHECK-DAG: %[[W:.*]] = arith.constant {inr.name = "w_scaled"}
  // CHECK-DAG: %[[B:.*]] = arith.constant {inr.name = "b_scaled"}
  // CHECK: %[[Z:.*]] = inr.matmul %x, %[[W]] bias %[[B]]
  // CHECK-NEXT: %[[S:.*]] = inr.sinq %[[Z]]
  // CHECK-NEXT: %[[C:.*]] = inr.cosq %[[Z]]
  // CHECK-NEXT: func.return %[[S]], %[[C]]
  // PLAIN: arith.mulf
  // PLAIN-NEXT: math.sin
  // PLAIN-NEXT: math.cos
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %b = arith.constant {inr.name = "b"} dense<[1.0, 2.0]> : tensor<2xf64>
  %c = arith.constant dense<3.0e+01> : tensor<8x2xf64>
  %0 = inr.matmul %x, %w bias %b : (tensor<8x2xf64>, tensor<2x2xf64>, tensor<2xf64>) -> tensor<8x2xf64>
  %1 = arith.mulf %0, %c : tensor<8x2xf64>
  %2 = math.sin %1 : tensor<8x2xf64>
  %3 = math.cos %1 : tensor<8x2xf64>
  func.return %2, %3 : tensor<8x2xf64>, tensor<8x2xf64>
}

// CHECK-LABEL: func.func @seed
func.func @seed() -> tensor<8x2xf64> {
  // CHECK-NEXT: %[[R:.*]] = arith.constant {inr.name = "w_row1"} dense<{{\[\[}}3.000000e+00, 4.000000e+00]]> : tensor<1x2xf64>
  // CHECK-NEXT: inr.broadcast %[[R]] : tensor<1x2xf64> to tensor<8x2xf64>
  // CHECK-NEXT: func.return
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %one = arith.constant dense<1.0> : tensor<8x1xf64>
  %0 = inr.pad %one low [0, 1] high [0, 0] : tensor<8x1xf64> to tensor<8x2xf64>
  %1 = inr.matmul %0, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  func.return %1 : tensor<8x2xf64>
}

// CHECK-LABEL: func.func @identities
func.func @identities(%x: tensor<8xf64>) -> (tensor<8xf64>, tensor<8xf64>, tensor<8xf64>) {
  // CHECK-NEXT: %[[Z:.*]] = arith.constant dense<0.000000e+00> : tensor<8xf64>
  // CHECK-NEXT: func.return %x, %[[Z]], %x
  %0 = arith.constant dense<0.0> : tensor<8xf64>
  %1 = arith.constant dense<1.0> : tensor<8xf64>
  %a = arith.mulf %x, %1 : tensor<8xf64>
  %b = arith.addf %a, %0 : tensor<8xf64>
  %c = arith.mulf %x, %0 : tensor<8xf64>
  %d = arith.negf %x : tensor<8xf64>
  %e = arith.negf %d : tensor<8xf64>
  func.return %b, %c, %e : tensor<8xf64>, tensor<8xf64>, tensor<8xf64>
}

// CHECK-LABEL: func.func @signs_into_sums
func.func @signs_into_sums(%x: tensor<8xf64>, %y: tensor<8xf64>, %z: tensor<8xf64>) -> tensor<8xf64> {
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %x, %y
  // CHECK-NEXT: arith.subf %z, %[[P]]
  %0 = arith.negf %x : tensor<8xf64>
  %1 = arith.mulf %0, %y : tensor<8xf64>
  %2 = arith.addf %1, %z : tensor<8xf64>
  func.return %2 : tensor<8xf64>
}

// CHECK-LABEL: func.func @scalar_chain
func.func @scalar_chain(%x: tensor<8xf64>, %y: tensor<8xf64>) -> tensor<8xf64> {
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %x, %y
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<6.000000e+00>
  // CHECK-NEXT: arith.mulf %[[P]], %[[C]]
  %2 = arith.constant dense<2.0> : tensor<8xf64>
  %3 = arith.constant dense<3.0> : tensor<8xf64>
  %a = arith.mulf %x, %2 : tensor<8xf64>
  %b = arith.mulf %a, %y : tensor<8xf64>
  %c = arith.mulf %3, %b : tensor<8xf64>
  func.return %c : tensor<8xf64>
}

// CHECK-LABEL: func.func @equal_rows
func.func @equal_rows(%x: tensor<2x2xf64>) -> tensor<2x2xf64> {
  // CHECK-NEXT: %[[R:.*]] = arith.constant {inr.name = "k"} dense<{{\[\[}}1.000000e+00, 2.000000e+00]]> : tensor<1x2xf64>
  // CHECK-NEXT: %[[K:.*]] = inr.broadcast %[[R]]
  // CHECK-NEXT: arith.mulf %x, %[[K]]
  %k = arith.constant {inr.name = "k"} dense<[[1.0, 2.0], [1.0, 2.0]]> : tensor<2x2xf64>
  %0 = arith.mulf %x, %k : tensor<2x2xf64>
  func.return %0 : tensor<2x2xf64>
}

// CHECK-LABEL: func.func @columns_of_a_product
func.func @columns_of_a_product(%x: tensor<8x2xf64>) -> tensor<8xf64> {
  // CHECK-NEXT: %[[W:.*]] = arith.constant {inr.name = "w_slice"} dense<{{\[\[}}2.000000e+00], [4.000000e+00]]> : tensor<2x1xf64>
  // CHECK-NEXT: %[[P:.*]] = inr.matmul %x, %[[W]]
  // CHECK-NEXT: inr.reshape %[[P]] : tensor<8x1xf64> to tensor<8xf64>
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %0 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  %1 = tensor.extract_slice %0[0, 1] [8, 1] [1, 1] : tensor<8x2xf64> to tensor<8xf64>
  func.return %1 : tensor<8xf64>
}

// CHECK-LABEL: func.func @padded_operand
func.func @padded_operand(%x: tensor<8x1xf64>) -> tensor<8x2xf64> {
  // CHECK-NEXT: %[[W:.*]] = arith.constant {inr.name = "w_slice"} dense<{{\[\[}}3.000000e+00, 4.000000e+00]]> : tensor<1x2xf64>
  // CHECK-NEXT: inr.matmul %x, %[[W]] : (tensor<8x1xf64>, tensor<1x2xf64>) -> tensor<8x2xf64>
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %0 = inr.pad %x low [0, 1] high [0, 0] : tensor<8x1xf64> to tensor<8x2xf64>
  %1 = inr.matmul %0, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  func.return %1 : tensor<8x2xf64>
}

// CHECK-LABEL: func.func @constant_into_bias
func.func @constant_into_bias(%x: tensor<8x2xf64>) -> tensor<8x2xf64> {
  // CHECK-DAG: %[[W:.*]] = arith.constant {inr.name = "w"}
  // CHECK-DAG: %[[B:.*]] = arith.constant dense<5.000000e-01> : tensor<2xf64>
  // CHECK: inr.matmul %x, %[[W]] bias %[[B]]
  // CHECK-NEXT: func.return
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %k = arith.constant dense<0.5> : tensor<8x2xf64>
  %0 = inr.matmul %x, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  %1 = arith.addf %0, %k : tensor<8x2xf64>
  func.return %1 : tensor<8x2xf64>
}

// CHECK-LABEL: func.func @parts_of_joins
func.func @parts_of_joins(%x: tensor<8x2xf64>, %y: tensor<8x3xf64>) -> (tensor<8x3xf64>, tensor<8x2xf64>) {
  // CHECK-NEXT: func.return %y, %x
  %0 = tensor.concat dim(1) %x, %y : (tensor<8x2xf64>, tensor<8x3xf64>) -> tensor<8x5xf64>
  %1 = tensor.extract_slice %0[0, 2] [8, 3] [1, 1] : tensor<8x5xf64> to tensor<8x3xf64>
  %2 = inr.pad %x low [0, 1] high [0, 2] : tensor<8x2xf64> to tensor<8x5xf64>
  %3 = tensor.extract_slice %2[0, 1] [8, 2] [1, 1] : tensor<8x5xf64> to tensor<8x2xf64>
  func.return %1, %3 : tensor<8x3xf64>, tensor<8x2xf64>
}

// A number that others than products with weights use stays out of the weights.
// CHECK-LABEL: func.func @shared_scale_stays
func.func @shared_scale_stays(%x: tensor<8x2xf64>) -> (tensor<8x2xf64>, tensor<8x2xf64>) {
  // CHECK: %[[S:.*]] = arith.mulf %x
  // CHECK: inr.matmul %[[S]], %{{.*}}
  // CHECK-NEXT: func.return
  %w = arith.constant {inr.name = "w"} dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %c = arith.constant dense<3.0e+01> : tensor<8x2xf64>
  %0 = arith.mulf %x, %c : tensor<8x2xf64>
  %1 = inr.matmul %0, %w : (tensor<8x2xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
  func.return %0, %1 : tensor<8x2xf64>, tensor<8x2xf64>
}

// CHECK-LABEL: func.func @number_leaves_padding
func.func @number_leaves_padding(%x: tensor<4xf64>) -> tensor<5xf64> {
  // CHECK-NEXT: %[[P:.*]] = inr.pad %x
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<2.500000e-01>
  // CHECK-NEXT: arith.mulf %[[P]], %[[C]]
  %c = arith.constant dense<0.25> : tensor<4xf64>
  %0 = arith.mulf %x, %c : tensor<4xf64>
  %1 = inr.pad %0 low [1] high [0] : tensor<4xf64> to tensor<5xf64>
  func.return %1 : tensor<5xf64>
}
