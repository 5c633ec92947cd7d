/*
 * A run: which tasklet issues in which cycle.
 *
 * A tasklet issues again 11 cycles after its last instruction, so those that issued wait in a
 * queue that is in order by itself. The others, that wait for DMA, are in a short sorted list.
 * Of those that are ready the one that is ready longest goes first; at most one issues a cycle.
 */
#include "step.h"

static int step_once(engine_dpu_t *dpu, tasklet_t *k, const insn_t *o)
{
    return checks_on(&dpu->options) ? step(dpu, k, o, true) : step(dpu, k, o, false);
}

/* ---- tasklets in order of time ------------------------------------------------------------ */

static inline void enqueue(engine_dpu_t *dpu, tasklet_t *k, uint64_t ready)
{
    dpu->queue[dpu->tail++ % QUEUE] = (wake_t){ready, k};
    k->ready = ready;
}

/* Latest first; of equal times the one that came first is taken first. */
static void insert_wake(engine_dpu_t *dpu, tasklet_t *k, uint64_t ready)
{
    uint32_t i = dpu->wake_count++;
    for (; i > 0 && dpu->wakes[i - 1].ready <= ready; i--)
        dpu->wakes[i] = dpu->wakes[i - 1];
    dpu->wakes[i] = (wake_t){ready, k};
    k->ready = ready;
}

/* xorshift64* of G. Marsaglia and S. Vigna */
static uint64_t next_random(engine_dpu_t *dpu)
{
    uint64_t v = dpu->random;
    v ^= v >> 12;
    v ^= v << 25;
    v ^= v >> 27;
    dpu->random = v;
    return v * 0x2545F4914F6CDD1Dull;
}

/* ---- what the instructions share ---------------------------------------------------------- */

/* Something happened that a spinning tasklet may have waited for. */
static void changed(engine_dpu_t *dpu)
{
    dpu->changes++;
    dpu->spinning = 0;
}

/* What the performance counter counts, since the run began. */
static uint64_t counted(const engine_dpu_t *dpu)
{
    switch (dpu->counter_mode) {
    case COUNT_CYCLES: return dpu->cycle;
    case COUNT_SLOTS: return dpu->cycle - dpu->idle - dpu->stolen_total;
    default: return dpu->counter_base;
    }
}

static uint32_t counter(const engine_dpu_t *dpu)
{
    return (uint32_t)((counted(dpu) - dpu->counter_base) >> 4);
}

static void set_counter(engine_dpu_t *dpu, uint32_t mode, bool reset)
{
    uint64_t value = counted(dpu) - dpu->counter_base;
    if (mode)
        dpu->counter_mode = mode;
    dpu->counter_base = 0;
    dpu->counter_base = counted(dpu) - (reset ? 0 : value);
}

static bool atomic_bit(engine_dpu_t *dpu, tasklet_t *k, uint32_t value, uint32_t *bit)
{
    *bit = value >= ENGINE_ATOMIC_BASE ? value - ENGINE_ATOMIC_BASE : value;
    if (*bit < ENGINE_ATOMIC_BITS)
        return true;
    fault_at(dpu, k, ENGINE_RULE_ATOMIC_BIT, value,
             "atomic bit 0x%x: there are 0 to %u (a mutex that was never initialised?)", value,
             ENGINE_ATOMIC_BITS - 1);
    return false;
}

static int acquire(engine_dpu_t *dpu, tasklet_t *k, const insn_t *o, bool wait)
{
    uint32_t bit;
    if (!atomic_bit(dpu, k, k->x[o->rs1], &bit))
        return STEP_FAULT;
    bool got = !dpu->locks[bit];
    if (wait && !got)
        return STEP_RETRY;
    if (got) {
        dpu->locks[bit] = 1;
        order_acquire(dpu, k, bit);
    } else {
        dpu->statistics.lock_retries++;
    }
    if (!wait) {
        k->x[o->rd] = got;
        k->width[o->rd] = o->width;
    }
    k->pc += 4;
    return o->cost;
}

