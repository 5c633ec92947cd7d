/* The three allocators of the WRAM heap. */
#ifndef DPU_ALLOC_H
#define DPU_ALLOC_H

#include <stddef.h>

/* ---- incremental: no free, safe between tasklets ---- */

/* A block at a multiple of 8; runtime fault 1 where WRAM is out. */
void *mem_alloc(size_t size);
/*
 * Everything is free again; returns the heap's start. Launches do not do this by themselves.
 * Not safe against tasklets that use the heap: one tasklet calls it, then a barrier.
 */
void *mem_reset(void);

/* ---- blocks of one size, taken from the heap at once ---- */

typedef void **fsb_allocator_t;

/* Block sizes are rounded up to 8, none is smaller than 8. Runtime fault 1 where WRAM is out. */
fsb_allocator_t fsb_alloc(unsigned int block_size, unsigned int nb_of_blocks);
/* A block, or NULL where all are taken. */
void *fsb_get(fsb_allocator_t allocator);
void fsb_free(fsb_allocator_t allocator, void *block);

/* ---- buddies: blocks of 32 to 4096 bytes ---- */

/* Takes size_of_heap bytes, a power of two from 2048 to 32768, from the heap. */
void buddy_init(size_t size_of_heap);
/*
 * A block for 1 to 4096 bytes, at a multiple of its power of two size within the buddies' heap.
 * NULL with errno EINVAL for another size, ENOMEM where no block is left.
 */
void *buddy_alloc(size_t size);
/* Frees a block; errno EINVAL if it is none that is in use. */
void buddy_free(void *block);
/* A block of the new size with the old content; NULL (and the old one stays) on failure. */
void *buddy_realloc(void *block, size_t size);
/* Earlier name. */
#define buddy_reset() buddy_init(4096)

#endif
