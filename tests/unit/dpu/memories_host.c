/* Symbols, transfers and what is refused. memories_host BINARY OTHER TEXTFILE */
#include "test.h"

#include <dpu_management.h>
#include <dpu_memory.h>
#include <inr_dpu.h>

static dpu_error_t never(struct dpu_set_t set, uint32_t rank_id, void *arguments)
{
    (void)set, (void)rank_id, (void)arguments;
    CHECK(false);
    return DPU_OK;
}

int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu, first = {0};
    struct dpu_program_t *program;
    uint32_t n = 0, i;
    CHECK(argc == 4);
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_free((struct dpu_set_t){0}));
    EXPECT(DPU_OK, dpu_alloc(3, "backend=simulator,cycleAccurate=true", &set));
    EXPECT(DPU_OK, dpu_get_nr_dpus(set, &n));
    CHECK(n == 3);

    /* Nothing is loaded yet. */
    uint32_t word = 0, two[2] = {0};
    EXPECT(DPU_ERR_NO_PROGRAM_LOADED, dpu_launch(set, DPU_SYNCHRONOUS));
    EXPECT(DPU_ERR_NO_PROGRAM_LOADED, dpu_copy_to(set, "operation", 0, &word, 4));
    EXPECT(DPU_ERR_ELF_NO_SUCH_FILE, dpu_load(set, "/no/such/file", NULL));
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load(set, argv[3], NULL));
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load(set, argv[0], NULL)); /* an ELF, of the host */
    EXPECT(DPU_OK, dpu_load(set, argv[1], &program));

    /* Symbols: only what is meant for the host. */
    struct dpu_symbol_t symbol;
    EXPECT(DPU_OK, dpu_get_symbol(program, "initialised", &symbol));
    CHECK(symbol.size == 24 && symbol.address >= 0x08000000);
    EXPECT(DPU_OK, dpu_get_symbol(program, "visible_static", &symbol));
    CHECK(symbol.size == 4 && symbol.address % 8 == 0 && symbol.address < 65536);
    EXPECT(DPU_ERR_UNKNOWN_SYMBOL, dpu_get_symbol(program, "hidden", &symbol));
    EXPECT(DPU_ERR_UNKNOWN_SYMBOL, dpu_get_symbol(program, "main", &symbol));
    EXPECT(DPU_ERR_UNKNOWN_SYMBOL, dpu_copy_to(set, "nothing", 0, &word, 4));

    /* Initial values, in MRAM and WRAM; globals that live from launch to launch. */
    int32_t numbers[6];
    uint64_t factorial;
    DPU_FOREACH (set, dpu, i) {
        CHECK(i < 3);
        first = i == 0 ? dpu : first;
        EXPECT(DPU_OK, dpu_copy_from(dpu, "initialised", 0, numbers, sizeof numbers));
        CHECK(numbers[0] == 10 && numbers[5] == -60);
    }
    set_operation(set, 1);
    static const uint64_t expected[] = {120, 14400, 1728000};
    for (int launch = 0; launch < 3; launch++) {
        EXPECT(DPU_OK, dpu_launch(set, DPU_SYNCHRONOUS));
        EXPECT(DPU_OK, dpu_copy_from(first, "factorial", 0, &factorial, 8));
        CHECK(factorial == expected[launch]);
    }
    EXPECT(DPU_OK, dpu_copy_from(first, "counter", 0, &word, 4));
    CHECK(word == 15);
    uint32_t rows[4 * 4];
    EXPECT(DPU_OK, dpu_copy_from(first, "from_each_tasklet", 0, rows, 64));
    for (i = 0; i < 16; i++)
        CHECK(rows[i] == i / 4 * 10 + i % 4);

    /* Direct access to MRAM variables, sub-words and structures included. */
    uint8_t bytes[64];
    memset(bytes, 0x11, sizeof bytes);
    EXPECT(DPU_OK, dpu_copy_to(first, "kept", 0, bytes, 64));
    set_operation(set, 2);
    EXPECT(DPU_OK, dpu_launch(first, DPU_SYNCHRONOUS));
    EXPECT(DPU_OK, dpu_copy_from(first, "initialised", 0, numbers, 24));
    CHECK(numbers[5] == 10 - 20 + 30 - 40 + 50 - 60 && numbers[4] == 50);
    EXPECT(DPU_OK, dpu_copy_from(first, "kept", 0, bytes, 64));
    CHECK(bytes[0] == 0x11 && bytes[1] == 0x12 && bytes[2] == 0x11);
    int64_t results[2];
    EXPECT(DPU_OK, dpu_copy_from(first, "words", 0, results, 16));
    CHECK(results[0] == -60000000000 && results[1] == 9 - 301);

    /* Loading again: WRAM and __mram as in the file, __mram_noinit stays. */
    EXPECT(DPU_OK, dpu_load(set, argv[1], &program));
    EXPECT(DPU_OK, dpu_copy_from(first, "factorial", 0, &factorial, 8));
    EXPECT(DPU_OK, dpu_copy_from(first, "initialised", 0, numbers, 24));
    EXPECT(DPU_OK, dpu_copy_from(first, "kept", 0, bytes, 64));
    CHECK(factorial == 1 && numbers[5] == -60 && bytes[1] == 0x12);

    /* prepare and push: each DPU its own; what was prepared is used once, unless it shall stay. */
    uint64_t in[3][32], out[3][32];
    for (i = 0; i < 96; i++)
        in[i / 32][i % 32] = i * i;
    DPU_FOREACH (set, dpu, i)
        EXPECT(DPU_OK, dpu_prepare_xfer(dpu, in[i]));
    EXPECT(DPU_ERR_TRANSFER_ALREADY_SET, dpu_prepare_xfer(first, in[0]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_TO_DPU, DPU_MRAM_HEAP_POINTER_NAME, 0, 256,
                                 DPU_XFER_NO_RESET));
    EXPECT(DPU_ERR_TRANSFER_ALREADY_SET, dpu_prepare_xfer(first, in[0]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_TO_DPU, "words", 0, 256, DPU_XFER_DEFAULT));
    set_operation(set, 4);
    EXPECT(DPU_OK, dpu_launch(set, DPU_SYNCHRONOUS));
    DPU_FOREACH (set, dpu, i)
        EXPECT(DPU_OK, dpu_prepare_xfer(dpu, out[i]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_FROM_DPU, DPU_MRAM_HEAP_POINTER_NAME, 0, 256,
                                 DPU_XFER_DEFAULT));
    for (i = 0; i < 96; i++)
        CHECK(out[i / 32][i % 32] == 2 * i * i);
    /* DPUs without a buffer are left out. */
    memset(out, 0, sizeof out);
    EXPECT(DPU_OK, dpu_prepare_xfer(first, out[0]));
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_FROM_DPU, "words", 8, 16, DPU_XFER_DEFAULT));
    CHECK(out[0][0] == 1 && out[0][1] == 4 && out[0][2] == 0 && out[1][0] == 0);
    EXPECT(DPU_OK, dpu_push_xfer(set, DPU_XFER_FROM_DPU, "words", 0, 256, DPU_XFER_DEFAULT));
    CHECK(out[0][0] == 1 && out[0][31] == 0);
    /* A broadcast is the same for all; NULL takes a buffer back. */
    EXPECT(DPU_OK, dpu_prepare_xfer(set, out[0]));
    EXPECT(DPU_OK, dpu_prepare_xfer(set, NULL));
    EXPECT(DPU_OK, dpu_broadcast_to(set, "words", 8000, in[2], 192, DPU_XFER_DEFAULT));
    DPU_FOREACH (set, dpu) {
        EXPECT(DPU_OK, dpu_copy_from(dpu, "words", 8000, out[1], 192));
        CHECK(!memcmp(out[1], in[2], 192));
    }
    /* By symbol and by address. */
    EXPECT(DPU_OK, dpu_get_symbol(program, "words", &symbol));
    EXPECT(DPU_OK, dpu_copy_from_symbol(first, symbol, 8, out[1], 8));
    CHECK(out[1][0] == 1);
    EXPECT(DPU_OK, dpu_copy_from_mram(dpu_from_set(first), (uint8_t *)out[1],
                                      symbol.address - 0x08000000 + 16, 8));
    CHECK(out[1][0] == 4);

    /* Bounds and alignment. */
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, "words", 8000, in, 200));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, "words", 8200, in, 8));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, "operation", 0, two, 8));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_copy_to(set, "words", 4, in, 8));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_copy_to(set, "words", 0, in, 12));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "factorial", 2, two, 4));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "factorial", 0, two, 6));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS,
           dpu_copy_to(set, "factorial", 0, (char *)two + 1, 4));
    EXPECT(DPU_OK, dpu_get_symbol(program, DPU_MRAM_HEAP_POINTER_NAME, &symbol));
    CHECK(symbol.address + symbol.size == 0x08000000 + (64 << 20));
    EXPECT(DPU_OK, dpu_copy_to(first, DPU_MRAM_HEAP_POINTER_NAME, symbol.size - 8, in, 8));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS,
           dpu_copy_to(first, DPU_MRAM_HEAP_POINTER_NAME, symbol.size, in, 8));

    /* The rest of what is refused. */
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_copy_from(set, "factorial", 0, &factorial, 8));
    EXPECT(DPU_ERR_INVALID_LAUNCH_POLICY, dpu_launch(set, (dpu_launch_policy_t)7));
    EXPECT(DPU_ERR_INVALID_MEMORY_TRANSFER,
           dpu_push_xfer(set, (dpu_xfer_t)7, "words", 0, 8, DPU_XFER_DEFAULT));
    EXPECT(DPU_ERR_INVALID_PARALLEL_MEMORY_TRANSFER,
           dpu_broadcast_to(set, "words", 0, in, 8, DPU_XFER_PARALLEL));
    EXPECT(DPU_OK, dpu_broadcast_to(set, "factorial", 0, in, 8, DPU_XFER_PARALLEL));
    EXPECT(DPU_ERR_NONBLOCKING_SYNC_CALLBACK,
           dpu_callback(set, never, NULL, DPU_CALLBACK_NONBLOCKING));
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_free(first));
    EXPECT(DPU_OK, dpu_load(first, argv[2], NULL));
    EXPECT(DPU_ERR_DIFFERENT_DPU_PROGRAMS, dpu_copy_to(set, "operation", 0, &word, 4));
    EXPECT(DPU_OK, dpu_load(set, argv[1], NULL));

    /* Logs, faults, times. */
    set_operation(set, 3);
    EXPECT(DPU_OK, dpu_launch(set, DPU_SYNCHRONOUS));
    CHECK(inr_dpu_fault(set) == NULL && inr_dpu_cycles(set) > 1000);
    EXPECT(DPU_OK, dpu_log_read(first, stdout));
    fflush(stdout);
    set_operation(set, 5);
    bool done, fault;
    EXPECT(DPU_ERR_DPU_FAULT, dpu_launch(set, DPU_SYNCHRONOUS));
    EXPECT(DPU_OK, dpu_status(set, &done, &fault));
    CHECK(done && fault && strstr(inr_dpu_fault(first), "tasklet 1"));
    set_operation(set, 0);
    EXPECT(DPU_OK, dpu_launch(set, DPU_SYNCHRONOUS)); /* a fault does not last */
    EXPECT(DPU_OK, dpu_status(set, &done, &fault));
    CHECK(done && !fault);

    /* Every error has a text of its own. */
    for (int a = 0; a <= DPU_ERR_WRAM_FIFO_FULL; a++)
        for (int b = 0; b < a; b++)
            CHECK(strcmp(dpu_error_to_string((dpu_error_t)a), dpu_error_to_string((dpu_error_t)b)));
    CHECK(strstr(dpu_error_to_string((dpu_error_t)(DPU_ERR_ASYNC_JOBS | DPU_ERR_DPU_FAULT)),
                 "DPU is in fault"));
    CHECK(DPU_ERR_DPU_FAULT == 21 && DPU_ERR_WRAM_FIFO_FULL == 42);
    EXPECT(DPU_OK, dpu_free(set));
    return 0;
}
