// SPDX-License-Identifier: Apache-2.0
//
// Math functions of the generated designs.
//
// On fixed-point numbers a design defines its own kernels (integer code generated for its formats,
// on the operations of inr/fixed.hpp). Here are the functions on float: the sine and cosine are
// ours, because range reduction decides their accuracy; the others are those of <cmath>, for
// which the vendor's tools have floating-point cores.
#ifndef INR_MATH_HPP
#define INR_MATH_HPP

#include <cmath>

#include "fixed.hpp"

namespace inr {

// s = sin(pi/2 p), c = cos(pi/2 p), to 2 ulp; NaN for infinities and NaN.
inline void sincos_quarter(float p, float& s, float& c) {
#pragma HLS INLINE
  int quadrant = 0;
  float r = 0.0f;
  if (p > -8388608.0f && p < 8388608.0f) {
    // r is p less the nearest whole number, exactly, in [-0.5, 0.5]. Not 0.5 but the float below
    // it, because the sum of 0.5 and that float would be rounded up to 1.
    const float nearly_half = 0.49999997f;
    const int whole = static_cast<int>(p < 0.0f ? p - nearly_half : p + nearly_half);
    r = p - static_cast<float>(whole);
    quadrant = whole & 3;
  } else if (p > -67108864.0f && p < 67108864.0f) {
    // From 2**23 on a float is a whole number, and from 2**26 on a whole number of turns.
    quadrant = static_cast<int>(p) & 3;
  } else {
    r = p - p;
  }
  // Polynomials in r**2, fitted on [0, 1/4]; the leading coefficient of the sine in two parts.
  const float q = r * r;
  const float tail =
      -6.4596409e-1f + q * (7.9692610e-2f + q * (-4.6814750e-3f + q * 1.5865151e-4f));
  const float sine = r * 1.5707964f + r * (q * tail - 4.3711388e-8f);
  const float even =
      -1.2337005f + q * (2.5366940e-1f + q * (-2.0861529e-2f + q * 9.0673990e-4f));
  const float cosine = 1.0f + q * even;
  const bool odd = (quadrant & 1) != 0;
  const float first = odd ? cosine : sine;
  const float second = odd ? sine : cosine;
  s = (quadrant & 2) != 0 ? -first : first;
  c = ((quadrant + 1) & 2) != 0 ? -second : second;
}

inline float exp(float x) { return std::exp(x); }
inline float log(float x) { return std::log(x); }
inline float log1p(float x) { return std::log1p(x); }
inline float tanh(float x) { return std::tanh(x); }
inline float erf(float x) { return std::erf(x); }
inline float sqrt(float x) { return std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float reciprocal(float x) { return 1.0f / x; }

// Through the exponential of a number that is not positive, so that nothing overflows.
inline float sigmoid(float x) {
  const float e = std::exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
inline float softplus(float x) {
  return (x > 0.0f ? x : 0.0f) + std::log1p(std::exp(-std::fabs(x)));
}

}  // namespace inr

#endif
