// RUN: inr-opt -p convert-inr-to-array-stream --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: math.sinh: no stream-level form; expected arith, math, tensor and inr operations
func.func @operation(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = math.sinh %x : tensor<4xf64>
  func.return %0 : tensor<4xf64>
}

// -----

// CHECK: math.tanh: expected f64 tensors, got tensor<4xf32>; run convert-torch-to-inr first
func.func @single(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.tanh %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: math.tanh: expected f64 tensors, got f64; run convert-torch-to-inr first
func.func @number(%x: f64) -> f64 {
  %0 = math.tanh %x : f64
  func.return %0 : f64
}

// -----

// CHECK: math.tanh: the shape is dynamic; import with fixed example inputs
func.func @dynamic(%x: tensor<?xf64>) -> tensor<?xf64> {
  %0 = math.tanh %x : tensor<?xf64>
  func.return %0 : tensor<?xf64>
}

// -----

// CHECK: math.tanh: tensor<0x4xf64> has no elements; give inputs of at least one row
func.func @empty(%x: tensor<0x4xf64>) -> tensor<0x4xf64> {
  %0 = math.tanh %x : tensor<0x4xf64>
  func.return %0 : tensor<0x4xf64>
}

// -----

// CHECK: func.func: nothing returns nothing; a design needs an output
func.func @nothing(%x: tensor<4xf64>) {
  func.return
}

// -----

// CHECK: branches: a dataflow region is one block
func.func @branches(%x: tensor<4xf64>) -> tensor<4xf64> {
  cf.br ^bb1
^bb1:
  func.return %x : tensor<4xf64>
}
