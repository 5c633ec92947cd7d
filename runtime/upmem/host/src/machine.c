/*
 * The machine: ranks of 64 DPUs, some of them faulty, and the sets taken from it.
 *
 *   INR_DPU_RANKS=n      ranks of the machine (default 40, which is 2,560 DPUs)
 *   INR_DPU_FAULTY=list  numbers of DPUs that do not work, "3,70-71"; also as disabled=3+70-71
 *                        in a profile
 */
#include "internal.h"

#include <string.h>

typedef struct allocation {
    uint32_t nr_ranks;
    struct dpu_rank_t *ranks[];
} allocation_t;

engine_options_t host_options;
static bool taken[MAX_RANKS];
static struct dpu_rank_t *ranks[MAX_RANKS]; /* those taken, by number */

bool host_ready(void)
{
    static int state; /* 0: not read yet, 1: fine, 2: refused */
    if (state == 0) {
        char error[256] = "";
        state = engine_options_environment(&host_options, error, sizeof error) ? 1 : 2;
        if (state == 2)
            host_refuse(DPU_ERR_INVALID_PROFILE, "dpu_alloc", "%s", error);
    }
    return state == 1;
}

uint32_t host_number(const char *name, uint32_t otherwise, uint32_t least, uint32_t most)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < least || value > most) {
        host_refuse(DPU_ERR_SYSTEM, name, "'%s' is no number from %u to %u; taking %u", text,
                    least, most, otherwise);
        return otherwise;
    }
    return (uint32_t)value;
}

/* ---- profiles ---- */

typedef struct profile {
    bool scatter;
    uint32_t scatter_blocks;
    uint8_t faulty[MAX_RANKS * DPUS_PER_RANK / 8];
} profile_t;

/* "3,70-71" with the given separator. */
static bool read_faulty(const char *text, char separator, profile_t *profile)
{
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return false;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text)
                return false;
        }
        if (last < first || last >= MAX_RANKS * DPUS_PER_RANK)
            return false;
        for (unsigned long i = first; i <= last; i++)
            profile->faulty[i / 8] |= (uint8_t)(1 << i % 8);
        if (*end && *end != separator)
            return false;
        text = *end ? end + 1 : end;
    }
    return true;
}

static dpu_error_t read_setting(const char *key, const char *value, profile_t *profile)
{
    if (!strcmp(key, "backend")) {
        if (strcmp(value, "simulator"))
            return host_refuse(DPU_ERR_ALLOCATION, "dpu_alloc",
                               "backend '%s': only backend=simulator is here, no hardware", value);
    } else if (!strcmp(key, "sgXferEnable")) {
        profile->scatter = !strcmp(value, "true");
    } else if (!strcmp(key, "sgXferMaxBlocksPerDpu")) {
        char *end;
        profile->scatter_blocks = (uint32_t)strtoul(value, &end, 10);
        if (end == value || *end)
            return host_refuse(DPU_ERR_INVALID_PROFILE, "dpu_alloc", "%s='%s' is no number", key,
                               value);
    } else if (!strcmp(key, "disabled")) {
        if (!read_faulty(value, '+', profile))
            return host_refuse(DPU_ERR_INVALID_PROFILE, "dpu_alloc",
                               "disabled='%s' is no list like 3+70-71", value);
    }
    /* Others tune drivers and simulators that are not here. */
    return DPU_OK;
}

static dpu_error_t read_profile(const char *text, profile_t *profile)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return DPU_ERR_SYSTEM;
    dpu_error_t error = DPU_OK;
    char *rest = NULL;
    for (char *item = strtok_r(copy, ",", &rest); item && error == DPU_OK;
         item = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(item, '=');
        if (!equals || equals == item) {
            error = host_refuse(DPU_ERR_INVALID_PROFILE, "dpu_alloc", "'%s' is no key=value", item);
            break;
        }
        *equals = 0;
        error = read_setting(item, equals + 1, profile);
    }
    free(copy);
    return error;
}

/* ---- ranks ---- */

static void destroy_rank(struct dpu_rank_t *rank)
{
    host_report_profile(rank);
    for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++) {
        if (rank->dpus[slot].engine)
            engine_dpu_destroy(rank->dpus[slot].engine);
        if (rank->dpus[slot].program)
            host_program_release(rank->dpus[slot].program);
    }
    taken[rank->id] = false;
    ranks[rank->id] = NULL;
    free(rank);
}

static uint32_t working(uint32_t rank, const profile_t *profile)
{
    uint32_t count = 0;
    for (uint32_t i = rank * DPUS_PER_RANK; i < (rank + 1) * DPUS_PER_RANK; i++)
        count += !(profile->faulty[i / 8] >> i % 8 & 1);
    return count;
}

static struct dpu_rank_t *create_rank(uint32_t id, const profile_t *profile, uint32_t wanted)
{
    struct dpu_rank_t *rank = calloc(1, sizeof *rank);
    if (!rank)
        return NULL;
    rank->id = id;
    rank->scatter = profile->scatter;
    rank->scatter_blocks = profile->scatter_blocks;
    taken[id] = true;
    ranks[id] = rank;
    for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++) {
        struct dpu_t *dpu = &rank->dpus[slot];
        uint32_t number = id * DPUS_PER_RANK + slot;
        dpu->rank = rank;
        dpu->slot = slot;
        dpu->enabled =
            !(profile->faulty[number / 8] >> number % 8 & 1) && rank->enabled < wanted;
        if (!dpu->enabled)
            continue;
        rank->enabled++;
        dpu->engine = engine_dpu_create(number, &host_options);
        if (!dpu->engine) {
            destroy_rank(rank);
            return NULL;
        }
    }
    return rank;
}

