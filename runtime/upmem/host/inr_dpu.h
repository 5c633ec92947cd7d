/*
 * What only the emulator can tell. Times are modelled, not measured.
 */
#ifndef INR_DPU_H
#define INR_DPU_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cycles of the slowest DPU of the set in its last launch; 0 before any. */
uint64_t inr_dpu_cycles(struct dpu_set_t set);
/* The clock of the target in MHz: cycles / (1000 * clock) are milliseconds. */
double inr_dpu_clock_mhz(void);
/* The fault of the first DPU of the set that is in one, or NULL; valid until the next launch. */
const char *inr_dpu_fault(struct dpu_set_t set);

#ifdef __cplusplus
}
#endif
#endif
