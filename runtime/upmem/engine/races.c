/*
 * Accesses of two tasklets to one place, one of them a write, that nothing puts in an order.
 *
 * Each tasklet has a vector clock, raised when it releases an atomic bit or resumes another. What
 * it knew then reaches whoever acquires that bit, or is resumed. An access conflicts with an
 * earlier one that the tasklet's clock does not cover. Per place, the last write is kept and the
 * reads since: one of them as long as they are ordered, else one a tasklet (C. Flanagan and
 * S. N. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009).
 *
 * WRAM is followed by byte, MRAM by word of 8 bytes: that is what DMA writes at once, so two
 * tasklets that own halves of a word lose updates.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* (tasklet + 1) << 56 | its clock; 0: none. Reads of many: MANY | index of a vector. */
typedef uint64_t epoch_t;
#define TASKLET_SHIFT 56
#define MANY (1ull << 63)
#define CLOCK(e) ((e) & ((1ull << TASKLET_SHIFT) - 1))
#define OWNER(e) ((uint32_t)((e) >> TASKLET_SHIFT) - 1)

typedef struct cell {
    epoch_t write, read;
} cell_t;

typedef uint64_t clock_vector_t[ENGINE_MAX_TASKLETS];

#define WORDS_OF_PAGE 512u
#define PAGES (ENGINE_MRAM_SIZE / 8 / WORDS_OF_PAGE)

struct races {
    clock_vector_t known[ENGINE_MAX_TASKLETS];
    clock_vector_t bits[ENGINE_ATOMIC_BITS];
    clock_vector_t *many; /* reads of several tasklets */
    uint32_t many_count, many_capacity;
    uint32_t *unused; /* free entries of many */
    uint32_t unused_count;
    cell_t wram[ENGINE_WRAM_MAX];
    cell_t *mram[PAGES];
};

races_t *races_create(void)
{
    races_t *r = calloc(1, sizeof *r);
    if (r)
        for (uint32_t t = 0; t < ENGINE_MAX_TASKLETS; t++)
            r->known[t][t] = 1;
    return r;
}

void races_destroy(races_t *r)
{
    if (!r)
        return;
    for (uint32_t page = 0; page < PAGES; page++)
        free(r->mram[page]);
    free(r->many);
    free(r->unused);
    free(r);
}

static void join(uint64_t *into, const uint64_t *from)
{
    for (uint32_t t = 0; t < ENGINE_MAX_TASKLETS; t++)
        if (from[t] > into[t])
            into[t] = from[t];
}

void order_acquire(engine_dpu_t *dpu, tasklet_t *k, uint32_t bit)
{
    if (dpu->races)
        join(dpu->races->known[k->id], dpu->races->bits[bit]);
}

void order_release(engine_dpu_t *dpu, tasklet_t *k, uint32_t bit)
{
    if (!dpu->races)
        return;
    join(dpu->races->bits[bit], dpu->races->known[k->id]);
    dpu->races->known[k->id][k->id]++;
}

void order_resume(engine_dpu_t *dpu, tasklet_t *k, tasklet_t *resumed)
{
    if (!dpu->races)
        return;
    join(dpu->races->known[resumed->id], dpu->races->known[k->id]);
    dpu->races->known[k->id][k->id]++;
}

static bool covered(const uint64_t *known, epoch_t e)
{
    return CLOCK(e) <= known[OWNER(e)];
}

/* The entry for one more place that several tasklets read, or UINT32_MAX. */
static uint32_t new_many(races_t *r)
{
    if (r->unused_count)
        return r->unused[--r->unused_count];
    if (r->many_count == r->many_capacity) {
        uint32_t capacity = r->many_capacity ? 2 * r->many_capacity : 1024;
        clock_vector_t *many = realloc(r->many, capacity * sizeof *many);
        if (!many)
            return UINT32_MAX;
        r->many = many;
        uint32_t *unused = realloc(r->unused, capacity * sizeof *unused);
        if (!unused)
            return UINT32_MAX;
        r->unused = unused;
        r->many_capacity = capacity;
    }
    return r->many_count++;
}