static int release(engine_dpu_t *dpu, tasklet_t *k, uint32_t value)
{
    uint32_t bit;
    if (!atomic_bit(dpu, k, value, &bit))
        return STEP_FAULT;
    dpu->locks[bit] = 0;
    order_release(dpu, k, bit);
    changed(dpu);
    k->pc += 4;
    return 1;
}

static int resume(engine_dpu_t *dpu, tasklet_t *k, uint32_t number)
{
    if (number >= dpu->program->tasklets)
        return fault(dpu, k, ENGINE_RULE_TASKLET, "resumes tasklet %u of %u", number,
                     dpu->program->tasklets);
    tasklet_t *other = &dpu->tasklets[number];
    if (other->state != TASKLET_STOPPED)
        return STEP_RETRY;
    other->state = TASKLET_READY;
    dpu->stopped--;
    order_resume(dpu, k, other);
    enqueue(dpu, other, dpu->cycle + dpu->options.costs.revolver);
    changed(dpu);
    k->pc += 4;
    return 1;
}

static int runtime_fault(engine_dpu_t *dpu, tasklet_t *k, uint32_t number)
{
    static const struct {
        engine_rule_t rule;
        const char *text;
    } known[] = {
        {ENGINE_RULE_RUNTIME_FAULT, "fault 0"},
        {ENGINE_RULE_HEAP_FULL, "fault 1: the heap is full"},
        {ENGINE_RULE_DIVIDE_BY_ZERO, "fault 2: division by zero"},
        {ENGINE_RULE_ASSERT, "fault 3: an assertion failed"},
        {ENGINE_RULE_HALT, "fault 4: halt"},
        {ENGINE_RULE_LOG_OVERFLOW, "fault 5: the log is full"},
        {ENGINE_RULE_PROFILING, "fault 6: profiling started twice"},
        {ENGINE_RULE_PROFILING, "fault 7: profiling stopped without a start"},
        {ENGINE_RULE_RUNTIME_ALIGNMENT, "fault 8: wrong alignment"},
    };
    if (number >= sizeof known / sizeof *known)
        return fault(dpu, k, ENGINE_RULE_RUNTIME_FAULT, "fault %u", number);
    if (known[number].rule == ENGINE_RULE_HEAP_FULL)
        return fault(dpu, k, ENGINE_RULE_HEAP_FULL,
                     "fault 1: the heap is full; it goes from %u to %u, %u bytes",
                     dpu->program->heap_start, dpu->wram_bytes,
                     dpu->wram_bytes - dpu->program->heap_start);
    return fault(dpu, k, known[number].rule, "%s", known[number].text);
}

static int check_stack_pointer(engine_dpu_t *dpu, tasklet_t *k, uint32_t before)
{
    uint32_t sp = k->x[2];
    if (UNLIKELY(sp < k->stack_low || sp > k->stack_high))
        return fault_at(dpu, k, ENGINE_RULE_STACK_OVERFLOW, sp,
                        "the stack pointer becomes 0x%08x, %u bytes %s the tasklet's stack of %u "
                        "bytes at 0x%08x",
                        sp, sp < k->stack_low ? k->stack_low - sp : sp - k->stack_high,
                        sp < k->stack_low ? "below" : "above", k->stack_high - k->stack_low,
                        k->stack_low);
    if (k->stack_high - sp > k->stack_used)
        k->stack_used = k->stack_high - sp;
    if (UNLIKELY(dpu->shadow != NULL))
        check_stack_moved(dpu, before, sp);
    return 0;
}

static int write_stack_pointer(engine_dpu_t *dpu, tasklet_t *k)
{
    uint32_t before = k->x[2], pc = k->pc;
    int cost = step_once(dpu, k, &dpu->program->original[pc / 4]);
    if (cost == STEP_FAULT)
        return cost;
    uint32_t next = k->pc;
    k->pc = pc; /* where a fault is */
    if (check_stack_pointer(dpu, k, before))
        return STEP_FAULT;
    k->pc = next;
    return cost;
}

/*
 * A library routine at its published cost: the instructions give the result, at no slots, up to
 * the return. They touch nothing but registers and the stack, so no other tasklet can tell.
 */
