/* Where variables live and how they are seen; names and meaning as in the UPMEM SDK. */
#ifndef DPU_ATTRIBUTES_H
#define DPU_ATTRIBUTES_H

/* A pointer to MRAM, or a variable there that another file defines. */
#define __mram_ptr __attribute__((address_space(255)))

/* MRAM, written by dpu_load. */
#define __mram __mram_ptr __attribute__((section(".mram"), aligned(8)))
#define __mram_keep __mram
/* MRAM, left as it is by dpu_load. The .bss name keeps the bytes out of the object file. */
#define __mram_noinit __mram_ptr __attribute__((section(".bss.mram.noinit"), aligned(8)))
#define __mram_noinit_keep __mram_noinit

/* WRAM that the host may read and write by name. The linker keeps it, used or not. */
#define __host __attribute__((section(".dpu_host"), aligned(8)))

/* One of the hardware's atomic bits; its address is its number, there is no byte behind it. */
#define __atomic_bit __attribute__((section(".bss.atomic")))

#define __dma_aligned __attribute__((aligned(8)))
#define __aligned(x) __attribute__((aligned(x)))
#define __noinline __attribute__((noinline))
#define __section(s) __attribute__((section(s)))
#define __used __attribute__((used))
#define __unused __attribute__((unused))
#define __weak __attribute__((weak))
#define __naked __attribute__((naked))
#define __packed __attribute__((packed))

/*
 * What the headers define inline. Without debug information of its own its instructions belong
 * to the line of the caller, where a fault is to be reported.
 */
#define __dpu_inline static inline __attribute__((always_inline, nodebug, unused))

#endif
