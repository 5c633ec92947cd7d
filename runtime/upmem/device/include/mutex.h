/* Mutexes: a tasklet that waits for one spins, which costs issue slots. Not recursive. */
#ifndef DPU_MUTEX_H
#define DPU_MUTEX_H

#include <atomic_bit.h>
#include <stdbool.h>

typedef uint8_t *mutex_id_t;

#define MUTEX_GET(_name) _name
#define MUTEX_INIT(_name)                                                                          \
    ATOMIC_BIT_INIT(mutex_##_name);                                                                \
    const mutex_id_t MUTEX_GET(_name) = &ATOMIC_BIT_GET(mutex_##_name)

__dpu_inline void mutex_lock(mutex_id_t mutex)
{
    __dpu_acquire((uint32_t)mutex);
}

__dpu_inline bool mutex_trylock(mutex_id_t mutex)
{
    return __dpu_try_acquire((uint32_t)mutex) != 0;
}

__dpu_inline void mutex_unlock(mutex_id_t mutex)
{
    __dpu_release((uint32_t)mutex);
}

#endif
