/* Variables of all kinds; `operation` says what a launch does. */
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    int8_t a;
    int16_t b;
    int64_t c;
} mixed;

__host uint32_t operation;
__host uint64_t factorial = 1;
__host uint32_t counter;
__host struct {
    uint32_t value[4];
} from_each_tasklet[NR_TASKLETS];
__host uint32_t heap;
uint32_t hidden = 5;
__host static volatile uint32_t visible_static = 77;

__mram int32_t initialised[6] = {10, -20, 30, -40, 50, -60};
__mram_noinit uint8_t kept[64];
__mram_noinit uint64_t words[1024];
__mram mixed record = {-3, -300, -30000000000};

BARRIER_INIT(barrier, NR_TASKLETS);

static void direct(void)
{
    int32_t sum = 0;
    for (int i = 0; i < 6; i++)
        sum += initialised[i];
    initialised[5] = sum;
    kept[1] = kept[0] + 1;
    record.a++;
    record.b--;
    record.c *= 2;
    mixed copy = record;
    copy.a = 9;
    words[0] = (uint64_t)copy.c;
    words[1] = (uint64_t)(copy.a + copy.b);
}

int main(void)
{
    if (me() == 0) {
        heap = (uint32_t)DPU_MRAM_HEAP_POINTER;
        counter += hidden;
        if (operation == 1)
            for (uint64_t i = 1; i <= 5; i++)
                factorial *= i;
        if (operation == 2)
            direct();
        if (operation == 3)
            printf("%u\n", visible_static);
        if (operation == 6)
            for (uint32_t i = 0; i < 200000; i++)
                __asm__ volatile("");
    }
    barrier_wait(&barrier);
    for (uint32_t i = 0; i < 4; i++)
        from_each_tasklet[me()].value[i] = me() * 10 + i;
    if (operation == 4) {
        /* Twice what is in MRAM, from the heap pointer on. */
        static uint64_t block[NR_TASKLETS][8];
        __mram_ptr uint64_t *mine = (__mram_ptr uint64_t *)DPU_MRAM_HEAP_POINTER + 8 * me();
        mram_read(mine, block[me()], 64);
        for (int i = 0; i < 8; i++)
            block[me()][i] *= 2;
        mram_write(block[me()], mine, 64);
    }
    if (operation == 5 && me() == 1)
        halt();
    return 0;
}
