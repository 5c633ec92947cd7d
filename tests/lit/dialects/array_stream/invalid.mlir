// RUN: inr-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: a fixed-point number has 1 to 64 bits, not 65
func.func private @t(!array_stream.fixed<65, 3>) -> ()

// -----

// CHECK: a fixed-point number has 1 to 64 bits, not 0
func.func private @t(!array_stream.fixed<0, 0>) -> ()

// -----

// CHECK: 'up, sat' is not a rounding (rnd, trn) and an overflow (sat, wrap)
func.func private @t(!array_stream.fixed<8, 3, up, sat>) -> ()

// -----

// CHECK: a stream carries f32, f64 or fixed, not i32
func.func private @t(!array_stream.stream<4xi32>) -> ()

// -----

// CHECK: a stream has a static shape without zeros, not 4x0
func.func private @t(!array_stream.stream<4x0xf64>) -> ()

// -----

// CHECK: a stream has a static shape without zeros, not ?x4
func.func private @t(!array_stream.stream<?x4xf64>) -> ()

// -----

// CHECK: blocks of 3 do not divide an array of 8 elements
func.func private @t(!array_stream.stream<2x4xf64, block = 3>) -> ()

// -----

// CHECK: blocks of 0 do not divide an array of 8 elements
func.func private @t(!array_stream.stream<2x4xf64, block = 0>) -> ()

// -----

// CHECK: a FIFO holds at least one block, not 0
func.func private @t(!array_stream.stream<4xf64, depth = 0>) -> ()

// -----

// CHECK: storage 'paper' is not one of srl, lutram, bram, uram
func.func private @t(!array_stream.stream<4xf64, storage = paper>) -> ()

// -----

// CHECK: shapes differ: (2, 4), (8,)
func.func @f(%m: tensor<2x4xf64>) {
  %0 = array_stream.read %m : tensor<2x4xf64> -> !array_stream.stream<8xf64>
  func.return
}

// -----

// CHECK: shapes differ: (8,), (2, 4)
func.func @f(%x: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.write %x : !array_stream.stream<2x4xf64> -> tensor<8xf64>
  func.return
}

// -----

// CHECK: 3 values do not fill 8 elements evenly
func.func @f() {
  %c = arith.constant dense<1.0> : tensor<3xf64>
  %0 = array_stream.constant %c : tensor<3xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: a constant stream repeats an arith.constant
func.func @f(%m: tensor<4xf64>) {
  %0 = array_stream.constant %m : tensor<4xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: blocks of 8 do not divide the stored values, 4
func.func @f() {
  %c = arith.constant dense<1.0> : tensor<4xf64>
  %0 = array_stream.constant %c : tensor<4xf64> -> !array_stream.stream<2x4xf64, block = 8>
  func.return
}

// -----

// CHECK: shapes differ: (4,), (2, 2)
func.func @f(%x0: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<2x2xf64>) {
  ^bb0(%a: f64):
    array_stream.yield %a : f64
  }
  func.return
}

// -----

// CHECK: blocks differ: 1, 2
func.func @f(%x0: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64, block = 2>) {
  ^bb0(%a: f64):
    array_stream.yield %a : f64
  }
  func.return
}

// -----

// CHECK: a map reads at least one stream; see array_stream.constant
func.func @f() {
  %0 = array_stream.map() : () -> (!array_stream.stream<4xf64>) {
  ^bb0:
    %c = arith.constant 1.0 : f64
    array_stream.yield %c : f64
  }
  func.return
}

// -----

// CHECK: a map writes at least one stream
func.func @f(%x0: !array_stream.stream<4xf64>) {
  array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> () {
  ^bb0(%a: f64):
    array_stream.yield
  }
  func.return
}

// -----

// CHECK: a map's body is written over f64
func.func @f(%x0: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>) {
  ^bb0(%a: f32):
    array_stream.yield %a : f32
  }
  func.return
}

// -----

// CHECK: 1 streams but 2 block arguments
func.func @f(%x0: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>) {
  ^bb0(%a: f64, %b: f64):
    array_stream.yield %a : f64
  }
  func.return
}

// -----

// CHECK: the body must yield 1 values
func.func @f(%x0: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%x0) : (!array_stream.stream<4xf64>) -> (!array_stream.stream<4xf64>) {
  ^bb0(%a: f64):
    array_stream.yield %a, %a : f64, f64
  }
  func.return
}

// -----

// CHECK: 'array_stream.sincos' expects parent op 'array_stream.map'
func.func @f(%a: f64) {
  %s, %c = array_stream.sincos %a : f64
  func.return
}

// -----

// CHECK: 'array_stream.yield' expects parent op 'array_stream.map'
func.func @f(%a: f64) {
  array_stream.yield %a : f64
}

