#include "check.h"

#include <alloc.h>
#include <barrier.h>
#include <mram.h>
#include <seqread.h>

BARRIER_INIT(barrier, NR_TASKLETS);

#define WORDS 3000
/* Two pages are read past the last item. */
__mram_noinit uint32_t data[WORDS + 1024];

typedef struct {
    uint32_t a, b, c;
} triple;

int main(void)
{
    static uint64_t block[16];
    if (me() == 0) {
        mem_reset();
        for (uint32_t i = 0; i < WORDS + 1024; i += 32) {
            for (uint32_t j = 0; j < 32; j++)
                ((uint32_t *)block)[j] = (i + j) * 3;
            mram_write(block, &data[i], 128);
        }
    }
    barrier_wait(&barrier);
    seqreader_buffer_t cache = seqread_alloc();
    EQUAL(cache % SEQREAD_CACHE_SIZE, 0);
    seqreader_t reader;

    /* Words from a start of each tasklet's own. */
    uint32_t start = me() * 11;
    uint32_t *word = seqread_init(cache, (__mram_ptr void *)&data[start], &reader);
    for (uint32_t i = start; i < start + 700; i++) {
        EQUAL(*word, i * 3);
        EQUAL(seqread_tell(word, &reader), &data[i]);
        word = seqread_get(word, sizeof *word, &reader);
    }

    /* Items of 12 bytes straddle pages. */
    triple *item = seqread_init(cache, (__mram_ptr void *)&data[1], &reader);
    for (uint32_t i = 0; i < 300; i++) {
        EQUAL(item->a, (3 * i + 1) * 3);
        EQUAL(item->b, (3 * i + 2) * 3);
        EQUAL(item->c, (3 * i + 3) * 3);
        item = seqread_get(item, sizeof *item, &reader);
    }

    /* Steps of nearly a page, jumps ahead and back. */
    uint32_t step = SEQREAD_CACHE_SIZE - 4, at = 0;
    word = seqread_seek((__mram_ptr void *)&data[0], &reader);
    while (at + step < WORDS * 4) {
        EQUAL(*word, at / 4 * 3);
        word = seqread_get(word, step, &reader);
        at += step;
    }
    static const uint16_t places[] = {2000, 5, 6, 2999, 0, 1024, 1023};
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
        word = seqread_seek((__mram_ptr void *)&data[places[i]], &reader);
        EQUAL(*word, places[i] * 3);
        EQUAL(seqread_tell(word, &reader), &data[places[i]]);
    }
    return 0;
}
