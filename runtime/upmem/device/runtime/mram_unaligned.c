#include <mram_unaligned.h>

#include <atomic_bit.h>
#include <defs.h>
#include <string.h>

#define LOCKS 8
__attribute__((section(".bss.atomic.runtime"))) static uint8_t locks[LOCKS];
static uint64_t words[24]; /* the word that a tasklet changes */

static uint32_t lock_of(uint32_t address)
{
    return (uint32_t)&locks[(address >> 3) % LOCKS];
}

void *__mram_word_open(__mram_ptr void *dest)
{
    uint32_t address = (uint32_t)dest;
    __dpu_acquire(lock_of(address));
    __dpu_dma_read((uint32_t)&words[me()], address & ~7u, 8);
    return (char *)&words[me()] + (address & 7);
}

void __mram_word_close(__mram_ptr void *dest)
{
    uint32_t address = (uint32_t)dest;
    __dpu_dma_write((uint32_t)&words[me()], address & ~7u, 8);
    __dpu_release(lock_of(address));
}

void *mram_read_unaligned(const __mram_ptr void *from, void *buffer, unsigned int nb_of_bytes)
{
    uint32_t start = (uint32_t)from & ~7u, to = (uint32_t)buffer;
    uint32_t left = (((uint32_t)from + nb_of_bytes + 7) & ~7u) - start;
    if (nb_of_bytes == 0)
        left = 0;
    while (left) {
        uint32_t size = left < 2048 ? left : 2048;
        __dpu_dma_read(to, start, size);
        to += size;
        start += size;
        left -= size;
    }
    return (char *)buffer + ((uint32_t)from & 7);
}

static void write_part(uint32_t from, uint32_t to, uint32_t bytes)
{
    __mram_ptr void *dest = (__mram_ptr void *)to;
    char *word = __mram_word_open(dest);
    for (uint32_t i = 0; i < bytes; i++)
        word[i] = ((const char *)from)[i];
    __mram_word_close(dest);
}

void mram_write_unaligned(const void *source, __mram_ptr void *dest, unsigned int nb_of_bytes)
{
    uint32_t from = (uint32_t)source, to = (uint32_t)dest, left = nb_of_bytes;
    if ((from ^ to) & 7)
        __dpu_fault(__DPU_FAULT_ALIGNMENT);
    if (left && to & 7) {
        uint32_t bytes = 8 - (to & 7);
        if (bytes > left)
            bytes = left;
        write_part(from, to, bytes);
        from += bytes;
        to += bytes;
        left -= bytes;
    }
    while (left >= 8) {
        uint32_t size = left < 2048 ? left & ~7u : 2048;
        __dpu_dma_write(from, to, size);
        from += size;
        to += size;
        left -= size;
    }
    if (left)
        write_part(from, to, left);
}