// -----

// CHECK: 2 inputs need as many outputs, not 1
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0, %x1 by %w : (!array_stream.stream<2x4xf64>, !array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: input shapes differ: (2, 4), (3, 4)
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<3x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0:2 = array_stream.matmul %x0, %x1 by %w : (!array_stream.stream<2x4xf64>, !array_stream.stream<3x4xf64>) -> (!array_stream.stream<2x6xf64>, !array_stream.stream<3x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: (2, 5) times a 4x6 weight does not give (2, 6)
func.func @f(%x0: !array_stream.stream<2x5xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<2x5xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: () times a 4x6 weight does not give (2, 6)
func.func @f(%x0: !array_stream.stream<f64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<f64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: a weight is K x N, not tensor<4xf64>
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4xf64>
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4xf64>
  func.return
}

// -----

// CHECK: bias and columns differ: (4,), (6,)
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %b = arith.constant dense<1.0> : tensor<4xf64>
  %0 = array_stream.matmul %x0 by %w bias %b : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64> bias tensor<4xf64>
  func.return
}

// -----

// CHECK: weights and bias are resident: arith.constant values
func.func @f(%x0: !array_stream.stream<2x4xf64>, %w: tensor<4x6xf64>) {
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: blocks differ: 1, 2
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<2x4xf64, block = 2>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0:2 = array_stream.matmul %x0, %x1 by %w : (!array_stream.stream<2x4xf64>, !array_stream.stream<2x4xf64, block = 2>) -> (!array_stream.stream<2x6xf64>, !array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: blocks differ: 2, 1
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0:2 = array_stream.matmul %x0, %x1 by %w : (!array_stream.stream<2x4xf64>, !array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64, block = 2>, !array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: blocks of 8 do not divide a row of the input, 4
func.func @f(%x0: !array_stream.stream<2x4xf64, block = 8>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<2x4xf64, block = 8>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide a row of the output, 6
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64, block = 4>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: lanes [3, 1] do not divide a 4x6 weight
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w lanes [3, 1] : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: lanes [1, 4] do not divide a 4x6 weight
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w lanes [1, 4] : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: lanes [2] do not divide a 4x6 weight
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w lanes [2] : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: of 2 lanes and output blocks of 3, one divides the other
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %w = arith.constant dense<1.0> : tensor<4x6xf64>
  %0 = array_stream.matmul %x0 by %w lanes [1, 2] : (!array_stream.stream<2x4xf64>) -> (!array_stream.stream<2x6xf64, block = 3>) by tensor<4x6xf64>
  func.return
}

// -----

// CHECK: (2, 4) times (5, 6) does not give (2, 6)
func.func @f(%a: !array_stream.stream<2x4xf64>, %b: !array_stream.stream<5x6xf64>) {
  %0 = array_stream.matmul_dynamic %a, %b : (!array_stream.stream<2x4xf64>, !array_stream.stream<5x6xf64>) -> !array_stream.stream<2x6xf64>
  func.return
}

// -----

// CHECK: blocks of 8 do not divide a row of the left side, 4
func.func @f(%a: !array_stream.stream<2x4xf64, block = 8>, %b: !array_stream.stream<4x6xf64>) {
  %0 = array_stream.matmul_dynamic %a, %b : (!array_stream.stream<2x4xf64, block = 8>, !array_stream.stream<4x6xf64>) -> !array_stream.stream<2x6xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide a row of the right side, 6
func.func @f(%a: !array_stream.stream<2x4xf64>, %b: !array_stream.stream<4x6xf64, block = 4>) {
  %0 = array_stream.matmul_dynamic %a, %b : (!array_stream.stream<2x4xf64>, !array_stream.stream<4x6xf64, block = 4>) -> !array_stream.stream<2x6xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide a row of the result, 6
func.func @f(%a: !array_stream.stream<2x4xf64>, %b: !array_stream.stream<4x6xf64>) {
  %0 = array_stream.matmul_dynamic %a, %b : (!array_stream.stream<2x4xf64>, !array_stream.stream<4x6xf64>) -> !array_stream.stream<2x6xf64, block = 4>
  func.return
}

// -----

// CHECK: [0, 0] is no permutation of 2 axes
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.transpose %a [0, 0] : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: [2, 1, 0] swaps more than two neighbouring groups
func.func @f(%a: !array_stream.stream<2x3x4xf64>) {
  %0 = array_stream.transpose %a [2, 1, 0] : !array_stream.stream<2x3x4xf64> -> !array_stream.stream<4x3x2xf64>
  func.return
}

// -----

// CHECK: shapes differ: (4, 2), (2, 4)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.transpose %a [1, 0] : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: elements differ: f64, f32
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.transpose %a [1, 0] : !array_stream.stream<2x4xf64> -> !array_stream.stream<4x2xf32>
  func.return
}

// -----

// CHECK: blocks differ: 1, 2
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.transpose %a [1, 0] : !array_stream.stream<2x4xf64> -> !array_stream.stream<4x2xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the first axis that moves, 2
func.func @f(%a: !array_stream.stream<2x4xf64, block = 4>) {
  %0 = array_stream.transpose %a [1, 0] : !array_stream.stream<2x4xf64, block = 4> -> !array_stream.stream<4x2xf64, block = 4>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the second axis that moves, 2
func.func @f(%a: !array_stream.stream<4x2xf64, block = 4>) {
  %0 = array_stream.transpose %a [1, 0] : !array_stream.stream<4x2xf64, block = 4> -> !array_stream.stream<2x4xf64, block = 4>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the elements that stay together, 6
func.func @f(%a: !array_stream.stream<4x2x6xf64, block = 4>) {
  %0 = array_stream.transpose %a [1, 0, 2] : !array_stream.stream<4x2x6xf64, block = 4> -> !array_stream.stream<2x4x6xf64, block = 4>
  func.return
}

// -----

// CHECK: axis 0 of (2, 4) does not broadcast to (4, 4)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.broadcast %a axis 0 : !array_stream.stream<2x4xf64> -> !array_stream.stream<4x4xf64>
  func.return
}

// -----

// CHECK: axis 2 of (2, 4) does not broadcast to (2, 4)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.broadcast %a axis 2 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the elements that are repeated together, 6
func.func @f(%a: !array_stream.stream<2x1x6xf64, block = 4>) {
  %0 = array_stream.broadcast %a axis 1 : !array_stream.stream<2x1x6xf64, block = 4> -> !array_stream.stream<2x3x6xf64, block = 4>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the repetitions, 3
func.func @f(%a: !array_stream.stream<4x1xf64, block = 2>) {
  %0 = array_stream.broadcast %a axis 1 : !array_stream.stream<4x1xf64, block = 2> -> !array_stream.stream<4x3xf64, block = 2>
  func.return
}

// -----

// CHECK: (2, 4) summed over axis 2 is not (2,)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reduce_sum %a axis 2 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2xf64>
  func.return
}

// -----

// CHECK: (2, 4) summed over axis 0 is not (2,)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reduce_sum %a axis 0 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the axis that is summed, 6
func.func @f(%a: !array_stream.stream<2x6xf64, block = 4>) {
  %0 = array_stream.reduce_sum %a axis 1 : !array_stream.stream<2x6xf64, block = 4> -> !array_stream.stream<2xf64>
  func.return
}

// -----

// CHECK: blocks differ: 2, 1
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.reduce_sum %a axis 0 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<4xf64>
  func.return
}

// -----

// CHECK: blocks of 4 do not divide the elements that are summed side by side, 6
func.func @f(%a: !array_stream.stream<2x2x6xf64, block = 4>) {
  %0 = array_stream.reduce_sum %a axis 1 : !array_stream.stream<2x2x6xf64, block = 4> -> !array_stream.stream<2x6xf64, block = 4>
  func.return
}

// -----

// CHECK: 3 of axis 1 of (2, 4) is not (2, 2)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.slice %a axis 1 from 0 size 3 step 1 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x2xf64>
  func.return
}

// -----

// CHECK: the window leaves axis 1 of (2, 4)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.slice %a axis 1 from 1 size 2 step 3 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x2xf64>
  func.return
}

// -----

// CHECK: the window leaves axis 1 of (2, 4)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.slice %a axis 1 from 0 size 2 step 0 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x2xf64>
  func.return
}

// -----

// CHECK: elements differ: f64, f32
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.slice %a axis 1 from 0 size 2 step 1 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x2xf32>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the elements that are taken together, 1
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.slice %a axis 1 from 0 size 2 step 2 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<2x2xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide what lies before the window, 1
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.slice %a axis 1 from 1 size 2 step 1 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<2x2xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the window, 3
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.slice %a axis 1 from 0 size 3 step 1 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<2x3xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the axis, 3
func.func @f(%a: !array_stream.stream<2x3xf64, block = 2>) {
  %0 = array_stream.slice %a axis 1 from 0 size 2 step 1 : !array_stream.stream<2x3xf64, block = 2> -> !array_stream.stream<2x2xf64, block = 2>
  func.return
}

// -----

// CHECK: cannot pad axis 1 of (2, 4) by -1 and 0
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.pad %a axis 1 low -1 high 0 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x3xf64>
  func.return
}

// -----

// CHECK: shapes differ: (2, 5), (2, 6)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.pad %a axis 1 low 1 high 0 : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x6xf64>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the zeros before, 1
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.pad %a axis 1 low 1 high 1 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<2x6xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the axis, 3
func.func @f(%a: !array_stream.stream<2x3xf64, block = 2>) {
  %0 = array_stream.pad %a axis 1 low 2 high 2 : !array_stream.stream<2x3xf64, block = 2> -> !array_stream.stream<2x7xf64, block = 2>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the zeros after, 1
func.func @f(%a: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.pad %a axis 1 low 2 high 1 : !array_stream.stream<2x4xf64, block = 2> -> !array_stream.stream<2x7xf64, block = 2>
  func.return
}

// -----

// CHECK: a concatenation has inputs and an axis of the result
func.func @f(%x0: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.concat %x0 axis 2 : (!array_stream.stream<2x4xf64>) -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: ranks differ: 2, 1, 2
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<4xf64>) {
  %0 = array_stream.concat %x0, %x1 axis 1 : (!array_stream.stream<2x4xf64>, !array_stream.stream<4xf64>) -> !array_stream.stream<2x8xf64>
  func.return
}

// -----

// CHECK: blocks differ: 1, 2, 1
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<2x4xf64, block = 2>) {
  %0 = array_stream.concat %x0, %x1 axis 1 : (!array_stream.stream<2x4xf64>, !array_stream.stream<2x4xf64, block = 2>) -> !array_stream.stream<2x8xf64>
  func.return
}

// -----

// CHECK: (2, 4), (3, 4) do not concatenate to (2, 8) along axis 1
func.func @f(%x0: !array_stream.stream<2x4xf64>, %x1: !array_stream.stream<3x4xf64>) {
  %0 = array_stream.concat %x0, %x1 axis 1 : (!array_stream.stream<2x4xf64>, !array_stream.stream<3x4xf64>) -> !array_stream.stream<2x8xf64>
  func.return
}

// -----

// CHECK: blocks of 2 do not divide the rows of an input, 3
func.func @f(%x0: !array_stream.stream<2x3xf64, block = 2>, %x1: !array_stream.stream<2x3xf64, block = 2>) {
  %0 = array_stream.concat %x0, %x1 axis 1 : (!array_stream.stream<2x3xf64, block = 2>, !array_stream.stream<2x3xf64, block = 2>) -> !array_stream.stream<2x6xf64, block = 2>
  func.return
}

// -----

// CHECK: sizes differ: 8, 12
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reshape %a : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x6xf64>
  func.return
}

// -----

// CHECK: blocks differ: 1, 2
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reshape %a : !array_stream.stream<2x4xf64> -> !array_stream.stream<8xf64, block = 2>
  func.return
}

