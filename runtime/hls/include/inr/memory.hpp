// SPDX-License-Identifier: Apache-2.0
//
// Arrays in memory to streams and back, and constant arrays.
//
// A word of memory is a float, or the raw mantissa of an ap_fixed<W, I> in an int32_t (W <= 32) or
// int64_t.
#ifndef INR_MEMORY_HPP
#define INR_MEMORY_HPP

#include "timing.hpp"

namespace inr {

// Memory to stream: N elements in order, one block a cycle as far as the memory port allows.
// Schedule: N / B writes, after an access to memory.
template <class T, int B, int N>
void read(const typename detail::element<T>::word* memory, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  static_assert(N % B == 0, "read: the block size does not divide the number of elements");
  INR_WRITING_LOOP(timing::memory, 1);
  for (int i = 0; i < N / B; ++i) {
#pragma HLS PIPELINE II = 1
    INR_ITERATION();
    block<T, B> values;
    for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
      values.lane[lane] = detail::element<T>::from_word(memory[i * B + lane]);
    }
    out.write(values);
  }
}

// Stream to memory: N elements in order. Schedule: N / B reads, and an access to memory.
template <class T, int B, int N>
void write(hls::stream<block<T, B>>& in, typename detail::element<T>::word* memory) {
#pragma HLS INLINE off
  static_assert(N % B == 0, "write: the block size does not divide the number of elements");
  INR_READING_LOOP(timing::memory, 1);
  for (int i = 0; i < N / B; ++i) {
#pragma HLS PIPELINE II = 1
    INR_ITERATION();
    const block<T, B> values = in.read();
    for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
      memory[i * B + lane] = detail::element<T>::to_word(values.lane[lane]);
    }
  }
}

// A constant array whose rows repeat: `values` (floats, or raw mantissas of T) Repeat times.
// Schedule: Repeat * Length / B writes, one a cycle.
template <class T, int B, int Repeat, int Length, class Rom>
void constant(const Rom (&values)[Length], hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  static_assert(Length % B == 0, "constant: the block size does not divide the stored length");
#pragma HLS ARRAY_PARTITION variable = values type = cyclic factor = B dim = 1
  INR_WRITING_LOOP(timing::route, 1);
  for (int repeat = 0; repeat < Repeat; ++repeat) {
    for (int i = 0; i < Length / B; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1
      INR_ITERATION();
      block<T, B> row;
      for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
        row.lane[lane] =
            detail::element<T>::from_word(typename detail::element<T>::word(values[i * B + lane]));
      }
      out.write(row);
    }
  }
}

}  // namespace inr

#endif
