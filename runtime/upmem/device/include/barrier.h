/* Barriers: the last of `count` tasklets to come lets all go on. Waiting tasklets sleep. */
#ifndef DPU_BARRIER_H
#define DPU_BARRIER_H

#include <atomic_bit.h>

/* May also be filled at run time: an empty queue is 0xff, lock the number of an atomic bit. */
typedef struct barrier_t {
    uint8_t wait_queue;
    uint8_t count;
    uint8_t initial_count;
    uint8_t lock;
} barrier_t;

/*
 * In assembly because C has no constant for the low byte of an address. The count is below 128.
 */
#define BARRIER_INIT(_name, _counter)                                                              \
    _Static_assert((_counter) < 128 && (_counter) > 0, "a barrier counts 1 to 127 tasklets");      \
    ATOMIC_BIT_INIT(barrier_##_name) __attribute__((used));                                        \
    extern barrier_t _name;                                                                        \
    __DPU_BYTES4(_name, 0xff, _counter, _counter, __atomic_bit_barrier_##_name)

#define __DPU_STRING(...) __DPU_STRING_OF(__VA_ARGS__)
#define __DPU_STRING_OF(...) #__VA_ARGS__
/* A global of three bytes and the low byte of a symbol. */
#define __DPU_BYTES4(_name, _a, _b, _c, _symbol)                                                   \
    __asm__(".pushsection .data." __DPU_STRING(_name) ",\"aw\",@progbits\n"                        \
            ".type " __DPU_STRING(_name) ", @object\n"                                             \
            ".globl " __DPU_STRING(_name) "\n"                                                     \
            ".p2align 2\n"                                                                         \
            __DPU_STRING(_name) ":\n"                                                              \
            ".byte " __DPU_STRING(_a) "\n"                                                         \
            ".byte " __DPU_STRING(_b) "\n"                                                         \
            ".byte " __DPU_STRING(_c) "\n"                                                         \
            ".reloc ., R_RISCV_SET8, " __DPU_STRING(_symbol) "\n"                                  \
            ".byte 0\n"                                                                            \
            ".size " __DPU_STRING(_name) ", 4\n"                                                   \
            ".popsection\n");

void barrier_wait(barrier_t *barrier);

#endif
