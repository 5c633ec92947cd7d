/*
 * Transfers by symbol: copy, prepare and push, broadcast.
 *
 * An asynchronous transfer from the host must find its buffer unchanged when its turn comes.
 * With INR_DPU_ASYNC=defer, where jobs run only when somebody waits, this is checked.
 */
#include "internal.h"

#include "../dpu_memory.h"

#include <stdatomic.h>
#include <string.h>

#define UNWRITTEN_SHOWN 8 /* warnings of a program */

bool host_is_mram(uint32_t address)
{
    return address >= ENGINE_MRAM_BASE && address < ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE;
}

dpu_error_t host_idle(struct dpu_set_t set, bool mram, const char *caller)
{
    const char *implicit = getenv("INR_DPU_IMPLICIT_SYNC");
    if (implicit && *implicit == '1')
        return DPU_OK;
    EACH_RANK (set, rank) {
        if (host_in_callback(rank))
            continue;
        pthread_mutex_lock(&host_lock);
        bool busy = rank->unsynchronised;
        if (host_inside()) {
            /* A callback beside the queue: what counts is whether a launch is not done yet. */
            busy = false;
            for (job_t *job = rank->first; job; job = job->next)
                busy = busy || job->kind == JOB_LAUNCH;
        }
        pthread_mutex_unlock(&host_lock);
        if (busy)
            return host_refuse(mram ? DPU_ERR_MRAM_BUSY : DPU_ERR_DPU_ALREADY_RUNNING, caller,
                               "rank %u has been launched asynchronously: dpu_sync first "
                               "(INR_DPU_IMPLICIT_SYNC=1 waits instead)",
                               rank->id);
    }
    return DPU_OK;
}

dpu_error_t host_symbol(struct dpu_set_t set, const char *name, struct dpu_symbol_t *symbol,
                        const char *caller)
{
    struct dpu_program_t *program;
    dpu_error_t error = host_common_program(set, &program, caller);
    if (error != DPU_OK)
        return error;
    if (!name || dpu_get_symbol(program, name, symbol) != DPU_OK)
        return host_refuse(DPU_ERR_UNKNOWN_SYMBOL, caller,
                           "'%s' is no __host, __mram or __mram_noinit variable of the program",
                           name ? name : "(null)");
    return DPU_OK;
}

dpu_error_t host_transfer_check(struct dpu_set_t set, struct dpu_symbol_t symbol, uint32_t offset,
                                size_t length, const char *caller)
{
    if (!host_valid(set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, caller, "no set of dpu_alloc");
    if (set.kind == DPU_SET_DPU && !set.dpu->enabled)
        return host_refuse(DPU_ERR_DPU_DISABLED, caller, "DPU %u is disabled",
                           dpu_get_id(set.dpu));
    if (offset > symbol.size || length > symbol.size - offset)
        return host_refuse(DPU_ERR_INVALID_SYMBOL_ACCESS, caller,
                           "bytes %u to %llu of a symbol of %u bytes", offset,
                           (unsigned long long)offset + length, symbol.size);
    uint32_t address = symbol.address + offset;
    bool mram = host_is_mram(address) || address == ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE;
    uint32_t unit = mram ? 8 : 4;
    if (address % unit || length % unit)
        return host_refuse(mram ? DPU_ERR_INVALID_MRAM_ACCESS : DPU_ERR_INVALID_WRAM_ACCESS,
                           caller,
                           "%s address 0x%x (symbol + %u) and length %zu must be multiples of %u",
                           mram ? "MRAM" : "WRAM", address, offset, length, unit);
    return DPU_OK;
}

static uint64_t hash(const void *bytes, size_t size)
{
    uint64_t value = 0x9E3779B97F4A7C15u ^ size;
    const unsigned char *at = bytes;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        value = (value ^ word) * 0xFF51AFD7ED558CCDu;
        value ^= value >> 32;
    }
    for (; size; at++, size--)
        value = (value ^ *at) * 0x100000001B3u;
    return value;
}

