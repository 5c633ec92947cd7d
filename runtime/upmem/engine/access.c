/* DMA, and loads and stores that are not plain WRAM accesses. */
#include "internal.h"

#include <string.h>

static void take_engine(engine_dpu_t *dpu, double start, double cycles)
{
    dpu->dma_free = start + cycles;
    dpu->dma_busy += cycles;
}

static double dma_start(const engine_dpu_t *dpu)
{
    return dpu->dma_free > (double)dpu->cycle ? dpu->dma_free : (double)dpu->cycle;
}

/* Puts the tasklet to sleep until `end`, never less than an instruction's time. */
static void sleep_until(engine_dpu_t *dpu, tasklet_t *k, double end)
{
    uint64_t ready = (uint64_t)end;
    ready += (double)ready < end;
    uint64_t soonest = dpu->cycle + dpu->options.costs.revolver;
    k->ready = ready < soonest ? soonest : ready;
    k->state = TASKLET_DMA;
}

static double occupancy(const engine_costs_t *costs, uint32_t bytes)
{
    return costs->dma_occupancy + costs->dma_occupancy_byte * bytes;
}

static double latency(const engine_costs_t *costs, bool read, uint32_t bytes)
{
    return (read ? costs->dma_read_latency : costs->dma_write_latency) +
           costs->dma_latency_byte * bytes;
}

static void count(engine_dpu_t *dpu, bool read, uint32_t bytes)
{
    engine_statistics_t *s = &dpu->statistics;
    if (read) {
        s->dma_reads++;
        s->dma_read_bytes += bytes;
    } else {
        s->dma_writes++;
        s->dma_write_bytes += bytes;
    }
    dpu->stolen += dpu->options.costs.dma_steal * bytes / 8;
}

/* Requests are served one after the other; each tasklet waits for its own only. */
static void dma_time(engine_dpu_t *dpu, tasklet_t *k, bool read, uint32_t bytes)
{
    const engine_costs_t *costs = &dpu->options.costs;
    double start = dma_start(dpu);
    take_engine(dpu, start, occupancy(costs, bytes));
    sleep_until(dpu, k, start + latency(costs, read, bytes));
    count(dpu, read, bytes);
}

int dma(engine_dpu_t *dpu, tasklet_t *k, const insn_t *o, bool read)
{
    uint32_t wram = k->x[o->rs1], mram = k->x[o->rs2], bytes = k->x[o->rs3];
    const char *what = read ? "mram_read" : "mram_write";
    uint32_t moved = (((bytes >> 3) - 1) & 255) * 8 + 8;
    if (bytes < 8 || bytes > 2048 || bytes % 8) {
        if (!dpu->options.hardware_mask)
            return fault(dpu, k, ENGINE_RULE_DMA_SIZE,
                         "%s of %u bytes: 8 to 2048 in multiples of 8 are possible (hardware "
                         "would move %u)",
                         what, bytes, moved);
        dpu->statistics.dma_masked++;
        bytes = moved;
    }
    if (mram >= ENGINE_MRAM_BASE)
        mram -= ENGINE_MRAM_BASE;
    if (wram % 8 || mram % 8) {
        if (!dpu->options.hardware_mask)
            return fault_at(dpu, k, ENGINE_RULE_DMA_ALIGNMENT,
                            wram % 8 ? wram : ENGINE_MRAM_BASE + mram,
                            "%s between WRAM 0x%08x and MRAM 0x%08x: both addresses must be "
                            "multiples of 8 (hardware would drop the low bits)",
                            what, wram, ENGINE_MRAM_BASE + mram);
        dpu->statistics.dma_masked++;
        wram &= ~7u;
        mram &= ~7u;
    }
    char text[96];
    if (wram < 8 || wram > dpu->wram_bytes - bytes)
        return fault_at(dpu, k, ENGINE_RULE_DMA_RANGE, wram,
                        "%s of %u bytes at WRAM 0x%08x%s: WRAM goes from 8 to %u", what, bytes,
                        wram, describe_address(dpu, wram, text, sizeof text), dpu->wram_bytes);
    if (mram > ENGINE_MRAM_SIZE - bytes)
        return fault_at(dpu, k, ENGINE_RULE_DMA_RANGE, ENGINE_MRAM_BASE + mram,
                        "%s of %u bytes at byte %u of MRAM, which has %u", what, bytes, mram,
                        ENGINE_MRAM_SIZE);
    if (checks_on(&dpu->options) && check_dma(dpu, k, read, wram, mram, bytes))
        return STEP_FAULT;
    if (read)
        memcpy(dpu->wram + wram, dpu->mram + mram, bytes);
    else
        memcpy(dpu->mram + mram, dpu->wram + wram, bytes);
    dma_time(dpu, k, read, bytes);
    k->pc += 4;
    return STEP_DMA;
}

