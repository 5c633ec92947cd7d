// RUN: inr-opt -p 'array-stream-assign-formats{activation=27 weight=18}' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-assign-formats{activation=27 weight=18},array-stream-assign-formats{activation=20 weight=10}' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-assign-formats{mode=interval}' --split-input-file %s | filecheck %s --check-prefix=INTERVAL
// RUN: inr-opt -p 'array-stream-assign-formats{mode=float}' --split-input-file %s | filecheck %s --check-prefix=FLOAT

// Inputs lie in [-1, 1]: two integer bits and a guard bit. The angle wraps at the quadrant, the sine
// needs two bits and nothing else; products get what was seen, or proved: at most 2*5 + 1 here.

// CHECK-LABEL: func.func @layer(
// CHECK-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 3>>
// CHECK:         array_stream.matmul {{.*}} weight_format <18, 4> bias_format <35, 2> : {{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 2, rnd, wrap>>
// CHECK:         array_stream.map({{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 2>> {
// CHECK:           inr.sinq %{{.*}} {array_stream.format = !array_stream.fixed<27, 2>} : f64
// CHECK:         array_stream.matmul {{.*}} weight_format <18, 4> : {{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, [[I:.*]]>>
// INTERVAL-LABEL: func.func @layer(
// INTERVAL-NEXT:  %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 3>>
// INTERVAL:       array_stream.matmul {{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 2, rnd, wrap>>
// INTERVAL:       array_stream.matmul {{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 5>>
// FLOAT-LABEL: func.func @layer(
// FLOAT-NOT:     fixed
// FLOAT-NOT:     stream<4x2xf64>
// FLOAT:         array_stream.read %{{.*}} -> !array_stream.stream<4x2xf32>
// FLOAT:         func.return
func.func @layer(%m: tensor<4x2xf64>) -> tensor<4x2xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %w = arith.constant dense<[[5.0, 1.0], [-2.0, 3.0]]> : tensor<2x2xf64>
  %b = arith.constant dense<[1.0, 0.5]> : tensor<2xf64>
  %0 = array_stream.matmul %x by %w bias %b : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64> bias tensor<2xf64>
  %1 = array_stream.map(%0) : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> {
  ^bb0(%p: f64):
    %q = inr.sinq %p : f64
    array_stream.yield %q : f64
  }
  %2 = array_stream.matmul %1 by %w : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %y = array_stream.write %2 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %y : tensor<4x2xf64>
}

// -----

// An angle that is an array of its own as well keeps its turns; what moves elements has one format.

// CHECK-LABEL: func.func @angle_and_value(
// CHECK-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<4x!array_stream.fixed<27, 3>>
// CHECK-NEXT:    %{{.*}} = array_stream.reshape %{{.*}} -> !array_stream.stream<1x4x!array_stream.fixed<27, 3>>
// CHECK-NEXT:    %{{.*}} = array_stream.pad %{{.*}} -> !array_stream.stream<1x6x!array_stream.fixed<27, 3>>
// CHECK-NEXT:    array_stream.map({{.*}} -> (!array_stream.stream<1x6x!array_stream.fixed<27, 2>>, !array_stream.stream<1x6x!array_stream.fixed<27, 2>>) {
// CHECK:           inr.cosq
func.func @angle_and_value(%m: tensor<4xf64>) -> (tensor<1x6xf64>, tensor<1x6xf64>, tensor<1x6xf64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.reshape %x : !array_stream.stream<4xf64> -> !array_stream.stream<1x4xf64>
  %1 = array_stream.pad %0 axis 1 low 1 high 1 : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x6xf64>
  %2, %3 = array_stream.map(%1) : (!array_stream.stream<1x6xf64>) -> (!array_stream.stream<1x6xf64>, !array_stream.stream<1x6xf64>) {
  ^bb0(%p: f64):
    %q = inr.cosq %p : f64
    %r = math.tanh %p : f64
    array_stream.yield %q, %r : f64, f64
  }
  %y = array_stream.write %1 : !array_stream.stream<1x6xf64> -> tensor<1x6xf64>
  %z = array_stream.write %2 : !array_stream.stream<1x6xf64> -> tensor<1x6xf64>
  %v = array_stream.write %3 : !array_stream.stream<1x6xf64> -> tensor<1x6xf64>
  func.return %y, %z, %v : tensor<1x6xf64>, tensor<1x6xf64>, tensor<1x6xf64>
}

