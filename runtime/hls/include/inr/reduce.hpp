// SPDX-License-Identifier: Apache-2.0
#ifndef INR_REDUCE_HPP
#define INR_REDUCE_HPP

#include "timing.hpp"

namespace inr {
namespace detail {

// A sum of Terms values of T: exact with one rounding at the end for fixed point, in float else.
// `adder` and `block_adder` are the cycles until a sum to which one value, or a block, was added
// can be added to again; `of_rows` and `of_blocks` those from reading a block to writing a sum.
template <class T, int Terms, int Bin>
struct accumulator {
  static const int adder = 1;
  static const int block_adder = 1;
  static const int of_rows = 3;
  static const int of_blocks = 3 + ceil_log2(Bin);
  static const int width = element<T>::width + ceil_log2(Terms);
  typedef typename integer<width>::type type;
  static type start(const T& value) {
#pragma HLS INLINE
    return type(raw(value));
  }
  static type add(const type& sum, const T& value) {
#pragma HLS INLINE
    return type(sum + type(raw(value)));
  }
  template <class To>
  static To finish(const type& sum) {
#pragma HLS INLINE
    return narrow<To, element<T>::fraction, width>(sum);
  }
};

template <int Terms, int Bin>
struct accumulator<float, Terms, Bin> {
  static const int adder = timing::float_adder;
  static const int block_adder = Bin * timing::float_adder;
  static const int of_rows = 1 + adder;
  static const int of_blocks = 1 + block_adder;
  typedef float type;
  static float start(float value) {
#pragma HLS INLINE
    return value;
  }
  static float add(float sum, float value) {
#pragma HLS INLINE
    return sum + value;
  }
  template <class To>
  static To finish(float sum) {
#pragma HLS INLINE
    return sum;
  }
};

// Along an axis that is not the last: a row of sums.
template <class To, class T, int Bin, int Bout, int Outer, int Axis, int Inner, bool Last>
struct reduce_form {
  static_assert(Inner % Bin == 0 && Bin == Bout,
                "reduce_sum: along an inner axis, blocks stay as they are and divide the row");
  typedef accumulator<T, Axis, Bin> sums;
  static void run(hls::stream<block<T, Bin>>& in, hls::stream<block<To, Bout>>& out) {
#pragma HLS INLINE
    typename sums::type row[Inner];
#pragma HLS ARRAY_PARTITION variable = row type = cyclic factor = Bin dim = 1
    INR_FLUSHABLE_LOOP(sums::of_rows, timing::ceil_divide(sums::adder, Inner / Bin));
    for (int outer = 0; outer < Outer; ++outer) {
      for (int a = 0; a < Axis; ++a) {
        for (int i = 0; i < Inner; i += Bin) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
          INR_ITERATION();
          const block<T, Bin> values = in.read();
          block<To, Bout> totals;
          for (int lane = 0; lane < Bin; ++lane) {
#pragma HLS UNROLL
            const typename sums::type sum = a == 0 ? sums::start(values.lane[lane])
                                                   : sums::add(row[i + lane], values.lane[lane]);
            row[i + lane] = sum;
            if (a == Axis - 1) totals.lane[lane] = sums::template finish<To>(sum);
          }
          if (a == Axis - 1) out.write(totals);
        }
      }
    }
  }
};

// Along the last axis: one sum.
template <class To, class T, int Bin, int Bout, int Outer, int Axis, int Inner>
struct reduce_form<To, T, Bin, Bout, Outer, Axis, Inner, true> {
  static_assert(Axis % Bin == 0, "reduce_sum: the input's block size does not divide the axis");
  static_assert(Outer % Bout == 0,
                "reduce_sum: the output's block size does not divide the outer extent");
  typedef accumulator<T, Axis, Bin> sums;
  static void run(hls::stream<block<T, Bin>>& in, hls::stream<block<To, Bout>>& out) {
#pragma HLS INLINE
    typename sums::type sum;
    block<To, Bout> totals;
    INR_FLUSHABLE_LOOP(sums::of_blocks, sums::block_adder);
    for (int group = 0; group < Outer / Bout; ++group) {
      for (int element = 0; element < Bout; ++element) {
        for (int a = 0; a < Axis; a += Bin) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
          INR_ITERATION();
          const block<T, Bin> values = in.read();
          for (int lane = 0; lane < Bin; ++lane) {
#pragma HLS UNROLL
            sum = a == 0 && lane == 0 ? sums::start(values.lane[0])
                                      : sums::add(sum, values.lane[lane]);
          }
          const bool complete = a + Bin == Axis;
          if (complete) totals.lane[element] = sums::template finish<To>(sum);
          if (complete && element == Bout - 1) out.write(totals);
        }
      }
    }
  }
};

}  // namespace detail

// [Outer, Axis, Inner] to [Outer, Inner]. Fixed point: the exact sum, rounded once to To. Float:
// added in the order of the elements.
// Schedule: Outer * Axis * Inner / Bin iterations with a read each. Inner > 1: the sums leave with
// the last index of the axis, block by block. Inner = 1: a sum is complete every Axis / Bin
// iterations and a block leaves with every Bout-th. An iteration starts every cycle; in float when
// the adder has the sum that it adds to, after 7 Bin cycles for Inner = 1, else 7 Bin / Inner. A
// flushable pipeline: 3 cycles from a read to a write (Inner = 1: ceil(log2(Bin)) more), in float
// one more than its adders take.
template <class To, class T, int Bin, int Bout, int Outer, int Axis, int Inner>
void reduce_sum(hls::stream<block<T, Bin>>& in, hls::stream<block<To, Bout>>& out) {
#pragma HLS INLINE off
  detail::reduce_form<To, T, Bin, Bout, Outer, Axis, Inner, Inner == 1>::run(in, out);
}

}  // namespace inr

#endif
