// SPDX-License-Identifier: Apache-2.0
//
// All processes of the kernel library and the macros that call them.
#ifndef INR_KERNELS_HPP
#define INR_KERNELS_HPP

#include "dataflow.hpp"
#include "matmul.hpp"
#include "memory.hpp"
#include "reduce.hpp"
#include "route.hpp"
#include "stream.hpp"
#include "timing.hpp"

#endif
