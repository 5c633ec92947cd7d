/*
 * Which bytes somebody wrote. DMA carries the state along, so that reading more of MRAM than was
 * written is no fault; loading those bytes is.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { INITIALISED = 0, UNWRITTEN = 1, FROM_MRAM = 2 /* came by DMA from unwritten MRAM */ };

#define PAGE 4096u
#define PAGES (ENGINE_MRAM_SIZE / PAGE)

struct shadow {
    uint8_t wram[ENGINE_WRAM_MAX];
    uint8_t *mram[PAGES]; /* states of a page's bytes; NULL: nothing written */
    uint8_t written[PAGE]; /* the page of those that are written as a whole: all INITIALISED */
};

shadow_t *shadow_create(void)
{
    shadow_t *s = calloc(1, sizeof *s);
    if (s)
        memset(s->wram, UNWRITTEN, sizeof s->wram);
    return s;
}

static void drop(shadow_t *s, uint32_t page)
{
    if (s->mram[page] != s->written)
        free(s->mram[page]);
    s->mram[page] = NULL;
}

void shadow_destroy(shadow_t *s)
{
    if (!s)
        return;
    for (uint32_t page = 0; page < PAGES; page++)
        drop(s, page);
    free(s);
}

void shadow_wram_fill(shadow_t *s, uint32_t address, uint32_t bytes, bool initialised)
{
    if (address >= ENGINE_WRAM_MAX)
        return;
    if (bytes > ENGINE_WRAM_MAX - address)
        bytes = ENGINE_WRAM_MAX - address;
    memset(s->wram + address, initialised ? INITIALISED : UNWRITTEN, bytes);
}

/* The states of a page, to be changed; NULL if memory is out: the page then counts as written. */
static uint8_t *own_page(shadow_t *s, uint32_t page)
{
    uint8_t *states = s->mram[page];
    if (states && states != s->written)
        return states;
    uint8_t *fresh = malloc(PAGE);
    if (fresh)
        memset(fresh, states ? INITIALISED : UNWRITTEN, PAGE);
    s->mram[page] = fresh ? fresh : s->written;
    return fresh;
}

/* Sets the states of a range of MRAM; states NULL: all INITIALISED. */
static void mram_set(shadow_t *s, uint32_t address, uint32_t bytes, const uint8_t *states)
{
    while (bytes) {
        uint32_t page = address / PAGE, offset = address % PAGE;
        uint32_t n = bytes < PAGE - offset ? bytes : PAGE - offset;
        bool clean = !states || !memchr(states, UNWRITTEN, n);
        if (clean && states)
            clean = !memchr(states, FROM_MRAM, n);
        if (clean && n == PAGE) {
            drop(s, page);
            s->mram[page] = s->written;
        } else if (!(clean && s->mram[page] == s->written)) {
            uint8_t *own = own_page(s, page);
            for (uint32_t i = 0; own && i < n; i++)
                own[offset + i] = states && states[i] ? UNWRITTEN : INITIALISED;
        }
        address += n;
        bytes -= n;
        states = states ? states + n : NULL;
    }
}

void shadow_mram_initialised(shadow_t *s, uint32_t address, uint32_t bytes)
{
    if (address < ENGINE_MRAM_SIZE)
        mram_set(s, address,
                 bytes < ENGINE_MRAM_SIZE - address ? bytes : ENGINE_MRAM_SIZE - address, NULL);
}

void shadow_dma(shadow_t *s, bool read, uint32_t wram, uint32_t mram, uint32_t bytes)
{
    if (!read) {
        mram_set(s, mram, bytes, s->wram + wram);
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        const uint8_t *states = s->mram[(mram + i) / PAGE];
        bool unwritten = !states || states[(mram + i) % PAGE];
        s->wram[wram + i] = unwritten ? FROM_MRAM : INITIALISED;
    }
}

engine_rule_t shadow_wram_load(const shadow_t *s, uint32_t address, uint32_t bytes,
                               uint32_t *first)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (s->wram[address + i]) {
            *first = address + i;
            return s->wram[address + i] == FROM_MRAM ? ENGINE_RULE_UNINITIALISED_MRAM
                                                     : ENGINE_RULE_UNINITIALISED_WRAM;
        }
    return ENGINE_RULE_NONE;
}

uint64_t shadow_wram_first(const shadow_t *s, uint32_t address, uint32_t bytes)
{
    for (uint32_t i = address; i < ENGINE_WRAM_MAX && i - address < bytes; i++)
        if (s->wram[i])
            return i;
    return UINT64_MAX;
}

uint64_t shadow_mram_first(const shadow_t *s, uint32_t address, uint32_t bytes)
{
    for (uint32_t i = address; i < ENGINE_MRAM_SIZE && i - address < bytes; i++) {
        const uint8_t *states = s->mram[i / PAGE];
        if (!states || states[i % PAGE])
            return i;
    }
    return UINT64_MAX;
}