/* With the check on: bytes that the host takes for results though nobody wrote them. */
static void warn_unwritten(struct dpu_t *dpu, uint32_t address, size_t length)
{
    static atomic_int shown;
    uint64_t first = engine_dpu_first_uninitialised(dpu->engine, address, (uint32_t)length);
    if (first != UINT64_MAX && atomic_fetch_add(&shown, 1) < UNWRITTEN_SHOWN)
        fprintf(stderr,
                "inr-dpu: warning: uninitialised: a transfer from DPU %u of %zu bytes at 0x%08x, "
                "of which byte %u was never written\n",
                dpu_get_id(dpu), length, address, (uint32_t)first - address);
}

/* Does one rank's part. */
dpu_error_t host_transfer(job_t *job)
{
    for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++) {
        void *buffer = job->buffers[slot];
        if (!buffer)
            continue;
        struct dpu_t *dpu = &job->rank->dpus[slot];
        bool mram = job->address >= ENGINE_MRAM_BASE;
        uint8_t *memory = mram ? engine_dpu_mram(dpu->engine) + (job->address - ENGINE_MRAM_BASE)
                               : engine_dpu_wram(dpu->engine) + job->address;
        if (job->direction == DPU_XFER_FROM_DPU) {
            memcpy(buffer, memory, job->length);
            warn_unwritten(dpu, job->address, job->length);
            continue;
        }
        if (job->hashed && hash(buffer, job->length) != job->hashes[slot])
            return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, "dpu_sync",
                               "the buffer of DPU %u was changed between an asynchronous transfer "
                               "of %zu bytes and its execution",
                               dpu_get_id(dpu), job->length);
        memcpy(memory, buffer, job->length);
        engine_dpu_host_wrote(dpu->engine, job->address, (uint32_t)job->length);
    }
    return DPU_OK;
}

/* Queues or does the jobs of a call, one a rank. */
static dpu_error_t submit(job_t **jobs, uint32_t count, bool asynchronous)
{
    if (!asynchronous)
        return count == 1 ? host_do(jobs[0]) : host_finish(jobs, count);
    for (uint32_t i = 0; i < count; i++) {
        job_t *job = jobs[i];
        if (job->direction == DPU_XFER_TO_DPU && host_deferred()) {
            job->hashed = true;
            for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++)
                if (job->buffers[slot])
                    job->hashes[slot] = hash(job->buffers[slot], job->length);
        }
        host_enqueue(job);
    }
    return DPU_OK;
}

/* All transfers end here. With source NULL each DPU has the buffer that was prepared for it. */
static dpu_error_t transfer(struct dpu_set_t set, dpu_xfer_t direction, struct dpu_symbol_t symbol,
                            uint32_t offset, size_t length, void *source, dpu_xfer_flags_t flags,
                            const char *caller)
{
    if (direction != DPU_XFER_TO_DPU && direction != DPU_XFER_FROM_DPU)
        return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, caller, "unknown direction %d",
                           (int)direction);
    dpu_error_t error = host_transfer_check(set, symbol, offset, length, caller);
    if (error != DPU_OK)
        return error;
    uint32_t address = symbol.address + offset;
    bool mram = host_is_mram(address);
    bool asynchronous = flags & DPU_XFER_ASYNC;
    if (flags & DPU_XFER_PARALLEL && mram)
        return host_refuse(DPU_ERR_INVALID_PARALLEL_MEMORY_TRANSFER, caller,
                           "DPU_XFER_PARALLEL is for WRAM");
    if (mram && !asynchronous && (error = host_idle(set, true, caller)) != DPU_OK)
        return error;
    job_t *jobs[MAX_RANKS];
    uint32_t count = 0;
    uint64_t bytes = 0;
    bool any = false, whole = !mram && ((uintptr_t)source & 3) == 0;
    EACH_RANK (set, rank) {
        job_t *job = host_job(JOB_TRANSFER, rank);
        if (!job)
            return DPU_ERR_SYSTEM;
        job->direction = direction;
        job->address = address;
        job->length = length;
        for (uint64_t slots = host_slots(set, rank); slots; slots &= slots - 1) {
            uint32_t slot = (uint32_t)__builtin_ctzll(slots);
            void *buffer = source ? source : rank->dpus[slot].buffer;
            job->buffers[slot] = buffer;
            any = any || buffer;
            bytes += buffer ? length : 0;
            whole = whole && ((uintptr_t)buffer & 3) == 0;
        }
        jobs[count++] = job;
    }
    if (!any)
        fprintf(stderr,
                "inr-dpu: warning: %s: no DPU of the set has a buffer (dpu_prepare_xfer); nothing "
                "is transferred\n",
                caller);
    if (!mram && !whole) {
        host_free_jobs(jobs, count);
        return host_refuse(DPU_ERR_INVALID_WRAM_ACCESS, caller,
                           "a host buffer for WRAM must be at a multiple of 4");
    }
    if (!source && !(flags & DPU_XFER_NO_RESET))
        EACH_RANK (set, rank)
            for (uint64_t slots = host_slots(set, rank); slots; slots &= slots - 1)
                rank->dpus[__builtin_ctzll(slots)].buffer = NULL;
    host_report_transfer(direction, bytes);
    return submit(jobs, count, asynchronous);
}

