// RUN: inr-opt -p array-stream-fuse --split-input-file %s | filecheck %s
// RUN: inr-opt -p array-stream-fuse,array-stream-fuse --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-fuse{chains=false sincos=false weights=false}' --split-input-file %s | filecheck %s --check-prefix=NONE

// CHECK-LABEL: func.func @chain(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[G:.*]] = array_stream.read
// CHECK-NEXT:    %[[R:.*]] = array_stream.map(%[[X]], %[[G]])
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f64, %[[B:.*]]: f64):
// CHECK-NEXT:      %[[C:.*]] = math.tanh %[[A]] : f64
// CHECK-NEXT:      %[[D:.*]] = arith.mulf %[[C]], %[[B]] : f64
// CHECK-NEXT:      array_stream.yield %[[D]] : f64
// CHECK-NOT:     array_stream.map
// CHECK:         array_stream.write %[[R]]
// NONE-LABEL: func.func @chain(
// NONE:         array_stream.map
// NONE:         array_stream.map
func.func @chain(%m: tensor<4xf64>, %n: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %g = array_stream.read %n : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%0, %g) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64, %c: f64):
    %b = arith.mulf %a, %c : f64
    array_stream.yield %b : f64
  }
  %y = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// What somebody else reads too stays a stream: to compute it twice costs more than a FIFO.

// CHECK-LABEL: func.func @two_readers(
// CHECK:         %[[T:.*]] = array_stream.map
// CHECK:         array_stream.map(%[[T]])
// CHECK:         array_stream.reduce_sum %[[T]]
func.func @two_readers(%m: tensor<4xf64>) -> (tensor<4xf64>, tensor<f64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%0) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.exp %a : f64
    array_stream.yield %b : f64
  }
  %2 = array_stream.reduce_sum %0 axis 0 : !array_stream.stream<4xf64> -> !array_stream.stream<f64>
  %y = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %z = array_stream.write %2 : !array_stream.stream<f64> -> tensor<f64>
  func.return %y, %z : tensor<4xf64>, tensor<f64>
}

// -----

// A sign is cheaper than a FIFO: each reader negates for itself.

// CHECK-LABEL: func.func @negation(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    array_stream.map(%[[X]])
// CHECK:           arith.negf
// CHECK-NEXT:      math.exp
// CHECK:         array_stream.map(%[[X]])
// CHECK:           arith.negf
// CHECK-NEXT:      math.tanh
// CHECK-NOT:     array_stream.map
// CHECK:         func.return
func.func @negation(%m: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = arith.negf %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%0) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.exp %a : f64
    array_stream.yield %b : f64
  }
  %2 = array_stream.map(%0) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %y = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %z = array_stream.write %2 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y, %z : tensor<4xf64>, tensor<4xf64>
}

// -----

// CHECK-LABEL: func.func @sincos(
// CHECK:         %[[X:.*]] = array_stream.read
// CHECK-NEXT:    %[[R:.*]], %[[Q:.*]] = array_stream.map(%[[X]])
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f64):
// CHECK-NEXT:      %[[S:.*]], %[[C:.*]] = array_stream.sincos %[[A]] : f64
// CHECK-NEXT:      array_stream.yield %[[S]], %[[C]] : f64, f64
// CHECK:         array_stream.reduce_sum %[[R]]
// CHECK-NEXT:    array_stream.reduce_sum %[[Q]]
// NONE-LABEL: func.func @sincos(
// NONE-NOT:     array_stream.sincos
// NONE:         func.return
func.func @sincos(%m: tensor<4xf64>) -> (tensor<f64>, tensor<f64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = inr.sinq %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = inr.cosq %a : f64
    array_stream.yield %b : f64
  }
  %2 = array_stream.reduce_sum %0 axis 0 : !array_stream.stream<4xf64> -> !array_stream.stream<f64>
  %3 = array_stream.reduce_sum %1 axis 0 : !array_stream.stream<4xf64> -> !array_stream.stream<f64>
  %y = array_stream.write %2 : !array_stream.stream<f64> -> tensor<f64>
  %z = array_stream.write %3 : !array_stream.stream<f64> -> tensor<f64>
  func.return %y, %z : tensor<f64>, tensor<f64>
}

// -----

// Products by one weight are one process, unless one needs the other's result, or one is wanted with
// other lanes.

// CHECK-LABEL: func.func @weights(
// CHECK:         %[[A:.*]] = array_stream.read
// CHECK-NEXT:    %[[B:.*]] = array_stream.read
// CHECK-NEXT:    %[[W:.*]] = arith.constant
// CHECK-NEXT:    %[[P:.*]], %[[Q:.*]] = array_stream.matmul %[[A]], %[[B]] by %[[W]] :
// CHECK-NEXT:    %[[AGAIN:.*]] = array_stream.matmul %[[P]] by %[[W]] :
// CHECK-NEXT:    %[[OTHER:.*]] = array_stream.matmul %[[B]] by %[[W]] lanes [2, 1]
// CHECK-NEXT:    array_stream.write %[[Q]]
// CHECK-NEXT:    array_stream.write %[[AGAIN]]
// CHECK-NEXT:    array_stream.write %[[OTHER]]
func.func @weights(%m: tensor<4x2xf64>, %n: tensor<4x2xf64>) -> (tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>) attributes {array_stream.stage = "value"} {
  %a = array_stream.read %m : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %b = array_stream.read %n : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %0 = array_stream.matmul %a by %w : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %1 = array_stream.matmul %0 by %w : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %2 = array_stream.matmul %b by %w lanes [2, 1] : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %3 = array_stream.matmul %b by %w : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %x = array_stream.write %3 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  %y = array_stream.write %1 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  %z = array_stream.write %2 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %x, %y, %z : tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>
}

// -----

// A stream's format goes to the operation that makes its values; one that rounds a second time, or that
// somebody gave a depth, stays.

// CHECK-LABEL: func.func @formats(
// CHECK:           math.tanh %{{.*}} {array_stream.format = !array_stream.fixed<16, 2>} : f64
// CHECK-NEXT:      math.exp
// CHECK:         array_stream.map
// CHECK-NEXT:    ^
// CHECK-NEXT:      math.absf
// CHECK:         array_stream.map
// CHECK-NEXT:    ^
// CHECK-NEXT:      arith.negf
func.func @formats(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4x!array_stream.fixed<16, 2>> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%0) : (!array_stream.stream<4x!array_stream.fixed<16, 2>>) -> !array_stream.stream<4x!array_stream.fixed<16, 4>> {
  ^bb0(%a: f64):
    %b = math.exp %a {array_stream.format = !array_stream.fixed<20, 4>} : f64
    array_stream.yield %b : f64
  }
  %2 = array_stream.map(%1) : (!array_stream.stream<4x!array_stream.fixed<16, 4>>) -> !array_stream.stream<4xf64, depth = 7> {
  ^bb0(%a: f64):
    %b = math.absf %a : f64
    array_stream.yield %b : f64
  }
  %3 = array_stream.map(%2) : (!array_stream.stream<4xf64, depth = 7>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = arith.negf %a : f64
    array_stream.yield %b : f64
  }
  %y = array_stream.write %3 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// At the linear stage the processes are hardware already.

// CHECK-LABEL: func.func @linear(
// CHECK:         array_stream.map
// CHECK:         array_stream.map
func.func @linear(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "linear"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%0) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.exp %a : f64
    array_stream.yield %b : f64
  }
  %y = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}