static void forget_reads(races_t *r, cell_t *cell)
{
    if (cell->read & MANY)
        r->unused[r->unused_count++] = (uint32_t)cell->read;
    cell->read = 0;
}

/* The tasklet that this access conflicts with, or -1. */
static int conflict(races_t *r, uint32_t t, cell_t *cell, bool write, bool *other_wrote)
{
    const uint64_t *known = r->known[t];
    epoch_t now = (uint64_t)(t + 1) << TASKLET_SHIFT | known[t];
    *other_wrote = true;
    if (cell->write && OWNER(cell->write) != t && !covered(known, cell->write))
        return (int)OWNER(cell->write);
    *other_wrote = false;
    if (!write) {
        if (cell->read == now)
            return -1;
        if (cell->read & MANY) {
            r->many[(uint32_t)cell->read][t] = known[t];
        } else if (!cell->read || OWNER(cell->read) == t || covered(known, cell->read)) {
            cell->read = now;
        } else {
            uint32_t index = new_many(r);
            if (index == UINT32_MAX)
                return -1; /* no memory: one read less is known */
            memset(r->many[index], 0, sizeof r->many[index]);
            r->many[index][OWNER(cell->read)] = CLOCK(cell->read);
            r->many[index][t] = known[t];
            cell->read = MANY | index;
        }
        return -1;
    }
    if (cell->read & MANY) {
        const uint64_t *reads = r->many[(uint32_t)cell->read];
        for (uint32_t u = 0; u < ENGINE_MAX_TASKLETS; u++)
            if (u != t && reads[u] > known[u])
                return (int)u;
    } else if (cell->read && OWNER(cell->read) != t && !covered(known, cell->read)) {
        return (int)OWNER(cell->read);
    }
    forget_reads(r, cell);
    cell->write = now;
    return -1;
}

int races_wram(engine_dpu_t *dpu, tasklet_t *k, bool write, uint32_t address, uint32_t bytes)
{
    races_t *r = dpu->races;
    for (uint32_t a = address; a < address + bytes; a++) {
        bool other_wrote;
        int other = conflict(r, k->id, &r->wram[a], write, &other_wrote);
        if (other < 0)
            continue;
        char what[96];
        return fault_at(dpu, k, ENGINE_RULE_RACE, a,
                        "%s WRAM 0x%08x%s that tasklet %d %s, with no barrier, lock or handshake "
                        "between them",
                        write ? "writes" : "reads", a, describe_address(dpu, a, what, sizeof what),
                        other, other_wrote ? "wrote" : "read");
    }
    return 0;
}

int races_mram(engine_dpu_t *dpu, tasklet_t *k, bool write, uint32_t address, uint32_t bytes)
{
    races_t *r = dpu->races;
    for (uint32_t word = address / 8; word <= (address + bytes - 1) / 8; word++) {
        cell_t **page = &r->mram[word / WORDS_OF_PAGE];
        if (!*page && !(*page = calloc(WORDS_OF_PAGE, sizeof **page)))
            return 0;
        bool other_wrote;
        int other = conflict(r, k->id, &(*page)[word % WORDS_OF_PAGE], write, &other_wrote);
        if (other < 0)
            continue;
        char what[96];
        uint32_t at = ENGINE_MRAM_BASE + 8 * word;
        return fault_at(dpu, k, ENGINE_RULE_MRAM_RACE, at,
                        "%s the 8 bytes of MRAM at 0x%08x%s that tasklet %d %s, with no barrier, "
                        "lock or handshake between them",
                        write ? "writes" : "reads", at,
                        describe_address(dpu, at, what, sizeof what), other,
                        other_wrote ? "wrote" : "read");
    }
    return 0;
}

void races_fresh(races_t *r, uint32_t address, uint32_t bytes)
{
    for (uint32_t a = address; a < address + bytes && a < ENGINE_WRAM_MAX; a++) {
        forget_reads(r, &r->wram[a]);
        r->wram[a].write = 0;
    }
}
