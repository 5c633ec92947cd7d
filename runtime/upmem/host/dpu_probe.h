/*
 * Energy probes. The emulator has no energy to measure: every function returns DPU_ERR_DRIVER,
 * and a program that measures only on demand compiles.
 */
#ifndef DPU_PROBE_H
#define DPU_PROBE_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dpu_probe_t {
    void *handle;
};
typedef enum _dpu_probe_type_t {
    DPU_ENERGY,
    DPU_TIME,
    DPU_AVERAGE,
} dpu_probe_type_t;

dpu_error_t dpu_probe_init(const char *name, struct dpu_probe_t *probe);
dpu_error_t dpu_probe_deinit(struct dpu_probe_t *probe);
dpu_error_t dpu_probe_start(struct dpu_probe_t *probe);
dpu_error_t dpu_probe_stop(struct dpu_probe_t *probe);
dpu_error_t dpu_probe_get(struct dpu_probe_t *probe, dpu_probe_type_t type, dpu_probe_type_t of,
                          double *result);

#ifdef __cplusplus
}
#endif
#endif
