/*
 * Inside the host library.
 *
 * A rank has a queue of jobs that are done one after the other. Workers (INR_DPU_THREADS, 2 by
 * default) take jobs from the ranks; the DPUs of a launch are shared out among them one by one.
 * Synchronous functions put a job into the queue and wait for it, or do it themselves where the
 * queue is empty. One lock guards all queues; jobs run without it.
 */
#ifndef INR_HOST_INTERNAL_H
#define INR_HOST_INTERNAL_H

#include "../../engine/engine.h"
#include "../dpu.h"
#include "../dpu_management.h"

#include <pthread.h>

#define DPUS_PER_RANK 64
#define MAX_RANKS 1024

struct dpu_program_t {
    engine_program_t *engine;
    uint32_t references;
};

struct dpu_t {
    engine_dpu_t *engine;
    struct dpu_program_t *program;
    struct dpu_rank_t *rank;
    uint32_t slot;
    bool enabled;
    void *buffer; /* dpu_prepare_xfer */
    uint64_t launches;
};

/* What the launches of a call have in common. */
typedef struct launch {
    uint32_t number;
    uint32_t ranks_left;
    uint32_t dpus, faults;
    uint32_t tasklets;
    uint64_t cycles_max, cycles_min, cycles_sum;
    engine_statistics_t slowest, total;
} launch_t;

/* A callback that all ranks of a set come to before it is called once. */
typedef struct meeting {
    uint32_t to_come, references;
    bool done;
    struct dpu_set_t set;
} meeting_t;

typedef enum job_kind {
    JOB_TRANSFER,
    JOB_SCATTER,
    JOB_LAUNCH,
    JOB_CALL,
    JOB_MEETING,
} job_kind_t;

typedef struct job {
    struct job *next;
    job_kind_t kind;
    struct dpu_rank_t *rank;
    bool started, done, waited_for;
    dpu_error_t status;
    /* transfers */
    dpu_xfer_t direction;
    uint32_t address;
    size_t length;
    void *buffers[DPUS_PER_RANK];
    uint64_t hashes[DPUS_PER_RANK];
    bool hashed;
    get_block_t blocks;
    bool any_length;
    /* launches */
    uint64_t slots; /* not yet taken */
    uint32_t running;
    launch_t *launch;
    uint64_t launched; /* all slots */
    /* callbacks */
    dpu_error_t (*callback)(struct dpu_set_t, uint32_t, void *);
    void *arguments;
    struct dpu_set_t set;
    struct dpu_rank_t *set_rank; /* what set.list.ranks points to */
    uint32_t rank_index;
    bool blocking;
    meeting_t *meeting;
} job_t;

struct dpu_rank_t {
    uint32_t id;
    struct dpu_t dpus[DPUS_PER_RANK];
    uint32_t first_index; /* of its DPUs in the set of dpu_alloc */
    uint32_t enabled;
    void *owner; /* the allocation */
    /* under the lock: */
    job_t *first, *last;
    bool busy; /* a synchronous function works on it outside the queue */
    bool active; /* listed for the workers */
    bool held;   /* deferred: until somebody waits */
    uint32_t detached; /* callbacks that run beside the queue */
    bool unsynchronised; /* an asynchronous launch has been queued since the last dpu_sync */
    dpu_error_t error; /* of asynchronous jobs since the last dpu_sync */
    bool many_errors;
    /* dpu_alloc profile */
    bool scatter;
    uint32_t scatter_blocks;
};

/* machine.c */
extern engine_options_t host_options;
bool host_ready(void); /* options read; false with a message where the environment makes no sense */
uint32_t host_number(const char *name, uint32_t otherwise, uint32_t least, uint32_t most);

/* sets: calls f on each enabled DPU; stops at an error */
#define EACH_RANK(set, rank)                                                                       \
    for (struct dpu_rank_t **it_ = (set).kind == DPU_SET_RANKS ? (set).list.ranks                  \
                                                               : &(set).dpu->rank,                 \
                           *rank = *it_;                                                           \
         it_ < ((set).kind == DPU_SET_RANKS ? (set).list.ranks + (set).list.nr_ranks               \
                                            : &(set).dpu->rank + 1) &&                             \
         (rank = *it_, true);                                                                      \
         it_++)
/* The set's DPUs in a rank as a mask of slots. */
uint64_t host_slots(struct dpu_set_t set, struct dpu_rank_t *rank);
bool host_valid(struct dpu_set_t set);
/* The only DPU of a set, or NULL. */
struct dpu_t *host_single(struct dpu_set_t set);

/* program.c */
void host_program_release(struct dpu_program_t *program);
dpu_error_t host_common_program(struct dpu_set_t set, struct dpu_program_t **program,
                                const char *caller);

/* queue.c */
extern pthread_mutex_t host_lock;
job_t *host_job(job_kind_t kind, struct dpu_rank_t *rank);
/* Queues an asynchronous job, which is freed when done. */
void host_enqueue(job_t *job);
/* Queues the jobs of a call, waits for them, frees them; the first error. */
dpu_error_t host_finish(job_t **jobs, uint32_t count);
void host_free_jobs(job_t **jobs, uint32_t count);
/* Runs a job in this thread. */
dpu_error_t host_execute(job_t *job);
/* Does a job at once if its rank has nothing else to do, else queues it and waits. */
dpu_error_t host_do(job_t *job);
/* Waits until a rank has nothing left to do. */
void host_drain(struct dpu_rank_t *rank);
/* Whether this thread is in a callback that the rank's queue waits for. */
bool host_in_callback(struct dpu_rank_t *rank);
/* Whether this thread is in any callback. */
bool host_inside(void);
/* INR_DPU_ASYNC=defer: asynchronous jobs run when somebody waits. */
bool host_deferred(void);

/* transfer.c, scatter.c, launch.c */
dpu_error_t host_transfer(job_t *job);
dpu_error_t host_transfer_check(struct dpu_set_t set, struct dpu_symbol_t symbol, uint32_t offset,
                                size_t length, const char *caller);
dpu_error_t host_symbol(struct dpu_set_t set, const char *name, struct dpu_symbol_t *symbol,
                        const char *caller);
bool host_is_mram(uint32_t address);
/* Refuses what needs MRAM or the DPUs while an asynchronous launch is not synchronised. */
dpu_error_t host_idle(struct dpu_set_t set, bool mram, const char *caller);
dpu_error_t host_scatter(job_t *job);
void host_run_dpu(job_t *job, uint32_t slot);
dpu_error_t host_launch_done(job_t *job);

/* report.c */
void host_report_launch(const launch_t *launch);
/* With statistics >= 2: the slots that the rank's DPUs spent at each source line. */
void host_report_profile(struct dpu_rank_t *rank);
/* Counts one call's transfer of so many bytes in all. */
void host_report_transfer(dpu_xfer_t direction, uint64_t bytes);

/* error.c: one line on stderr, beginning with the function's name; returns the error. */
dpu_error_t host_refuse(dpu_error_t error, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
