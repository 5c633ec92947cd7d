// SPDX-License-Identifier: Apache-2.0
//
// Overflows of a simulation are counted; synthesised code and simulations without the
// runtime (INR_SIM not defined) count nothing.
#ifndef INR_OVERFLOW_HPP
#define INR_OVERFLOW_HPP

namespace inr {
namespace sim {

#if defined(INR_SIM) && !defined(__SYNTHESIS__)
// One value did not fit its format. Supplied by the simulation runtime, which knows the process.
void count_overflow();
inline void overflow() { count_overflow(); }
#else
inline void overflow() {}
#endif

}  // namespace sim
}  // namespace inr

#endif
