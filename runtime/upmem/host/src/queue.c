/*
 * The ranks' queues and the workers.
 *
 *   INR_DPU_THREADS=n        workers (default 2)
 *   INR_DPU_ASYNC=defer      asynchronous jobs wait until a function waits for them: what a
 *                            program reads too early is then old every time, not sometimes
 */
#include "internal.h"

#include <string.h>

pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;    /* for the workers */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* for who waits */
static struct dpu_rank_t *active[MAX_RANKS];
static uint32_t actives, turn, workers;

static __thread struct dpu_rank_t *callback_rank;
static __thread bool inside_callback;

bool host_in_callback(struct dpu_rank_t *rank)
{
    return callback_rank == rank;
}

bool host_inside(void)
{
    return inside_callback;
}

bool host_deferred(void)
{
    const char *mode = getenv("INR_DPU_ASYNC");
    return mode && !strcmp(mode, "defer");
}

job_t *host_job(job_kind_t kind, struct dpu_rank_t *rank)
{
    job_t *job = calloc(1, sizeof *job);
    if (job) {
        job->kind = kind;
        job->rank = rank;
    }
    return job;
}

void host_free_jobs(job_t **jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (jobs[i]->kind == JOB_SCATTER)
            free(jobs[i]->arguments);
        free(jobs[i]);
    }
}

/* ---- with the lock held ---- */

static void record(struct dpu_rank_t *rank, dpu_error_t error)
{
    if (error == DPU_OK)
        return;
    if (rank->error == DPU_OK)
        rank->error = error;
    else if (rank->error != error)
        rank->many_errors = true;
}

/* The job at the head of its queue is done. */
static void complete(job_t *job, dpu_error_t status)
{
    struct dpu_rank_t *rank = job->rank;
    rank->first = job->next;
    if (!rank->first) {
        rank->last = NULL;
        rank->active = false;
        for (uint32_t i = 0; i < actives; i++)
            if (active[i] == rank)
                active[i--] = active[--actives];
    }
    job->status = status;
    job->done = true;
    if (!job->waited_for) {
        record(rank, status);
        host_free_jobs(&job, 1);
    }
    pthread_cond_broadcast(&changed);
    pthread_cond_broadcast(&work);
}

static void *run_detached(void *argument);

/* Runs the callback of a job in a thread of its own; the ranks of `set` count it. */
static void detach(job_t *job, struct dpu_set_t set)
{
    job_t *copy = malloc(sizeof *copy);
    pthread_t thread;
    if (!copy) {
        record(job->rank, DPU_ERR_SYSTEM);
        return;
    }
    *copy = *job;
    copy->set = set;
    if (set.kind == DPU_SET_RANKS && set.list.ranks == &job->set_rank) {
        copy->set_rank = job->set_rank;
        copy->set.list.ranks = &copy->set_rank;
    }
    EACH_RANK (copy->set, rank)
        rank->detached++;
    if (pthread_create(&thread, NULL, run_detached, copy)) {
        EACH_RANK (copy->set, rank)
            rank->detached--;
        free(copy);
        record(job->rank, DPU_ERR_SYSTEM);
        return;
    }
    pthread_detach(thread);
}

static void *run_detached(void *argument)
{
    job_t *job = argument;
    inside_callback = true;
    dpu_error_t status = job->callback(job->set, job->rank_index, job->arguments);
    pthread_mutex_lock(&host_lock);
    EACH_RANK (job->set, rank)
        rank->detached--;
    record(job->rank, status);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&host_lock);
    free(job);
    return NULL;
}

/* A rank comes to a callback for the whole set. True: it is the last, and the worker runs it. */
static bool meet(job_t *job)
{
    meeting_t *meeting = job->meeting;
    bool last = --meeting->to_come == 0;
    if (job->blocking)
        return last;
    if (last) {
        job->rank_index = 0;
        detach(job, meeting->set);
        free(meeting);
    }
    complete(job, DPU_OK);
    return false;
}

