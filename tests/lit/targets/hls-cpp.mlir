// RUN: inr-opt -p convert-torch-to-inr,inr-fold-transpose,inr-cse,inr-simplify,inr-cse,convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats,array-stream-insert-copies,array-stream-size-fifos -t hls-cpp %s | filecheck %s
// RUN: inr-opt -p convert-torch-to-inr,inr-fold-transpose,inr-cse,inr-simplify,inr-cse,convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats,array-stream-insert-copies,array-stream-size-fifos %s | inr-opt -t hls-cpp | filecheck %s
// RUN: inr-opt -p 'convert-torch-to-inr,inr-fold-transpose,inr-cse,inr-simplify,inr-cse,convert-inr-to-array-stream,array-stream-fuse,array-stream-assign-formats{mode=float},array-stream-insert-copies,array-stream-size-fifos' -t hls-cpp %s | filecheck %s --check-prefix=FLOAT
// RUN: not inr-opt -t hls-cpp %s 2>&1 | filecheck %s --check-prefix=STAGE
// RUN: not inr-opt -p convert-inr-to-array-stream,array-stream-insert-copies,array-stream-size-fifos -t hls-cpp %s 2>&1 | filecheck %s --check-prefix=FORMAT
// RUN: not inr-opt -p convert-inr-to-array-stream,array-stream-assign-formats,array-stream-insert-copies -t hls-cpp %s 2>&1 | filecheck %s --check-prefix=DEPTH

// STAGE: hls-cpp: layer is not at the linear stage; run array-stream-insert-copies
// FORMAT: hls-cpp: a stream of f64 has no format; run array-stream-assign-formats
// DEPTH: array_stream.read: a stream without a depth; run array-stream-size-fifos

// CHECK-DAG:   typedef ap_fixed<18, 3, AP_RND, AP_SAT> q18_3;
// CHECK-DAG:   typedef ap_fixed<27, 2, AP_RND, AP_WRAP> q27_2w;
// CHECK-DAG:   typedef ap_fixed<27, 3, AP_RND, AP_SAT> q27_3;
// CHECK:       struct sincos_q27_2w_q27_2 {
// CHECK:       // layer.weight: 2 x 2, mantissas of ap_fixed<18, 3, AP_RND, AP_SAT>
// CHECK-NEXT:  static const inr::rom<18>::type layer_weight[2][2] = {
// CHECK-NEXT:      32768, -65536, 98304, 16384
// CHECK-NEXT:  };
// CHECK:       // layer.bias: 2, mantissas of ap_fixed<35, 2, AP_RND, AP_SAT>
// CHECK-NEXT:  static const inr::rom<35>::type layer_bias[2] = {
// CHECK-NEXT:      2147483648LL, -8589934592LL
// CHECK-NEXT:  };

// CHECK:       // sincos, elementwise on 4 x 2
// CHECK-NEXT:  static void sincos_layer(hls::stream<inr::block<q27_2w, 1> >& in, hls::stream<inr::block<q27_2, 1> >& out_0, hls::stream<inr::block<q27_2, 1> >& out_1) {
// CHECK:         for (int token = 0; token < 8; ++token) {
// CHECK-NEXT:  #pragma HLS PIPELINE II = 1 style = flp
// CHECK:           const inr::block<q27_2w, 1> in_block = in.read();
// CHECK:             const q27_2w x = in_block.lane[lane];
// CHECK-NEXT:        q27_2 sine, cosine;
// CHECK-NEXT:        sincos_q27_2w_q27_2::apply(x, sine, cosine);
// CHECK-NEXT:        out_0_block.lane[lane] = sine;
// CHECK-NEXT:        out_1_block.lane[lane] = cosine;
// CHECK:           out_0.write(out_0_block);
// CHECK-NEXT:      out_1.write(out_1_block);

// CHECK:       static void mul_layer(
// CHECK:             const q27_1 mul = inr::narrow<q27_1>(x * x_2);

