/* Runs a program that is expected to fault: fault_host BINARY; 3 if it does. */
#include <dpu.h>

int main(int argc, char **argv)
{
    struct dpu_set_t set;
    dpu_error_t status;
    (void)argc;
    DPU_ASSERT(dpu_alloc(1, NULL, &set));
    if ((status = dpu_load(set, argv[1], NULL)) != DPU_OK)
        return 4;
    status = dpu_launch(set, DPU_SYNCHRONOUS);
    DPU_ASSERT(dpu_log_read(set, stdout));
    bool done, fault;
    DPU_ASSERT(dpu_status(set, &done, &fault));
    if (!done || fault != (status == DPU_ERR_DPU_FAULT))
        return 5;
    DPU_ASSERT(dpu_free(set));
    return status == DPU_ERR_DPU_FAULT ? 3 : status == DPU_OK ? 0 : 6;
}
