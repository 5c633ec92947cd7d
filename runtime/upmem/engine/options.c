/* Kinds of DPU, and options from the environment. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sizes as in the vendor's documentation and compiler. */
static const engine_target_t targets[] = {
    {"v1A", 65536, 4096, 24, 350},
    {"v1B", 63488, 3968, 16, 400},
};

const engine_target_t *engine_target(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return NULL;
}

void engine_options_default(engine_options_t *options)
{
    memset(options, 0, sizeof *options);
    options->target = &targets[0];
    options->costs = default_costs;
    options->max_cycles = 20000000000ull; /* 57 s of a DPU at 350 MHz */
}

static bool number(const char *name, double low, double high, double *value, char *error,
                   size_t error_size)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return true;
    char *end;
    double read = strtod(text, &end);
    if (*end || !(read >= low && read <= high)) {
        snprintf(error, error_size, "%s=%s: a number from %g to %g is needed", name, text, low,
                 high);
        return false;
    }
    *value = read;
    return true;
}

static bool whole(const char *name, uint64_t *value, char *error, size_t error_size)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return true;
    char *end;
    errno = 0;
    unsigned long long read = strtoull(text, &end, 0);
    if (*end || errno || text[0] == '-') {
        snprintf(error, error_size, "%s=%s: a whole number is needed", name, text);
        return false;
    }
    *value = read;
    return true;
}

static bool checks(engine_options_t *options, char *error, size_t error_size)
{
    const char *text = getenv("INR_DPU_CHECK");
    while (text && *text) {
        size_t n = strcspn(text, ",");
#define IS(word) (n == strlen(word) && !memcmp(text, word, n))
        if (IS("races"))
            options->check_races = true;
        else if (IS("mram-reads"))
            options->check_races = options->check_mram_reads = true;
        else if (IS("uninitialised"))
            options->check_uninitialised = true;
        else if (IS("dma-window"))
            options->check_dma_window = true;
        else if (IS("all"))
            options->check_races = options->check_mram_reads = options->check_uninitialised =
                options->check_dma_window = true;
        else if (n && !IS("none")) {
            snprintf(error, error_size,
                     "INR_DPU_CHECK: no check '%.*s'; there are races, mram-reads, uninitialised, "
                     "dma-window, all, none",
                     (int)n, text);
            return false;
        }
#undef IS
        text += n + (text[n] == ',');
    }
    return true;
}

bool engine_options_environment(engine_options_t *options, char *error, size_t error_size)
{
    engine_options_default(options);
    const char *name = getenv("INR_DPU_TARGET");
    if (name && *name && !(options->target = engine_target(name))) {
        snprintf(error, error_size, "INR_DPU_TARGET=%s: there are v1A and v1B", name);
        options->target = &targets[0];
        return false;
    }
    if (!checks(options, error, error_size))
        return false;
    engine_costs_t *costs = &options->costs;
    uint64_t mask = 0, stats = 0, peepholes = 1, library = 1;
    if (!whole("INR_DPU_MASK", &mask, error, error_size) ||
        !whole("INR_DPU_SEED", &options->seed, error, error_size) ||
        !whole("INR_DPU_MAX_CYCLES", &options->max_cycles, error, error_size) ||
        !whole("INR_DPU_STATS", &stats, error, error_size) ||
        !whole("INR_DPU_PEEPHOLES", &peepholes, error, error_size) ||
        !whole("INR_DPU_LIBRARY_TABLE", &library, error, error_size) ||
        !number("INR_DPU_STEAL", 0, 100, &costs->dma_steal, error, error_size))
        return false;
    options->hardware_mask = mask != 0;
    options->statistics = (int)stats;
    costs->peepholes = peepholes != 0;
    costs->library_table = library != 0;
    const char *occupancy = getenv("INR_DPU_OCCUPANCY");
    if (occupancy && *occupancy) {
        double fixed, each;
        char rest;
        if (sscanf(occupancy, "%lf,%lf%c", &fixed, &each, &rest) != 2 || !(fixed >= 0) ||
            !(each >= 0) || fixed > 1e6 || each > 1e3) {
            snprintf(error, error_size,
                     "INR_DPU_OCCUPANCY=%s: cycles and cycles a byte are needed, as 34.3,0.536",
                     occupancy);
            return false;
        }
        costs->dma_occupancy = fixed;
        costs->dma_occupancy_byte = each;
    }
    return true;
}
