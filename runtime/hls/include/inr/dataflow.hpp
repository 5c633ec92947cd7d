// SPDX-License-Identifier: Apache-2.0
//
// The processes of a dataflow function, for synthesis and for simulation.
//
//   void top(const float* x, float* y) {
//   #pragma HLS DATAFLOW
//     hls::stream<inr::block<float, 1>, 2> a("a"), b("b");
//     INR_REGION("top");                       // after the streams
//     INR_PROCESS("read_x", inr::read<float, 1, 64>(x, a));
//     INR_PROCESS("negate", negate(a, b));
//     INR_PROCESS("write_y", inr::write<float, 1, 64>(b, y));
//   }
//
// With the vendor's hls_stream.h, INR_PROCESS is the plain call and the other macros are nothing.
// With the one of the simulation runtime (which defines INR_SIM) each call becomes a process and
// the end of the scope runs them all.
#ifndef INR_DATAFLOW_HPP
#define INR_DATAFLOW_HPP

#include <hls_stream.h>

#ifdef INR_SIM
// One region a scope. The name is what reports and the deadlock message call it.
#define INR_REGION(name) ::inr::sim::region inr_region_(name)
// The call is made by the process, so its arguments must outlive the region.
#define INR_PROCESS(name, ...) inr_region_.add(name, [&] { __VA_ARGS__; })
// A stream whose other end is outside the function (an `axis` argument): not bounded, and tokens
// may stay in it.
#define INR_EXTERNAL(stream) (stream).make_external()
// What a stream is made of ("srl", or a memory), where that does not follow from depth and width.
#define INR_STORAGE(stream, storage) (stream).make_of(storage)
#else
#define INR_REGION(name)
#define INR_PROCESS(name, ...) __VA_ARGS__
#define INR_EXTERNAL(stream)
#define INR_STORAGE(stream, storage)
#endif

#endif
