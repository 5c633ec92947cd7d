// REQUIRES: xdsl-opt
// RUN: xdsl-opt -p convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats,array-stream-insert-copies,array-stream-size-fifos %s | filecheck %s
// RUN: xdsl-opt -p inr-hls-pipeline -t hls-cpp %s | filecheck %s --check-prefix=CPP

// xDSL's own tool finds dialects, passes and targets of an installed package.

// CHECK:       array_stream.map(%{{.*}}) : (!array_stream.stream<4x2x!array_stream.fixed<27, 3>, depth = 2, storage = srl>)
// CHECK:       math.tanh %{{.*}} {array_stream.format = !array_stream.fixed<27, 2>} : f64
// CPP:         const q27_2 tanh = tanh_q27_3_q27_2::apply(x);
// CPP:         void activation(const int32_t x[8], int32_t y[8]) {

func.func @activation(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %0 = math.tanh %x : tensor<4x2xf64>
  func.return %0 : tensor<4x2xf64>
}
