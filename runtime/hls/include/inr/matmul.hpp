// SPDX-License-Identifier: Apache-2.0
//
// Matrix products. An activation [M, K] streams by rows; the other operand is resident.
#ifndef INR_MATMUL_HPP
#define INR_MATMUL_HPP

#include "dataflow.hpp"
#include "stream.hpp"
#include "sum_of_products.hpp"
#include "timing.hpp"

namespace inr {
namespace detail {

template <class... Types>
struct list {};

// The first Count types of a list in `first`, the others in `rest`.
template <int Count, class First, class Rest>
struct split {
  typedef First first;
  typedef Rest rest;
};
template <int Count, class... First, class Next, class... Rest>
struct split<Count, list<First...>, list<Next, Rest...>> {
  typedef split<Count - 1, list<First..., Next>, list<Rest...>> following;
  typedef typename following::first first;
  typedef typename following::rest rest;
};
template <class... First, class Next, class... Rest>
struct split<0, list<First...>, list<Next, Rest...>> {
  typedef list<First...> first;
  typedef list<Next, Rest...> rest;
};

// The sizes of a product, for short.
template <int M_, int K_, int N_, int Bin_, int Bout_, int LanesK_, int LanesN_>
struct product_shape {
  static const int M = M_, K = K_, N = N_, Bin = Bin_, Bout = Bout_;
  static const int LanesK = LanesK_, LanesN = LanesN_;
  static_assert(K % Bin == 0, "matmul: the input's block size does not divide K");
  static_assert(N % Bout == 0, "matmul: the output's block size does not divide N");
  static_assert(K % LanesK == 0, "matmul: the lanes along K do not divide K");
  static_assert(N % LanesN == 0, "matmul: the lanes along N do not divide N");
  static_assert(LanesN % Bout == 0 || Bout % LanesN == 0,
                "matmul: of the lanes along N and the output's block size, one divides the other");
  // Results leave in groups of `held`, a block a cycle while the next group is computed.
  static const int held = larger(LanesN, Bout);
  static const int steps = K / LanesK;
  static const int blocks_held = held / Bout;
  static_assert(blocks_held <= steps * (held / LanesN),
                "matmul: more output blocks at once than cycles to write them; fewer lanes along "
                "N, more along N in a block, or fewer lanes along K");
};

template <class Shape, class Weight, class Bias, class Accumulator, class Indices, class In,
          class Out>
struct matmul_process;

template <class Shape, class Weight, class Bias, class Accumulator, std::size_t... Index,
          class... In, class... Out>
struct matmul_process<Shape, Weight, Bias, Accumulator, std::index_sequence<Index...>, list<In...>,
                      list<Out...>> {
  static const int J = sizeof...(In);
  static const int K = Shape::K, N = Shape::N, Bin = Shape::Bin, Bout = Shape::Bout;
  static const int LanesK = Shape::LanesK, LanesN = Shape::LanesN;
  static const int row_width =
      largest(element<typename block_traits<In>::element>::width...);
  typedef row_element<element<Weight>::is_float, row_width> rows;
  typedef typename rows::type row_type;

  template <class Block>
  struct arithmetic_of {
    typedef typename choose_sum<typename block_traits<Block>::element, Weight, Bias, Accumulator,
                                K, LanesK, row_width>::type type;
  };
  static const int sum_width = largest(arithmetic_of<In>::type::width...);
  template <class Block>
  struct sums_of {
    typedef typename arithmetic_of<Block>::type::template in<sum_width> type;
  };
  typedef typename split<1, list<>, list<In...>>::first only_first;
  template <class List>
  struct head;
  template <class Head>
  struct head<list<Head>> {
    typedef typename sums_of<Head>::type::sum sum;
    static const int partials = arithmetic_of<Head>::type::partials;
  };
  typedef typename head<only_first>::sum sum_type;
  static const int partials = head<only_first>::partials;
  typedef sum_timing<Weight, Accumulator, LanesK, Shape::steps, row_width> timing_of_sum;
  static const int latency = timing_of_sum::latency;
  static const int interval = timing_of_sum::interval;

  template <class Block>
  static void load_block(hls::stream<Block>& in, row_type (&row)[K], int k) {
#pragma HLS INLINE
    static_assert(block_traits<Block>::size == Bin, "matmul: an input's block size is not Bin");
    const Block values = in.read();
    for (int lane = 0; lane < Bin; ++lane) {
#pragma HLS UNROLL
      row[k + lane] = rows::of(values.lane[lane]);
    }
  }

  // A row of each input.
  static void load(row_type (&row)[J][K], hls::stream<In>&... in) {
#pragma HLS INLINE off
    INR_READING_LOOP(timing::route, 1);
    for (int k = 0; k < K; k += Bin) {
#pragma HLS PIPELINE II = 1
      INR_ITERATION();
      const int in_order[] = {(load_block(in, row[Index], k), 0)...};
      (void)in_order;
    }
  }

  // LanesK x LanesN products of one stream.
  template <std::size_t I, class Sums, class Rom, class BiasRom>
  static void accumulate(sum_type (&sums)[LanesN][partials], const row_type (&row)[K],
                         const Rom (&weights)[K][N], const BiasRom& bias, int k, int n) {
#pragma HLS INLINE
    for (int lane = 0; lane < LanesN; ++lane) {
#pragma HLS UNROLL
      for (int part = 0; part < partials; ++part) {
#pragma HLS UNROLL
        sum_type sum = sums[lane][part];
        if (k == 0 && part == 0) sum = Sums::start(bias_of<int(I)>(bias, n + lane));
        if (k == 0 && part != 0) sum = sum_type(0);
        for (int i = part; i < LanesK; i += partials) {
#pragma HLS UNROLL
          sum = Sums::add(sum, row[k + i], weights[k + i][n + lane]);
        }
        sums[lane][part] = sum;
      }
    }
  }

  template <class Sums, class Block>
  static void emit(const sum_type (&done)[Shape::held][partials], int first,
                   hls::stream<Block>& out) {
#pragma HLS INLINE
    static_assert(block_traits<Block>::size == Bout, "matmul: an output's block size is not Bout");
    Block values;
    for (int lane = 0; lane < Bout; ++lane) {
#pragma HLS UNROLL
      values.lane[lane] =
          Sums::template finish<typename block_traits<Block>::element>(done[first + lane]);
    }
    out.write(values);
  }

  static void keep(sum_type (&done)[Shape::held][partials],
                   const sum_type (&sums)[LanesN][partials], int first) {
#pragma HLS INLINE
    for (int lane = 0; lane < LanesN; ++lane) {
#pragma HLS UNROLL
      for (int part = 0; part < partials; ++part) {
#pragma HLS UNROLL
        done[first + lane][part] = sums[lane][part];
      }
    }
  }

  // The outputs of a row.
  template <class Rom, class BiasRom>
  static void compute(const row_type (&row)[J][K], const Rom (&weights)[K][N], const BiasRom& bias,
                      hls::stream<Out>&... out) {
#pragma HLS INLINE off
    sum_type sums[J][LanesN][partials];
    sum_type done[J][Shape::held][partials];
#pragma HLS ARRAY_PARTITION variable = sums type = complete dim = 0
#pragma HLS ARRAY_PARTITION variable = done type = complete dim = 0
    int k = 0;
    int n = 0;
    int filled = 0;                    // sums in `done` that wait for the rest of their group
    int to_emit = Shape::blocks_held;  // the next block of `done` to write
    const int cycles = N / LanesN * Shape::steps + Shape::blocks_held - 1;
    INR_WRITING_LOOP(latency, interval);
    for (int cycle = 0; cycle < cycles; ++cycle) {
#pragma HLS PIPELINE II = 1
      INR_ITERATION();
      if (n < N) {
        const int all[] = {(accumulate<Index, typename sums_of<In>::type>(
                                sums[Index], row[Index], weights, bias, k, n),
                            0)...};
        (void)all;
        k += LanesK;
        if (k == K) {
          const int kept[] = {(keep(done[Index], sums[Index], filled), 0)...};
          (void)kept;
          k = 0;
          n += LanesN;
          filled += LanesN;
          if (filled == Shape::held) {
            filled = 0;
            to_emit = 0;
          }
        }
      }
      if (to_emit < Shape::blocks_held) {
        const int side_by_side[] = {
            (emit<typename sums_of<In>::type>(done[Index], to_emit * Bout, out), 0)...};
        (void)side_by_side;
        ++to_emit;
      }
    }
  }

#ifdef INR_SIM
  // What the hardware does with its two row buffers: `load` fills one as soon as `compute` has
  // left it. `claimed` has a token for each buffer from before a row is loaded until after it was
  // used, `filled` one from after it was loaded until before it is used.
  static void load_rows(row_type (&row)[2][J][K], hls::stream<char>& claimed,
                        hls::stream<char>& filled, hls::stream<In>&... in) {
    for (int m = 0; m < Shape::M; ++m) {
      claimed.write(0);
      load(row[m % 2], in...);
      sim::leave_loop();
      filled.write(0);
    }
  }
  template <class Rom, class BiasRom>
  static void compute_rows(const row_type (&row)[2][J][K], hls::stream<char>& claimed,
                           hls::stream<char>& filled, const Rom (&weights)[K][N],
                           const BiasRom& bias, hls::stream<Out>&... out) {
    for (int m = 0; m < Shape::M; ++m) {
      filled.read();
      compute(row[m % 2], weights, bias, out...);
      sim::leave_loop();
      claimed.read();
    }
  }
  template <class Rom, class BiasRom>
  static void run(const Rom (&weights)[K][N], const BiasRom& bias, hls::stream<In>&... in,
                  hls::stream<Out>&... out) {
    row_type row[2][J][K];
    hls::stream<char, 2> claimed("row buffers"), filled("filled row buffers");
    claimed.make_internal();
    filled.make_internal();
    INR_REGION("matmul");
    INR_PROCESS("load", load_rows(row, claimed, filled, in...));
    INR_PROCESS("compute", compute_rows(row, claimed, filled, weights, bias, out...));
  }
#else
  template <class Rom, class BiasRom>
  static void one_row(const Rom (&weights)[K][N], const BiasRom& bias, hls::stream<In>&... in,
                      hls::stream<Out>&... out) {
#pragma HLS INLINE off
#pragma HLS DATAFLOW
    row_type row[J][K];
#pragma HLS ARRAY_PARTITION variable = row type = complete dim = 1
#pragma HLS ARRAY_PARTITION variable = row type = cyclic factor = LanesK dim = 2
    load(row, in...);
    compute(row, weights, bias, out...);
  }
  template <class Rom, class BiasRom>
  static void run(const Rom (&weights)[K][N], const BiasRom& bias, hls::stream<In>&... in,
                  hls::stream<Out>&... out) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable = weights type = cyclic factor = LanesK dim = 1
#pragma HLS ARRAY_PARTITION variable = weights type = cyclic factor = LanesN dim = 2
    for (int m = 0; m < Shape::M; ++m) {
      one_row(weights, bias, in..., out...);
    }
  }
#endif
};

template <int J, class Shape, class Weight, class Bias, class Accumulator, class... Blocks>
struct matmul_of {
  static_assert(sizeof...(Blocks) == 2 * J, "matmul: J inputs, then J outputs");
  typedef split<J, list<>, list<Blocks...>> ports;
  typedef matmul_process<Shape, Weight, Bias, Accumulator, std::make_index_sequence<J>,
                         typename ports::first, typename ports::rest>
      type;
};

}  // namespace detail

