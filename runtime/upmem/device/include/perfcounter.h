/* The one counter of a DPU, shared by its tasklets. Steps of 16. */
#ifndef DPU_PERFCOUNTER_H
#define DPU_PERFCOUNTER_H

#include <attributes.h>
#include <dpu_instructions.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t perfcounter_t;

typedef enum _perfcounter_config_t {
    COUNT_SAME = 0,
    COUNT_CYCLES = 1,
    COUNT_INSTRUCTIONS = 2,
    COUNT_NOTHING = 3,
} perfcounter_config_t;

/* Cycles of a second of the deployed DPUs, 350 MHz. */
#define CLOCKS_PER_SEC 350000000u

/* Sets what is counted (and to 0 if `reset`); the value before that. */
__dpu_inline perfcounter_t perfcounter_config(perfcounter_config_t config, bool reset)
{
    return (perfcounter_t)__dpu_counter_config((uint32_t)config, reset) << 4;
}

__dpu_inline perfcounter_t perfcounter_get(void)
{
    return (perfcounter_t)__dpu_counter() << 4;
}

#endif
