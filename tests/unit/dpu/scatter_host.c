/* Scatter/gather. scatter_host BINARY */
#include "test.h"

typedef struct {
    uint8_t *data;
    const uint32_t *sizes; /* blocks of each DPU, 0 ends them */
    bool backwards;
} context;

static const uint32_t block_sizes[3][4] = {{8, 16, 40, 0}, {64, 0, 0, 0}, {3, 5, 56, 0}};
static const uint32_t ragged[3][4] = {{8, 0, 0, 0}, {64, 24, 0, 0}, {0, 0, 0, 0}};

static bool block(struct sg_block_info *out, uint32_t dpu, uint32_t index, void *arguments)
{
    context *c = arguments;
    const uint32_t *sizes = c->sizes + 4 * dpu;
    if (index > 3 || !sizes[index])
        return false;
    uint32_t before = 0;
    for (uint32_t i = 0; i < index; i++)
        before += sizes[i];
    /* The blocks lie apart, and in another order than they are sent. */
    out->addr = c->data + 256 * (2 - dpu) + before + 32 * index;
    out->length = sizes[index];
    return true;
}

static bool endless(struct sg_block_info *out, uint32_t dpu, uint32_t index, void *arguments)
{
    (void)dpu, (void)index;
    out->addr = arguments;
    out->length = 0;
    return true;
}

int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu;
    static uint8_t data[1024], back[1024], flat[256];
    uint32_t i;
    CHECK(argc == 2);
    for (i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 13 + 1);
    context c = {data, block_sizes[0], false};
    get_block_t get = {block, &c, sizeof c};

    EXPECT(DPU_OK, dpu_alloc(3, NULL, &set));
    EXPECT(DPU_OK, dpu_load(set, argv[1], NULL));
    EXPECT(DPU_ERR_SG_NOT_ACTIVATED,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 0, 64, &get, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_OK, dpu_free(set));

    EXPECT(DPU_OK, dpu_alloc(3, "sgXferEnable=true,sgXferMaxBlocksPerDpu=4", &set));
    EXPECT(DPU_OK, dpu_load(set, argv[1], NULL));
    EXPECT(DPU_ERR_SG_NOT_MRAM_SYMBOL, dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "factorial", 0, 8,
                                                        &get, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 0, 60, &get, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_OK,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 8, 64, &get, DPU_SG_XFER_DEFAULT));
    DPU_FOREACH (set, dpu, i) {
        EXPECT(DPU_OK, dpu_copy_from(dpu, "words", 8, flat, 64));
        uint32_t at = 0;
        struct sg_block_info info;
        for (uint32_t b = 0; block(&info, i, b, &c); at += info.length, b++)
            CHECK(!memcmp(flat + at, info.addr, info.length));
        CHECK(at == 64);
    }
    /* Back to the same places of another array; what lies between stays. */
    context there = {back, block_sizes[0], false};
    get_block_t put = {block, &there, sizeof there};
    memset(back, 0xEE, sizeof back);
    EXPECT(DPU_OK,
           dpu_push_sg_xfer(set, DPU_XFER_FROM_DPU, "words", 8, 64, &put, DPU_SG_XFER_ASYNC));
    memset(&there, 0, sizeof there); /* the arguments were copied */
    EXPECT(DPU_OK, dpu_sync(set));
    CHECK(!memcmp(back + 512, data + 512, 8) && back[520] == 0xEE && back[512 + 39] == 0xEE);
    CHECK(!memcmp(back + 512 + 40, data + 512 + 40, 16) && !memcmp(back + 256, data + 256, 64));

    /* Lengths: exact, or filled up with zeros and cut. */
    c.sizes = ragged[0];
    EXPECT(DPU_ERR_SG_LENGTH_MISMATCH,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 0, 64, &get, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_OK, dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 0, 64, &get,
                                    DPU_SG_XFER_DISABLE_LENGTH_CHECK));
    DPU_FOREACH (set, dpu, i) {
        EXPECT(DPU_OK, dpu_copy_from(dpu, "words", 0, flat, 64));
        if (i == 0)
            CHECK(!memcmp(flat, data + 512, 8) && flat[8] == 0 && flat[63] == 0);
        if (i == 1)
            CHECK(!memcmp(flat, data + 256, 64));
        if (i == 2)
            CHECK(flat[0] == 0 && flat[63] == 0);
    }
    get_block_t many = {endless, data, 0};
    EXPECT(DPU_ERR_SG_TOO_MANY_BLOCKS, dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "words", 0, 64,
                                                        &many, DPU_SG_XFER_DISABLE_LENGTH_CHECK));
    EXPECT(DPU_OK, dpu_free(set));
    return 0;
}
