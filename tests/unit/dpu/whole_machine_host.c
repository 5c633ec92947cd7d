/* All 2,560 DPUs. whole_machine_host BINARY */
#include "test.h"

int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu;
    uint32_t n = 0, i;
    CHECK(argc == 2);
    EXPECT(DPU_OK, dpu_alloc(DPU_ALLOCATE_ALL, NULL, &set));
    EXPECT(DPU_OK, dpu_get_nr_dpus(set, &n));
    CHECK(n == 2560);
    EXPECT(DPU_OK, dpu_load(set, argv[1], NULL));
    uint64_t(*in)[32] = calloc(n, sizeof *in), (*out)[32] = calloc(n, sizeof *out);
    DPU_FOREACH (set, dpu, i) {
        for (uint32_t j = 0; j < 32; j++)
            in[i][j] = i * 1000 + j;
        EXPECT(DPU_OK, dpu_prepare_xfer(dpu, in[i]));
    }
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_TO_DPU, DPU_MRAM_HEAP_POINTER_NAME, 0, 256,
                                 DPU_XFER_DEFAULT));
    set_operation(set, 4);
    EXPECT(DPU_OK, dpu_launch(set, DPU_SYNCHRONOUS));
    DPU_FOREACH (set, dpu, i)
        EXPECT(DPU_OK, dpu_prepare_xfer(dpu, out[i]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_FROM_DPU, DPU_MRAM_HEAP_POINTER_NAME, 0, 256,
                                 DPU_XFER_DEFAULT));
    for (i = 0; i < n; i++)
        for (uint32_t j = 0; j < 32; j++)
            CHECK(out[i][j] == 2 * in[i][j]);
    EXPECT(DPU_OK, dpu_free(set));
    return 0;
}
