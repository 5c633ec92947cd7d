/* The optional checks: what each access asks of the clocks and the states of the bytes. */
#include "internal.h"

static int in_window(engine_dpu_t *dpu, tasklet_t *k, bool write, uint32_t address, uint32_t bytes)
{
    for (uint32_t t = 0; t < dpu->program->tasklets; t++) {
        const tasklet_t *other = &dpu->tasklets[t];
        if (other == k || !other->window_size || other->ready <= dpu->cycle ||
            !(write || other->window_written) || address >= other->window + other->window_size ||
            address + bytes <= other->window)
            continue;
        return fault_at(dpu, k, ENGINE_RULE_DMA_WINDOW, address,
                        "%s WRAM 0x%08x while tasklet %u's DMA %s 0x%08x..0x%08x is in flight",
                        write ? "writes" : "reads", address, t,
                        other->window_written ? "into" : "from", other->window,
                        other->window + other->window_size);
    }
    return 0;
}

static int uninitialised(engine_dpu_t *dpu, tasklet_t *k, uint32_t address, uint32_t bytes)
{
    uint32_t first;
    engine_rule_t rule = shadow_wram_load(dpu->shadow, address, bytes, &first);
    if (rule == ENGINE_RULE_NONE)
        return 0;
    char what[96];
    describe_address(dpu, first, what, sizeof what);
    if (rule == ENGINE_RULE_UNINITIALISED_MRAM)
        return fault_at(dpu, k, rule, first,
                        "loads WRAM 0x%08x%s, filled by DMA from MRAM that nobody wrote", first,
                        what);
    return fault_at(dpu, k, rule, first, "loads WRAM 0x%08x%s, which nobody wrote", first, what);
}

static int wram(engine_dpu_t *dpu, tasklet_t *k, bool write, uint32_t address, uint32_t bytes)
{
    if (dpu->options.check_dma_window && in_window(dpu, k, write, address, bytes))
        return STEP_FAULT;
    if (dpu->races && races_wram(dpu, k, write, address, bytes))
        return STEP_FAULT;
    return 0;
}

static int mram(engine_dpu_t *dpu, tasklet_t *k, bool write, uint32_t address, uint32_t bytes)
{
    if (!dpu->races || !(write || dpu->options.check_mram_reads))
        return 0;
    return races_mram(dpu, k, write, address, bytes);
}

int check_load(engine_dpu_t *dpu, tasklet_t *k, uint32_t address, uint32_t bytes)
{
    if (wram(dpu, k, false, address, bytes))
        return STEP_FAULT;
    return dpu->shadow ? uninitialised(dpu, k, address, bytes) : 0;
}

int check_store(engine_dpu_t *dpu, tasklet_t *k, uint32_t address, uint32_t bytes)
{
    if (wram(dpu, k, true, address, bytes))
        return STEP_FAULT;
    if (dpu->shadow)
        shadow_wram_fill(dpu->shadow, address, bytes, true);
    return 0;
}

int check_dma(engine_dpu_t *dpu, tasklet_t *k, bool read, uint32_t wram_address,
              uint32_t mram_address, uint32_t bytes)
{
    if (wram(dpu, k, read, wram_address, bytes) || mram(dpu, k, !read, mram_address, bytes))
        return STEP_FAULT;
    if (dpu->shadow)
        shadow_dma(dpu->shadow, read, wram_address, mram_address, bytes);
    k->window = wram_address;
    k->window_size = bytes;
    k->window_written = read;
    return 0;
}

int check_direct(engine_dpu_t *dpu, tasklet_t *k, bool read, uint32_t address, uint32_t bytes)
{
    if (mram(dpu, k, !read, address, bytes))
        return STEP_FAULT;
    if (!dpu->shadow)
        return 0;
    if (!read) {
        shadow_mram_initialised(dpu->shadow, address, bytes);
        return 0;
    }
    uint64_t first = shadow_mram_first(dpu->shadow, address, bytes);
    if (first == UINT64_MAX)
        return 0;
    uint32_t at = ENGINE_MRAM_BASE + (uint32_t)first;
    char what[96];
    return fault_at(dpu, k, ENGINE_RULE_UNINITIALISED_MRAM, at,
                    "loads MRAM 0x%08x%s, which nobody wrote", at,
                    describe_address(dpu, at, what, sizeof what));
}

void check_fresh(engine_dpu_t *dpu, uint32_t address, uint32_t bytes)
{
    if (dpu->races)
        races_fresh(dpu->races, address, bytes);
    if (dpu->shadow)
        shadow_wram_fill(dpu->shadow, address, bytes, false);
}

/* What a frame held is gone when it is left, and a new frame holds nothing. */
void check_stack_moved(engine_dpu_t *dpu, uint32_t old_sp, uint32_t new_sp)
{
    if (dpu->shadow)
        shadow_wram_fill(dpu->shadow, old_sp < new_sp ? old_sp : new_sp,
                         old_sp < new_sp ? new_sp - old_sp : old_sp - new_sp, false);
}

bool checks_start(engine_dpu_t *dpu)
{
    const engine_program_t *program = dpu->program;
    if (dpu->options.check_races && !(dpu->races = races_create()))
        return false;
    if (dpu->shadow)
        for (uint32_t t = 0; t < program->tasklets; t++)
            shadow_wram_fill(dpu->shadow, program->stack_start[t], program->stack_size[t], false);
    return true;
}

void checks_end(engine_dpu_t *dpu)
{
    races_destroy(dpu->races);
    dpu->races = NULL;
}
