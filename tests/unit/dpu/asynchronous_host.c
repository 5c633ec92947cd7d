/* Queues, what is refused while they run, callbacks. asynchronous_host BINARY [deferred] */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls, dpus_seen;
static uint64_t seen[128];

static dpu_error_t per_rank(struct dpu_set_t rank, uint32_t rank_id, void *arguments)
{
    struct dpu_set_t dpu;
    uint32_t i;
    DPU_FOREACH (rank, dpu, i) {
        uint64_t value;
        EXPECT(DPU_OK, dpu_copy_from(dpu, "factorial", 0, &value, 8));
        pthread_mutex_lock(&lock);
        seen[rank_id * 64 + i] = value;
        dpus_seen++;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    calls++;
    pthread_mutex_unlock(&lock);
    return *(dpu_error_t *)arguments;
}

static dpu_error_t once(struct dpu_set_t set, uint32_t rank_id, void *arguments)
{
    uint32_t n = 0;
    EXPECT(DPU_OK, dpu_get_nr_dpus(set, &n));
    pthread_mutex_lock(&lock);
    calls++;
    dpus_seen += (int)n;
    pthread_mutex_unlock(&lock);
    CHECK(rank_id == 0);
    return *(dpu_error_t *)arguments;
}

static dpu_error_t slow(struct dpu_set_t set, uint32_t rank_id, void *arguments)
{
    (void)set, (void)rank_id;
    usleep(50000);
    pthread_mutex_lock(&lock);
    ++*(int *)arguments;
    pthread_mutex_unlock(&lock);
    return DPU_OK;
}

int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu, rank, first = {0};
    uint32_t operation = 1, i;
    uint64_t value = 0, one = 1, five = 5;
    bool deferred = argc == 3;
    dpu_error_t fine = DPU_OK, bad = DPU_ERR_SYSTEM, worse = DPU_ERR_TIMEOUT;
    EXPECT(DPU_OK, dpu_alloc(70, NULL, &set));
    EXPECT(DPU_OK, dpu_load(set, argv[1], NULL));
    DPU_FOREACH (set, dpu, i)
        first = i == 0 ? dpu : first;

    /* Commands are done in order: the launches see what was sent before them. */
    static uint64_t results[70];
    EXPECT(DPU_OK, dpu_broadcast_to(set, "operation", 0, &operation, 4, DPU_XFER_ASYNC));
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    DPU_FOREACH (set, dpu, i)
        EXPECT(DPU_OK, dpu_prepare_xfer(dpu, &results[i]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_FROM_DPU, "factorial", 0, 8, DPU_XFER_ASYNC));
    EXPECT(DPU_OK, dpu_broadcast_to(set, "factorial", 0, &one, 8, DPU_XFER_ASYNC));
    /* Until the sync nothing has come, where that is made certain. */
    if (deferred)
        for (i = 0; i < 70; i++)
            CHECK(results[i] == 0);
    EXPECT(DPU_OK, dpu_sync(set));
    for (i = 0; i < 70; i++)
        CHECK(results[i] == 14400);
    EXPECT(DPU_OK, dpu_copy_from(first, "factorial", 0, &value, 8));
    CHECK(value == 1);

    /* Between launch and sync. */
    uint64_t eight = 8;
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    EXPECT(DPU_ERR_MRAM_BUSY, dpu_copy_to(set, "words", 0, &eight, 8));
    EXPECT(DPU_ERR_MRAM_BUSY, dpu_copy_from(first, "words", 0, &eight, 8));
    EXPECT(DPU_ERR_MRAM_BUSY, dpu_log_read(first, stdout));
    EXPECT(DPU_ERR_DPU_ALREADY_RUNNING, dpu_launch(set, DPU_SYNCHRONOUS));
    EXPECT(DPU_ERR_DPU_ALREADY_RUNNING, dpu_launch(first, DPU_SYNCHRONOUS));
    EXPECT(DPU_ERR_DPU_ALREADY_RUNNING, dpu_load(set, argv[1], NULL));
    EXPECT(DPU_OK, dpu_copy_from(first, "factorial", 0, &value, 8)); /* WRAM: in its turn */
    CHECK(value == 120);
    EXPECT(DPU_OK, dpu_broadcast_to(set, "words", 0, &five, 8, DPU_XFER_ASYNC));
    EXPECT(DPU_OK, dpu_sync(set));
    EXPECT(DPU_OK, dpu_copy_from(first, "words", 0, &eight, 8));
    CHECK(eight == 5);
    /* dpu_status says when it is over, too. */
    bool done = false, fault = true;
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    while (!done)
        EXPECT(DPU_OK, dpu_status(set, &done, &fault));
    CHECK(!fault);
    EXPECT(DPU_OK, dpu_copy_from(first, "words", 0, &eight, 8));

    /* Errors come out at the sync, once; different ones are marked. */
    operation = 5;
    EXPECT(DPU_OK, dpu_broadcast_to(set, "operation", 0, &operation, 4, DPU_XFER_DEFAULT));
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    EXPECT(DPU_ERR_DPU_FAULT, dpu_sync(set));
    EXPECT(DPU_OK, dpu_sync(set));
    operation = 1;
    EXPECT(DPU_OK, dpu_broadcast_to(set, "operation", 0, &operation, 4, DPU_XFER_DEFAULT));
    EXPECT(DPU_OK, dpu_callback(set, once, &bad, DPU_CALLBACK_ASYNC | DPU_CALLBACK_SINGLE_CALL));
    EXPECT(DPU_OK, dpu_callback(first, per_rank, &worse, DPU_CALLBACK_ASYNC));
    dpu_error_t both = dpu_sync(set);
    CHECK((unsigned)both >> 31 && strstr(dpu_error_to_string(both), "several"));

    /* Callbacks: one for each rank, in the queue or now; one for the set. */
    EXPECT(DPU_OK, dpu_broadcast_to(set, "factorial", 0, &one, 8, DPU_XFER_DEFAULT));
    for (int mode = 0; mode < 3; mode++) {
        static const dpu_callback_flags_t modes[] = {
            DPU_CALLBACK_DEFAULT, DPU_CALLBACK_ASYNC,
            DPU_CALLBACK_ASYNC | DPU_CALLBACK_NONBLOCKING};
        calls = dpus_seen = 0;
        EXPECT(DPU_OK, dpu_broadcast_to(set, "factorial", 0, &one, 8, DPU_XFER_DEFAULT));
        EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
        EXPECT(DPU_OK, dpu_callback(set, per_rank, &fine, modes[mode]));
        EXPECT(DPU_OK, dpu_sync(set));
        CHECK(calls == 2 && dpus_seen == 70);
        for (i = 0; i < 70; i++)
            CHECK(seen[i] == 120);
    }
    for (int mode = 0; mode < 3; mode++) {
        static const dpu_callback_flags_t modes[] = {
            DPU_CALLBACK_SINGLE_CALL, DPU_CALLBACK_SINGLE_CALL | DPU_CALLBACK_ASYNC,
            DPU_CALLBACK_SINGLE_CALL | DPU_CALLBACK_ASYNC | DPU_CALLBACK_NONBLOCKING};
        calls = dpus_seen = 0;
        EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
        EXPECT(DPU_OK, dpu_callback(set, once, &fine, modes[mode]));
        EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
        EXPECT(DPU_OK, dpu_sync(set));
        CHECK(calls == 1 && dpus_seen == 70);
    }
    EXPECT(DPU_ERR_SYSTEM, dpu_callback(set, per_rank, &bad, DPU_CALLBACK_DEFAULT));
    /* dpu_sync waits for callbacks beside the queue. */
    int ends = 0;
    EXPECT(DPU_OK, dpu_callback(set, slow, &ends, DPU_CALLBACK_ASYNC | DPU_CALLBACK_NONBLOCKING));
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    EXPECT(DPU_OK, dpu_sync(set));
    CHECK(ends == 2);

    /* Ranks have queues of their own. */
    DPU_RANK_FOREACH (set, rank)
        EXPECT(DPU_OK, dpu_launch(rank, DPU_ASYNCHRONOUS));
    DPU_RANK_FOREACH (set, rank)
        EXPECT(DPU_OK, dpu_sync(rank));

    /* A buffer must stay as it is until its turn has come. */
    static uint64_t buffer[16];
    EXPECT(DPU_OK, dpu_broadcast_to(set, "words", 0, buffer, 128, DPU_XFER_ASYNC));
    if (deferred) {
        buffer[3] = 1;
        EXPECT(DPU_ERR_INVALID_MEMORY_TRANSFER, dpu_sync(set));
    }
    EXPECT(DPU_OK, dpu_sync(set));
    /* In and out of one buffer is fine. */
    EXPECT(DPU_OK, dpu_broadcast_to(first, "words", 0, buffer, 128, DPU_XFER_ASYNC));
    EXPECT(DPU_OK, dpu_prepare_xfer(first, buffer));
    EXPECT(DPU_OK, dpu_push_xfer(first, DPU_XFER_FROM_DPU, "words", 128, 128, DPU_XFER_ASYNC));
    EXPECT(DPU_OK, dpu_sync(first));
    EXPECT(DPU_OK, dpu_launch(set, DPU_ASYNCHRONOUS));
    EXPECT(DPU_OK, dpu_free(set)); /* waits */
    return 0;
}
