/* Ranks, faulty DPUs, several sets. sets_host BINARY; a machine of 4 ranks, DPUs 3, 70-71 faulty. */
#include "test.h"

#include <dpu_management.h>

static uint32_t dpus(struct dpu_set_t set)
{
    uint32_t n = 0;
    EXPECT(DPU_OK, dpu_get_nr_dpus(set, &n));
    return n;
}

static uint32_t ranks(struct dpu_set_t set)
{
    uint32_t n = 0;
    EXPECT(DPU_OK, dpu_get_nr_ranks(set, &n));
    return n;
}

int main(int argc, char **argv)
{
    struct dpu_set_t a, b, c, rank, dpu;
    uint32_t i, j, count;
    CHECK(argc == 2);
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(0, NULL, &a));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(254, NULL, &a)); /* 253 work */
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(1, "backend=hw", &a));
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "nonsense", &a));
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "disabled=3+x", &a));
    EXPECT(DPU_OK, dpu_alloc(DPU_ALLOCATE_ALL, NULL, &a));
    CHECK(dpus(a) == 253 && ranks(a) == 4);
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(1, NULL, &b));
    EXPECT(DPU_OK, dpu_free(a));

    /* 100 DPUs: 63 of rank 0 and 37 of rank 1, which has 62. */
    EXPECT(DPU_OK, dpu_alloc(100, NULL, &a));
    CHECK(dpus(a) == 100 && ranks(a) == 2);
    count = 0;
    uint32_t sizes[2] = {0};
    DPU_RANK_FOREACH (a, rank, i) {
        CHECK(ranks(rank) == 1);
        sizes[i] = dpus(rank);
        DPU_FOREACH (rank, dpu, j) {
            CHECK(j < sizes[i] && dpus(dpu) == 1 && ranks(dpu) == 1);
            uint32_t id = dpu_get_id(dpu_from_set(dpu));
            CHECK(id != 3 && id != 70 && id != 71 && id / 64 == i);
            count++;
        }
        CHECK(j == sizes[i]);
    }
    CHECK(i == 2 && count == 100 && sizes[0] == 63 && sizes[1] == 37);
    count = 0;
    DPU_FOREACH (a, dpu, i)
        CHECK(i == count++);
    CHECK(count == 100 && i == 100);
    DPU_FOREACH (dpu, rank)
        count++;
    CHECK(count == 101);

    /* The other sets get other ranks; each runs its own. */
    EXPECT(DPU_OK, dpu_alloc_ranks(1, "disabled=128+140-143", &b));
    CHECK(ranks(b) == 1 && dpus(b) == 59);
    EXPECT(DPU_OK, dpu_alloc(1, NULL, &c));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc_ranks(1, NULL, &rank));
    EXPECT(DPU_OK, dpu_load(a, argv[1], NULL));
    EXPECT(DPU_OK, dpu_load(b, argv[1], NULL));
    EXPECT(DPU_OK, dpu_load(c, argv[1], NULL));
    set_operation(a, 1);
    set_operation(b, 1);
    set_operation(c, 0);
    EXPECT(DPU_OK, dpu_launch(b, DPU_ASYNCHRONOUS));
    EXPECT(DPU_OK, dpu_launch(a, DPU_SYNCHRONOUS));
    EXPECT(DPU_OK, dpu_launch(c, DPU_SYNCHRONOUS));
    EXPECT(DPU_OK, dpu_sync(b));
    /* One rank of a set by itself. */
    DPU_RANK_FOREACH (a, rank, i)
        if (i == 1)
            EXPECT(DPU_OK, dpu_launch(rank, DPU_SYNCHRONOUS));
    uint64_t value;
    DPU_FOREACH (a, dpu, i) {
        EXPECT(DPU_OK, dpu_copy_from(dpu, "factorial", 0, &value, 8));
        CHECK(value == (i < 63 ? 120u : 14400u));
    }
    DPU_FOREACH (b, dpu) {
        EXPECT(DPU_OK, dpu_copy_from(dpu, "factorial", 0, &value, 8));
        CHECK(value == 120);
    }
    EXPECT(DPU_OK, dpu_copy_from(c, "factorial", 0, &value, 8)); /* a set of one DPU */
    CHECK(value == 1);
    DPU_RANK_FOREACH (a, rank)
        EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_free(rank));
    EXPECT(DPU_OK, dpu_free(a));
    EXPECT(DPU_OK, dpu_free(c));
    EXPECT(DPU_OK, dpu_free(b));
    EXPECT(DPU_OK, dpu_alloc(253, NULL, &a));
    EXPECT(DPU_OK, dpu_free(a));
    return 0;
}
