// SPDX-License-Identifier: Apache-2.0
//
// Processes that move elements and compute nothing. Arrays are seen as [Outer, Axis, Inner],
// row-major; B is the number of elements a block. Whole blocks stay whole where the innermost
// extent is a multiple of B. All but `transpose` are flushable pipelines that write a block the
// cycle after they read it.
#ifndef INR_ROUTE_HPP
#define INR_ROUTE_HPP

#include "timing.hpp"

namespace inr {

// Multicast. Schedule: N / B cycles; in each a block is read and written to every output, in the
// order of the arguments.
template <class T, int B, int N, class... Same>
void copy(hls::stream<block<T, B>>& in, hls::stream<Same>&... out) {
#pragma HLS INLINE off
  static_assert(sizeof...(Same) >= 2, "copy: a copy with one output is the stream itself");
  static_assert(N % B == 0, "copy: the block size does not divide the number of elements");
  INR_FLUSHABLE_LOOP(timing::route, 1);
  for (int i = 0; i < N / B; ++i) {
#pragma HLS PIPELINE II = 1 style = flp
    INR_ITERATION();
    const block<T, B> values = in.read();
    const int in_order[] = {(out.write(values), 0)...};
    (void)in_order;
  }
}

// Blocks of Bin elements to blocks of Bout; one size divides the other. Schedule: N / min(Bin,
// Bout) cycles. Growing: a read each, a write after each Bout / Bin. Shrinking: a write each, a
// read before each Bin / Bout.
template <class T, int Bin, int Bout, int N>
void reblock(hls::stream<block<T, Bin>>& in, hls::stream<block<T, Bout>>& out) {
#pragma HLS INLINE off
  static_assert(Bin % Bout == 0 || Bout % Bin == 0, "reblock: one block size divides the other");
  static_assert(N % Bin == 0 && N % Bout == 0,
                "reblock: a block size does not divide the number of elements");
  const int step = Bin < Bout ? Bin : Bout;
  const int parts_in = Bin / step;
  const int parts_out = Bout / step;
  block<T, Bin> from;
  block<T, Bout> to;
  int part = 0;
  INR_FLUSHABLE_LOOP(timing::route, 1);
  for (int i = 0; i < N / step; ++i) {
#pragma HLS PIPELINE II = 1 style = flp
    INR_ITERATION();
    if (parts_in == 1 || part == 0) from = in.read();
    for (int lane = 0; lane < step; ++lane) {
#pragma HLS UNROLL
      to.lane[parts_out == 1 ? lane : part * step + lane] =
          from.lane[parts_in == 1 ? lane : part * step + lane];
    }
    const bool last = part == (parts_in > parts_out ? parts_in : parts_out) - 1;
    if (parts_out == 1 || last) out.write(to);
    part = last ? 0 : part + 1;
  }
}

namespace detail {

// Rows of whole blocks: the first repetition passes through while it is stored.
template <class T, int B, int Outer, int Repeat, int Inner, bool Rows>
struct broadcast_form {
  static void run(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE
    block<T, B> row[Inner / B];
    INR_FLUSHABLE_LOOP(timing::route, 1);
    for (int outer = 0; outer < Outer; ++outer) {
      for (int repeat = 0; repeat < Repeat; ++repeat) {
        for (int i = 0; i < Inner / B; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
          INR_ITERATION();
          if (repeat == 0) row[i] = in.read();
          out.write(row[i]);
        }
      }
    }
  }
};

// Single elements, B of them a block: each fills Repeat / B blocks.
template <class T, int B, int Outer, int Repeat, int Inner>
struct broadcast_form<T, B, Outer, Repeat, Inner, false> {
  static_assert(Inner == 1, "broadcast: the block size does not divide the innermost extent");
  static_assert(Outer % B == 0 && Repeat % B == 0,
                "broadcast: the block size divides neither the row nor both other extents");
  static void run(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE
    block<T, B> elements;
    INR_FLUSHABLE_LOOP(timing::route, 1);
    for (int group = 0; group < Outer / B; ++group) {
      for (int element = 0; element < B; ++element) {
        for (int i = 0; i < Repeat / B; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
          INR_ITERATION();
          if (element == 0 && i == 0) elements = in.read();
          block<T, B> same;
          for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
            same.lane[lane] = elements.lane[element];
          }
          out.write(same);
        }
      }
    }
  }
};

}  // namespace detail

