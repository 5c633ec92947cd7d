/*
 * What launches cost, for people and for tools.
 *
 *   INR_DPU_STATS=1       a line on stderr for each launch
 *   INR_DPU_STATS=2       also counts the slots of each source line, for the report
 *   INR_DPU_REPORT=file   a JSON object a line: each launch, the transfers at the end, and the
 *                         source lines when a program is replaced or its DPUs are freed
 */
#include "internal.h"

#include <inttypes.h>
#include <stdarg.h>

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls[2], bytes[2];

static void append(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void append(const char *format, ...)
{
    const char *path = getenv("INR_DPU_REPORT");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

static void at_exit(void)
{
    append("{\"transfers\": {\"to_calls\": %" PRIu64 ", \"to_bytes\": %" PRIu64
           ", \"from_calls\": %" PRIu64 ", \"from_bytes\": %" PRIu64 "}}\n",
           calls[DPU_XFER_TO_DPU], bytes[DPU_XFER_TO_DPU], calls[DPU_XFER_FROM_DPU],
           bytes[DPU_XFER_FROM_DPU]);
}

void host_report_transfer(dpu_xfer_t direction, uint64_t size)
{
    static bool registered;
    pthread_mutex_lock(&report_lock);
    if (!registered) {
        registered = true;
        atexit(at_exit);
    }
    calls[direction]++;
    bytes[direction] += size;
    pthread_mutex_unlock(&report_lock);
}

void host_report_launch(const launch_t *launch)
{
    const engine_statistics_t *slowest = &launch->slowest, *total = &launch->total;
    double ms = (double)launch->cycles_max / (1000 * host_options.target->clock_mhz);
    pthread_mutex_lock(&report_lock);
    if (host_options.statistics == 1 || (host_options.statistics && !getenv("INR_DPU_REPORT")))
        fprintf(stderr,
                "inr-dpu: launch %u: %u DPUs, %u tasklets, %" PRIu64 " cycles (%.4f ms at %g MHz, "
                "modelled), %" PRIu64 " slots, %" PRIu64 " DMA transfers of %" PRIu64 " bytes\n",
                launch->number, launch->dpus, launch->tasklets, launch->cycles_max, ms,
                host_options.target->clock_mhz, total->slots,
                total->dma_reads + total->dma_writes,
                total->dma_read_bytes + total->dma_write_bytes);
    append("{\"launch\": %u, \"dpus\": %u, \"tasklets\": %u, \"faults\": %u, \"ms\": %.6f, "
           "\"cycles_max\": %" PRIu64 ", \"cycles_min\": %" PRIu64 ", \"cycles_mean\": %.1f, "
           "\"slots\": %" PRIu64 ", \"idle\": %" PRIu64 ", \"dma_busy\": %" PRIu64
           ", \"library_slots\": %" PRIu64 ", \"lock_retries\": %" PRIu64
           ", \"total_slots\": %" PRIu64 ", \"dma_reads\": %" PRIu64 ", \"dma_writes\": %" PRIu64
           ", \"dma_read_bytes\": %" PRIu64 ", \"dma_write_bytes\": %" PRIu64
           ", \"dma_masked\": %" PRIu64 ", \"direct_accesses\": %" PRIu64 "}\n",
           launch->number, launch->dpus, launch->tasklets, launch->faults, ms, launch->cycles_max,
           launch->cycles_min, (double)launch->cycles_sum / launch->dpus, slowest->slots,
           slowest->idle, slowest->dma_busy, slowest->library_slots, slowest->lock_retries,
           total->slots, total->dma_reads, total->dma_writes, total->dma_read_bytes,
           total->dma_write_bytes, total->dma_masked, total->direct_accesses);
    pthread_mutex_unlock(&report_lock);
}

/* ---- source lines ---- */

typedef struct line {
    const char *file, *function;
    uint32_t number;
    uint64_t slots;
} line_t;

/* A file name as JSON has it. */
static const char *escaped(const char *text, char *room, size_t size)
{
    size_t used = 0;
    for (; *text && used + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            room[used++] = '\\';
        room[used++] = (unsigned char)*text < 32 ? '?' : *text;
    }
    room[used] = 0;
    return room;
}

/* The lines of a program's instructions, given each one's slots. */
static void report_lines(const engine_program_t *program, const uint64_t *slots, uint32_t count)
{
    line_t *lines = calloc(count, sizeof *lines);
    uint32_t used = 0;
    for (uint32_t i = 0; lines && i < count; i++) {
        line_t line = {"?", "?", 0, slots[i]};
        if (!slots[i])
            continue;
        engine_program_line(program, ENGINE_IRAM_BASE + 4 * i, &line.file, &line.number,
                            &line.function);
        uint32_t at = 0;
        while (at < used && (lines[at].number != line.number || lines[at].file != line.file ||
                             lines[at].function != line.function))
            at++;
        if (at == used)
            lines[used++] = line;
        else
            lines[at].slots += line.slots;
    }
    for (uint32_t i = 0; i < used; i++) {
        char file[1024];
        append("{\"file\": \"%s\", \"line\": %u, \"function\": \"%s\", \"line_slots\": %" PRIu64
               "}\n",
               escaped(lines[i].file ? lines[i].file : "?", file, sizeof file), lines[i].number,
               lines[i].function ? lines[i].function : "?", lines[i].slots);
    }
    free(lines);
}

void host_report_profile(struct dpu_rank_t *rank)
{
    bool done[DPUS_PER_RANK] = {false};
    if (host_options.statistics < 2 || !getenv("INR_DPU_REPORT"))
        return;
    pthread_mutex_lock(&report_lock);
    for (uint32_t first = 0; first < DPUS_PER_RANK; first++) {
        const struct dpu_program_t *program = rank->dpus[first].program;
        uint32_t count = 0;
        if (done[first] || !program || !rank->dpus[first].launches)
            continue;
        uint64_t *sums = calloc(engine_program_instructions(program->engine), sizeof *sums);
        for (uint32_t slot = first; sums && slot < DPUS_PER_RANK; slot++) {
            struct dpu_t *dpu = &rank->dpus[slot];
            const uint64_t *slots =
                dpu->program == program ? engine_dpu_profile(dpu->engine, &count) : NULL;
            done[slot] = done[slot] || dpu->program == program;
            for (uint32_t i = 0; slots && i < count; i++)
                sums[i] += slots[i];
        }
        if (sums)
            report_lines(program->engine, sums, count);
        free(sums);
    }
    pthread_mutex_unlock(&report_lock);
}
