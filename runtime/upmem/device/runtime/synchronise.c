/*
 * Barriers, semaphores, handshakes and virtual mutexes from atomic bits, stop and resume.
 *
 * A queue of sleeping tasklets is a ring: the queue's byte names the last one, next[last] the
 * first; 0xff is the empty queue. A tasklet waits in one queue at a time, so one table serves
 * all queues. An entry is read before its tasklet is resumed: from then on it is that tasklet's.
 */
#include <atomic_bit.h>
#include <barrier.h>
#include <defs.h>
#include <errno.h>
#include <handshake.h>
#include <sem.h>
#include <vmutex.h>

#define NOBODY 0xff

static uint8_t next[24];

static void enqueue(uint8_t *queue, uint8_t tasklet)
{
    uint8_t last = *queue;
    if (last == NOBODY) {
        next[tasklet] = tasklet;
    } else {
        next[tasklet] = next[last];
        next[last] = tasklet;
    }
    *queue = tasklet;
}

void barrier_wait(barrier_t *barrier)
{
    uint32_t lock = barrier->lock;
    __dpu_acquire(lock);
    uint8_t count = (uint8_t)(barrier->count - 1);
    if (count != 0) {
        barrier->count = count;
        enqueue(&barrier->wait_queue, (uint8_t)me());
        __dpu_release(lock);
        __dpu_stop();
        return;
    }
    barrier->count = barrier->initial_count;
    uint8_t last = barrier->wait_queue;
    barrier->wait_queue = NOBODY;
    if (last != NOBODY) {
        uint8_t tasklet = next[last];
        for (;;) {
            uint8_t following = next[tasklet];
            __dpu_resume(tasklet);
            if (tasklet == last)
                break;
            tasklet = following;
        }
    }
    __dpu_release(lock);
}

void sem_take(sem_t *sem)
{
    uint32_t lock = sem->lock;
    __dpu_acquire(lock);
    int8_t count = (int8_t)(sem->count - 1);
    sem->count = count;
    if (count < 0) {
        enqueue(&sem->wait_queue, (uint8_t)me());
        __dpu_release(lock);
        __dpu_stop();
        return;
    }
    __dpu_release(lock);
}

void sem_give(sem_t *sem)
{
    uint32_t lock = sem->lock;
    __dpu_acquire(lock);
    sem->count = (int8_t)(sem->count + 1);
    uint8_t last = sem->wait_queue;
    if (last != NOBODY) {
        uint8_t first = next[last];
        if (first == last)
            sem->wait_queue = NOBODY;
        else
            next[last] = next[first];
        __dpu_resume(first);
    }
    __dpu_release(lock);
}

/* Of each notifier: who sleeps until it notifies, NOTIFIED while it sleeps itself, or NOBODY. */
#define NOTIFIED 0xfe
static uint8_t waiter[24] = {
    NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY,
    NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY,
};

__attribute__((section(".bss.atomic.runtime"))) static uint8_t handshake_lock;

void handshake_notify(void)
{
    sysname_t self = me();
    __dpu_acquire((uint32_t)&handshake_lock);
    uint8_t other = waiter[self];
    if (other == NOBODY) {
        waiter[self] = NOTIFIED;
        __dpu_release((uint32_t)&handshake_lock);
        __dpu_stop();
        return;
    }
    waiter[self] = NOBODY;
    __dpu_resume(other);
    __dpu_release((uint32_t)&handshake_lock);
}

int handshake_wait_for(sysname_t notifier)
{
    sysname_t self = me();
    if (notifier == self || notifier >= 24)
        return EINVAL;
    __dpu_acquire((uint32_t)&handshake_lock);
    uint8_t state = waiter[notifier];
    if (state == NOBODY) {
        waiter[notifier] = (uint8_t)self;
        __dpu_release((uint32_t)&handshake_lock);
        __dpu_stop();
        return 0;
    }
    if (state == NOTIFIED) {
        waiter[notifier] = NOBODY;
        __dpu_resume(notifier);
        __dpu_release((uint32_t)&handshake_lock);
        return 0;
    }
    __dpu_release((uint32_t)&handshake_lock);
    return EALREADY;
}

bool vmutex_trylock(struct vmutex *vmutex, uint16_t id)
{
    uint8_t *byte = vmutex->vmutexes + (id >> 3);
    uint8_t bit = (uint8_t)(1u << (id & 7));
    /* All bits of a byte share a hardware mutex, so its number comes from the byte's. */
    mutex_pool_lock(&vmutex->hw_mutexes, id >> 3);
    bool got = !(*byte & bit);
    if (got)
        *byte |= bit;
    mutex_pool_unlock(&vmutex->hw_mutexes, id >> 3);
    return got;
}

void vmutex_lock(struct vmutex *vmutex, uint16_t id)
{
    while (!vmutex_trylock(vmutex, id)) {
    }
}

void vmutex_unlock(struct vmutex *vmutex, uint16_t id)
{
    mutex_pool_lock(&vmutex->hw_mutexes, id >> 3);
    vmutex->vmutexes[id >> 3] &= (uint8_t) ~(1u << (id & 7));
    mutex_pool_unlock(&vmutex->hw_mutexes, id >> 3);
}
