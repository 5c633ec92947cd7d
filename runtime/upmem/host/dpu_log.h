#ifndef DPU_LOG_H
#define DPU_LOG_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The log of one DPU. */
dpu_error_t dpulog_read_for_dpu(struct dpu_t *dpu, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