/* Looks for something to do: a job, and for a launch one of its DPUs. */
static job_t *take(uint32_t *slot)
{
    for (uint32_t i = 0; i < actives; i++) {
        struct dpu_rank_t *rank = active[turn++ % actives];
        job_t *job = rank->first;
        if (!job || rank->busy || rank->held)
            continue;
        if (job->kind == JOB_LAUNCH) {
            job->started = true;
            if (!job->slots)
                continue;
            *slot = (uint32_t)__builtin_ctzll(job->slots);
            job->slots &= job->slots - 1;
            job->running++;
            return job;
        }
        if (job->started)
            continue;
        job->started = true;
        if (job->kind == JOB_MEETING) {
            if (meet(job))
                return job;
            return take(slot);
        }
        if (job->kind == JOB_CALL && !job->blocking) {
            detach(job, job->set);
            complete(job, DPU_OK);
            return take(slot);
        }
        return job;
    }
    return NULL;
}

/* ---- workers ---- */

static dpu_error_t call(job_t *job)
{
    struct dpu_rank_t *outer = callback_rank;
    bool was_inside = inside_callback;
    callback_rank = job->rank;
    inside_callback = true;
    dpu_error_t status = job->callback(job->set, job->rank_index, job->arguments);
    callback_rank = outer;
    inside_callback = was_inside;
    return status;
}

dpu_error_t host_execute(job_t *job)
{
    switch (job->kind) {
    case JOB_TRANSFER:
        return host_transfer(job);
    case JOB_SCATTER:
        return host_scatter(job);
    case JOB_LAUNCH:
        for (; job->slots; job->slots &= job->slots - 1)
            host_run_dpu(job, (uint32_t)__builtin_ctzll(job->slots));
        return host_launch_done(job);
    default:
        return call(job);
    }
}

/* The last rank has come: the callback runs, then all ranks go on. */
static void hold_meeting(job_t *job)
{
    meeting_t *meeting = job->meeting;
    struct dpu_rank_t *own = job->rank;
    bool was_inside = inside_callback;
    inside_callback = true;
    dpu_error_t status = job->callback(meeting->set, 0, job->arguments);
    inside_callback = was_inside;
    pthread_mutex_lock(&host_lock);
    EACH_RANK (meeting->set, rank)
        complete(rank->first, rank == own ? status : DPU_OK);
    pthread_mutex_unlock(&host_lock);
    free(meeting);
}

static void *worker(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&host_lock);
    for (;;) {
        uint32_t slot = 0;
        job_t *job = actives ? take(&slot) : NULL;
        if (!job) {
            pthread_cond_wait(&work, &host_lock);
            continue;
        }
        pthread_mutex_unlock(&host_lock);
        if (job->kind == JOB_MEETING) {
            hold_meeting(job);
            pthread_mutex_lock(&host_lock);
            continue;
        }
        if (job->kind != JOB_LAUNCH) {
            dpu_error_t status = host_execute(job);
            pthread_mutex_lock(&host_lock);
            complete(job, status);
            continue;
        }
        host_run_dpu(job, slot);
        pthread_mutex_lock(&host_lock);
        if (--job->running == 0 && !job->slots) {
            pthread_mutex_unlock(&host_lock);
            dpu_error_t status = host_launch_done(job);
            pthread_mutex_lock(&host_lock);
            complete(job, status);
        }
    }
    return NULL;
}

static void start_workers(void)
{
    uint32_t wanted = host_number("INR_DPU_THREADS", 2, 1, 256);
    while (workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, NULL)) {
            if (workers)
                break;
            host_refuse(DPU_ERR_SYSTEM, "INR_DPU_THREADS", "no thread could be started");
            abort();
        }
        pthread_detach(thread);
        workers++;
    }
}

static void enqueue(job_t *job)
{
    struct dpu_rank_t *rank = job->rank;
    start_workers();
    if (rank->last)
        rank->last->next = job;
    else
        rank->first = job;
    rank->last = job;
    if (!rank->active) {
        rank->active = true;
        active[actives++] = rank;
    }
    if (!job->waited_for && host_deferred())
        rank->held = true;
    pthread_cond_broadcast(&work);
}

