#include "check.h"

#include <barrier.h>
#include <errno.h>
#include <handshake.h>
#include <mutex_pool.h>
#include <sem.h>
#include <vmutex.h>

BARRIER_INIT(all, NR_TASKLETS);
SEMAPHORE_INIT(slots, 3);
SEMAPHORE_INIT(items, 0);
SEMAPHORE_INIT(gate, -1);
MUTEX_INIT(mutex);
MUTEX_POOL_INIT(pool, 4);
VMUTEX_INIT(virtual_locks, 64, 4);
ATOMIC_BIT_INIT(made_at_run_time)[2];
barrier_t halves[2];

static uint32_t sum, in_ring, most_in_ring, phase[NR_TASKLETS], order[NR_TASKLETS], orders;
static uint32_t pool_counts[16], virtual_counts[64];
static uint32_t ring[4], head, tail, received;
static uint32_t left_behind;

static void barriers(void)
{
    for (uint32_t round = 1; round <= 5; round++) {
        phase[me()] = round;
        barrier_wait(&all);
        for (uint32_t t = 0; t < NR_TASKLETS; t++)
            EQUAL(phase[t], round);
        barrier_wait(&all);
    }
    if (me() == 0)
        for (int i = 0; i < 2; i++) {
            halves[i].wait_queue = 0xff;
            halves[i].count = halves[i].initial_count = NR_TASKLETS / 2;
            halves[i].lock = (uint8_t)(uint32_t)&ATOMIC_BIT_GET(made_at_run_time)[i];
        }
    barrier_wait(&all);
    /* The halves pass their barriers a different number of times. */
    uint32_t half = me() & 1;
    for (uint32_t round = 0; round < 3 + half * 4; round++) {
        phase[me()] = 100 + round;
        barrier_wait(&halves[half]);
        for (uint32_t t = half; t < NR_TASKLETS; t += 2)
            EQUAL(phase[t], 100 + round);
        barrier_wait(&halves[half]);
    }
    barrier_wait(&all);
}

static void mutexes(void)
{
    for (int i = 0; i < 20; i++) {
        mutex_lock(mutex);
        sum += me();
        mutex_unlock(mutex);
    }
    barrier_wait(&all);
    EQUAL(sum, 20 * NR_TASKLETS * (NR_TASKLETS - 1) / 2);
    barrier_wait(&all);
    if (me() == 0) {
        CHECK(mutex_trylock(mutex));
        CHECK(!mutex_trylock(mutex));
        mutex_unlock(mutex);
        CHECK(mutex_trylock(mutex));
        mutex_unlock(mutex);
    }
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t id = (i + me()) & 15;
        mutex_pool_lock(&pool, id);
        pool_counts[id]++;
        mutex_pool_unlock(&pool, id);
    }
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t id = (i * 5 + me() * 3) & 63;
        vmutex_lock(&virtual_locks, id);
        virtual_counts[id]++;
        vmutex_unlock(&virtual_locks, id);
    }
    barrier_wait(&all);
    for (uint32_t i = 0; i < 16; i++)
        EQUAL(pool_counts[i], NR_TASKLETS);
    for (uint32_t i = 0; i < 64; i++)
        EQUAL(virtual_counts[i], NR_TASKLETS);
    barrier_wait(&all);
    if (me() == 0) {
        CHECK(vmutex_trylock(&virtual_locks, 9));
        CHECK(!vmutex_trylock(&virtual_locks, 9));
        CHECK(vmutex_trylock(&virtual_locks, 10));
        vmutex_unlock(&virtual_locks, 9);
        vmutex_unlock(&virtual_locks, 10);
        CHECK(vmutex_trylock(&virtual_locks, 9));
        vmutex_unlock(&virtual_locks, 9);
    }
    barrier_wait(&all);
}

static void semaphores(void)
{
    /* No more than three at a time. */
    for (int i = 0; i < 5; i++) {
        sem_take(&slots);
        mutex_lock(mutex);
        in_ring++;
        if (in_ring > most_in_ring)
            most_in_ring = in_ring;
        mutex_unlock(mutex);
        for (volatile int wait = 0; wait < 10; wait++) {
        }
        mutex_lock(mutex);
        in_ring--;
        mutex_unlock(mutex);
        sem_give(&slots);
    }
    barrier_wait(&all);
    EQUAL(most_in_ring, 3);
    EQUAL(slots.count, 3);
    barrier_wait(&all);

    /* One producer, one consumer, a ring of four. */
    if (me() == 0) {
        for (uint32_t i = 0; i < 40; i++) {
            sem_take(&slots);
            ring[head++ & 3] = i * i;
            sem_give(&items);
        }
    } else if (me() == 1) {
        for (uint32_t i = 0; i < 40; i++) {
            sem_take(&items);
            EQUAL(ring[tail++ & 3], i * i);
            received++;
            sem_give(&slots);
        }
        EQUAL(received, 40);
    }
    barrier_wait(&all);

    /* A negative start: as many give before anyone passes. Who waits first goes on first. */
    if (me() == 0) {
        for (volatile uint32_t wait = NR_TASKLETS * 60; wait; wait--) {
        }
        mutex_lock(mutex);
        EQUAL(orders, 0);
        mutex_unlock(mutex);
        for (int i = 0; i < NR_TASKLETS; i++)
            sem_give(&gate);
    } else {
        for (volatile uint32_t wait = me() * 30; wait; wait--) {
        }
        sem_take(&gate);
        mutex_lock(mutex);
        order[orders++] = me();
        mutex_unlock(mutex);
    }
    barrier_wait(&all);
    for (uint32_t i = 0; i + 1 < NR_TASKLETS; i++)
        EQUAL(order[i], i + 1);
    barrier_wait(&all);
}

static void handshakes(void)
{
    /* A chain: each waits for the one before, then notifies the next. */
    static uint32_t carried;
    if (me() == 0)
        carried = 1;
    else
        EQUAL(handshake_wait_for(me() - 1), 0);
    EQUAL(carried, me() + 1);
    carried++;
    if (me() < NR_TASKLETS - 1)
        handshake_notify();
    barrier_wait(&all);

    /* notify() sleeps until somebody waits for it. */
    if (me() == 0) {
        handshake_notify();
        EQUAL(left_behind, 1);
    } else if (me() == 1) {
        for (volatile int wait = 0; wait < 200; wait++) {
        }
        left_behind = 1;
        EQUAL(handshake_wait_for(0), 0);
    }
    barrier_wait(&all);

    /* The second one to wait for a tasklet is refused. */
    if (me() == 1) {
        EQUAL(handshake_wait_for(0), 0);
    } else if (me() == 2) {
        for (volatile int wait = 0; wait < 200; wait++) {
        }
        EQUAL(handshake_wait_for(0), EALREADY);
        EQUAL(handshake_wait_for(2), EINVAL);
    } else if (me() == 0) {
        for (volatile int wait = 0; wait < 600; wait++) {
        }
        handshake_notify();
    }
    barrier_wait(&all);
}

int main(void)
{
    if (me() == 0) {
        sum = in_ring = most_in_ring = orders = head = tail = received = left_behind = 0;
        gate.count = gate.initial_count;
        for (int i = 0; i < 16; i++)
            pool_counts[i] = 0;
        for (int i = 0; i < 64; i++)
            virtual_counts[i] = 0;
    }
    barrier_wait(&all);
    barriers();
    mutexes();
    semaphores();
    handshakes();
    return 0;
}
