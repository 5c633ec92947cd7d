// SPDX-License-Identifier: Apache-2.0
//
// What travels through an array stream: blocks of consecutive elements of a row-major array, each
// element a float or an ap_fixed.
#ifndef INR_STREAM_HPP
#define INR_STREAM_HPP

#include <ap_fixed.h>
#include <ap_int.h>
#include <hls_stream.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "fixed.hpp"

namespace inr {

// B consecutive elements, the first in lane 0.
template <class T, int B>
struct block {
  static_assert(B > 0, "a block holds at least one element");
  T lane[B];
};

namespace detail {

constexpr int ceil_log2(long long n) { return n <= 1 ? 0 : 1 + ceil_log2((n + 1) / 2); }

constexpr int larger(int a, int b) { return a > b ? a : b; }

// The largest of some numbers, at least 0.
constexpr int largest() { return 0; }
template <class... More>
constexpr int largest(int first, More... more) {
  return larger(first, largest(more...));
}

template <class T>
struct block_traits;
template <class T, int B>
struct block_traits<block<T, B>> {
  typedef T element;
  static const int size = B;
};

// A mantissa in memory: the next larger integer.
template <bool Narrow>
struct mantissa_word {
  typedef std::int64_t type;
};
template <>
struct mantissa_word<true> {
  typedef std::int32_t type;
};

// What kernels know of an element type, with the word of an external memory that holds one.
template <class T>
struct element;

template <>
struct element<float> {
  static const bool is_float = true;
  static const int width = 32;
  static const int fraction = 0;
  typedef float word;
  static float from_word(float value) {
#pragma HLS INLINE
    return value;
  }
  static float to_word(float value) {
#pragma HLS INLINE
    return value;
  }
};

template <int W, int I, ap_q_mode Q, ap_o_mode O, int S>
struct element<ap_fixed<W, I, Q, O, S>> {
  static_assert(W <= 64, "a stream element has at most 64 bits");
  static const bool is_float = false;
  static const int width = W;
  static const int fraction = W - I;
  typedef typename mantissa_word<(W <= 32)>::type word;
  static ap_fixed<W, I, Q, O, S> from_word(word mantissa) {
#pragma HLS INLINE
    return from_raw<ap_fixed<W, I, Q, O, S>>(mantissa);
  }
  static word to_word(const ap_fixed<W, I, Q, O, S>& value) {
#pragma HLS INLINE
    return word(raw(value));
  }
};

// One element as another type: nothing where they are the same, else one rounding.
template <class To, class From>
struct conversion {
  static To apply(const From& value) {
#pragma HLS INLINE
    return narrow<To>(value);
  }
};
template <class T>
struct conversion<T, T> {
  static T apply(const T& value) {
#pragma HLS INLINE
    return value;
  }
};

template <class To, int B, class From>
block<To, B> convert_block(const block<From, B>& from) {
#pragma HLS INLINE
  block<To, B> to;
  for (int i = 0; i < B; ++i) {
#pragma HLS UNROLL
    to.lane[i] = conversion<To, From>::apply(from.lane[i]);
  }
  return to;
}

}  // namespace detail
}  // namespace inr

#endif
