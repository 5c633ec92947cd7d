// RUN: inr-opt -p array-stream-size-fifos --split-input-file %s | filecheck %s
// RUN: inr-opt -p array-stream-size-fifos,array-stream-size-fifos --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-size-fifos{method=minimum}' --split-input-file %s | filecheck %s --check-prefix=MINIMUM
// RUN: not inr-opt -p 'array-stream-size-fifos{method=best}' %s 2>&1 | filecheck %s --check-prefix=METHOD

// METHOD: array-stream-size-fifos: method 'best' is not one of safe, minimum

// Two ways that part and meet again get room for the whole array; what leads there and away needs two
// blocks. A reshape is the same FIFO.

// CHECK-LABEL: func.func @diamond(
// CHECK-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<4x8xf64, depth = 2, storage = srl>
// CHECK-NEXT:    %{{.*}} = array_stream.copy %{{.*}} -> !array_stream.stream<4x8xf64, depth = 32, storage = lutram>, !array_stream.stream<4x8xf64, depth = 32, storage = lutram>
// CHECK-NEXT:    %{{.*}} = array_stream.reduce_sum %{{.*}} -> !array_stream.stream<4xf64, depth = 4, storage = srl>
// CHECK-NEXT:    %{{.*}} = array_stream.reshape %{{.*}} -> !array_stream.stream<4x1xf64, depth = 4, storage = srl>
// CHECK-NEXT:    %{{.*}} = array_stream.broadcast %{{.*}} -> !array_stream.stream<4x8xf64, depth = 32, storage = lutram>
// CHECK-NEXT:    %{{.*}} = array_stream.map({{.*}} -> !array_stream.stream<4x8xf64, depth = 2, storage = srl> {
// MINIMUM-LABEL: func.func @diamond(
// MINIMUM-NOT:   depth = 4
// MINIMUM-NOT:   depth = 32
// MINIMUM:       func.return
func.func @diamond(%m: tensor<4x8xf64>) -> tensor<4x8xf64> attributes {array_stream.stage = "linear"} {
  %x = array_stream.read %m : tensor<4x8xf64> -> !array_stream.stream<4x8xf64>
  %a, %b = array_stream.copy %x : !array_stream.stream<4x8xf64> -> !array_stream.stream<4x8xf64>, !array_stream.stream<4x8xf64>
  %0 = array_stream.reduce_sum %a axis 1 : !array_stream.stream<4x8xf64> -> !array_stream.stream<4xf64>
  %1 = array_stream.reshape %0 : !array_stream.stream<4xf64> -> !array_stream.stream<4x1xf64>
  %2 = array_stream.broadcast %1 axis 1 : !array_stream.stream<4x1xf64> -> !array_stream.stream<4x8xf64>
  %3 = array_stream.map(%2, %b) : (!array_stream.stream<4x8xf64>, !array_stream.stream<4x8xf64>) -> !array_stream.stream<4x8xf64> {
  ^bb0(%p: f64, %q: f64):
    %r = arith.addf %p, %q : f64
    array_stream.yield %r : f64
  }
  %y = array_stream.write %3 : !array_stream.stream<4x8xf64> -> tensor<4x8xf64>
  func.return %y : tensor<4x8xf64>
}

// -----

// A depth and a storage that are there stay; depths count blocks; two FIFOs between the same two
// processes are two ways.

// CHECK-LABEL: func.func @given(
// CHECK-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<4x8xf32, depth = 5, storage = srl>
// CHECK-NEXT:    %{{.*}} = array_stream.reblock %{{.*}} -> !array_stream.stream<4x8xf32, block = 4, depth = 2, storage = uram>
// CHECK-NEXT:    %{{.*}} = array_stream.map({{.*}} -> (!array_stream.stream<4x8xf32, block = 4, depth = 8, storage = srl>, !array_stream.stream<4x8xf32, block = 4, depth = 100, storage = uram>) {
func.func @given(%m: tensor<4x8xf64>) -> tensor<4x8xf64> attributes {array_stream.stage = "linear"} {
  %x = array_stream.read %m : tensor<4x8xf64> -> !array_stream.stream<4x8xf32, depth = 5>
  %0 = array_stream.reblock %x : !array_stream.stream<4x8xf32, depth = 5> -> !array_stream.stream<4x8xf32, block = 4, storage = uram>
  %1, %2 = array_stream.map(%0) : (!array_stream.stream<4x8xf32, block = 4, storage = uram>) -> (!array_stream.stream<4x8xf32, block = 4>, !array_stream.stream<4x8xf32, block = 4, depth = 100, storage = uram>) {
  ^bb0(%p: f64):
    %q = math.tanh %p : f64
    array_stream.yield %p, %q : f64, f64
  }
  %3 = array_stream.map(%1, %2) : (!array_stream.stream<4x8xf32, block = 4>, !array_stream.stream<4x8xf32, block = 4, depth = 100, storage = uram>) -> !array_stream.stream<4x8xf32, block = 4> {
  ^bb0(%p: f64, %q: f64):
    %r = arith.addf %p, %q : f64
    array_stream.yield %r : f64
  }
  %y = array_stream.write %3 : !array_stream.stream<4x8xf32, block = 4> -> tensor<4x8xf64>
  func.return %y : tensor<4x8xf64>
}

// -----

// Before the linear stage there are no FIFOs.

// CHECK-LABEL: func.func @value(
// CHECK-NOT:     depth
// CHECK:         func.return
func.func @value(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %y = array_stream.write %x : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}