static int library(engine_dpu_t *dpu, tasklet_t *k, uint32_t slots)
{
    uint32_t back = k->x[1] - ENGINE_IRAM_BASE, outer = k->x[2];
    for (;;) {
        if (UNLIKELY(k->pc / 4 >= dpu->count))
            return fault(dpu, k, ENGINE_RULE_IRAM_FETCH, "a library routine leaves the program");
        const insn_t *o = &dpu->program->original[k->pc / 4];
        uint32_t before = k->x[2];
        int cost = step_once(dpu, k, o);
        k->instructions++;
        if (cost == STEP_FAULT)
            return cost;
        if (UNLIKELY(cost < 0))
            return fault(dpu, k, ENGINE_RULE_ILLEGAL_INSTRUCTION,
                         "a library routine accesses MRAM or another tasklet");
        if (k->x[2] != before && check_stack_pointer(dpu, k, before))
            return STEP_FAULT;
        if (k->pc == back && k->x[2] == outer)
            break;
    }
    dpu->statistics.library_calls++;
    dpu->statistics.library_slots += slots;
    return (int)slots;
}

/* ---- the run ------------------------------------------------------------------------------ */

static void start(engine_dpu_t *dpu)
{
    const engine_program_t *program = dpu->program;
    memset(&dpu->fault, 0, sizeof dpu->fault);
    memset(&dpu->statistics, 0, sizeof dpu->statistics);
    memset(dpu->tasklets, 0, sizeof dpu->tasklets);
    memset(dpu->locks, 0, sizeof dpu->locks);
    dpu->cycle = dpu->idle = dpu->stolen_total = 0;
    dpu->stolen = dpu->dma_free = dpu->dma_busy = 0;
    dpu->head = dpu->tail = dpu->wake_count = 0;
    dpu->alive = program->tasklets;
    dpu->stopped = dpu->spinning = 0;
    dpu->changes = 1;
    dpu->counter_mode = COUNT_NOTHING;
    dpu->counter_base = 0;
    dpu->log_size = 0;
    dpu->log[0] = 0;
    dpu->random = dpu->options.seed ? dpu->options.seed * 0x9E3779B97F4A7C15ull + dpu->id + 1 : 0;
    for (uint32_t t = 0; t < program->tasklets; t++) {
        tasklet_t *k = &dpu->tasklets[t];
        k->id = (uint8_t)t;
        k->pc = program->entry;
        k->stack_low = program->stack_start[t];
        k->stack_high = k->stack_low + program->stack_size[t];
        k->x[2] = k->stack_high;
        memset(k->width, 4, sizeof k->width);
        k->width[0] = 1;
        if (dpu->random)
            insert_wake(dpu, k, next_random(dpu) % 64);
        else
            enqueue(dpu, k, 0);
    }
}

static void finish(engine_dpu_t *dpu)
{
    engine_statistics_t *s = &dpu->statistics;
    s->cycles = dpu->cycle;
    s->idle = dpu->idle;
    s->stolen = dpu->stolen_total;
    s->dma_busy = (uint64_t)dpu->dma_busy;
    for (uint32_t t = 0; t < dpu->program->tasklets; t++) {
        const tasklet_t *k = &dpu->tasklets[t];
        s->slots += k->slots;
        s->instructions += k->instructions;
        s->tasklet_slots[t] = k->slots;
        s->tasklet_stack[t] = k->stack_used;
    }
}

static uint64_t idle_until(engine_dpu_t *dpu, uint64_t cycle, uint64_t ready)
{
    uint64_t gap = ready - cycle;
    dpu->idle += gap;
    /* the DMA engine takes what it is owed from cycles that nobody uses */
    dpu->stolen = dpu->stolen > (double)gap ? dpu->stolen - (double)gap : 0;
    return ready;
}

