/* The incremental allocator and the blocks of one size on top of it. */
#include <alloc.h>
#include <atomic_bit.h>
#include <defs.h>
#include <stdint.h>

extern char __heap_start[]; /* linker script */

static uint32_t heap_pointer = (uint32_t)__heap_start;

__attribute__((section(".bss.atomic.runtime"))) static uint8_t heap_lock, blocks_lock;

void *mem_alloc(size_t size)
{
    __dpu_acquire((uint32_t)&heap_lock);
    uint32_t start = (heap_pointer + 7) & ~7u;
    uint32_t limit = __dpu_wram_bytes();
    if (size > limit || start + size > limit)
        __dpu_fault(__DPU_FAULT_HEAP_FULL);
    heap_pointer = start + size;
    __dpu_fresh(start, size);
    __dpu_release((uint32_t)&heap_lock);
    return (void *)start;
}

void *mem_reset(void)
{
    heap_pointer = (uint32_t)__heap_start;
    return __heap_start;
}

/* The allocator is a word that points to the first free block; each free block to the next. */
fsb_allocator_t fsb_alloc(unsigned int block_size, unsigned int nb_of_blocks)
{
    uint32_t limit = __dpu_wram_bytes();
    if (block_size > limit || nb_of_blocks > limit)
        __dpu_fault(__DPU_FAULT_HEAP_FULL);
    block_size = block_size ? (block_size + 7) & ~7u : 8;
    if ((uint64_t)block_size * nb_of_blocks > limit)
        __dpu_fault(__DPU_FAULT_HEAP_FULL);
    char *blocks = mem_alloc(block_size * nb_of_blocks + 8);
    fsb_allocator_t allocator = (fsb_allocator_t)blocks;
    blocks += 8;
    *allocator = nb_of_blocks ? blocks : NULL;
    for (unsigned int i = 0; i < nb_of_blocks; i++, blocks += block_size)
        *(void **)blocks = i + 1 < nb_of_blocks ? blocks + block_size : NULL;
    return allocator;
}

void *fsb_get(fsb_allocator_t allocator)
{
    __dpu_acquire((uint32_t)&blocks_lock);
    void **block = *allocator;
    if (block)
        *allocator = *block;
    __dpu_release((uint32_t)&blocks_lock);
    return block;
}

void fsb_free(fsb_allocator_t allocator, void *block)
{
    __dpu_acquire((uint32_t)&blocks_lock);
    *(void **)block = *allocator;
    *allocator = block;
    __dpu_release((uint32_t)&blocks_lock);
}
