/* Launches and what is read after them. */
#include "internal.h"

#include "../dpu_log.h"
#include "../inr_dpu.h"

#include <stdatomic.h>

#define FAULTS_SHOWN 4 /* of a rank and launch */

static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;

void host_run_dpu(job_t *job, uint32_t slot)
{
    struct dpu_t *dpu = &job->rank->dpus[slot];
    dpu->launches++;
    engine_dpu_run(dpu->engine);
}

static void add(engine_statistics_t *total, const engine_statistics_t *one)
{
    total->slots += one->slots;
    total->instructions += one->instructions;
    total->dma_reads += one->dma_reads;
    total->dma_writes += one->dma_writes;
    total->dma_read_bytes += one->dma_read_bytes;
    total->dma_write_bytes += one->dma_write_bytes;
    total->dma_masked += one->dma_masked;
    total->direct_accesses += one->direct_accesses;
    total->lock_retries += one->lock_retries;
}

/* All DPUs of a rank have run. */
dpu_error_t host_launch_done(job_t *job)
{
    launch_t *launch = job->launch;
    uint32_t faults = 0;
    pthread_mutex_lock(&launch_lock);
    for (uint64_t slots = job->launched; slots; slots &= slots - 1) {
        struct dpu_t *dpu = &job->rank->dpus[__builtin_ctzll(slots)];
        const engine_statistics_t *statistics = engine_dpu_statistics(dpu->engine);
        const engine_fault_t *fault = engine_dpu_fault(dpu->engine);
        if (fault->rule != ENGINE_RULE_NONE && faults++ < FAULTS_SHOWN)
            fprintf(stderr, "inr-dpu: fault: %s\n", fault->message);
        if (!launch->dpus || statistics->cycles < launch->cycles_min)
            launch->cycles_min = statistics->cycles;
        if (!launch->dpus || statistics->cycles > launch->cycles_max) {
            launch->cycles_max = statistics->cycles;
            launch->slowest = *statistics;
        }
        launch->cycles_sum += statistics->cycles;
        launch->dpus++;
        add(&launch->total, statistics);
    }
    if (faults > FAULTS_SHOWN)
        fprintf(stderr, "inr-dpu: fault: %u more DPUs of rank %u\n", faults - FAULTS_SHOWN,
                job->rank->id);
    launch->faults += faults;
    bool last = --launch->ranks_left == 0;
    pthread_mutex_unlock(&launch_lock);
    if (last) {
        host_report_launch(launch);
        free(launch);
    }
    return faults ? DPU_ERR_DPU_FAULT : DPU_OK;
}

dpu_error_t dpu_launch(struct dpu_set_t dpu_set, dpu_launch_policy_t policy)
{
    static atomic_uint launches;
    if (policy != DPU_SYNCHRONOUS && policy != DPU_ASYNCHRONOUS)
        return host_refuse(DPU_ERR_INVALID_LAUNCH_POLICY, "dpu_launch", "unknown policy %d",
                           (int)policy);
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_launch", "no set of dpu_alloc");
    if (dpu_set.kind == DPU_SET_DPU && !dpu_set.dpu->enabled)
        return host_refuse(DPU_ERR_DPU_DISABLED, "dpu_launch", "DPU %u is disabled",
                           dpu_get_id(dpu_set.dpu));
    uint32_t tasklets = 0, ranks = 0;
    EACH_RANK (dpu_set, rank) {
        ranks++;
        for (uint64_t slots = host_slots(dpu_set, rank); slots; slots &= slots - 1) {
            struct dpu_program_t *program = rank->dpus[__builtin_ctzll(slots)].program;
            if (!program)
                return host_refuse(DPU_ERR_NO_PROGRAM_LOADED, "dpu_launch",
                                   "no program is loaded (dpu_load)");
            tasklets = engine_program_tasklets(program->engine);
        }
    }
    bool asynchronous = policy == DPU_ASYNCHRONOUS;
    dpu_error_t error = asynchronous ? DPU_OK : host_idle(dpu_set, false, "dpu_launch");
    if (error != DPU_OK)
        return error;
    launch_t *launch = calloc(1, sizeof *launch);
    job_t *jobs[MAX_RANKS];
    uint32_t count = 0;
    if (!launch)
        return DPU_ERR_SYSTEM;
    launch->number = atomic_fetch_add(&launches, 1);
    launch->ranks_left = ranks;
    launch->tasklets = tasklets;
    EACH_RANK (dpu_set, rank) {
        job_t *job = host_job(JOB_LAUNCH, rank);
        if (!job) {
            host_free_jobs(jobs, count);
            free(launch);
            return DPU_ERR_SYSTEM;
        }
        job->slots = job->launched = host_slots(dpu_set, rank);
        job->launch = launch;
        jobs[count++] = job;
    }
    if (!asynchronous)
        return host_finish(jobs, count);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_lock(&host_lock);
        jobs[i]->rank->unsynchronised = true;
        pthread_mutex_unlock(&host_lock);
        host_enqueue(jobs[i]);
    }
    return DPU_OK;
}