void host_enqueue(job_t *job)
{
    pthread_mutex_lock(&host_lock);
    enqueue(job);
    pthread_mutex_unlock(&host_lock);
}

static void release_held(void)
{
    for (uint32_t i = 0; i < actives; i++)
        active[i]->held = false;
    pthread_cond_broadcast(&work);
}

dpu_error_t host_finish(job_t **jobs, uint32_t count)
{
    dpu_error_t status = DPU_OK;
    pthread_mutex_lock(&host_lock);
    for (uint32_t i = 0; i < count; i++) {
        if (host_in_callback(jobs[i]->rank))
            continue;
        jobs[i]->waited_for = true;
        enqueue(jobs[i]);
    }
    release_held();
    pthread_mutex_unlock(&host_lock);
    for (uint32_t i = 0; i < count; i++) {
        job_t *job = jobs[i];
        if (host_in_callback(job->rank)) {
            job->status = host_execute(job);
        } else {
            pthread_mutex_lock(&host_lock);
            while (!job->done)
                pthread_cond_wait(&changed, &host_lock);
            pthread_mutex_unlock(&host_lock);
        }
        if (status == DPU_OK)
            status = job->status;
    }
    host_free_jobs(jobs, count);
    return status;
}

dpu_error_t host_do(job_t *job)
{
    struct dpu_rank_t *rank = job->rank;
    pthread_mutex_lock(&host_lock);
    bool idle = !rank->first && !rank->busy && !host_in_callback(rank);
    if (idle)
        rank->busy = true;
    pthread_mutex_unlock(&host_lock);
    if (!idle)
        return host_finish(&job, 1);
    dpu_error_t status = host_execute(job);
    pthread_mutex_lock(&host_lock);
    rank->busy = false;
    pthread_cond_broadcast(&changed);
    if (rank->first)
        pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&host_lock);
    host_free_jobs(&job, 1);
    return status;
}

void host_drain(struct dpu_rank_t *rank)
{
    if (host_in_callback(rank))
        return;
    pthread_mutex_lock(&host_lock);
    release_held();
    while (rank->first || rank->busy || rank->detached)
        pthread_cond_wait(&changed, &host_lock);
    pthread_mutex_unlock(&host_lock);
}

/* ---- waiting and asking ---- */

dpu_error_t dpu_sync(struct dpu_set_t dpu_set)
{
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_sync", "no set of dpu_alloc");
    if (host_inside())
        return host_refuse(DPU_ERR_INTERNAL, "dpu_sync", "a callback would wait for itself");
    dpu_error_t first = DPU_OK;
    bool many = false;
    EACH_RANK (dpu_set, rank) {
        host_drain(rank);
        pthread_mutex_lock(&host_lock);
        if (rank->error != DPU_OK) {
            many = many || rank->many_errors || (first != DPU_OK && first != rank->error);
            first = first == DPU_OK ? rank->error : first;
        }
        rank->error = DPU_OK;
        rank->many_errors = false;
        rank->unsynchronised = false;
        pthread_mutex_unlock(&host_lock);
    }
    return many ? (dpu_error_t)((unsigned)first | (unsigned)DPU_ERR_ASYNC_JOBS) : first;
}

dpu_error_t dpu_status(struct dpu_set_t dpu_set, bool *done, bool *fault)
{
    if (!host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_status", "no set of dpu_alloc");
    bool all = true, any = false;
    pthread_mutex_lock(&host_lock);
    release_held();
    EACH_RANK (dpu_set, rank) {
        bool idle = !rank->first && !rank->busy;
        all = all && idle;
        if (!idle)
            continue;
        rank->unsynchronised = false;
        for (uint64_t slots = host_slots(dpu_set, rank); slots; slots &= slots - 1) {
            struct dpu_t *dpu = &rank->dpus[__builtin_ctzll(slots)];
            any = any || (dpu->launches &&
                          engine_dpu_fault(dpu->engine)->rule != ENGINE_RULE_NONE);
        }
    }
    pthread_mutex_unlock(&host_lock);
    if (done)
        *done = all;
    if (fault)
        *fault = any;
    return DPU_OK;
}
