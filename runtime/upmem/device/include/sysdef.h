/* Numbers of tasklets and of runtime faults. */
#ifndef DPU_SYSDEF_H
#define DPU_SYSDEF_H

typedef unsigned int sysname_t;
typedef unsigned int thread_id_t;

#define __DPU_FAULT_HEAP_FULL 1
#define __DPU_FAULT_DIVISION 2
#define __DPU_FAULT_ASSERT 3
#define __DPU_FAULT_HALT 4
#define __DPU_FAULT_PRINTF_OVERFLOW 5
#define __DPU_FAULT_PROFILING_START 6
#define __DPU_FAULT_PROFILING_STOP 7
#define __DPU_FAULT_ALIGNMENT 8

#endif
