/* Counting semaphores; waiting tasklets sleep and go on in the order in which they came. */
#ifndef DPU_SEM_H
#define DPU_SEM_H

#include <barrier.h>

typedef struct sem_t {
    uint8_t wait_queue;
    int8_t count; /* negative: tasklets that wait */
    int8_t initial_count;
    uint8_t lock;
} sem_t;

#define SEMAPHORE_INIT(_name, _counter)                                                            \
    _Static_assert((_counter) >= -128 && (_counter) < 128, "a semaphore's counter is 8 bits");     \
    ATOMIC_BIT_INIT(semaphore_##_name) __attribute__((used));                                      \
    extern sem_t _name;                                                                            \
    __DPU_BYTES4(_name, 0xff, _counter, _counter, __atomic_bit_semaphore_##_name)

void sem_take(sem_t *sem);
void sem_give(sem_t *sem);

#endif
