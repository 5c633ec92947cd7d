/* Scatter/gather: each DPU's bytes come from, or go to, blocks that a function names. */
#include "internal.h"

#include <string.h>

/* One rank's part: the blocks are asked for when the transfer is done. */
dpu_error_t host_scatter(job_t *job)
{
    struct dpu_rank_t *rank = job->rank;
    uint32_t index = rank->first_index;
    for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++) {
        struct dpu_t *dpu = &rank->dpus[slot];
        if (!dpu->enabled)
            continue;
        uint32_t number = index++;
        if (!(job->launched >> slot & 1))
            continue;
        uint8_t *memory = engine_dpu_mram(dpu->engine) + (job->address - ENGINE_MRAM_BASE);
        size_t done = 0;
        for (uint32_t block = 0;; block++) {
            struct sg_block_info info = {NULL, 0};
            if (!job->blocks.f(&info, number, block, job->blocks.args))
                break;
            if (block >= rank->scatter_blocks)
                return host_refuse(DPU_ERR_SG_TOO_MANY_BLOCKS, "dpu_push_sg_xfer",
                                   "DPU %u of the set has more than %u blocks "
                                   "(sgXferMaxBlocksPerDpu)",
                                   number, rank->scatter_blocks);
            size_t size = info.length;
            if (size > job->length - done) {
                if (!job->any_length)
                    return host_refuse(DPU_ERR_SG_LENGTH_MISMATCH, "dpu_push_sg_xfer",
                                       "the blocks of DPU %u of the set are more than %zu bytes",
                                       number, job->length);
                size = job->length - done;
            }
            if (job->direction == DPU_XFER_TO_DPU)
                memcpy(memory + done, info.addr, size);
            else
                memcpy(info.addr, memory + done, size);
            done += size;
        }
        if (done < job->length && !job->any_length)
            return host_refuse(DPU_ERR_SG_LENGTH_MISMATCH, "dpu_push_sg_xfer",
                               "the blocks of DPU %u of the set are %zu bytes, the length is %zu",
                               number, done, job->length);
        if (job->direction == DPU_XFER_TO_DPU) {
            memset(memory + done, 0, job->length - done);
            engine_dpu_host_wrote(dpu->engine, job->address, (uint32_t)job->length);
        }
    }
    return DPU_OK;
}

dpu_error_t dpu_push_sg_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer,
                                    struct dpu_symbol_t symbol, uint32_t symbol_offset,
                                    size_t length, get_block_t *get_block_info,
                                    dpu_sg_xfer_flags_t flags)
{
    static const char *const caller = "dpu_push_sg_xfer";
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, caller, "no set of dpu_alloc");
    if (xfer != DPU_XFER_TO_DPU && xfer != DPU_XFER_FROM_DPU)
        return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, caller, "unknown direction %d",
                           (int)xfer);
    if (!get_block_info || !get_block_info->f)
        return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, caller, "no function for the blocks");
    if (!host_is_mram(symbol.address) &&
        symbol.address != ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE)
        return host_refuse(DPU_ERR_SG_NOT_MRAM_SYMBOL, caller, "the symbol is in WRAM");
    EACH_RANK (dpu_set, rank)
        if (!rank->scatter)
            return host_refuse(DPU_ERR_SG_NOT_ACTIVATED, caller,
                               "dpu_alloc with sgXferEnable=true in the profile activates it");
    dpu_error_t error = host_transfer_check(dpu_set, symbol, symbol_offset, length, caller);
    bool asynchronous = flags & DPU_SG_XFER_ASYNC;
    if (error == DPU_OK && !asynchronous)
        error = host_idle(dpu_set, true, caller);
    if (error != DPU_OK)
        return error;
    job_t *jobs[MAX_RANKS];
    uint32_t count = 0;
    EACH_RANK (dpu_set, rank) {
        job_t *job = host_job(JOB_SCATTER, rank);
        if (!job)
            return DPU_ERR_SYSTEM;
        job->direction = xfer;
        job->address = symbol.address + symbol_offset;
        job->length = length;
        job->launched = host_slots(dpu_set, rank);
        job->any_length = flags & DPU_SG_XFER_DISABLE_LENGTH_CHECK;
        job->blocks = *get_block_info;
        /* The arguments are the caller's again when this function returns. */
        if (get_block_info->args_size) {
            job->arguments = malloc(get_block_info->args_size);
            if (!job->arguments)
                return DPU_ERR_SYSTEM;
            memcpy(job->arguments, get_block_info->args, get_block_info->args_size);
            job->blocks.args = job->arguments;
        }
        jobs[count++] = job;
    }
    uint32_t dpus = 0;
    dpu_get_nr_dpus(dpu_set, &dpus);
    host_report_transfer(xfer, (uint64_t)length * dpus);
    if (!asynchronous)
        return host_finish(jobs, count);
    for (uint32_t i = 0; i < count; i++)
        host_enqueue(jobs[i]);
    return DPU_OK;
}

dpu_error_t dpu_push_sg_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                             uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                             dpu_sg_xfer_flags_t flags)
{
    struct dpu_symbol_t symbol;
    dpu_error_t error = host_symbol(dpu_set, symbol_name, &symbol, "dpu_push_sg_xfer");
    return error != DPU_OK ? error
                           : dpu_push_sg_xfer_symbol(dpu_set, xfer, symbol, symbol_offset, length,
                                                     get_block_info, flags);
}
