// RUN: INR_ROUNDTRIP
// RUN: INR_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !array_stream.stream<f64>
// CHECK-SAME: !array_stream.stream<64x256xf64>
// CHECK-SAME: !array_stream.stream<4xf32, block = 2>
// CHECK-SAME: !array_stream.stream<4x!array_stream.fixed<27, 9>, depth = 18>
// CHECK-SAME: !array_stream.stream<4x!array_stream.fixed<8, -3>, block = 4, depth = 2, storage = srl>
// CHECK-SAME: !array_stream.stream<4x!array_stream.fixed<27, 2, rnd, wrap>>
// CHECK-SAME: !array_stream.stream<4x!array_stream.fixed<64, 40, trn, sat>>
func.func private @types(
  !array_stream.stream<f64>,
  !array_stream.stream<64x256xf64>,
  !array_stream.stream<4xf32, block = 2>,
  !array_stream.stream<4x!array_stream.fixed<27, 9>, depth = 18>,
  !array_stream.stream<4x!array_stream.fixed<8, -3>, storage = srl, depth = 2, block = 4>,
  !array_stream.stream<4x!array_stream.fixed<27, 2, rnd, wrap>>,
  !array_stream.stream<4x!array_stream.fixed<64, 40, trn, sat>>) -> ()

// CHECK-LABEL: func.func @memory(
func.func @memory(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
  // CHECK-NEXT: %[[S:.*]] = array_stream.read %{{.*}} : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %s = array_stream.read %x : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  // CHECK-NEXT: array_stream.write %[[S]] : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  %y = array_stream.write %s : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %y : tensor<4x2xf64>
}

// CHECK-LABEL: func.func @constant(
func.func @constant() {
  %row = arith.constant dense<[1.0, 2.0]> : tensor<2xf64>
  // CHECK: array_stream.constant %{{.*}} : tensor<2xf64> -> !array_stream.stream<4x2xf64>
  %s = array_stream.constant %row : tensor<2xf64> -> !array_stream.stream<4x2xf64>
  func.return
}

// CHECK-LABEL: func.func @map(
func.func @map(%a: !array_stream.stream<4xf64>, %b: !array_stream.stream<4xf64>) {
  // CHECK-NEXT: array_stream.map(%{{.*}}, %{{.*}}) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) {
  // CHECK-NEXT: ^{{.*}}(%[[P:.*]]: f64, %[[Q:.*]]: f64):
  // CHECK-NEXT: %[[S:.*]], %[[C:.*]] = array_stream.sincos %[[P]] : f64
  // CHECK-NEXT: %[[M:.*]] = arith.mulf %[[C]], %[[Q]] {array_stream.format = !array_stream.fixed<27, 9>} : f64
  // CHECK-NEXT: array_stream.yield %[[S]], %[[M]] : f64, f64
  %0, %1 = array_stream.map(%a, %b) : (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>, !array_stream.stream<4xf64>) {
  ^bb0(%p: f64, %q: f64):
    %s, %c = array_stream.sincos %p : f64
    %m = arith.mulf %c, %q {array_stream.format = !array_stream.fixed<27, 9>} : f64
    array_stream.yield %s, %m : f64, f64
  }
  func.return
}

// CHECK-LABEL: func.func @map_in_turn(
func.func @map_in_turn(%a: !array_stream.stream<4xf64>) {
  // CHECK-NEXT: array_stream.map(%{{.*}}) interval 3 : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  %0 = array_stream.map(%a) interval 3 : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %m = arith.mulf %p, %p : f64
    array_stream.yield %m : f64
  }
  func.return
}

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%a: !array_stream.stream<4x2xf64>, %b: !array_stream.stream<4x2xf64>, %row: !array_stream.stream<2xf64>) {
  %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf64>
  %bias = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
  // CHECK: array_stream.matmul %{{.*}} by %{{.*}} : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x3xf64> by tensor<2x3xf64>
  %0 = array_stream.matmul %a by %w : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x3xf64> by tensor<2x3xf64>
  // CHECK-NEXT: array_stream.matmul %{{.*}}, %{{.*}} by %{{.*}} bias %{{.*}} lanes [2, 3] weight_format <18, 2> bias_format <35, 3> accumulator <48, 12, trn, wrap> : (!array_stream.stream<4x2xf64>, !array_stream.stream<4x2xf64>) -> (!array_stream.stream<4x3xf64>, !array_stream.stream<4x3xf64>) by tensor<2x3xf64> bias tensor<3xf64>
  %1, %2 = array_stream.matmul %a, %b by %w bias %bias lanes [2, 3] weight_format <18, 2> bias_format <35, 3> accumulator <48, 12, trn, wrap> : (!array_stream.stream<4x2xf64>, !array_stream.stream<4x2xf64>) -> (!array_stream.stream<4x3xf64>, !array_stream.stream<4x3xf64>) by tensor<2x3xf64> bias tensor<3xf64>
  // CHECK-NEXT: array_stream.matmul %{{.*}} by %{{.*}} : (!array_stream.stream<2xf64>) -> !array_stream.stream<3xf64> by tensor<2x3xf64>
  %3 = array_stream.matmul %row by %w : (!array_stream.stream<2xf64>) -> !array_stream.stream<3xf64> by tensor<2x3xf64>
  func.return
}