// -----

// Inside a body, too: the stream may drop the turns that only sines read, the product may not.

// CHECK-LABEL: func.func @angle_in_body(
// CHECK:         array_stream.map({{.*}} -> (!array_stream.stream<4x!array_stream.fixed<27, 2, rnd, wrap>>, !array_stream.stream<4x!array_stream.fixed<27, 8>>) {
// CHECK:           arith.constant {array_stream.format = !array_stream.fixed<27, 4>} 7.000000e+00 : f64
// CHECK-NEXT:      arith.mulf {{.*}} {array_stream.format = !array_stream.fixed<27, 5>} : f64
// CHECK-NEXT:      arith.mulf {{.*}} {array_stream.format = !array_stream.fixed<27, 8>} : f64
func.func @angle_in_body(%m: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0, %1 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) {
  ^bb0(%p: f64):
    %c = arith.constant 7.0 : f64
    %q = arith.mulf %p, %c : f64
    %r = arith.mulf %q, %q : f64
    array_stream.yield %q, %r : f64, f64
  }
  %2 = array_stream.map(%0) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %q = inr.sinq %p : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %z = array_stream.write %2 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y, %z : tensor<4xf64>, tensor<4xf64>
}

// -----

// A condition is two bits wide.

// CHECK-LABEL: func.func @flags(
// CHECK:         array_stream.map({{.*}} -> !array_stream.stream<4x!array_stream.fixed<2, 2>> {
// CHECK-NEXT:    ^
// CHECK-NEXT:      arith.constant {array_stream.format = !array_stream.fixed<2, 2>} 0.000000e+00 : f64
// CHECK-NEXT:      inr.compare gt {{.*}} {array_stream.format = !array_stream.fixed<2, 2>} : f64
func.func @flags(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %c = arith.constant 0.0 : f64
    %q = inr.compare gt %p, %c : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// A format that is there stays, whatever the mode; the rest is filled in.

// CHECK-LABEL: func.func @given(
// CHECK-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
// CHECK-NEXT:    %{{.*}} = array_stream.transpose %{{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
// CHECK:         array_stream.matmul {{.*}} weight_format <9, 5> : {{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<20, 5>>
// CHECK:         array_stream.map({{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<27, {{.*}}>> {
// CHECK:           math.absf %{{.*}} {array_stream.format = !array_stream.fixed<33, 9>} : f64
// CHECK-NEXT:      arith.negf %{{.*}} {array_stream.format = !array_stream.fixed<27, {{.*}}>} : f64
// FLOAT-LABEL: func.func @given(
// FLOAT-NEXT:    %{{.*}} = array_stream.read %{{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
// FLOAT-NEXT:    %{{.*}} = array_stream.transpose %{{.*}} -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
func.func @given(%m: tensor<2x2xf64>) -> tensor<2x2xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<2x2xf64> -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
  %0 = array_stream.transpose %x [1, 0] : !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>> -> !array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>
  %w = arith.constant dense<[[5.0, 1.0], [-2.0, 3.0]]> : tensor<2x2xf64>
  %1 = array_stream.matmul %0 by %w weight_format <9, 5> : (!array_stream.stream<2x2x!array_stream.fixed<12, 4, trn, sat>>) -> !array_stream.stream<2x2x!array_stream.fixed<20, 5>> by tensor<2x2xf64>
  %2 = array_stream.map(%1) : (!array_stream.stream<2x2x!array_stream.fixed<20, 5>>) -> !array_stream.stream<2x2xf64> {
  ^bb0(%p: f64):
    %q = math.absf %p {array_stream.format = !array_stream.fixed<33, 9>} : f64
    %r = arith.negf %q : f64
    array_stream.yield %r : f64
  }
  %y = array_stream.write %2 : !array_stream.stream<2x2xf64> -> tensor<2x2xf64>
  func.return %y : tensor<2x2xf64>
}
