/*
 * What launches cost, for people and for tools.
 *
 *   INR_DPU_STATS=1       a line on stderr for each launch
 *   INR_DPU_REPORT=file   a JSON object a line: each launch, and the transfers at the end
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
    if (host_options.statistics)
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
