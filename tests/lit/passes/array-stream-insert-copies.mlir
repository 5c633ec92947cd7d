// RUN: inr-opt -p array-stream-insert-copies --split-input-file %s | filecheck %s
// RUN: inr-opt -p array-stream-insert-copies,array-stream-insert-copies --split-input-file %s | filecheck %s

// The copy stands behind the stream that its branches share, which keeps its depth; branches come in the
// order in which they are read, a reader of two gets two.

// CHECK-LABEL: func.func @shared(
// CHECK-SAME:    attributes {array_stream.stage = "linear"}
// CHECK-NEXT:    %[[X:.*]] = array_stream.read %{{.*}} : tensor<4x4xf64> -> !array_stream.stream<4x4xf64, depth = 8>
// CHECK-NEXT:    %[[A:.*]], %[[B:.*]], %[[C:.*]] = array_stream.copy %[[X]] : !array_stream.stream<4x4xf64, depth = 8> -> !array_stream.stream<4x4xf64>, !array_stream.stream<4x4xf64>, !array_stream.stream<4x4xf64>
// CHECK-NEXT:    array_stream.matmul_dynamic %[[A]], %[[B]]
// CHECK-NEXT:    array_stream.write
// CHECK-NEXT:    array_stream.write %[[C]]
func.func @shared(%m: tensor<4x4xf64>) -> (tensor<4x4xf64>, tensor<4x4xf64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4x4xf64> -> !array_stream.stream<4x4xf64, depth = 8>
  %0 = array_stream.matmul_dynamic %x, %x : (!array_stream.stream<4x4xf64, depth = 8>, !array_stream.stream<4x4xf64, depth = 8>) -> !array_stream.stream<4x4xf64>
  %y = array_stream.write %0 : !array_stream.stream<4x4xf64> -> tensor<4x4xf64>
  %z = array_stream.write %x : !array_stream.stream<4x4xf64, depth = 8> -> tensor<4x4xf64>
  func.return %y, %z : tensor<4x4xf64>, tensor<4x4xf64>
}

// -----

// One reader needs no copy.

// CHECK-LABEL: func.func @alone(
// CHECK-NOT:     array_stream.copy
// CHECK:         func.return
func.func @alone(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %y = array_stream.write %x : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// What no result needs is not built: a process, a result of a map or of a product, an input, and what
// made it.

// CHECK-LABEL: func.func @unread(
// CHECK-SAME:    %[[M:.*]]: tensor<4x2xf64>, %{{.*}}: tensor<4x2xf64>)
// CHECK-NEXT:    %[[X:.*]] = array_stream.read %[[M]]
// CHECK-NEXT:    %[[W:.*]] = arith.constant
// CHECK-NEXT:    %[[P:.*]] = array_stream.matmul %[[X]] by %[[W]] weight_format <18, 4> : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf32>
// CHECK-NEXT:    %[[Q:.*]] = array_stream.map(%[[P]]) : (!array_stream.stream<4x2xf32>) -> !array_stream.stream<4x2xf64> {
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f64):
// CHECK-NEXT:      %[[B:.*]] = math.exp %[[A]] : f64
// CHECK-NEXT:      array_stream.yield %[[B]] : f64
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[Y:.*]] = array_stream.write %[[Q]]
// CHECK-NEXT:    func.return %[[Y]]
func.func @unread(%m: tensor<4x2xf64>, %n: tensor<4x2xf64>) -> tensor<4x2xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %g = array_stream.read %n : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %0, %1 = array_stream.matmul %x, %g by %w weight_format <18, 4> : (!array_stream.stream<4x2xf64>, !array_stream.stream<4x2xf64>) -> (!array_stream.stream<4x2xf32>, !array_stream.stream<4x2xf32>) by tensor<2x2xf64>
  %2, %3 = array_stream.map(%0, %1) : (!array_stream.stream<4x2xf32>, !array_stream.stream<4x2xf32>) -> (!array_stream.stream<4x2xf64>, !array_stream.stream<4x2xf64>) {
  ^bb0(%a: f64, %b: f64):
    %c = math.exp %a : f64
    %d = math.tanh %b : f64
    array_stream.yield %c, %d : f64, f64
  }
  %4 = array_stream.reduce_sum %3 axis 0 : !array_stream.stream<4x2xf64> -> !array_stream.stream<2xf64>
  %y = array_stream.write %2 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %y : tensor<4x2xf64>
}

// -----

// One array as two results is written twice; a copy of the value stage says nothing of its own.

// CHECK-LABEL: func.func @twice(
// CHECK-NEXT:    %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[A:.*]], %[[B:.*]], %[[C:.*]] = array_stream.copy %[[X]]
// CHECK-NEXT:    %[[Y:.*]] = array_stream.write %[[A]]
// CHECK-NEXT:    %[[Z:.*]] = array_stream.write %[[B]]
// CHECK-NEXT:    %[[V:.*]] = array_stream.write %[[C]]
// CHECK-NEXT:    func.return %[[Y]], %[[Z]], %[[V]]
func.func @twice(%m: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0, %1 = array_stream.copy %x : !array_stream.stream<4xf64> -> !array_stream.stream<4xf64>, !array_stream.stream<4xf64>
  %y = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %z = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y, %y, %z : tensor<4xf64>, tensor<4xf64>, tensor<4xf64>
}