// J activations [M, K] by one constant weight [K, N], each to its own [M, N].
//
// `weights` has the mantissas of the type Weight (or floats); `bias`, where there is one, those of
// Bias: Rom[N] for all of the J outputs, or Rom[R][N] for the first R of them. The streams are
// the J inputs (blocks of Bin) and then the J outputs (blocks of Bout); in fixed point each has
// its own format. The arithmetic is exact with one rounding to the output's type, unless
// Accumulator names an ap_fixed type: then each product is rounded to it and added with its
// overflow mode, in the order of k, beginning with the bias. In float LanesK partial sums, added at
// the end in the order of the lanes.
//
// Schedule, per row: `load` reads a block of each input a cycle, K / Bin cycles; `compute` takes
// N / LanesN * K / LanesK iterations. A block of each output leaves side by side when its last sum
// is complete (of several blocks that complete together, one an iteration, overlapped with the
// following sums; after a row's last that is LanesN / Bout - 1 more iterations). Two row buffers:
// `load` of the next row goes on during `compute`. Each row begins with a cycle that waits for its
// buffer and one that enters the loop, and ends with one that hands the buffer over. `sum_timing`
// says how often an iteration starts and how long it takes to its writes.
template <int J, int M, int K, int N, int Bin, int Bout, int LanesK, int LanesN, class Weight,
          class Bias, class Accumulator = exact, class Rom, class BiasRom, int R, class... Blocks>
