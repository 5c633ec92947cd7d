/*
 * What instructions, DMA and library routines cost, with the source of each number.
 *
 * Sources
 *   [PrIM]   J. Gomez-Luna et al., "Benchmarking a New Paradigm: An Experimental Analysis of a
 *            Real Processing-in-Memory Architecture", arXiv 2105.03814.
 *   [LLVM]   the vendor's public compiler (github.com/upmem/llvm-project), its instruction set
 *            and its run-time library.
 *   [fit]    derived from the two MRAM bandwidths that [PrIM] gives: 72.58 MB/s for 8 bytes a
 *            request and 633 MB/s for 2048, at 350 MHz.
 *   [model]  our assumption, no published number.
 */
#include "internal.h"

#include <string.h>

const engine_costs_t default_costs = {
    .revolver = 11,            /* [PrIM] 11 tasklets fill the pipeline */
    .dma_read_latency = 77,    /* [PrIM] */
    .dma_write_latency = 61,   /* [PrIM] */
    .dma_latency_byte = 0.5,   /* [PrIM] 2 bytes a cycle */
    .dma_occupancy = 34.3,     /* [fit] */
    .dma_occupancy_byte = 0.536, /* [fit] */
    /* Described as autonomous, yet PrIM on hardware is met better with a slot lost for 8 bytes. */
    .dma_steal = 1,
    .peepholes = true,
    .library_table = true,
};

static uint32_t bit_length(uint32_t value)
{
    return value ? 32u - (uint32_t)__builtin_clz(value) : 0;
}

/*
 * [LLVM] The DPU multiplies 8 x 8 bits in one instruction, if the compiler can prove the operands
 * that narrow. 16 bits take byte products: 3 for 8 x 16, 7 for 16 x 16. 32 bits call a routine
 * that swaps the smaller operand first and steps through its bits.
 */
uint32_t multiply_slots(uint32_t a, uint32_t b, uint32_t width_a, uint32_t width_b)
{
    if (width_a == 1 && width_b == 1)
        return 1;
    if (width_a <= 2 && width_b <= 2)
        return width_a + width_b == 3 ? 3 : 7;
    return 7 + bit_length(a < b ? a : b);
}

/*
 * [LLVM] A division counts leading zeros and jumps into a chain of one step a quotient bit; the
 * signed one works on magnitudes.
 */
uint32_t divide_slots(uint32_t a, uint32_t b, bool is_signed)
{
    uint32_t signs = 0, fixed = 7;
    if (is_signed) {
        bool negative_a = (int32_t)a < 0, negative_b = (int32_t)b < 0;
        a = negative_a ? 0u - a : a;
        b = negative_b ? 0u - b : b;
        signs = (uint32_t)negative_a + (uint32_t)negative_b;
        fixed = 15;
    }
    uint32_t bits_a = bit_length(a), bits_b = bit_length(b);
    return fixed + signs + (bits_a < bits_b ? 0 : bits_a - bits_b + 1);
}

/*
 * 350e6 / MOPS of the arithmetic throughput in [PrIM], less the 6 other slots of its loop.
 * Routines that are not here cost what their RV32 instructions cost.
 */
static const struct {
    const char *name;
    uint32_t slots;
} library_table[] = {
    {"__addsf3", 65},  {"__subsf3", 70},   {"__mulsf3", 177},  {"__divsf3", 1023},
    {"__adddf3", 98},  {"__subdf3", 106},  {"__muldf3", 653},  {"__divdf3", 2180},
    {"__muldi3", 130}, {"__divdi3", 243},  {"__udivdi3", 243}, {"__moddi3", 243},
    {"__umoddi3", 243},
};

uint32_t library_slots(const char *name)
{
    for (size_t i = 0; i < sizeof library_table / sizeof *library_table; i++)
        if (!strcmp(library_table[i].name, name))
            return library_table[i].slots;
    return 0;
}