// CHECK:       void layer(const int32_t x[8], int32_t y[8], int32_t dy[8]) {
// CHECK-NEXT:  #pragma HLS INTERFACE m_axi port = x offset = slave bundle = gmem_in depth = 8
// CHECK:       #pragma HLS DATAFLOW
// CHECK:         hls::stream<inr::block<q27_3, 1>, 2> read_x_to_[[L:[a-z_0-9]+]]("read_x_to_[[L]]");
// CHECK-NEXT:  #pragma HLS BIND_STORAGE variable = read_x_to_[[L]] type = fifo impl = srl
// CHECK:         hls::stream<inr::block<q27_2, 1>, 8> sincos_layer_to_copy_layer("sincos_layer_to_copy_layer");
// CHECK:         hls::stream<inr::block<q27_2, 1>, 8> sincos_layer_to_mul_layer("sincos_layer_to_mul_layer");
// CHECK:         // x from memory
// CHECK-NEXT:    INR_PROCESS("read_x", inr::read<q27_3, 1, 8>(x, read_x_to_[[L]]));
// CHECK-NEXT:    // 4 rows by layer.weight, 2 x 2
// CHECK-NEXT:    INR_PROCESS("[[L]]", inr::matmul<1, 4, 2, 2, 1, 1, 1, 1, q18_3, q35_2>(layer_weight, layer_bias, read_x_to_[[L]], [[L]]_to_sincos_layer));
// CHECK-NEXT:    // sincos, elementwise on 4 x 2
// CHECK-NEXT:    INR_PROCESS("sincos_layer", sincos_layer([[L]]_to_sincos_layer, sincos_layer_to_copy_layer, sincos_layer_to_mul_layer));
// CHECK-NEXT:    // 2 readers
// CHECK-NEXT:    INR_PROCESS("copy_layer", inr::copy<q27_2, 1, 8>(sincos_layer_to_copy_layer, copy_layer_to_mul_layer, copy_layer_to_write_y));
// CHECK-NEXT:    // mul, elementwise on 4 x 2
// CHECK-NEXT:    INR_PROCESS("mul_layer", mul_layer(copy_layer_to_mul_layer, sincos_layer_to_mul_layer, mul_layer_to_write_dy));
// CHECK-NEXT:    // y to memory
// CHECK-NEXT:    INR_PROCESS("write_y", inr::write<q27_2, 1, 8>(copy_layer_to_write_y, y));
// CHECK-NEXT:    // dy to memory
// CHECK-NEXT:    INR_PROCESS("write_dy", inr::write<q27_1, 1, 8>(mul_layer_to_write_dy, dy));
// CHECK-NEXT:  }

// FLOAT-NOT:   ap_fixed
// FLOAT:       layer_weight[2][2] = {
// FLOAT-NEXT:      1.0f, -2.0f, 3.0f, 0.5f
// FLOAT:             inr::sincos_quarter(x, sine, cosine);
// FLOAT:             const float mul = x * x_2;
// FLOAT:       void layer(const float x[8], float y[8], float dy[8]) {

func.func @layer(%x: tensor<4x2xf64> {inr.name = "x"}) -> (tensor<4x2xf64> {inr.name = "y"}, tensor<4x2xf64> {inr.name = "dy"}) {
  %w = arith.constant {inr.name = "layer.weight"} dense<[[1.0, -2.0], [3.0, 0.5]]> : tensor<2x2xf64>
  %b = arith.constant {inr.name = "layer.bias"} dense<[0.25, -1.0]> : tensor<2xf64>
  %0 = inr.matmul %x, %w bias %b : (tensor<4x2xf64>, tensor<2x2xf64>, tensor<2xf64>) -> tensor<4x2xf64>
  %1 = inr.sinq %0 : tensor<4x2xf64>
  %2 = inr.cosq %0 : tensor<4x2xf64>
  %3 = arith.mulf %2, %1 : tensor<4x2xf64>
  func.return %1, %3 : tensor<4x2xf64>, tensor<4x2xf64>
}
