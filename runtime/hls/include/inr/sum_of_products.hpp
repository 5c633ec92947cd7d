// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a matrix product: exact with one rounding at the end, in an accumulator of a
// given type (to see what that costs), or in float.
#ifndef INR_SUM_OF_PRODUCTS_HPP
#define INR_SUM_OF_PRODUCTS_HPP

#include "timing.hpp"

namespace inr {

// As accumulator: as wide as an exact sum needs.
struct exact {};

// As bias: none.
struct no_bias {};

namespace detail {

template <class Bias>
struct bias_traits {
  static const int width = element<Bias>::width;
  static const int fraction = element<Bias>::fraction;
};
template <>
struct bias_traits<no_bias> {
  static const int width = 0;
  static const int fraction = -1024;  // shifts nothing
};

// What sums of K products A x Weight plus a bias are held in. `row` is how a buffered operand is
// stored, `sum` an accumulator, `partials` how many of those make one result.
template <class A, class Weight, class Bias, class Accumulator, int K, int LanesK, int RowWidth>
struct sum_of_products {
  static_assert(!element<A>::is_float && !element<Weight>::is_float,
                "matmul: operands and weights are all float or all fixed point");
  static const int product_width = RowWidth + element<Weight>::width;
  static const int fraction = element<A>::fraction + element<Weight>::fraction;
  static const int partials = 1;
  static const bool biased = bias_traits<Bias>::width != 0;
  static const int bias_shift = biased ? fraction - bias_traits<Bias>::fraction : 0;
  static_assert(bias_shift >= 0, "matmul: the bias has more fraction bits than a product");
};

// Exact.
template <class A, class Weight, class Bias, int K, int LanesK, int RowWidth>
struct exact_sum : sum_of_products<A, Weight, Bias, exact, K, LanesK, RowWidth> {
  typedef sum_of_products<A, Weight, Bias, exact, K, LanesK, RowWidth> base;
  static const int width =
      larger(base::product_width + ceil_log2(K), bias_traits<Bias>::width + base::bias_shift) + 1;
  template <int Width>
  struct in {
    typedef typename integer<Width>::type sum;
    template <class Rom>
    static sum start(const Rom& bias) {
#pragma HLS INLINE
      return shift_left<Width, base::bias_shift>(bias);
    }
    template <class Row, class Rom>
    static sum add(const sum& so_far, const Row& a, const Rom& weight) {
#pragma HLS INLINE
      return sum(so_far + multiply<base::product_width>(a, weight));
    }
    template <class To>
    static To finish(const sum (&sums)[1]) {
#pragma HLS INLINE
      return narrow<To, base::fraction, Width>(sums[0]);
    }
  };
};

// Each product rounded into the accumulator's type and added there, one k after the other.
template <class A, class Weight, class Bias, class Accumulator, int K, int LanesK, int RowWidth>
struct narrow_sum : sum_of_products<A, Weight, Bias, Accumulator, K, LanesK, RowWidth> {
  typedef sum_of_products<A, Weight, Bias, Accumulator, K, LanesK, RowWidth> base;
  static const int width = element<Accumulator>::width;
  template <int Width>
  struct in {
    typedef Accumulator sum;
    template <class Rom>
    static sum start(const Rom& bias) {
#pragma HLS INLINE
      return narrow<Accumulator, base::biased ? bias_traits<Bias>::fraction : 0,
                    base::biased ? bias_traits<Bias>::width : 1>(bias);
    }
    template <class Row, class Rom>
    static sum add(const sum& so_far, const Row& a, const Rom& weight) {
#pragma HLS INLINE
      const Accumulator product = narrow<Accumulator, base::fraction, base::product_width>(
          multiply<base::product_width>(a, weight));
      return narrow<Accumulator, element<Accumulator>::fraction, element<Accumulator>::width + 1>(
          inr::add<element<Accumulator>::width + 1>(raw(so_far), raw(product)));
    }
    template <class To>
    static To finish(const sum (&sums)[1]) {
#pragma HLS INLINE
      return conversion<To, Accumulator>::apply(sums[0]);
    }
  };
};

// Float: a partial sum for each lane of k, the bias in the first; added in the order of the lanes.
template <int LanesK>
struct float_sum {
  static const int width = 0;
  static const int partials = LanesK;
  template <int Width>
  struct in {
    typedef float sum;
    static float start(float bias) {
#pragma HLS INLINE
      return bias;
    }
    static float add(float so_far, float a, float weight) {
#pragma HLS INLINE
      return so_far + a * weight;
    }
    template <class To>
    static To finish(const float (&sums)[LanesK]) {
#pragma HLS INLINE
      float total = sums[0];
      for (int i = 1; i < LanesK; ++i) {
#pragma HLS UNROLL
        total += sums[i];
      }
      return total;
    }
  };
};

template <class A, class Weight, class Bias, class Accumulator, int K, int LanesK, int RowWidth>
struct choose_sum {
  typedef narrow_sum<A, Weight, Bias, Accumulator, K, LanesK, RowWidth> type;
};
template <class A, class Weight, class Bias, int K, int LanesK, int RowWidth>
struct choose_sum<A, Weight, Bias, exact, K, LanesK, RowWidth> {
  typedef exact_sum<A, Weight, Bias, K, LanesK, RowWidth> type;
};
template <class Bias, int K, int LanesK, int RowWidth>
struct choose_sum<float, float, Bias, exact, K, LanesK, RowWidth> {
  typedef float_sum<LanesK> type;
};

// Cycles from one iteration of a product to the next (a sum that takes several iterations waits for
// its predecessor), and from the start of one to the writes of the sums that it completes: a load,
// a product, its additions, a rounding. Rounded products are added one after the other; exact ones
// by a tree and an accumulator; in float each partial sum has an adder, and then all are added.
template <class Weight, class Accumulator, int LanesK, int Steps, int RowWidth>
struct sum_timing {
  static const int interval = Steps == 1 ? 1 : LanesK;
  static const int latency =
      1 + timing::product(RowWidth, element<Weight>::width) + (1 + LanesK) + 1;
};
template <class Weight, int LanesK, int Steps, int RowWidth>
struct sum_timing<Weight, exact, LanesK, Steps, RowWidth> {
  static const int interval = 1;
  static const int latency =
      1 + timing::product(RowWidth, element<Weight>::width) + (ceil_log2(LanesK) + 1) + 1;
};
template <int LanesK, int Steps, int RowWidth>
struct sum_timing<float, exact, LanesK, Steps, RowWidth> {
  static const int interval = Steps == 1 ? 1 : timing::float_adder;
  static const int latency = 1 + timing::float_multiplier + LanesK * timing::float_adder;
};

// A row buffer holds floats, or mantissas of the widest operand.
template <bool IsFloat, int Width>
struct row_element {
  typedef typename integer<Width>::type type;
  template <class T>
  static type of(const T& value) {
#pragma HLS INLINE
    return type(raw(value));
  }
};
template <int Width>
struct row_element<true, Width> {
  typedef float type;
  static float of(float value) {
#pragma HLS INLINE
    return value;
  }
};

template <int J, int N, class Rom, int R>
struct bias_shape {
  static const bool fits = R == N;
};
template <int J, int N, class Rom, int Columns, int R>
struct bias_shape<J, N, Rom[Columns], R> {
  static const bool fits = Columns == N && R <= J;
};

// The bias of output n of stream Index: one array for all streams, or a row for each of the first
// so many and none for the others (a value with its derivatives: only the value has one).
template <int Index>
int bias_of(const no_bias&, int) {
#pragma HLS INLINE
  return 0;
}
template <int Index, class Rom, int N>
Rom bias_of(const Rom (&bias)[N], int n) {
#pragma HLS INLINE
  return bias[n];
}
template <int Index, class Rom, int Rows, int N>
Rom bias_of(const Rom (&bias)[Rows][N], int n) {
#pragma HLS INLINE
  return Index < Rows ? bias[Index < Rows ? Index : 0][n] : Rom(0);
}

}  // namespace detail
}  // namespace inr

#endif
