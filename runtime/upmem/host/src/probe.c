#include "internal.h"

#include "../dpu_probe.h"

static dpu_error_t none(void)
{
    return host_refuse(DPU_ERR_DRIVER, "dpu_probe", "the emulator has no energy to measure");
}

dpu_error_t dpu_probe_init(const char *name, struct dpu_probe_t *probe)
{
    (void)name, (void)probe;
    return none();
}

dpu_error_t dpu_probe_deinit(struct dpu_probe_t *probe)
{
    (void)probe;
    return none();
}

dpu_error_t dpu_probe_start(struct dpu_probe_t *probe)
{
    (void)probe;
    return none();
}

dpu_error_t dpu_probe_stop(struct dpu_probe_t *probe)
{
    (void)probe;
    return none();
}

dpu_error_t dpu_probe_get(struct dpu_probe_t *probe, dpu_probe_type_t type, dpu_probe_type_t of,
                          double *result)
{
    (void)probe, (void)type, (void)of, (void)result;
    return none();
}
