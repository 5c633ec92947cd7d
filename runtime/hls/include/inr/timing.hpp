// SPDX-License-Identifier: Apache-2.0
//
// What a simulation must be told to count cycles: where pipelined loops and their iterations begin,
// and how long an iteration takes. Nothing of it remains in synthesis.
//
//   INR_FLUSHABLE_LOOP(latency, interval);   // before the loop, or the flattened nest of loops
//   for (...) {
// #pragma HLS PIPELINE II = 1 style = flp
//     INR_ITERATION();
//
// A loop that reads and writes streams is flushable, and its latency is from an iteration's reads
// to its writes. One that only reads (INR_READING_LOOP) takes the latency after its last read, one
// that only writes (INR_WRITING_LOOP) before its first write. Entering a loop takes a cycle.
//
// The latencies are those of pipelined operators at 300 MHz on UltraScale+; `analysis/operators.py`
// has the same numbers and says where they are from.
#ifndef INR_TIMING_HPP
#define INR_TIMING_HPP

#include "stream.hpp"

#ifdef INR_SIM
#define INR_READING_LOOP(latency, interval) \
  ::inr::sim::enter_loop(::inr::sim::loop::reads, latency, interval)
#define INR_WRITING_LOOP(latency, interval) \
  ::inr::sim::enter_loop(::inr::sim::loop::writes, latency, interval)
#define INR_FLUSHABLE_LOOP(latency, interval) \
  ::inr::sim::enter_loop(::inr::sim::loop::both, latency, interval)
#define INR_ITERATION() ::inr::sim::start_iteration()
#else
#define INR_READING_LOOP(latency, interval)
#define INR_WRITING_LOOP(latency, interval)
#define INR_FLUSHABLE_LOOP(latency, interval)
#define INR_ITERATION()
#endif

namespace inr {
namespace timing {

// An access to external memory.
constexpr int memory = 64;
// A block that is only moved, into or out of an array or from stream to stream.
constexpr int route = 1;
constexpr int float_adder = 7;
constexpr int float_multiplier = 4;

constexpr int ceil_divide(int a, int b) { return (a + b - 1) / b; }

// DSP slices of a signed product of `a` by `b` bits (`analysis/dsp.py`).
constexpr int limbs(int width, int limb) {
  return detail::larger(1, ceil_divide(width - 1, limb));
}
constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int slices(int a, int b) {
  return detail::larger(a, b) <= 10 ? 0
                                    : smaller(limbs(a, 26) * limbs(b, 17),
                                              limbs(b, 26) * limbs(a, 17));
}
constexpr int product(int a, int b) {
  return slices(a, b) == 0 ? 1 : 3 + (detail::ceil_log2(slices(a, b)) + 1) / 2;
}

}  // namespace timing
}  // namespace inr

#endif
