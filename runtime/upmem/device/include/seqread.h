/*
 * Reading MRAM from front to back through a WRAM cache of two pages of SEQREAD_CACHE_SIZE bytes
 * (32, 64, ... 1024; default 256). An item may reach from the first page into the second; two
 * pages are read whenever the first one is left, also past the end of the data.
 */
#ifndef DPU_SEQREAD_H
#define DPU_SEQREAD_H

#include <attributes.h>
#include <stdint.h>

#ifndef SEQREAD_CACHE_SIZE
#define SEQREAD_CACHE_SIZE 256
#endif

#if SEQREAD_CACHE_SIZE != 32 && SEQREAD_CACHE_SIZE != 64 && SEQREAD_CACHE_SIZE != 128 &&           \
    SEQREAD_CACHE_SIZE != 256 && SEQREAD_CACHE_SIZE != 512 && SEQREAD_CACHE_SIZE != 1024
#error "SEQREAD_CACHE_SIZE is 32, 64, 128, 256, 512 or 1024"
#endif

typedef uintptr_t seqreader_buffer_t;

typedef struct {
    seqreader_buffer_t wram_cache;
    uintptr_t mram_addr; /* of the first page in the cache */
} seqreader_t;

seqreader_buffer_t __seqread_alloc(uint32_t page);
void *__seqread_seek(uintptr_t mram, seqreader_t *reader, uint32_t page);
void *__seqread_next(uint32_t position, seqreader_t *reader, uint32_t page);

/* A cache from the heap. */
__dpu_inline seqreader_buffer_t seqread_alloc(void)
{
    return __seqread_alloc(SEQREAD_CACHE_SIZE);
}

/* Starts at mram_addr; returns where its item is in WRAM. */
__dpu_inline void *seqread_init(seqreader_buffer_t cache, __mram_ptr void *mram_addr,
                                seqreader_t *reader)
{
    reader->wram_cache = cache;
    reader->mram_addr = 1; /* no page: the first seek reads */
    return __seqread_seek((uintptr_t)mram_addr, reader, SEQREAD_CACHE_SIZE);
}

/* The item `inc` bytes (at most a page) after ptr. */
__dpu_inline void *seqread_get(void *ptr, uint32_t inc, seqreader_t *reader)
{
    uint32_t position = (uint32_t)ptr + inc - reader->wram_cache;
    if (position < SEQREAD_CACHE_SIZE)
        return (char *)ptr + inc;
    return __seqread_next(position, reader, SEQREAD_CACHE_SIZE);
}

__dpu_inline void *seqread_seek(__mram_ptr void *mram_addr, seqreader_t *reader)
{
    return __seqread_seek((uintptr_t)mram_addr, reader, SEQREAD_CACHE_SIZE);
}

/* The MRAM address of ptr. */
__dpu_inline __mram_ptr void *seqread_tell(void *ptr, seqreader_t *reader)
{
    return (__mram_ptr void *)(reader->mram_addr + ((uintptr_t)ptr - reader->wram_cache));
}

#endif