/* Whether this is an aligned access to MRAM; a fault otherwise. */
static bool direct(engine_dpu_t *dpu, tasklet_t *k, const char *what, uint32_t address,
                   uint32_t bytes)
{
    char text[96];
    if (address % bytes) {
        fault_at(dpu, k, ENGINE_RULE_ALIGNMENT, address,
                 "%s of %u bytes at 0x%08x%s, which is not a multiple of %u", what, bytes, address,
                 describe_address(dpu, address, text, sizeof text), bytes);
        return false;
    }
    if (address < 8) {
        fault_at(dpu, k, ENGINE_RULE_WRAM_NULL, address,
                 "%s of %u bytes at 0x%08x: a null pointer", what, bytes, address);
        return false;
    }
    if (address >= ENGINE_MRAM_BASE && address - ENGINE_MRAM_BASE <= ENGINE_MRAM_SIZE - bytes)
        return true;
    if (address >= ENGINE_MRAM_BASE && address < ENGINE_IRAM_BASE)
        fault_at(dpu, k, ENGINE_RULE_MRAM_BOUNDS, address,
                 "%s of %u bytes at byte %u of MRAM, which has %u", what, bytes,
                 address - ENGINE_MRAM_BASE, ENGINE_MRAM_SIZE);
    else
        fault_at(dpu, k, ENGINE_RULE_WRAM_BOUNDS, address,
                 "%s of %u bytes at 0x%08x: WRAM ends at %u", what, bytes, address,
                 dpu->wram_bytes);
    return false;
}

/* A load from MRAM: the 8 bytes around it come through a small cache in WRAM. */
int load_slow(engine_dpu_t *dpu, tasklet_t *k, uint32_t address, uint32_t bytes, uint32_t *value)
{
    if (!direct(dpu, k, "load", address, bytes))
        return STEP_FAULT;
    uint32_t at = address - ENGINE_MRAM_BASE;
    if (checks_on(&dpu->options) && check_direct(dpu, k, true, at, bytes))
        return STEP_FAULT;
    *value = 0;
    memcpy(value, dpu->mram + at, bytes);
    dpu->statistics.direct_accesses++;
    dma_time(dpu, k, true, 8);
    k->debt = COST_DIRECT_READ - 1;
    return STEP_DMA;
}

/* A store to MRAM: the 8 bytes around it are read, changed and written. */
int store_slow(engine_dpu_t *dpu, tasklet_t *k, uint32_t address, uint32_t bytes, uint32_t value)
{
    if (!direct(dpu, k, "store", address, bytes))
        return STEP_FAULT;
    uint32_t at = address - ENGINE_MRAM_BASE;
    if (checks_on(&dpu->options) && check_direct(dpu, k, false, at, bytes))
        return STEP_FAULT;
    memcpy(dpu->mram + at, &value, bytes);
    dpu->statistics.direct_accesses++;
    const engine_costs_t *costs = &dpu->options.costs;
    double start = dma_start(dpu);
    take_engine(dpu, start, 2 * occupancy(costs, 8));
    sleep_until(dpu, k, start + latency(costs, true, 8) + latency(costs, false, 8));
    count(dpu, true, 8);
    count(dpu, false, 8);
    k->debt = COST_DIRECT_WRITE - 1;
    return STEP_DMA;
}
