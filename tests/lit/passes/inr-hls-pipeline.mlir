// RUN: inr-opt -p 'inr-hls-pipeline' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'inr-hls-pipeline,inr-hls-pipeline' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'convert-torch-to-inr,inr-fold-transpose,inr-cse,inr-simplify,inr-cse,convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats,array-stream-select-parallelism,array-stream-insert-copies,array-stream-size-fifos{method=default}' --split-input-file %s | filecheck %s
// RUN: inr-opt -p 'inr-hls-pipeline{mode=float}' --split-input-file %s | filecheck %s --check-prefix=FLOAT
// RUN: inr-opt -p 'inr-hls-pipeline{activation=16 weight=12 guard=0 depths=minimum}' --split-input-file %s | filecheck %s --check-prefix=NARROW
// RUN: inr-opt -p 'inr-hls-pipeline{tolerance=1e-2 domain=-0.5,1}' --split-input-file %s | filecheck %s --check-prefix=TOLERANCE
// RUN: not inr-opt -p 'inr-hls-pipeline{depths=deep}' %s 2>&1 | filecheck %s --check-prefix=DEPTHS

// DEPTHS: array-stream-size-fifos: method 'deep' is not one of safe, minimum

// ω₀ goes into the weights with 2/π, the sine and the cosine are one process.

// CHECK-LABEL: func.func @layer(
// CHECK-SAME:    attributes {array_stream.stage = "linear", array_stream.parallelism = {
// CHECK:         array_stream.read %{{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 3>, {{.*}}depth = {{[0-9]+}}, storage = srl>
// CHECK:         array_stream.matmul {{.*}} lanes [{{[0-9]+}}, {{[0-9]+}}] weight_format <18, 7> {{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<27, 2, rnd, wrap>, {{.*}}depth = {{[0-9]+}}, storage = srl>
// CHECK:         array_stream.map
// CHECK:           array_stream.sincos
// CHECK-NEXT:      array_stream.yield
// CHECK-NOT:     array_stream.copy
// CHECK:         func.return
// FLOAT-LABEL: func.func @layer(
// FLOAT-NOT:     f64,
// FLOAT:         array_stream.read %{{.*}} -> !array_stream.stream<4x2xf32, {{.*}}depth = {{[0-9]+}}, storage = srl>
// NARROW-LABEL: func.func @layer(
// NARROW:        array_stream.read %{{.*}} -> !array_stream.stream<4x2x!array_stream.fixed<16, 2>, {{.*}}depth = 2, storage = srl>
// NARROW:        weight_format <12, 7>
// TOLERANCE-LABEL: func.func @layer(
// TOLERANCE-SAME: array_stream.widths
func.func @layer(%x: tensor<4x2xf64>) -> (tensor<4x2xf64>, tensor<4x2xf64>) {
  %w = arith.constant dense<[[1.0, -2.0], [3.0, 0.5]]> : tensor<2x2xf64>
  %omega = arith.constant dense<30.0> : tensor<4x2xf64>
  %0 = inr.matmul %x, %w : (tensor<4x2xf64>, tensor<2x2xf64>) -> tensor<4x2xf64>
  %1 = arith.mulf %0, %omega : tensor<4x2xf64>
  %2 = math.sin %1 : tensor<4x2xf64>
  %3 = math.cos %1 : tensor<4x2xf64>
  func.return %2, %3 : tensor<4x2xf64>, tensor<4x2xf64>
}

// -----

// A design whose results do not depend on an input, and a result that is one.

// CHECK-LABEL: func.func @constant(
// CHECK:         %[[S:.*]] = array_stream.constant %{{.*}} -> !array_stream.stream<4x!array_stream.fixed<27, 2>, {{.*}}depth = {{[0-9]+}}, storage = srl>
// CHECK:         array_stream.write
func.func @constant(%x: tensor<4xf64>) -> tensor<4xf64> {
  %zero = arith.constant dense<0.0> : tensor<4xf64>
  func.return %zero : tensor<4xf64>
}