/* Programs that end without dpu_free have their profile, too. */
static void report_the_rest(void)
{
    for (uint32_t id = 0; id < MAX_RANKS; id++)
        if (ranks[id] && !ranks[id]->first && !ranks[id]->busy)
            host_report_profile(ranks[id]);
}

/* Ranks for so many DPUs (or so many ranks); UINT_MAX: all there are. */
static dpu_error_t allocate(uint32_t wanted, bool whole_ranks, const char *text,
                            struct dpu_set_t *set)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!set)
        return DPU_ERR_INVALID_DPU_SET;
    pthread_mutex_lock(&lock);
    profile_t *profile = calloc(1, sizeof *profile);
    dpu_error_t error = !profile ? DPU_ERR_SYSTEM : host_ready() ? DPU_OK : DPU_ERR_INVALID_PROFILE;
    allocation_t *allocation = NULL;
    uint32_t machine = host_number("INR_DPU_RANKS", 40, 1, MAX_RANKS);
    if (error != DPU_OK)
        goto out;
    static bool registered;
    if (!registered)
        registered = atexit(report_the_rest) == 0;
    profile->scatter_blocks = 64;
    const char *faulty = getenv("INR_DPU_FAULTY");
    if (faulty && !read_faulty(faulty, ',', profile)) {
        error = host_refuse(DPU_ERR_INVALID_PROFILE, "dpu_alloc",
                            "INR_DPU_FAULTY='%s' is no list like 3,70-71", faulty);
        goto out;
    }
    if ((error = read_profile(getenv("UPMEM_PROFILE_BASE"), profile)) != DPU_OK ||
        (error = read_profile(text, profile)) != DPU_OK)
        goto out;

    uint32_t free_ranks = 0, free_dpus = 0;
    for (uint32_t id = 0; id < machine; id++)
        if (!taken[id] && working(id, profile)) {
            free_ranks++;
            free_dpus += working(id, profile);
        }
    bool all = wanted == DPU_ALLOCATE_ALL;
    uint32_t available = whole_ranks ? free_ranks : free_dpus;
    if (wanted == 0 || available == 0 || (!all && wanted > available)) {
        error = host_refuse(DPU_ERR_ALLOCATION, whole_ranks ? "dpu_alloc_ranks" : "dpu_alloc",
                            "%u asked for, %u are free (%u ranks of 64 DPUs in the machine, less "
                            "the faulty; INR_DPU_RANKS)",
                            wanted, available, machine);
        goto out;
    }
    allocation = calloc(1, sizeof *allocation + machine * sizeof *allocation->ranks);
    uint32_t left = all ? UINT_MAX : wanted, index = 0;
    for (uint32_t id = 0; allocation && id < machine && left; id++) {
        if (taken[id] || !working(id, profile))
            continue;
        struct dpu_rank_t *rank = create_rank(id, profile, whole_ranks ? DPUS_PER_RANK : left);
        if (!rank) {
            error = host_refuse(DPU_ERR_ALLOCATION, "dpu_alloc", "out of memory for rank %u", id);
            break;
        }
        rank->owner = allocation;
        rank->first_index = index;
        index += rank->enabled;
        allocation->ranks[allocation->nr_ranks++] = rank;
        left = all ? left : left - (whole_ranks ? 1 : rank->enabled);
    }
    if (!allocation)
        error = DPU_ERR_SYSTEM;
    if (error == DPU_OK) {
        set->kind = DPU_SET_RANKS;
        set->list.nr_ranks = allocation->nr_ranks;
        set->list.ranks = allocation->ranks;
    }
out:
    if (error != DPU_OK && allocation) {
        for (uint32_t i = 0; i < allocation->nr_ranks; i++)
            destroy_rank(allocation->ranks[i]);
        free(allocation);
    }
    free(profile);
    pthread_mutex_unlock(&lock);
    return error;
}

dpu_error_t dpu_alloc(uint32_t nr_dpus, const char *profile, struct dpu_set_t *dpu_set)
{
    return allocate(nr_dpus, false, profile, dpu_set);
}

dpu_error_t dpu_alloc_ranks(uint32_t nr_ranks, const char *profile, struct dpu_set_t *dpu_set)
{
    return allocate(nr_ranks, true, profile, dpu_set);
}

dpu_error_t dpu_free(struct dpu_set_t dpu_set)
{
    if (dpu_set.kind != DPU_SET_RANKS || !host_valid(dpu_set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_free", "no set of dpu_alloc");
    allocation_t *allocation = dpu_set.list.ranks[0]->owner;
    if (dpu_set.list.ranks != allocation->ranks || dpu_set.list.nr_ranks != allocation->nr_ranks)
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_free", "a part of a set of dpu_alloc");
    for (uint32_t i = 0; i < allocation->nr_ranks; i++)
        host_drain(allocation->ranks[i]);
    for (uint32_t i = 0; i < allocation->nr_ranks; i++)
        destroy_rank(allocation->ranks[i]);
    free(allocation);
    return DPU_OK;
}
