/*
 * Transfers between WRAM and MRAM. Both addresses must be multiples of 8, the size a multiple of
 * 8 from 8 to 2048; what the compiler can see to be otherwise is an error here.
 */
#ifndef DPU_MRAM_H
#define DPU_MRAM_H

#include <attributes.h>
#include <dpu_instructions.h>
#include <stdint.h>

extern __mram_ptr uint8_t __sys_used_mram_end[];
/* The first MRAM byte after all variables there. */
#define DPU_MRAM_HEAP_POINTER ((__mram_ptr void *)(__sys_used_mram_end))

#define __DPU_DMA_SIZE(n)                                                                          \
    __attribute__((diagnose_if(__builtin_constant_p(n) && ((n) < 8 || (n) > 2048 || (n) % 8),      \
                               "MRAM transfers take 8 to 2048 bytes, a multiple of 8", "error")))

__dpu_inline void mram_read(const __mram_ptr void *from, void *to, unsigned int nb_of_bytes)
    __DPU_DMA_SIZE(nb_of_bytes)
{
    __dpu_dma_read((uint32_t)to, (uint32_t)from, nb_of_bytes);
}

__dpu_inline void mram_write(const void *from, __mram_ptr void *to, unsigned int nb_of_bytes)
    __DPU_DMA_SIZE(nb_of_bytes)
{
    __dpu_dma_write((uint32_t)from, (uint32_t)to, nb_of_bytes);
}

/* Names of earlier SDK versions for fixed sizes. */
#define mram_read8(from, to) mram_read(from, to, 8)
#define mram_read16(from, to) mram_read(from, to, 16)
#define mram_read32(from, to) mram_read(from, to, 32)
#define mram_read64(from, to) mram_read(from, to, 64)
#define mram_read128(from, to) mram_read(from, to, 128)
#define mram_read256(from, to) mram_read(from, to, 256)
#define mram_read512(from, to) mram_read(from, to, 512)
#define mram_read1024(from, to) mram_read(from, to, 1024)
#define mram_read2048(from, to) mram_read(from, to, 2048)
#define mram_write8(from, to) mram_write(from, to, 8)
#define mram_write16(from, to) mram_write(from, to, 16)
#define mram_write32(from, to) mram_write(from, to, 32)
#define mram_write64(from, to) mram_write(from, to, 64)
#define mram_write128(from, to) mram_write(from, to, 128)
#define mram_write256(from, to) mram_write(from, to, 256)
#define mram_write512(from, to) mram_write(from, to, 512)
#define mram_write1024(from, to) mram_write(from, to, 1024)
#define mram_write2048(from, to) mram_write(from, to, 2048)

#endif