// -----

// CHECK: shapes differ: (2, 4), (8,)
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reblock %a : !array_stream.stream<2x4xf64> -> !array_stream.stream<8xf64, block = 2>
  func.return
}

// -----

// CHECK: elements differ: f64, f32
func.func @f(%a: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.reblock %a : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf32>
  func.return
}

// -----

// CHECK: of blocks of 2 and of 3, one divides the other
func.func @f(%a: !array_stream.stream<6xf64, block = 2>) {
  %0 = array_stream.reblock %a : !array_stream.stream<6xf64, block = 2> -> !array_stream.stream<6xf64, block = 3>
  func.return
}

// -----

// CHECK: a copy has at least two outputs
func.func @f(%x: !array_stream.stream<2x4xf64>) {
  %0 = array_stream.copy %x : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>
  func.return
}

// -----

// CHECK: shapes differ: (2, 4), (2, 4), (8,)
func.func @f(%x: !array_stream.stream<2x4xf64>) {
  %0:2 = array_stream.copy %x : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>, !array_stream.stream<8xf64>
  func.return
}

// -----

// CHECK: elements differ: f64, f64, f32
func.func @f(%x: !array_stream.stream<2x4xf64>) {
  %0:2 = array_stream.copy %x : !array_stream.stream<2x4xf64> -> !array_stream.stream<2x4xf64>, !array_stream.stream<2x4xf32>
  func.return
}

// -----

// CHECK: at the linear stage a stream has one reader, this one has 2; `array-stream-insert-copies` multicasts
func.func @f(%m: tensor<4xf64>) attributes {array_stream.stage = "linear"} {
  %0 = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %1 = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  %2 = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return
}

// -----

// CHECK: at the linear stage a stream has one reader, this one has 0
func.func @f(%m: tensor<4xf64>) attributes {array_stream.stage = "linear"} {
  %0 = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  func.return
}

// -----

// CHECK: an interval is at least one cycle, not 0
func.func @map_interval(%a: !array_stream.stream<4xf64>) {
  %0 = array_stream.map(%a) interval 0 : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    array_stream.yield %p : f64
  }
  func.return
}
