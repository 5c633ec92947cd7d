/* Atomic bits: the hardware's test-and-set. */
#ifndef DPU_ATOMIC_BIT_H
#define DPU_ATOMIC_BIT_H

#include <attributes.h>
#include <dpu_instructions.h>
#include <stdint.h>

#define ATOMIC_BIT_GET(_name) __atomic_bit_##_name
#define ATOMIC_BIT_INIT(_name) uint8_t __atomic_bit ATOMIC_BIT_GET(_name)
#define ATOMIC_BIT_EXTERN(_name) extern uint8_t ATOMIC_BIT_GET(_name)
#define ATOMIC_BIT_INDEX(_name) ((uint8_t)(uint32_t)&ATOMIC_BIT_GET(_name))
#define ATOMIC_BIT_ACQUIRE(_name) __dpu_acquire((uint32_t)&ATOMIC_BIT_GET(_name))
#define ATOMIC_BIT_RELEASE(_name) __dpu_release((uint32_t)&ATOMIC_BIT_GET(_name))

#endif
