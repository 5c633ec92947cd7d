// RUN: inr-opt -p canonicalize --split-input-file %s | filecheck %s --check-prefix=CANON
// RUN: inr-opt -p cse,dce --split-input-file %s | filecheck %s --check-prefix=CSE
// RUN: inr-opt -p canonicalize,canonicalize --split-input-file %s | filecheck %s --check-prefix=CANON

// A process that nobody reads vanishes.

// CANON-LABEL: func.func @dead(
// CANON-NEXT:    %[[X:.*]] = array_stream.read
// CANON-NEXT:    %[[Y:.*]] = array_stream.write %[[X]]
// CANON-NEXT:    func.return %[[Y]]
// CSE-LABEL: func.func @dead(
// CSE-NOT:     array_stream.map
// CSE-NOT:     array_stream.constant
// CSE:         func.return
func.func @dead(%m: tensor<4xf64>) -> tensor<4xf64> {
  %c = arith.constant dense<1.0> : tensor<1xf64>
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %unread = array_stream.constant %c : tensor<1xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.reduce_sum %0 axis 0 : !array_stream.stream<4xf64> -> !array_stream.stream<f64>
  %y = array_stream.write %x : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// Two equal processes are one, their bodies compared; two sources of one array are one.

// CSE-LABEL: func.func @equal(
// CSE:         %[[X:.*]] = array_stream.read
// CSE-NOT:     array_stream.read
// CSE:         %[[Z:.*]] = array_stream.map(%[[X]])
// CSE:           math.tanh
// CSE:         %[[W:.*]] = array_stream.map(%[[X]])
// CSE:           math.exp
// CSE-NOT:     array_stream.map
// CSE:         array_stream.concat %[[Z]], %[[Z]], %[[W]] axis 0
func.func @equal(%m: tensor<4xf64>) -> tensor<12xf64> {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %again = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %1 = array_stream.map(%again) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.tanh %a : f64
    array_stream.yield %b : f64
  }
  %2 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %b = math.exp %a : f64
    array_stream.yield %b : f64
  }
  %3 = array_stream.concat %0, %1, %2 axis 0 : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<12xf64>
  %y = array_stream.write %3 : !array_stream.stream<12xf64> -> tensor<12xf64>
  func.return %y : tensor<12xf64>
}

// -----

// At the linear stage two equal sources are two FIFOs and stay apart.

// CSE-LABEL: func.func @equal_sources_linear(
// CSE:         array_stream.read
// CSE:         array_stream.read
// CSE:         array_stream.constant
// CSE:         array_stream.constant
func.func @equal_sources_linear(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "linear"} {
  %c = arith.constant dense<1.0> : tensor<1xf64>
  %0 = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %1 = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %2 = array_stream.constant %c : tensor<1xf64> -> !array_stream.stream<4xf64>
  %3 = array_stream.constant %c : tensor<1xf64> -> !array_stream.stream<4xf64>
  %4 = array_stream.map(%0, %1, %2, %3) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>, !array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64, %b: f64, %e: f64, %f: f64):
    %g = arith.addf %a, %b : f64
    %h = arith.mulf %e, %f : f64
    %i = arith.addf %g, %h : f64
    array_stream.yield %i : f64
  }
  %y = array_stream.write %4 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// In a body: the sine and cosine of one angle twice are one table look-up.

// CSE-LABEL: func.func @sincos(
// CSE:         array_stream.map
// CSE:         %[[S:.*]], %[[C:.*]] = array_stream.sincos
// CSE-NOT:     array_stream.sincos
// CSE:         arith.mulf %[[S]], %[[C]]
func.func @sincos(%x: !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64):
    %s, %c = array_stream.sincos %a : f64
    %t, %d = array_stream.sincos %a : f64
    %m = arith.mulf %s, %d : f64
    array_stream.yield %m : f64
  }
  func.return %0 : !array_stream.stream<4xf64>
}

// -----

// CANON-LABEL: func.func @move_of_nothing(
// CANON-SAME:    %[[X:.*]]: !array_stream.stream<1x4xf64>)
// CANON-NEXT:    func.return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @move_of_nothing(%x: !array_stream.stream<1x4xf64>) -> (!array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>) {
  %0 = array_stream.reshape %x : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  %1 = array_stream.transpose %x [0, 1] : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  %2 = array_stream.slice %x axis 1 from 0 size 4 step 1 : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  %3 = array_stream.pad %x axis 1 low 0 high 0 : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  %4 = array_stream.broadcast %x axis 0 : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  %5 = array_stream.reblock %x : !array_stream.stream<1x4xf64> -> !array_stream.stream<1x4xf64>
  func.return %0, %1, %2, %3, %4, %5 : !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>, !array_stream.stream<1x4xf64>
}

// -----

// A transpose of a square array and a change of depth are not nothing.

