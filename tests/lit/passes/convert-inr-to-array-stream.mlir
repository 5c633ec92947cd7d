// RUN: inr-opt -p convert-inr-to-array-stream --split-input-file %s | filecheck %s
// RUN: inr-opt -p convert-inr-to-array-stream,convert-inr-to-array-stream --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @network(
// CHECK-SAME:    %[[M:.*]]: tensor<4x2xf64>) -> tensor<4x3xf64> attributes {array_stream.stage = "value"} {
// CHECK-NEXT:    %[[X:.*]] = array_stream.read %[[M]] : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
// CHECK-NEXT:    %[[W:.*]] = arith.constant {inr.name = "layer.weight"} dense
// CHECK-NEXT:    %[[B:.*]] = arith.constant {inr.name = "layer.bias"} dense
// CHECK-NEXT:    %[[P:.*]] = array_stream.matmul %[[X]] by %[[W]] bias %[[B]] : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x3xf64> by tensor<2x3xf64> bias tensor<3xf64>
// CHECK-NEXT:    %[[S:.*]] = array_stream.map(%[[P]]) : (!array_stream.stream<4x3xf64>) -> !array_stream.stream<4x3xf64> {
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f64):
// CHECK-NEXT:      %[[Q:.*]] = inr.sinq %[[A]] : f64
// CHECK-NEXT:      array_stream.yield %[[Q]] : f64
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[R:.*]] = array_stream.write %[[S]] : !array_stream.stream<4x3xf64> -> tensor<4x3xf64>
// CHECK-NEXT:    func.return %[[R]] : tensor<4x3xf64>
func.func @network(%x: tensor<4x2xf64>) -> tensor<4x3xf64> {
  %w = arith.constant {inr.name = "layer.weight"} dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf64>
  %b = arith.constant {inr.name = "layer.bias"} dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
  %0 = inr.matmul %x, %w bias %b : (tensor<4x2xf64>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  %1 = inr.sinq %0 : tensor<4x3xf64>
  func.return %1 : tensor<4x3xf64>
}

// -----

// A constant of one value is a number in the body, another one a stream that repeats what it stores;
// an operand that is there twice is read once.

// CHECK-LABEL: func.func @constants(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[M:.*]] = array_stream.map(%[[X]])
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f64):
// CHECK-NEXT:      %[[TWO:.*]] = arith.constant 2.000000e+00 : f64
// CHECK-NEXT:      arith.mulf %[[A]], %[[TWO]] : f64
// CHECK:         %[[ROW:.*]] = arith.constant {inr.name = "row"} dense<{{.*}}> : tensor<1x2xf64>
// CHECK-NEXT:    %[[C:.*]] = array_stream.constant %[[ROW]] : tensor<1x2xf64> -> !array_stream.stream<4x2xf64>
// CHECK-NEXT:    %[[N:.*]] = array_stream.map(%[[M]], %[[C]])
// CHECK:           arith.addf
// CHECK:         array_stream.map(%[[N]])
// CHECK-NEXT:    ^{{.*}}(%[[D:.*]]: f64):
// CHECK-NEXT:      arith.mulf %[[D]], %[[D]] : f64
func.func @constants(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %two = arith.constant dense<2.0> : tensor<4x2xf64>
  %row = arith.constant {inr.name = "row"} dense<[[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]> : tensor<4x2xf64>
  %0 = arith.mulf %x, %two : tensor<4x2xf64>
  %1 = arith.addf %0, %row : tensor<4x2xf64>
  %2 = arith.mulf %1, %1 : tensor<4x2xf64>
  func.return %2 : tensor<4x2xf64>
}

// -----

// What has no kernel is spelled in terms that have one.

// CHECK-LABEL: func.func @spelled(
// CHECK:           arith.constant 0.63661977236758138 : f64
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      inr.cosq
// CHECK:           math.exp
// CHECK-NEXT:      arith.constant 1.000000e+00 : f64
// CHECK-NEXT:      arith.subf
// CHECK:           inr.reciprocal
// CHECK-NEXT:      arith.mulf
func.func @spelled(%x: tensor<4xf64>, %y: tensor<4xf64>) -> tensor<4xf64> {
  %0 = math.cos %x : tensor<4xf64>
  %1 = math.expm1 %0 : tensor<4xf64>
  %2 = arith.divf %1, %y : tensor<4xf64>
  func.return %2 : tensor<4xf64>
}

// -----

// CHECK-LABEL: func.func @matmul_of_streams(
// CHECK:         %[[A:.*]] = array_stream.read
// CHECK-NEXT:    %[[B:.*]] = array_stream.read
// CHECK-NEXT:    %[[R:.*]] = array_stream.read
// CHECK-NEXT:    %[[P:.*]] = array_stream.matmul_dynamic %[[A]], %[[B]]
// CHECK-NEXT:    %[[ROW:.*]] = array_stream.reshape %[[R]] : !array_stream.stream<3xf64> -> !array_stream.stream<1x3xf64>
// CHECK-NEXT:    %[[ROWS:.*]] = array_stream.broadcast %[[ROW]] axis 0 : !array_stream.stream<1x3xf64> -> !array_stream.stream<4x3xf64>
// CHECK-NEXT:    array_stream.map(%[[P]], %[[ROWS]])
func.func @matmul_of_streams(%a: tensor<4x2xf64>, %b: tensor<2x3xf64>, %r: tensor<3xf64>) -> tensor<4x3xf64> {
  %0 = inr.matmul %a, %b bias %r : (tensor<4x2xf64>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  func.return %0 : tensor<4x3xf64>
}

// -----

// Each axis that moves is one swap; an axis of extent 1 moves for nothing.

// CHECK-LABEL: func.func @transposes(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[T:.*]] = array_stream.transpose %[[X]] [2, 0, 1] : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<4x2x3xf64>
// CHECK-NEXT:    %[[U:.*]] = array_stream.transpose %[[T]] [0, 2, 1] : !array_stream.stream<4x2x3xf64> -> !array_stream.stream<4x3x2xf64>
// CHECK-NEXT:    %[[V:.*]] = array_stream.reshape %[[U]]
// CHECK-NEXT:    array_stream.reshape %[[V]] : !array_stream.stream<4x1x6xf64> -> !array_stream.stream<1x4x6xf64>
func.func @transposes(%x: tensor<2x3x4xf64>) -> tensor<1x4x6xf64> {
  %0 = inr.transpose %x [2, 1, 0] : tensor<2x3x4xf64> to tensor<4x3x2xf64>
  %1 = inr.reshape %0 : tensor<4x3x2xf64> to tensor<4x1x6xf64>
  %2 = inr.transpose %1 [1, 0, 2] : tensor<4x1x6xf64> to tensor<1x4x6xf64>
  func.return %2 : tensor<1x4x6xf64>
}

// -----

// CHECK-LABEL: func.func @moves(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[P:.*]] = array_stream.pad %[[X]] axis 1 low 0 high 2 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x6xf64>
// CHECK-NEXT:    %[[S:.*]] = array_stream.slice %[[P]] axis 0 from 1 size 1 step 1 : !array_stream.stream<2x6xf64> -> !array_stream.stream<1x6xf64>
// CHECK-NEXT:    %[[T:.*]] = array_stream.slice %[[S]] axis 1 from 0 size 3 step 2 : !array_stream.stream<1x6xf64> -> !array_stream.stream<1x3xf64>
// CHECK-NEXT:    %[[R:.*]] = array_stream.reshape %[[T]] : !array_stream.stream<1x3xf64> -> !array_stream.stream<3xf64>
// CHECK-NEXT:    %[[C:.*]] = array_stream.concat %[[R]], %[[R]] axis 0
// CHECK-NEXT:    array_stream.reduce_sum %[[C]] axis 0 : !array_stream.stream<6xf64> -> !array_stream.stream<f64>
func.func @moves(%x: tensor<2x4xf64>) -> tensor<f64> {
  %0 = inr.pad %x low [0, 0] high [0, 2] : tensor<2x4xf64> to tensor<2x6xf64>
  %1 = "tensor.extract_slice"(%0) <{static_offsets = array<i64: 1, 0>, static_sizes = array<i64: 1, 3>, static_strides = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<2x6xf64>) -> tensor<3xf64>
  %2 = tensor.concat dim(0) %1, %1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<6xf64>
  %3 = inr.reduce_sum %2 over [0] : tensor<6xf64> to tensor<f64>
  func.return %3 : tensor<f64>
}

// -----

// An input that nobody reads stays an argument; one that is returned passes through; a constant result
// is written like any other.

// CHECK-LABEL: func.func @ports(
// CHECK-SAME:    %{{.*}}: tensor<2xf64>, %[[M:.*]]: tensor<2xf64>)
// CHECK-NEXT:    %[[X:.*]] = array_stream.read %[[M]]
// CHECK-NEXT:    %[[A:.*]] = array_stream.write %[[X]]
// CHECK-NEXT:    %[[B:.*]] = array_stream.write %[[X]]
// CHECK-NEXT:    %[[C:.*]] = arith.constant
// CHECK-NEXT:    %[[S:.*]] = array_stream.constant %[[C]]
// CHECK-NEXT:    %[[D:.*]] = array_stream.write %[[S]]
// CHECK-NEXT:    func.return %[[A]], %[[B]], %[[D]]
func.func @ports(%unused: tensor<2xf64>, %x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf64>
  func.return %x, %x, %c : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}