void matmul(const Rom (&weights)[K][N], const BiasRom (&bias)[R],
            hls::stream<Blocks>&... in_then_out) {
#pragma HLS INLINE off
  static_assert(detail::bias_shape<J, N, BiasRom, R>::fits,
                "matmul: the bias is Rom[N] for all outputs, or Rom[R][N] for the first R of J");
  detail::matmul_of<J, detail::product_shape<M, K, N, Bin, Bout, LanesK, LanesN>, Weight, Bias,
                    Accumulator, Blocks...>::type::run(weights, bias, in_then_out...);
}

template <int J, int M, int K, int N, int Bin, int Bout, int LanesK, int LanesN, class Weight,
          class Accumulator = exact, class Rom, class... Blocks>
void matmul(const Rom (&weights)[K][N], hls::stream<Blocks>&... in_then_out) {
#pragma HLS INLINE off
  detail::matmul_of<J, detail::product_shape<M, K, N, Bin, Bout, LanesK, LanesN>, Weight, no_bias,
                    Accumulator, Blocks...>::type::run(weights, no_bias(), in_then_out...);
}

// An activation [M, K] by another [K, N]. Fixed point: exact, one rounding. Schedule: all of `b`,
// a block a cycle (K * N / Bb); then as `matmul` with J = 1.
template <int M, int K, int N, int Ba, int Bb, int Bout, int LanesK, int LanesN,
          class Accumulator = exact, class A, class B, class To>
void matmul_dynamic(hls::stream<block<A, Ba>>& a, hls::stream<block<B, Bb>>& b,
                    hls::stream<block<To, Bout>>& out) {
#pragma HLS INLINE off
  static_assert(N % Bb == 0, "matmul_dynamic: the block size of b does not divide N");
  typedef detail::row_element<detail::element<B>::is_float, detail::element<B>::width> resident;
  typename resident::type weights[K][N];
  INR_READING_LOOP(timing::route, 1);
  for (int k = 0; k < K; ++k) {
    for (int n = 0; n < N; n += Bb) {
#pragma HLS LOOP_FLATTEN
#pragma HLS PIPELINE II = 1
      INR_ITERATION();
      const block<B, Bb> values = b.read();
      for (int lane = 0; lane < Bb; ++lane) {
#pragma HLS UNROLL
        weights[k][n + lane] = resident::of(values.lane[lane]);
      }
    }
  }
  detail::matmul_of<1, detail::product_shape<M, K, N, Ba, Bout, LanesK, LanesN>, B, no_bias,
                    Accumulator, block<A, Ba>, block<To, Bout>>::type::run(weights, no_bias(), a,
                                                                           out);
}

}  // namespace inr

#endif
