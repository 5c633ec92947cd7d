/* Runs a device test: check_host BINARY [launches]. */
#include <dpu.h>

int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu;
    uint32_t line = 0, tasklet = 0, value = 0;
    DPU_ASSERT(dpu_alloc(2, NULL, &set));
    DPU_ASSERT(dpu_load(set, argv[1], NULL));
    for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 1); i++) {
        dpu_error_t status = dpu_launch(set, DPU_SYNCHRONOUS);
        DPU_FOREACH (set, dpu) {
            DPU_ASSERT(dpu_log_read(dpu, stdout));
            DPU_ASSERT(dpu_copy_from(dpu, "failed_line", 0, &line, 4));
            DPU_ASSERT(dpu_copy_from(dpu, "failed_tasklet", 0, &tasklet, 4));
            DPU_ASSERT(dpu_copy_from(dpu, "failed_value", 0, &value, 4));
            if (line) {
                fprintf(stderr, "launch %d: line %u, tasklet %u, value %u\n", i, line, tasklet,
                        value);
                return 2;
            }
        }
        DPU_ASSERT(status);
    }
    DPU_ASSERT(dpu_free(set));
    return 0;
}
