#include "check.h"

#include <alloc.h>
#include <barrier.h>
#include <errno.h>
#include <string.h>

BARRIER_INIT(barrier, NR_TASKLETS);

static void *starts[NR_TASKLETS];
static fsb_allocator_t blocks;
static uint32_t owned;

static uint32_t random_state[NR_TASKLETS];
static uint32_t random(void)
{
    uint32_t *x = &random_state[me()];
    *x = *x * 1664525 + 1013904223;
    return *x >> 8;
}

static void incremental(void)
{
    static void *first;
    if (me() == 0)
        first = mem_reset();
    barrier_wait(&barrier);
    CHECK(((uint32_t)first & 7) == 0);
    char *block = mem_alloc(12);
    CHECK(((uint32_t)block & 7) == 0);
    memset(block, me(), 12);
    starts[me()] = block;
    barrier_wait(&barrier);
    for (uint32_t t = 0; t < NR_TASKLETS; t++)
        CHECK(t == me() || (char *)starts[t] + 12 <= block || block + 12 <= (char *)starts[t]);
    for (uint32_t i = 0; i < 12; i++)
        EQUAL(block[i], me());
    barrier_wait(&barrier);
    if (me() == 0) {
        EQUAL(mem_reset(), first);
        EQUAL(mem_alloc(0), first);
        EQUAL(mem_alloc(5), first);
        EQUAL(mem_alloc(1), (uint32_t)first + 8);
    }
    barrier_wait(&barrier);
}

/* Blocks of one size: 5-byte blocks take 8, as many as there are, no more, and again. */
static void fixed_size(void)
{
    enum { BLOCKS = 10 };
    static void *got[BLOCKS + 1];
    if (me() == 0) {
        blocks = fsb_alloc(5, BLOCKS);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < BLOCKS; i++) {
                got[i] = fsb_get(blocks);
                CHECK(got[i] != NULL && ((uint32_t)got[i] & 7) == 0);
                for (int j = 0; j < i; j++)
                    CHECK((char *)got[i] + 8 <= (char *)got[j] ||
                          (char *)got[j] + 8 <= (char *)got[i]);
                memset(got[i], 0xff, 8);
            }
            EQUAL(fsb_get(blocks), NULL);
            for (int i = 0; i < BLOCKS; i++)
                fsb_free(blocks, got[i]);
        }
        EQUAL(fsb_get(fsb_alloc(0, 0)), NULL);
    }
    barrier_wait(&barrier);
    for (int i = 0; i < 20; i++) {
        uint32_t *mine = fsb_get(blocks);
        if (!mine)
            continue;
        mine[0] = mine[1] = me() + i * 256;
        for (volatile uint32_t wait = random() % 8; wait; wait--) {
        }
        EQUAL(mine[0], me() + i * 256);
        EQUAL(mine[1], me() + i * 256);
        fsb_free(blocks, mine);
        mutex_lock(check_mutex);
        owned++;
        mutex_unlock(check_mutex);
    }
    barrier_wait(&barrier);
    CHECK(owned >= 20);
}

static void buddies(void)
{
    if (me() == 0) {
        mem_reset();
        buddy_init(1000);
        EQUAL(errno, EINVAL);
        buddy_init(8192);
        errno = 0;
        EQUAL(buddy_alloc(0), NULL);
        EQUAL(errno, EINVAL);
        errno = 0;
        EQUAL(buddy_alloc(4097), NULL);
        EQUAL(errno, EINVAL);
        char *a = buddy_alloc(4096), *b = buddy_alloc(3000);
        CHECK(a && b && (a + 4096 == b || b + 4096 == a));
        errno = 0;
        EQUAL(buddy_alloc(1), NULL);
        EQUAL(errno, ENOMEM);
        errno = 0;
        buddy_free(a + 32);
        EQUAL(errno, EINVAL);
        buddy_free(a);
        errno = 0;
        buddy_free(a);
        EQUAL(errno, EINVAL);
        /* What was split comes together again: the whole block is there once more. */
        char *parts[128];
        for (int i = 0; i < 128; i++) {
            parts[i] = buddy_alloc(32);
            CHECK(parts[i] >= a && parts[i] < a + 4096);
        }
        EQUAL(buddy_alloc(32), NULL);
        for (int i = 0; i < 128; i++)
            buddy_free(parts[(i * 37) & 127]);
        EQUAL(buddy_alloc(4096), a);
        buddy_free(a);
        buddy_free(b);
        /* realloc keeps the content, and the block where the size class stays. */
        char *c = buddy_alloc(40);
        for (int i = 0; i < 64; i++)
            c[i] = i;
        EQUAL(buddy_realloc(c, 64), c);
        char *d = buddy_realloc(c, 300);
        CHECK(d && d != c);
        for (int i = 0; i < 64; i++)
            EQUAL(d[i], i);
        buddy_free(d);
    }
    barrier_wait(&barrier);
    /* All tasklets at once: nobody's block is another's. */
    enum { HELD = 4 };
    uint8_t *held[HELD] = {0};
    uint32_t size[HELD] = {0};
    for (int i = 0; i < 60; i++) {
        uint32_t slot = random() % HELD;
        if (held[slot]) {
            for (uint32_t j = 0; j < size[slot]; j += 16)
                EQUAL(held[slot][j], me() * 16 + slot);
            buddy_free(held[slot]);
            held[slot] = NULL;
            continue;
        }
        size[slot] = random() % 200 + 1;
        held[slot] = buddy_alloc(size[slot]);
        if (held[slot])
            memset(held[slot], me() * 16 + slot, size[slot]);
    }
    for (int slot = 0; slot < HELD; slot++)
        if (held[slot])
            buddy_free(held[slot]);
    barrier_wait(&barrier);
    if (me() == 0)
        CHECK(buddy_alloc(4096) && buddy_alloc(4096));
    barrier_wait(&barrier);
}

int main(void)
{
    random_state[me()] = me() * 7919 + 1;
    if (me() == 0)
        owned = 0;
    incremental();
    fixed_size();
    buddies();
    return 0;
}