// CHECK-LABEL: func.func @matmul_dynamic(
func.func @matmul_dynamic(%a: !array_stream.stream<4x2xf64>, %b: !array_stream.stream<2x3xf64>) {
  // CHECK-NEXT: array_stream.matmul_dynamic %{{.*}}, %{{.*}} : (!array_stream.stream<4x2xf64>, !array_stream.stream<2x3xf64>) -> !array_stream.stream<4x3xf64>
  %0 = array_stream.matmul_dynamic %a, %b : (!array_stream.stream<4x2xf64>, !array_stream.stream<2x3xf64>) -> !array_stream.stream<4x3xf64>
  func.return
}

// CHECK-LABEL: func.func @movement(
func.func @movement(%a: !array_stream.stream<2x3x4xf64>, %b: !array_stream.stream<2x1x4xf64>) {
  // CHECK-NEXT: array_stream.transpose %{{.*}} [0, 2, 1] : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x4x3xf64>
  %0 = array_stream.transpose %a [0, 2, 1] : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x4x3xf64>
  // CHECK-NEXT: array_stream.broadcast %{{.*}} axis 1 : !array_stream.stream<2x1x4xf64> -> !array_stream.stream<2x3x4xf64>
  %1 = array_stream.broadcast %b axis 1 : !array_stream.stream<2x1x4xf64> -> !array_stream.stream<2x3x4xf64>
  // CHECK-NEXT: array_stream.reduce_sum %{{.*}} axis 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3xf64>
  %2 = array_stream.reduce_sum %a axis 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3xf64>
  // CHECK-NEXT: array_stream.slice %{{.*}} axis 2 from 1 size 2 step 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3x2xf64>
  %3 = array_stream.slice %a axis 2 from 1 size 2 step 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3x2xf64>
  // CHECK-NEXT: array_stream.pad %{{.*}} axis 0 low 1 high 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<5x3x4xf64>
  %4 = array_stream.pad %a axis 0 low 1 high 2 : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<5x3x4xf64>
  // CHECK-NEXT: array_stream.concat %{{.*}}, %{{.*}} axis 1 : (!array_stream.stream<2x3x4xf64>, !array_stream.stream<2x1x4xf64>) -> !array_stream.stream<2x4x4xf64>
  %5 = array_stream.concat %a, %b axis 1 : (!array_stream.stream<2x3x4xf64>, !array_stream.stream<2x1x4xf64>) -> !array_stream.stream<2x4x4xf64>
  // CHECK-NEXT: array_stream.reshape %{{.*}} : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<24xf64>
  %6 = array_stream.reshape %a : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<24xf64>
  // CHECK-NEXT: array_stream.reblock %{{.*}} : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3x4xf64, block = 4>
  %7 = array_stream.reblock %a : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<2x3x4xf64, block = 4>
  func.return
}

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: attributes {array_stream.stage = "linear"}
func.func @linear(%x: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) attributes {array_stream.stage = "linear"} {
  %0 = array_stream.read %x : tensor<4xf64> -> !array_stream.stream<4xf64>
  // CHECK: %{{.*}}, %{{.*}} = array_stream.copy %{{.*}} : !array_stream.stream<4xf64> -> !array_stream.stream<4xf64>, !array_stream.stream<4xf64>
  %1, %2 = array_stream.copy %0 : !array_stream.stream<4xf64> -> !array_stream.stream<4xf64>, !array_stream.stream<4xf64>
  %3 = array_stream.write %1 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %4 = array_stream.write %2 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %3, %4 : tensor<4xf64>, tensor<4xf64>
}