// [Outer, 1, Inner] to [Outer, Repeat, Inner]. Schedule: Outer * Repeat * Inner / B cycles with a
// write each; a row of Inner / B blocks is read during its first repetition. With Inner = 1 and
// B > 1 a block of B elements is read every Repeat writes.
template <class T, int B, int Outer, int Repeat, int Inner>
void broadcast(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  detail::broadcast_form<T, B, Outer, Repeat, Inner, Inner % B == 0>::run(in, out);
}

// Elements Start, Start + Step, ... (Size of them) along Axis. Schedule: a read every cycle, all
// of the input; the wanted blocks are written in the cycle in which they are read.
template <class T, int B, int Outer, int Axis, int Inner, int Start, int Size, int Step>
void slice(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  static_assert(Start >= 0 && Step > 0 && Size > 0 && Start + (Size - 1) * Step < Axis,
                "slice: the range leaves the axis");
  const bool rows = Inner % B == 0;
  static_assert(rows || Step == 1, "slice: a strided slice needs rows of whole blocks");
  static_assert(rows || (Start * Inner % B == 0 && Size * Inner % B == 0 && Axis * Inner % B == 0),
                "slice: the range does not begin and end with a block");
  // Either `chunk` blocks an index of the axis, or the axis counted in blocks.
  const int chunk = rows ? Inner / B : 1;
  const int count = rows ? Axis : Axis * Inner / B;
  const int first = rows ? Start : Start * Inner / B;
  const int wanted = rows ? Size : Size * Inner / B;
  int next = first;
  int left = wanted;
  INR_FLUSHABLE_LOOP(timing::route, 1);
  for (int outer = 0; outer < Outer; ++outer) {
    for (int index = 0; index < count; ++index) {
      for (int i = 0; i < chunk; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
        INR_ITERATION();
        // Set here and not outside, so that the loops can be flattened.
        if (index == 0 && i == 0) {
          next = first;
          left = wanted;
        }
        const block<T, B> values = in.read();
        const bool take = index == next && left > 0;
        if (take) out.write(values);
        if (take && i == chunk - 1) {
          next += Step;
          --left;
        }
      }
    }
  }
}

// Low zeros before and High after the elements along Axis. Schedule: a write every cycle,
// Outer * (Low + Axis + High) * Inner / B of them; a read in those that carry an element.
template <class T, int B, int Outer, int Axis, int Inner, int Low, int High>
void pad(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  static_assert(Low >= 0 && High >= 0, "pad: the padding is not negative");
  static_assert(Low * Inner % B == 0 && Axis * Inner % B == 0 && High * Inner % B == 0,
                "pad: the padding does not begin and end with a block");
  const int low = Low * Inner / B;
  const int size = Axis * Inner / B;
  const int total = low + size + High * Inner / B;
  INR_FLUSHABLE_LOOP(timing::route, 1);
  for (int outer = 0; outer < Outer; ++outer) {
    for (int i = 0; i < total; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
      INR_ITERATION();
      block<T, B> values;
      for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
        values.lane[lane] = T(0);
      }
      if (i >= low && i < low + size) values = in.read();
      out.write(values);
    }
  }
}

namespace detail {

// The sum of the first `count` numbers.
template <int... Numbers>
constexpr int sum_of_first(int count) {
  const int numbers[] = {Numbers...};
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += numbers[i];
  return sum;
}

template <class To, int B, int First, int Count, class From>
void take_in_range(int position, hls::stream<block<From, B>>& in, block<To, B>& values) {
#pragma HLS INLINE
  if (position >= First && position < First + Count) values = convert_block<To, B>(in.read());
}

template <class To, int B, int Outer, class Indices, int... Counts>
struct concat_form;
template <class To, int B, int Outer, std::size_t... Index, int... Counts>
struct concat_form<To, B, Outer, std::index_sequence<Index...>, Counts...> {
  template <class... From>
  static void run(hls::stream<block<To, B>>& out, hls::stream<From>&... in) {
#pragma HLS INLINE
    const int total = sum_of_first<Counts...>(sizeof...(Counts));
    INR_FLUSHABLE_LOOP(timing::route, 1);
    for (int outer = 0; outer < Outer; ++outer) {
      for (int i = 0; i < total; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1 style = flp
        INR_ITERATION();
        block<To, B> values;
        const int in_order[] = {
            (take_in_range<To, B, sum_of_first<Counts...>(int(Index)), Counts>(i, in, values),
             0)...};
        (void)in_order;
        out.write(values);
      }
    }
  }
};

template <int B, int Inner>
constexpr bool whole_blocks() {
  return true;
}
template <int B, int Inner, int First, int... More>
constexpr bool whole_blocks() {
  return First * Inner % B == 0 && whole_blocks<B, Inner, More...>();
}

}  // namespace detail

