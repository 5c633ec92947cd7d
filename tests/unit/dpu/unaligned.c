#include "check.h"

#include <barrier.h>
#include <mram.h>
#include <mram_unaligned.h>
#include <string.h>

BARRIER_INIT(barrier, NR_TASKLETS);

#define BYTES 4096
__mram_noinit uint8_t source[BYTES];
__mram_noinit uint8_t shared[BYTES];
__mram uint8_t edges[64] = {1, 2, 3};
__mram int counters[3];
__mram uint8_t small_counters[5];

static uint8_t value(uint32_t i)
{
    return (uint8_t)(i * 7 + (i >> 8));
}

static void add(int *x, void *y)
{
    *x += (int)y;
}

static void add_byte(uint8_t *x, void *y)
{
    *x += (uint8_t)(uint32_t)y;
}

int main(void)
{
    __dma_aligned static uint8_t buffers[NR_TASKLETS][2080];
    uint8_t *buffer = buffers[me()];
    if (me() == 0) {
        for (uint32_t i = 0; i < BYTES; i += 256) {
            for (uint32_t j = 0; j < 256; j++)
                buffer[j] = value(i + j);
            mram_write(buffer, &source[i], 256);
        }
        for (int i = 0; i < 3; i++)
            counters[i] = 0;
        for (int i = 0; i < 5; i++)
            small_counters[i] = 0;
    }
    barrier_wait(&barrier);

    /* Reads of every start in a word and of sizes around the words, and of 2,048 bytes. */
    for (uint32_t start = 0; start < 8; start++)
        for (uint32_t size = 0; size < 20; size++) {
            uint8_t *at = mram_read_unaligned(&source[start + 8 * me()], buffer, size);
            EQUAL((uint32_t)at & 7, start);
            for (uint32_t i = 0; i < size; i++)
                EQUAL(at[i], value(8 * me() + start + i));
        }
    uint8_t *all = mram_read_unaligned(&source[3], buffer, 2048);
    for (uint32_t i = 0; i < 2048; i++)
        EQUAL(all[i], value(3 + i));

    /* Pieces of 1 to 17 bytes side by side, dealt out to the tasklets: all bytes arrive. */
    uint32_t piece = 0;
    for (uint32_t at = 0; at < BYTES; piece++) {
        uint32_t size = piece * 5 % 17 + 1;
        if (size > BYTES - at)
            size = BYTES - at;
        if (piece % NR_TASKLETS == me()) {
            for (uint32_t i = 0; i < size; i++)
                buffer[(at & 7) + i] = value(at + i) ^ 0x55;
            mram_write_unaligned(buffer + (at & 7), &shared[at], size);
        }
        at += size;
    }
    barrier_wait(&barrier);
    for (uint32_t at = 256 * me(); at < BYTES; at += 256 * NR_TASKLETS) {
        mram_read(&shared[at], buffer, 256);
        for (uint32_t i = 0; i < 256; i++)
            EQUAL(buffer[i], value(at + i) ^ 0x55);
    }

    /* Sums of all tasklets on ints and bytes that share a word. */
    for (int i = 0; i < 10; i++) {
        mram_update_int_atomic(&counters[i % 3], add, (void *)(me() + 1));
        mram_update_byte_atomic(&small_counters[i % 5], add_byte, (void *)1);
    }
    barrier_wait(&barrier);
    if (me() == 0) {
        int total = NR_TASKLETS * (NR_TASKLETS + 1) / 2;
        EQUAL(counters[0], 4 * total);
        EQUAL(counters[1], 3 * total);
        EQUAL(counters[2], 3 * total);
        for (int i = 0; i < 5; i++)
            EQUAL(small_counters[i], 2 * NR_TASKLETS);
        mram_write_int_atomic(&counters[1], -5);
        EQUAL(counters[0], 4 * total);
        EQUAL(counters[1], -5);
        mram_write_byte_atomic(&small_counters[3], 200);
        EQUAL(small_counters[2], 2 * NR_TASKLETS);
        EQUAL(small_counters[3], 200);
        mram_write_unaligned(buffer + 3, &edges[3], 0);
        EQUAL(edges[3], 0);
        EQUAL(edges[2], 3);
    }
    return 0;
}
