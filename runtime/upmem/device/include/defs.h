/* The tasklet's number, its stack, stopping with a fault. */
#ifndef DPU_DEFS_H
#define DPU_DEFS_H

#include <attributes.h>
#include <dpu_instructions.h>
#include <sysdef.h>

#ifndef NR_TASKLETS
#define NR_TASKLETS 1
#endif

__dpu_inline sysname_t me(void)
{
    return __dpu_tasklet();
}

__dpu_inline __attribute__((noreturn)) void halt(void)
{
    __dpu_fault(__DPU_FAULT_HALT);
}

/* 32-bit words left on this tasklet's stack. */
unsigned int check_stack(void);

#endif