dpu_error_t dpu_callback(struct dpu_set_t dpu_set,
                         dpu_error_t (*callback)(struct dpu_set_t, uint32_t, void *), void *args,
                         dpu_callback_flags_t flags)
{
    bool asynchronous = flags & DPU_CALLBACK_ASYNC, once = flags & DPU_CALLBACK_SINGLE_CALL;
    bool blocking = !(flags & DPU_CALLBACK_NONBLOCKING);
    if (!host_valid(dpu_set) || !callback)
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_callback", "no set or no function");
    if (!asynchronous && !blocking)
        return host_refuse(DPU_ERR_NONBLOCKING_SYNC_CALLBACK, "dpu_callback",
                           "DPU_CALLBACK_NONBLOCKING needs DPU_CALLBACK_ASYNC");
    if (!asynchronous && once) {
        EACH_RANK (dpu_set, rank)
            host_drain(rank);
        return callback(dpu_set, 0, args);
    }
    uint32_t ranks = 0, count = 0;
    dpu_get_nr_ranks(dpu_set, &ranks);
    meeting_t *meeting = NULL;
    if (once) {
        meeting = calloc(1, sizeof *meeting);
        if (!meeting)
            return DPU_ERR_SYSTEM;
        meeting->to_come = ranks;
        meeting->set = dpu_set;
    }
    job_t *jobs[MAX_RANKS];
    EACH_RANK (dpu_set, rank) {
        job_t *job = host_job(once ? JOB_MEETING : JOB_CALL, rank);
        if (!job) {
            host_free_jobs(jobs, count);
            free(meeting);
            return DPU_ERR_SYSTEM;
        }
        job->callback = callback;
        job->arguments = args;
        job->blocking = blocking;
        job->meeting = meeting;
        job->rank_index = count;
        job->set = dpu_set;
        if (dpu_set.kind == DPU_SET_RANKS) {
            job->set_rank = rank;
            job->set.list.nr_ranks = 1;
            job->set.list.ranks = &job->set_rank;
        }
        jobs[count++] = job;
    }
    if (!asynchronous)
        return host_finish(jobs, count);
    for (uint32_t i = 0; i < count; i++)
        host_enqueue(jobs[i]);
    return DPU_OK;
}

/* ---- logs ---- */

dpu_error_t dpulog_read_for_dpu(struct dpu_t *dpu, FILE *stream)
{
    if (!dpu || !dpu->enabled)
        return host_refuse(DPU_ERR_DPU_DISABLED, "dpu_log_read", "the DPU is disabled");
    if (!dpu->program)
        return host_refuse(DPU_ERR_NO_PROGRAM_LOADED, "dpu_log_read", "no program is loaded");
    dpu_error_t error = host_idle(dpu_set_from_dpu(dpu), true, "dpu_log_read");
    if (error != DPU_OK)
        return error;
    host_drain(dpu->rank);
    size_t size = 0;
    const char *log = engine_dpu_log(dpu->engine, &size);
    if (!size)
        return DPU_OK;
    fprintf(stream, "=== DPU#0x%x ===\n", dpu_get_id(dpu));
    return fwrite(log, 1, size, stream) == size ? DPU_OK : DPU_ERR_SYSTEM;
}

dpu_error_t dpu_log_read(struct dpu_set_t dpu_set, FILE *stream)
{
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_log_read", "no set of dpu_alloc");
    if (dpu_set.kind == DPU_SET_DPU)
        return dpulog_read_for_dpu(dpu_set.dpu, stream);
    dpu_error_t error = DPU_OK;
    EACH_RANK (dpu_set, rank)
        for (uint64_t slots = host_slots(dpu_set, rank); slots && error == DPU_OK;
             slots &= slots - 1)
            error = dpulog_read_for_dpu(&rank->dpus[__builtin_ctzll(slots)], stream);
    return error;
}

/* ---- inr_dpu.h ---- */

uint64_t inr_dpu_cycles(struct dpu_set_t set)
{
    uint64_t most = 0;
    if (!host_valid(set))
        return 0;
    EACH_RANK (set, rank) {
        host_drain(rank);
        for (uint64_t slots = host_slots(set, rank); slots; slots &= slots - 1) {
            struct dpu_t *dpu = &rank->dpus[__builtin_ctzll(slots)];
            uint64_t cycles = dpu->launches ? engine_dpu_statistics(dpu->engine)->cycles : 0;
            most = cycles > most ? cycles : most;
        }
    }
    return most;
}

double inr_dpu_clock_mhz(void)
{
    return host_ready() ? host_options.target->clock_mhz : 0;
}

const char *inr_dpu_fault(struct dpu_set_t set)
{
    if (!host_valid(set))
        return NULL;
    EACH_RANK (set, rank) {
        host_drain(rank);
        for (uint64_t slots = host_slots(set, rank); slots; slots &= slots - 1) {
            struct dpu_t *dpu = &rank->dpus[__builtin_ctzll(slots)];
            if (dpu->launches && engine_dpu_fault(dpu->engine)->rule != ENGINE_RULE_NONE)
                return engine_dpu_fault(dpu->engine)->message;
        }
    }
    return NULL;
}
