// RUN: inr-opt -p 'array-stream-select-parallelism{lanes=40}' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-select-parallelism{lanes=40},array-stream-select-parallelism{lanes=40}' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'array-stream-select-parallelism{part=xcu280 dsp=1000}' --split-input-file %s | filecheck %s --check-prefix=WIDE
// RUN: not inr-opt -p 'array-stream-select-parallelism{dsp=1}' %s 2>&1 | filecheck %s --check-prefix=SHORT
// RUN: not inr-opt -p 'array-stream-select-parallelism{part=xc1}' %s 2>&1 | filecheck %s --check-prefix=PART
// RUN: not inr-opt -p 'array-stream-select-parallelism{fill=1.5}' %s 2>&1 | filecheck %s --check-prefix=FILL
// RUN: not inr-opt -p 'array-stream-select-parallelism{lanes=0}' %s 2>&1 | filecheck %s --check-prefix=LANES

// PART: unknown part 'xc1'; known parts: xcu50
// FILL: array-stream-select-parallelism: fill=1.5 is not a share between 0 and 1
// LANES: array-stream-select-parallelism: lanes=0; a design needs at least one

// SHORT:      error: two does not fit xcu50 even with each product at its fewest lanes
// SHORT-NEXT:   needed   allowed  short of
// SHORT:      dsp{{ +}}5{{ +}}1{{ +}}4
// SHORT-NEXT: take a larger part, or allow more of this one;

// One product of a 16 x 16 weight and one of two streams by it: of 40 lanes each stream gets 8. With
// a whole part, blocks grow with the lanes and are the same at both ends of a stream.

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    array_stream.parallelism = {cycles = 2816 : i64, floor = 1229 : i64, fill = {{[0-9]+}} : i64, macs = 49152 : i64, lanes = 24 : i64,
// CHECK:         array_stream.matmul %{{.*}} by %{{.*}} lanes [4, 2] weight_format <18, -2> : (!array_stream.stream<64x16x!array_stream.fixed<27, 2>>) -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>> by
// CHECK-NEXT:    array_stream.map
// CHECK:         array_stream.matmul %{{.*}}, %{{.*}} by %{{.*}} lanes [4, 2]
// CHECK-NOT:     reblock
// CHECK:         func.return
// WIDE-LABEL:  func.func @two(
// WIDE:          array_stream.read %{{.*}} -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 2>
// WIDE-NEXT:     array_stream.matmul %{{.*}} by %{{.*}} lanes [8, 16] {{.*}} -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 16> by
// WIDE-NEXT:     array_stream.map(%{{.*}}) : (!array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 16>) -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 16>
// WIDE-NOT:      reblock
// WIDE:          func.return
!s = !array_stream.stream<64x16x!array_stream.fixed<27, 2>>

func.func @two(%m: tensor<64x16xf64>) -> (tensor<64x16xf64>, tensor<64x16xf64>) attributes {array_stream.stage = "value"} {
  %w = arith.constant dense<0.1> : tensor<16x16xf64>
  %x = array_stream.read %m : tensor<64x16xf64> -> !s
  %0 = array_stream.matmul %x by %w weight_format <18, -2> : (!s) -> !s by tensor<16x16xf64>
  %1 = array_stream.map(%0) : (!s) -> !s {
  ^bb0(%p: f64):
    %q = arith.mulf %p, %p {array_stream.format = !array_stream.fixed<27, 2>} : f64
    array_stream.yield %q : f64
  }
  %2, %3 = array_stream.matmul %1, %0 by %w weight_format <18, -2> : (!s, !s) -> (!s, !s) by tensor<16x16xf64>
  %y = array_stream.write %2 : !s -> tensor<64x16xf64>
  %z = array_stream.write %3 : !s -> tensor<64x16xf64>
  func.return %y, %z : tensor<64x16xf64>, tensor<64x16xf64>
}

// -----

// Lanes and blocks that are there stay, and what is joined to them goes by them.

// CHECK-LABEL: func.func @given(
// CHECK-SAME:    cycles = 1664 : i64
// CHECK:         array_stream.read %{{.*}}, block = 4>
// CHECK-NEXT:    array_stream.matmul %{{.*}} lanes [2, 8] {{.*}} -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 8> by
// CHECK-NEXT:    array_stream.map({{.*}}, block = 8>) -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 8>
func.func @given(%m: tensor<64x16xf64>) -> tensor<64x16xf64> attributes {array_stream.stage = "value"} {
  %w = arith.constant dense<0.1> : tensor<16x16xf64>
  %x = array_stream.read %m : tensor<64x16xf64> -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 4>
  %0 = array_stream.matmul %x by %w lanes [2, 8] weight_format <18, -2> : (!array_stream.stream<64x16x!array_stream.fixed<27, 2>, block = 4>) -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>> by tensor<16x16xf64>
  %1 = array_stream.map(%0) : (!array_stream.stream<64x16x!array_stream.fixed<27, 2>>) -> !array_stream.stream<64x16x!array_stream.fixed<27, 2>> {
  ^bb0(%p: f64):
    %q = arith.negf %p {array_stream.format = !array_stream.fixed<27, 2>} : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %1 : !array_stream.stream<64x16x!array_stream.fixed<27, 2>> -> tensor<64x16xf64>
  func.return %y : tensor<64x16xf64>
}

// -----

// A short array whose blocks are of one element beside a long one with wide blocks: where the short
// one is repeated to become long, it is reblocked.

// CHECK-LABEL: func.func @disagree(
// CHECK-SAME:    cycles = 193 : i64
// CHECK:         %[[A:.*]] = array_stream.slice %{{.*}} -> !array_stream.stream<64x1x!array_stream.fixed<18, 2>>
// CHECK-NEXT:    %[[B:.*]] = array_stream.reblock %[[A]] : {{.*}} -> !array_stream.stream<64x1x!array_stream.fixed<18, 2>, block = 8>
// CHECK-NEXT:    array_stream.broadcast %[[B]] axis 1 : {{.*}} -> !array_stream.stream<64x16x!array_stream.fixed<18, 2>, block = 8>
func.func @disagree(%m: tensor<64x3xf64>, %n: tensor<64x16xf64>) -> tensor<64x16xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<64x3xf64> -> !array_stream.stream<64x3x!array_stream.fixed<18, 2>>
  %a = array_stream.slice %x axis 1 from 1 size 1 step 1 : !array_stream.stream<64x3x!array_stream.fixed<18, 2>> -> !array_stream.stream<64x1x!array_stream.fixed<18, 2>>
  %b = array_stream.broadcast %a axis 1 : !array_stream.stream<64x1x!array_stream.fixed<18, 2>> -> !array_stream.stream<64x16x!array_stream.fixed<18, 2>>
  %c = array_stream.read %n : tensor<64x16xf64> -> !array_stream.stream<64x16x!array_stream.fixed<18, 2>>
  %d = array_stream.map(%b, %c) : (!array_stream.stream<64x16x!array_stream.fixed<18, 2>>, !array_stream.stream<64x16x!array_stream.fixed<18, 2>>) -> !array_stream.stream<64x16x!array_stream.fixed<18, 2>> {
  ^bb0(%p: f64, %q: f64):
    %r = arith.addf %p, %q {array_stream.format = !array_stream.fixed<18, 2>} : f64
    array_stream.yield %r : f64
  }
  %y = array_stream.write %d : !array_stream.stream<64x16x!array_stream.fixed<18, 2>> -> tensor<64x16xf64>
  func.return %y : tensor<64x16xf64>
}
