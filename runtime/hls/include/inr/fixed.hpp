// SPDX-License-Identifier: Apache-2.0
//
// Fixed-point values and their mantissas (raw integers).
//
// The math kernels and accumulators compute on mantissas. Their integer type is ap_int<W> in
// hardware, exactly as wide as the range of the variable, and a native integer at least as wide
// in simulation; no operation below overflows either, so both compute the same numbers.
#ifndef INR_FIXED_HPP
#define INR_FIXED_HPP

#include <stdint.h>

#include "ap_fixed.h"
#include "ap_int.h"
#include "overflow.hpp"

// Defined in synthesis. A simulation may define it too, to run on the very widths of the hardware
// (some thirty times slower).
#if defined(__SYNTHESIS__) && !defined(INR_EXACT_WIDTHS)
#define INR_EXACT_WIDTHS
#endif

namespace inr {

namespace detail {

template <int Bytes>
struct native;
template <>
struct native<1> {
  typedef int8_t type;
};
template <>
struct native<2> {
  typedef int16_t type;
};
template <>
struct native<4> {
  typedef int32_t type;
};
template <>
struct native<8> {
  typedef int64_t type;
};
#ifndef INR_EXACT_WIDTHS
template <>
struct native<16> {
  __extension__ typedef __int128 type;
};
#endif

}  // namespace detail

// integer<W>::type: a signed integer of at least W bits (1 <= W <= 128 in simulation).
template <int W>
struct integer {
#ifdef INR_EXACT_WIDTHS
  typedef ap_int<W> type;
#else
  static_assert(W >= 1 && W <= 128, "an integer of the simulation has 1 to 128 bits");
  typedef typename detail::native<(W <= 64) ? 8 : 16>::type type;
#endif
};

// rom<W>::type: the element of a table; native in simulation, so that large initialisers compile
// quickly and stay small.
template <int W>
struct rom {
#ifdef INR_EXACT_WIDTHS
  typedef ap_int<W> type;
#else
  static_assert(W >= 1 && W <= 64, "a table entry has 1 to 64 bits");
  typedef typename detail::native<(W <= 8) ? 1 : (W <= 16) ? 2 : (W <= 32) ? 4 : 8>::type type;
#endif
};

// The template arguments of an ap_fixed type.
template <typename T>
struct fixed_traits;
template <int W, int I, ap_q_mode Q, ap_o_mode O, int N>
struct fixed_traits<ap_fixed<W, I, Q, O, N> > {
  static const int width = W;
  static const int integer = I;
  static const int fraction = W - I;
  static const ap_q_mode rounding = Q;
  static const ap_o_mode overflow = O;
};

// The mantissa of a fixed-point value.
template <int W, int I, ap_q_mode Q, ap_o_mode O, int N>
inline typename integer<W>::type raw(const ap_fixed_base<W, I, true, Q, O, N>& x) {
#ifdef INR_EXACT_WIDTHS
#pragma HLS INLINE
  ap_int<W> m;
  m.range(W - 1, 0) = x.range(W - 1, 0);
  return m;
#else
  if (W <= 64) return x.V.to_int64();
  // The upper word is what an arithmetic shift leaves; both words come out of the bits as they are.
  const typename integer<W>::type high = (x.V >> (W <= 64 ? 0 : 64)).to_int64();
  const typename integer<W>::type word = typename integer<W>::type(1) << (W <= 64 ? 0 : 63);
  return high * word * 2 + x.V.to_uint64();
#endif
}

// The fixed-point value of a mantissa, which must fit the type.
template <typename T, typename M>
inline T from_raw(const M& mantissa) {
  T x;
#ifdef INR_EXACT_WIDTHS
#pragma HLS INLINE
  x.range(T::width - 1, 0) = ap_int<T::width>(mantissa).range(T::width - 1, 0);
#else
  if (T::width <= 64) {
    x.V = static_cast<int64_t>(mantissa);
  } else {
    ap_int<T::width> words = static_cast<int64_t>(mantissa >> (T::width <= 64 ? 0 : 32));
    words <<= (T::width <= 64 ? 0 : 32);
    words += static_cast<int64_t>(mantissa & 0xffffffffLL);
    x.V = words.V;
  }
#endif
  return x;
}

// Exact arithmetic with a result of W bits. The operands keep their own widths in hardware, so a
// product takes a multiplier of their size and not of the result's.
#ifdef INR_EXACT_WIDTHS
#define INR_EXACT(W, A, OP, B) (typename ::inr::integer<W>::type((A)OP(B)))
#else
#define INR_EXACT(W, A, OP, B) (typename ::inr::integer<W>::type(A) OP(B))
#endif

template <int W, typename A, typename B>
inline typename integer<W>::type add(const A& a, const B& b) {
#pragma HLS INLINE
  return INR_EXACT(W, a, +, b);
}
template <int W, typename A, typename B>
inline typename integer<W>::type subtract(const A& a, const B& b) {
#pragma HLS INLINE
  return INR_EXACT(W, a, -, b);
}
template <int W, typename A, typename B>
inline typename integer<W>::type multiply(const A& a, const B& b) {
#pragma HLS INLINE
  return INR_EXACT(W, a, *, b);
}
#undef INR_EXACT

// a * 2**S in W bits.
template <int W, int S, typename A>
inline typename integer<W>::type shift_left(const A& a) {
#pragma HLS INLINE
#ifdef INR_EXACT_WIDTHS
  return typename integer<W>::type(a) << S;
#else
  // A multiplication, because shifting a negative number to the left is undefined in C++14.
  return typename integer<W>::type(a) * (typename integer<W>::type(1) << S);
#endif
}

// The N lowest bits of a, not negative.
template <int N, typename A>
inline typename integer<N + 1>::type low_bits(const A& a) {
#pragma HLS INLINE
#ifdef INR_EXACT_WIDTHS
  return ap_uint<N>(a);
#else
  return typename integer<N + 1>::type(a) & ((typename integer<N + 1>::type(1) << N) - 1);
#endif
}

template <int W, typename A, typename B>
inline typename integer<W>::type select(bool condition, const A& a, const B& b) {
#pragma HLS INLINE
  return condition ? typename integer<W>::type(a) : typename integer<W>::type(b);
}

// The nearest number to a in [low, high].
template <int W, typename A>
inline typename integer<W>::type clamp(const A& a, long long low, long long high) {
#pragma HLS INLINE
  if (a < low) return typename integer<W>::type(low);
  if (a > high) return typename integer<W>::type(high);
  return typename integer<W>::type(a);
}

// The same at the end of a kernel, where it is an overflow of the result.
template <int W, typename A>
inline typename integer<W>::type saturate(const A& a, long long low, long long high) {
#pragma HLS INLINE
  if (a < low || a > high) sim::overflow();
  return clamp<W>(a, low, high);
}

// The operand of a shift by a variable amount in [0, 63].
template <typename A>
#ifdef INR_EXACT_WIDTHS
inline ap_uint<6> shift_amount(const A& a) {
#pragma HLS INLINE
  return ap_uint<6>(a);
}
#else
inline int shift_amount(const A& a) {
  return static_cast<int>(a);
}
#endif

#ifndef INR_EXACT_WIDTHS
namespace detail {

// A saturation is counted; a type that wraps is meant to.
template <typename To, typename M>
inline To saturated(const M& mantissa, bool overflows, int64_t low, int64_t high) {
  if (!overflows) return from_raw<To>(static_cast<int64_t>(mantissa));
  sim::overflow();
  return from_raw<To>(mantissa < 0 ? low : high);
}

// The conversion of a mantissa of W bits that loses Drop fraction bits (Drop > 0).
template <typename To, int W, int Drop>
struct rescaler {
  typedef fixed_traits<To> to;
  typedef typename integer<W>::type wide;
  static To apply(const wide& m) {
    const bool round = to::rounding == AP_RND;
    // Floor, then the half: adding the half first could overflow. Past the sign nothing is left,
    // and half of the last place is the most that rounds up.
    wide result = m >> (Drop < W ? Drop : W - 1);
    if (round) result += (Drop > W) ? -result : (m >> (Drop - 1 < W ? Drop - 1 : W - 1)) & 1;
    const int bits = to::width < W ? to::width : W;
    const wide high = static_cast<wide>((wide(1) << (bits - 1)) - 1);
    const bool overflows = to::overflow == AP_SAT && (result > high || result < -high - 1);
    return saturated<To>(result, overflows, static_cast<int64_t>(-high - 1),
                         static_cast<int64_t>(high));
  }
};

// The conversion that gains fraction bits, or none: the ends are compared before the shift.
template <typename To, int W, int Drop, bool Gain>
struct extender {
  typedef fixed_traits<To> to;
  typedef typename integer<W>::type wide;
  static To apply(const wide& m) {
    const int left = -Drop;
    const int64_t high = static_cast<int64_t>((uint64_t(1) << (to::width - 1)) - 1);
    const int64_t most = left < 63 ? high >> (left < 63 ? left : 0) : 0;
    const int64_t least = left < to::width ? -(most + 1) : 0;
    const bool overflows = to::overflow == AP_SAT && (m > most || m < least);
    const uint64_t shifted =
        left < 64 ? static_cast<uint64_t>(static_cast<int64_t>(m)) << (left < 64 ? left : 0) : 0;
    if (overflows) return saturated<To>(m, true, -high - 1, high);
    return from_raw<To>(static_cast<int64_t>(shifted));
  }
};
template <typename To, int W, int Drop>
struct extender<To, W, Drop, false> : rescaler<To, W, Drop> {};

}  // namespace detail
#endif

// narrow<To, F, W>(m): the mantissa m, of W bits with F fraction bits, as a To: rounded and
// saturated or wrapped as the type says. In simulation a saturation is counted.
template <typename To, int F, int W, typename M>
inline To narrow(const M& mantissa) {
#ifdef INR_EXACT_WIDTHS
#pragma HLS INLINE
  const ap_fixed<W, W - F> wide = from_raw<ap_fixed<W, W - F> >(mantissa);
  return To(wide);
#else
  typedef fixed_traits<To> to;
  static_assert(to::width <= 64, "a stream element has at most 64 bits");
  static_assert(to::rounding == AP_RND || to::rounding == AP_TRN, "AP_RND or AP_TRN");
  static_assert(to::overflow == AP_SAT || to::overflow == AP_WRAP, "AP_SAT or AP_WRAP");
  const int drop = F - to::fraction;
  return detail::extender<To, W, drop, (drop <= 0)>::apply(mantissa);
#endif
}

namespace detail {

template <typename To, bool Native>
struct narrower {
  template <int W, int I, ap_q_mode Q, ap_o_mode O, int N>
  static To apply(const ap_fixed_base<W, I, true, Q, O, N>& x) {
#pragma HLS INLINE
    return narrow<To, W - I, W>(raw(x));
  }
};
// Wider than any native integer: the vendor's conversion, and the same without overflow beside it.
template <typename To>
struct narrower<To, false> {
  template <int W, int I, ap_q_mode Q, ap_o_mode O, int N>
  static To apply(const ap_fixed_base<W, I, true, Q, O, N>& x) {
#pragma HLS INLINE
    const To result = x;
#ifndef INR_EXACT_WIDTHS
    typedef fixed_traits<To> to;
    const int whole = (I > to::integer ? I : to::integer) + 2;
    const ap_fixed<whole + to::fraction, whole, to::rounding, AP_WRAP> unlimited = x;
    if (to::overflow == AP_SAT && unlimited != result) sim::overflow();
#endif
    return result;
  }
};

}  // namespace detail

// narrow<To>(x): the same for a fixed-point value of any width.
template <typename To, int W, int I, ap_q_mode Q, ap_o_mode O, int N>
inline To narrow(const ap_fixed_base<W, I, true, Q, O, N>& x) {
#pragma HLS INLINE
#ifdef INR_EXACT_WIDTHS
  return To(x);
#else
  return detail::narrower<To, (W <= 128)>::apply(x);
#endif
}

}  // namespace inr

#endif