// CANON-LABEL: func.func @move_of_something(
// CANON-NEXT:    array_stream.transpose
// CANON-NEXT:    array_stream.slice
// CANON-NEXT:    func.return
func.func @move_of_something(%x: !array_stream.stream<4x4xf64>) -> (!array_stream.stream<4x4xf64>, !array_stream.stream<4x4xf64, depth = 8>) {
  %0 = array_stream.transpose %x [1, 0] : !array_stream.stream<4x4xf64> -> !array_stream.stream<4x4xf64>
  %1 = array_stream.slice %x axis 1 from 0 size 4 step 1 : !array_stream.stream<4x4xf64> -> !array_stream.stream<4x4xf64, depth = 8>
  func.return %0, %1 : !array_stream.stream<4x4xf64>, !array_stream.stream<4x4xf64, depth = 8>
}

// -----

// CANON-LABEL: func.func @reshape_of_reshape(
// CANON-SAME:    %[[X:.*]]: !array_stream.stream<4x6xf64>)
// CANON-NEXT:    %[[R:.*]] = array_stream.reshape %[[X]] : !array_stream.stream<4x6xf64> -> !array_stream.stream<2x12xf64>
// CANON-NEXT:    func.return %[[R]], %[[X]]
func.func @reshape_of_reshape(%x: !array_stream.stream<4x6xf64>) -> (!array_stream.stream<2x12xf64>, !array_stream.stream<4x6xf64>) {
  %0 = array_stream.reshape %x : !array_stream.stream<4x6xf64> -> !array_stream.stream<24xf64>
  %1 = array_stream.reshape %0 : !array_stream.stream<24xf64> -> !array_stream.stream<2x12xf64>
  %2 = array_stream.reshape %0 : !array_stream.stream<24xf64> -> !array_stream.stream<4x6xf64>
  func.return %1, %2 : !array_stream.stream<2x12xf64>, !array_stream.stream<4x6xf64>
}

// -----

// Two transposes are one where one process can do it: the third permutation exchanges axes 0 and 2
// around axis 1, which is no swap of neighbours.

// CANON-LABEL: func.func @transpose_of_transpose(
// CANON-SAME:    %[[X:.*]]: !array_stream.stream<2x3x4xf64>)
// CANON-NEXT:    %[[A:.*]] = array_stream.transpose %[[X]] [1, 2, 0]
// CANON-NEXT:    %[[B:.*]] = array_stream.transpose %[[X]] [2, 0, 1]
// CANON-NEXT:    %[[C:.*]] = array_stream.transpose %[[A]] [1, 0, 2]
// CANON-NEXT:    func.return %[[X]], %[[B]], %[[C]]
func.func @transpose_of_transpose(%x: !array_stream.stream<2x3x4xf64>) -> (!array_stream.stream<2x3x4xf64>, !array_stream.stream<4x2x3xf64>, !array_stream.stream<4x3x2xf64>) {
  %0 = array_stream.transpose %x [1, 2, 0] : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<3x4x2xf64>
  %1 = array_stream.transpose %0 [2, 0, 1] : !array_stream.stream<3x4x2xf64> -> !array_stream.stream<2x3x4xf64>
  %2 = array_stream.transpose %0 [1, 2, 0] : !array_stream.stream<3x4x2xf64> -> !array_stream.stream<4x2x3xf64>
  %3 = array_stream.transpose %0 [1, 0, 2] : !array_stream.stream<3x4x2xf64> -> !array_stream.stream<4x3x2xf64>
  func.return %1, %2, %3 : !array_stream.stream<2x3x4xf64>, !array_stream.stream<4x2x3xf64>, !array_stream.stream<4x3x2xf64>
}

// -----

// CANON-LABEL: func.func @map_inputs(
// CANON-SAME:    %[[X:.*]]: !array_stream.stream<4xf64>, %[[Y:.*]]: !array_stream.stream<4xf64>)
// CANON-NEXT:    array_stream.map(%[[X]]) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
// CANON-NEXT:    ^{{.*}}(%[[A:.*]]: f64):
// CANON-NEXT:      arith.mulf %[[A]], %[[A]]
func.func @map_inputs(%x: !array_stream.stream<4xf64>, %y: !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  %0 = array_stream.map(%x, %y, %x) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64, %b: f64, %c: f64):
    %d = arith.mulf %a, %c : f64
    array_stream.yield %d : f64
  }
  func.return %0 : !array_stream.stream<4xf64>
}

// -----

// CANON-LABEL: func.func @map_of_constants(
// CANON-SAME:    %[[X:.*]]: !array_stream.stream<4xf64>, %{{.*}}: !array_stream.stream<4xf64>)
// CANON-NEXT:    array_stream.map(%[[X]])
func.func @map_of_constants(%x: !array_stream.stream<4xf64>, %y: !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  %0 = array_stream.map(%x, %y) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64, %b: f64):
    %d = arith.constant 2.0 : f64
    array_stream.yield %d : f64
  }
  func.return %0 : !array_stream.stream<4xf64>
}

// -----

// At the linear stage a reader is a piece of hardware: the stream it drains must be drained.

// CANON-LABEL: func.func @map_inputs_linear(
// CANON:         array_stream.map(%{{.*}}, %{{.*}})
func.func @map_inputs_linear(%x: tensor<4xf64>, %y: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "linear"} {
  %s = array_stream.read %x : tensor<4xf64> -> !array_stream.stream<4xf64>
  %t = array_stream.read %y : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%s, %t) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%a: f64, %b: f64):
    array_stream.yield %a : f64
  }
  %1 = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %1 : tensor<4xf64>
}
