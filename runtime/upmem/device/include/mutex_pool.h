/* A few mutexes that many elements share: element i has mutex i modulo their number. */
#ifndef DPU_MUTEX_POOL_H
#define DPU_MUTEX_POOL_H

#include <mutex.h>

struct mutex_pool {
    uint8_t *hw_mutexes;
    uint8_t hw_mutexes_mask;
};

/* nb_mutexes is a power of two. */
#define MUTEX_POOL_INIT(_name, nb_mutexes)                                                         \
    _Static_assert(((nb_mutexes) & ((nb_mutexes) - 1)) == 0 && (nb_mutexes) > 0,                   \
                   "the number of mutexes in a pool is a power of two");                           \
    ATOMIC_BIT_INIT(pool_##_name)[nb_mutexes];                                                     \
    struct mutex_pool _name = {ATOMIC_BIT_GET(pool_##_name), (nb_mutexes) - 1}

__dpu_inline void mutex_pool_lock(const struct mutex_pool *pool, uint16_t id)
{
    mutex_lock(pool->hw_mutexes + (id & pool->hw_mutexes_mask));
}

__dpu_inline bool mutex_pool_trylock(const struct mutex_pool *pool, uint16_t id)
{
    return mutex_trylock(pool->hw_mutexes + (id & pool->hw_mutexes_mask));
}

__dpu_inline void mutex_pool_unlock(const struct mutex_pool *pool, uint16_t id)
{
    mutex_unlock(pool->hw_mutexes + (id & pool->hw_mutexes_mask));
}

#endif