dpu_error_t dpu_prepare_xfer(struct dpu_set_t dpu_set, void *buffer)
{
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_prepare_xfer", "no set of dpu_alloc");
    if (dpu_set.kind == DPU_SET_DPU && !dpu_set.dpu->enabled)
        return host_refuse(DPU_ERR_DPU_DISABLED, "dpu_prepare_xfer", "DPU %u is disabled",
                           dpu_get_id(dpu_set.dpu));
    bool again = false;
    EACH_RANK (dpu_set, rank)
        for (uint64_t slots = host_slots(dpu_set, rank); slots; slots &= slots - 1) {
            struct dpu_t *dpu = &rank->dpus[__builtin_ctzll(slots)];
            again = again || (buffer && dpu->buffer);
            dpu->buffer = buffer;
        }
    return again ? host_refuse(DPU_ERR_TRANSFER_ALREADY_SET, "dpu_prepare_xfer",
                               "a buffer was prepared already; the new one holds")
                 : DPU_OK;
}

dpu_error_t dpu_push_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer,
                                 struct dpu_symbol_t symbol, uint32_t symbol_offset, size_t length,
                                 dpu_xfer_flags_t flags)
{
    return transfer(dpu_set, xfer, symbol, symbol_offset, length, NULL, flags, "dpu_push_xfer");
}

dpu_error_t dpu_push_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                          uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags)
{
    struct dpu_symbol_t symbol;
    dpu_error_t error = host_symbol(dpu_set, symbol_name, &symbol, "dpu_push_xfer");
    return error != DPU_OK
               ? error
               : dpu_push_xfer_symbol(dpu_set, xfer, symbol, symbol_offset, length, flags);
}

static dpu_error_t broadcast(struct dpu_set_t set, struct dpu_symbol_t symbol, uint32_t offset,
                             const void *source, size_t length, dpu_xfer_flags_t flags,
                             const char *caller)
{
    if (!source)
        return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, caller, "the source is NULL");
    return transfer(set, DPU_XFER_TO_DPU, symbol, offset, length, (void *)source, flags, caller);
}

dpu_error_t dpu_broadcast_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, const void *src, size_t length,
                                    dpu_xfer_flags_t flags)
{
    return broadcast(dpu_set, symbol, symbol_offset, src, length, flags, "dpu_broadcast_to");
}

dpu_error_t dpu_broadcast_to(struct dpu_set_t dpu_set, const char *symbol_name,
                             uint32_t symbol_offset, const void *src, size_t length,
                             dpu_xfer_flags_t flags)
{
    struct dpu_symbol_t symbol;
    dpu_error_t error = host_symbol(dpu_set, symbol_name, &symbol, "dpu_broadcast_to");
    return error != DPU_OK ? error
                           : broadcast(dpu_set, symbol, symbol_offset, src, length, flags,
                                       "dpu_broadcast_to");
}

