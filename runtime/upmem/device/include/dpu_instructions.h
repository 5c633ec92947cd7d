/*
 * The DPU's own operations as custom-0 instructions (opcode 0x0b) of the stand-in instruction
 * set; the table of encodings is in engine/engine.h.
 */
#ifndef DPU_INSTRUCTIONS_H
#define DPU_INSTRUCTIONS_H

#include <attributes.h>
#include <stdint.h>

__dpu_inline unsigned int __dpu_tasklet(void)
{
    unsigned int id;
    /* No clobber and not volatile: the number never changes, one read serves all uses. */
    __asm__("csrr %0, mhartid" : "=r"(id));
    return id;
}

__dpu_inline void __dpu_dma_read(uint32_t wram, uint32_t mram, uint32_t bytes)
{
    __asm__ volatile(".insn r4 0x0b, 0, 0, x0, %0, %1, %2" ::"r"(wram), "r"(mram), "r"(bytes)
                     : "memory");
}

__dpu_inline void __dpu_dma_write(uint32_t wram, uint32_t mram, uint32_t bytes)
{
    __asm__ volatile(".insn r4 0x0b, 1, 0, x0, %0, %1, %2" ::"r"(wram), "r"(mram), "r"(bytes)
                     : "memory");
}

__dpu_inline void __dpu_acquire(uint32_t bit)
{
    __asm__ volatile(".insn r 0x0b, 2, 0, x0, %0, x0" ::"r"(bit) : "memory");
}

__dpu_inline uint32_t __dpu_try_acquire(uint32_t bit)
{
    uint32_t got;
    __asm__ volatile(".insn r 0x0b, 2, 1, %0, %1, x0" : "=r"(got) : "r"(bit) : "memory");
    return got;
}

__dpu_inline void __dpu_release(uint32_t bit)
{
    __asm__ volatile(".insn r 0x0b, 3, 0, x0, %0, x0" ::"r"(bit) : "memory");
}

__dpu_inline void __dpu_stop(void)
{
    __asm__ volatile(".insn r 0x0b, 4, 0, x0, x0, x0" ::: "memory");
}

__dpu_inline void __dpu_resume(uint32_t tasklet)
{
    __asm__ volatile(".insn r 0x0b, 5, 0, x0, %0, x0" ::"r"(tasklet) : "memory");
}

__dpu_inline uint32_t __dpu_counter(void)
{
    uint32_t value;
    __asm__ volatile(".insn r 0x0b, 6, 0, %0, x0, x0" : "=r"(value)::"memory");
    return value;
}

__dpu_inline uint32_t __dpu_counter_config(uint32_t mode, uint32_t reset)
{
    uint32_t value;
    __asm__ volatile(".insn r 0x0b, 6, 1, %0, %1, %2"
                     : "=r"(value)
                     : "r"(mode), "r"(reset)
                     : "memory");
    return value;
}

/* Tells the checks that nobody has written these WRAM bytes since they were handed out. */
__dpu_inline void __dpu_fresh(uint32_t wram, uint32_t bytes)
{
    __asm__ volatile(".insn r 0x0b, 6, 2, x0, %0, %1" ::"r"(wram), "r"(bytes) : "memory");
}

__dpu_inline uint32_t __dpu_wram_bytes(void)
{
    uint32_t bytes;
    __asm__(".insn r 0x0b, 6, 3, %0, x0, x0" : "=r"(bytes));
    return bytes;
}

__dpu_inline __attribute__((noreturn)) void __dpu_fault(uint32_t number)
{
    __asm__ volatile(".insn r 0x0b, 7, 0, x0, %0, x0" ::"r"(number) : "memory");
    __builtin_unreachable();
}

__dpu_inline int __dpu_print(const char *format, const void *arguments)
{
    int written;
    __asm__ volatile(".insn r 0x0b, 7, 1, %0, %1, %2"
                     : "=r"(written)
                     : "r"(format), "r"(arguments)
                     : "memory");
    return written;
}

#endif