// Inputs [Outer, Extents_i, Inner] side by side along the axis; each may have its own element
// type. Schedule: a read of one input and a write every cycle; per outer index all of the first
// input, then all of the second, and so on.
template <class To, int B, int Outer, int Inner, int... Extents, class... From>
void concat(hls::stream<block<To, B>>& out, hls::stream<From>&... in) {
#pragma HLS INLINE off
  static_assert(sizeof...(Extents) == sizeof...(From), "concat: one extent an input");
  static_assert(detail::whole_blocks<B, Inner, Extents...>(),
                "concat: the block size does not divide the rows of an input");
  detail::concat_form<To, B, Outer, std::make_index_sequence<sizeof...(Extents)>,
                      (Extents * Inner / B)...>::run(out, in...);
}

namespace detail {

template <class T, int B, int Outer, int A, int C, int Inner, bool Rows>
struct transpose_form {
  static void run(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE
    const int chunk = Inner / B;
    block<T, B> array[A * C * chunk];
    for (int outer = 0; outer < Outer; ++outer) {
      INR_READING_LOOP(timing::route, 1);
      for (int i = 0; i < A * C * chunk; ++i) {
#pragma HLS PIPELINE II = 1
        INR_ITERATION();
        array[i] = in.read();
      }
      INR_WRITING_LOOP(timing::route, 1);
      for (int c = 0; c < C; ++c) {
        for (int a = 0; a < A; ++a) {
          for (int i = 0; i < chunk; ++i) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1
            INR_ITERATION();
            out.write(array[(a * C + c) * chunk + i]);
          }
        }
      }
    }
  }
};

// Blocks do not survive: element by element. Elements that leave together are stored in
// different banks, because the rows are partitioned.
template <class T, int B, int Outer, int A, int C, int Inner>
struct transpose_form<T, B, Outer, A, C, Inner, false> {
  static_assert(Inner == 1, "transpose: the block size does not divide the innermost extent");
  static_assert(A % B == 0 && C % B == 0,
                "transpose: the block size divides neither the innermost extent nor both others");
  static void run(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE
    T array[A][C];
#pragma HLS ARRAY_PARTITION variable = array type = cyclic factor = B dim = 1
#pragma HLS ARRAY_PARTITION variable = array type = cyclic factor = B dim = 2
    for (int outer = 0; outer < Outer; ++outer) {
      INR_READING_LOOP(timing::route, 1);
      for (int a = 0; a < A; ++a) {
        for (int c = 0; c < C; c += B) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1
          INR_ITERATION();
          const block<T, B> values = in.read();
          for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
            array[a][c + lane] = values.lane[lane];
          }
        }
      }
      INR_WRITING_LOOP(timing::route, 1);
      for (int c = 0; c < C; ++c) {
        for (int a = 0; a < A; a += B) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1
          INR_ITERATION();
          block<T, B> values;
          for (int lane = 0; lane < B; ++lane) {
#pragma HLS UNROLL
            values.lane[lane] = array[a + lane][c];
          }
          out.write(values);
        }
      }
    }
  }
};

}  // namespace detail

// [Outer, A, C, Inner] to [Outer, C, A, Inner]. Schedule, per outer index: A * C * Inner / B
// reads, then as many writes, the first 4 cycles after the last read: a block is stored, a loop
// entered, a block loaded.
template <class T, int B, int Outer, int A, int C, int Inner>
void transpose(hls::stream<block<T, B>>& in, hls::stream<block<T, B>>& out) {
#pragma HLS INLINE off
  detail::transpose_form<T, B, Outer, A, C, Inner, Inner % B == 0>::run(in, out);
}

}  // namespace inr

#endif
