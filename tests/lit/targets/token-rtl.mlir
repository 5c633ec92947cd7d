// RUN: inr-opt -p convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats,array-stream-insert-copies,array-stream-size-fifos -t token-rtl %s | filecheck %s
// RUN: not inr-opt -t token-rtl %s 2>&1 | filecheck %s --check-prefix=STAGE

// One module for FIFOs, one for each schedule, and the design: its FIFOs, then its processes.

// STAGE: layer is not at the linear stage; run array-stream-insert-copies

// CHECK:       module inr_token_fifo #(
// CHECK:       // 0: 1 stage, gaps 1 and 1
// CHECK:       // 1: 8 stages, gaps {{[0-9]+}} and 1, writes [0]
// CHECK-NEXT:  module tokens_layer_read_0
// CHECK:       module tokens_layer (
// CHECK:         // {{.*}}: 8 tokens of 27 bits, depth 2, srl
// CHECK:         inr_token_fifo #(.DEPTH(2), .RAW(1), .WIDTH(2)) fifo_
// CHECK:         tokens_layer_read_0 process_read_0 (
// CHECK:         assign stuck = !done && !fires && !moving;

func.func @layer(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %0 = math.tanh %x : tensor<4x2xf64>
  func.return %0 : tensor<4x2xf64>
}