dpu_error_t dpu_copy_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                               uint32_t symbol_offset, const void *src, size_t length)
{
    return broadcast(dpu_set, symbol, symbol_offset, src, length, DPU_XFER_DEFAULT, "dpu_copy_to");
}

dpu_error_t dpu_copy_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                        const void *src, size_t length)
{
    struct dpu_symbol_t symbol;
    dpu_error_t error = host_symbol(dpu_set, symbol_name, &symbol, "dpu_copy_to");
    return error != DPU_OK ? error
                           : dpu_copy_to_symbol(dpu_set, symbol, symbol_offset, src, length);
}

dpu_error_t dpu_copy_from_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                 uint32_t symbol_offset, void *dst, size_t length)
{
    struct dpu_t *dpu = host_valid(dpu_set) ? host_single(dpu_set) : NULL;
    if (!dpu)
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_copy_from",
                           "the set is not one DPU (DPU_FOREACH gives them)");
    if (!dst)
        return host_refuse(DPU_ERR_INVALID_MEMORY_TRANSFER, "dpu_copy_from",
                           "the destination is NULL");
    return transfer(dpu_set_from_dpu(dpu), DPU_XFER_FROM_DPU, symbol, symbol_offset, length, dst,
                    DPU_XFER_DEFAULT, "dpu_copy_from");
}

dpu_error_t dpu_copy_from(struct dpu_set_t dpu_set, const char *symbol_name,
                          uint32_t symbol_offset, void *dst, size_t length)
{
    struct dpu_symbol_t symbol;
    dpu_error_t error = host_symbol(dpu_set, symbol_name, &symbol, "dpu_copy_from");
    return error != DPU_OK ? error
                           : dpu_copy_from_symbol(dpu_set, symbol, symbol_offset, dst, length);
}

/* ---- by address ---- */

static const struct dpu_symbol_t all_mram = {ENGINE_MRAM_BASE, ENGINE_MRAM_SIZE};

static struct dpu_symbol_t all_wram(void)
{
    return (struct dpu_symbol_t){ENGINE_WRAM_BASE, host_options.target->wram_bytes};
}

dpu_error_t dpu_copy_to_mram(struct dpu_t *dpu, mram_addr_t mram_byte_offset,
                             const uint8_t *source, mram_size_t nb_of_bytes)
{
    return transfer(dpu_set_from_dpu(dpu), DPU_XFER_TO_DPU, all_mram, mram_byte_offset,
                    nb_of_bytes, (void *)source, DPU_XFER_DEFAULT, "dpu_copy_to_mram");
}

dpu_error_t dpu_copy_from_mram(struct dpu_t *dpu, uint8_t *destination,
                               mram_addr_t mram_byte_offset, mram_size_t nb_of_bytes)
{
    return transfer(dpu_set_from_dpu(dpu), DPU_XFER_FROM_DPU, all_mram, mram_byte_offset,
                    nb_of_bytes, destination, DPU_XFER_DEFAULT, "dpu_copy_from_mram");
}

dpu_error_t dpu_copy_to_wram_for_dpu(struct dpu_t *dpu, wram_addr_t wram_word_offset,
                                     const uint32_t *source, wram_size_t nb_of_words)
{
    return transfer(dpu_set_from_dpu(dpu), DPU_XFER_TO_DPU, all_wram(), wram_word_offset * 4,
                    (size_t)nb_of_words * 4, (void *)source, DPU_XFER_DEFAULT,
                    "dpu_copy_to_wram_for_dpu");
}

dpu_error_t dpu_copy_from_wram_for_dpu(struct dpu_t *dpu, uint32_t *destination,
                                       wram_addr_t wram_word_offset, wram_size_t nb_of_words)
{
    return transfer(dpu_set_from_dpu(dpu), DPU_XFER_FROM_DPU, all_wram(), wram_word_offset * 4,
                    (size_t)nb_of_words * 4, destination, DPU_XFER_DEFAULT,
                    "dpu_copy_from_wram_for_dpu");
}
