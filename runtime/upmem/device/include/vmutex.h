/* Virtual mutexes: one bit of WRAM each, changed under the mutexes of a small pool. */
#ifndef DPU_VMUTEX_H
#define DPU_VMUTEX_H

#include <mutex_pool.h>

struct vmutex {
    uint8_t *vmutexes; /* a bit each */
    struct mutex_pool hw_mutexes;
};

/* nb_vmutexes is a multiple of 8, nb_hw_mutexes a power of two. */
#define VMUTEX_INIT(_name, nb_vmutexes, nb_hw_mutexes)                                             \
    _Static_assert((nb_vmutexes) % 8 == 0 && (nb_vmutexes) > 0,                                    \
                   "the number of virtual mutexes is a multiple of 8");                            \
    _Static_assert(((nb_hw_mutexes) & ((nb_hw_mutexes) - 1)) == 0 && (nb_hw_mutexes) > 0,          \
                   "the number of hardware mutexes is a power of two");                            \
    ATOMIC_BIT_INIT(vmutex_##_name)[nb_hw_mutexes];                                                \
    uint8_t __vmutex_bits_##_name[(nb_vmutexes) / 8];                                              \
    struct vmutex _name = {__vmutex_bits_##_name,                                                  \
                           {ATOMIC_BIT_GET(vmutex_##_name), (nb_hw_mutexes) - 1}}

bool vmutex_trylock(struct vmutex *vmutex, uint16_t id);
void vmutex_lock(struct vmutex *vmutex, uint16_t id);
void vmutex_unlock(struct vmutex *vmutex, uint16_t id);

#endif