/* What follows from a step that is no plain instruction. False: the run is over. */
static bool event(engine_dpu_t *dpu, tasklet_t *k, int what)
{
    switch (what) {
    case STEP_DMA: insert_wake(dpu, k, k->ready); return true;
    case STEP_RETRY:
        dpu->statistics.lock_retries++;
        enqueue(dpu, k, dpu->cycle + dpu->options.costs.revolver);
        if (k->spin != dpu->changes) {
            k->spin = dpu->changes;
            dpu->spinning++;
        }
        break;
    case STEP_STOP:
        k->state = TASKLET_STOPPED;
        dpu->stopped++;
        changed(dpu);
        break;
    case STEP_END:
        k->state = TASKLET_ENDED;
        dpu->alive--;
        changed(dpu);
        break;
    default: return false;
    }
    /* those that spin can only go on after something that another one does */
    if (dpu->alive && dpu->spinning + dpu->stopped == dpu->alive) {
        deadlock(dpu);
        return false;
    }
    return true;
}

static inline __attribute__((always_inline)) void run(engine_dpu_t *dpu, const bool checked)
{
    const uint64_t limit = dpu->options.max_cycles;
    const uint32_t revolver = dpu->options.costs.revolver;
    uint64_t cycle = 0;
    for (;;) {
        wake_t next;
        if (dpu->head != dpu->tail &&
            (!dpu->wake_count || dpu->queue[dpu->head % QUEUE].ready <=
                                     dpu->wakes[dpu->wake_count - 1].ready)) {
            next = dpu->queue[dpu->head++ % QUEUE];
        } else if (dpu->wake_count) {
            next = dpu->wakes[--dpu->wake_count];
            next.tasklet->state = TASKLET_READY;
            next.tasklet->window_size = 0;
        } else {
            break;
        }
        tasklet_t *const k = next.tasklet;
        if (next.ready > cycle)
            cycle = idle_until(dpu, cycle, next.ready);
        if (UNLIKELY(dpu->stolen >= 1)) {
            uint64_t taken = (uint64_t)dpu->stolen;
            dpu->stolen -= (double)taken;
            dpu->stolen_total += taken;
            cycle += taken;
        }
        dpu->cycle = cycle;
        if (UNLIKELY(cycle >= limit)) {
            fault(dpu, k, ENGINE_RULE_CYCLE_LIMIT, "still running after %llu cycles",
                  (unsigned long long)limit);
            break;
        }
        if (UNLIKELY(dpu->random) && next_random(dpu) % 8 == 0 &&
            (dpu->head != dpu->tail || dpu->wake_count)) {
            insert_wake(dpu, k, cycle + 1 + next_random(dpu) % 97);
            continue;
        }
        if (k->debt) {
            k->debt--;
        } else {
            int cost;
            do {
                const uint32_t index = k->pc / 4;
                if (UNLIKELY(index >= dpu->count)) {
                    cost = fault(dpu, k, ENGINE_RULE_IRAM_FETCH,
                                 "goes on at 0x%08x, behind the program's %u instructions",
                                 ENGINE_IRAM_BASE + k->pc, dpu->count);
                    break;
                }
                cost = step(dpu, k, &dpu->code[index], checked);
                k->instructions++;
                if (checked && dpu->profile)
                    dpu->profile[index] += cost < 0 ? cost != STEP_FAULT : (uint32_t)cost;
            } while (cost == 0);
            if (UNLIKELY(cost < 0)) {
                if (!event(dpu, k, cost))
                    break;
                k->slots++;
                cycle++;
                continue;
            }
            k->debt = (uint32_t)cost - 1;
        }
        k->slots++;
        enqueue(dpu, k, cycle + revolver);
        cycle++;
    }
    dpu->cycle = cycle;
}

static __attribute__((noinline)) void run_checked(engine_dpu_t *dpu) { run(dpu, true); }
static __attribute__((noinline)) void run_plain(engine_dpu_t *dpu) { run(dpu, false); }

bool engine_dpu_run(engine_dpu_t *dpu)
{
    if (!dpu->program)
        return false;
    start(dpu);
    if (!checks_start(dpu)) {
        fault(dpu, &dpu->tasklets[0], ENGINE_RULE_RUNTIME_FAULT,
              "no host memory for the check of races");
        return false;
    }
    if (checks_on(&dpu->options) || dpu->profile)
        run_checked(dpu);
    else
        run_plain(dpu);
    checks_end(dpu);
    finish(dpu);
    return dpu->fault.rule == ENGINE_RULE_NONE;
}
