/* Errors: their texts, and the line that says why. */
#include "internal.h"

#include <stdarg.h>
#include <string.h>

static const char *const texts[] = {
    [DPU_OK] = "success",
    [DPU_ERR_INTERNAL] = "internal error",
    [DPU_ERR_SYSTEM] = "system error",
    [DPU_ERR_DRIVER] = "driver error",
    [DPU_ERR_ALLOCATION] = "allocation error",
    [DPU_ERR_INVALID_DPU_SET] = "invalid DPU set",
    [DPU_ERR_INVALID_THREAD_ID] = "invalid thread id",
    [DPU_ERR_INVALID_NOTIFY_ID] = "invalid notify id",
    [DPU_ERR_INVALID_WRAM_ACCESS] = "invalid WRAM access",
    [DPU_ERR_INVALID_IRAM_ACCESS] = "invalid IRAM access",
    [DPU_ERR_INVALID_MRAM_ACCESS] = "invalid MRAM access",
    [DPU_ERR_INVALID_SYMBOL_ACCESS] = "invalid symbol access",
    [DPU_ERR_MRAM_BUSY] = "MRAM is busy",
    [DPU_ERR_TRANSFER_ALREADY_SET] = "transfer already set",
    [DPU_ERR_NO_PROGRAM_LOADED] = "no program loaded",
    [DPU_ERR_DIFFERENT_DPU_PROGRAMS] = "DPUs have different programs",
    [DPU_ERR_CORRUPTED_MEMORY] = "corrupted memory",
    [DPU_ERR_DPU_DISABLED] = "DPU is disabled",
    [DPU_ERR_DPU_ALREADY_RUNNING] = "DPU is already running",
    [DPU_ERR_INVALID_MEMORY_TRANSFER] = "invalid memory transfer",
    [DPU_ERR_INVALID_LAUNCH_POLICY] = "invalid launch policy",
    [DPU_ERR_DPU_FAULT] = "DPU is in fault",
    [DPU_ERR_ELF_INVALID_FILE] = "invalid ELF file",
    [DPU_ERR_ELF_NO_SUCH_FILE] = "no such ELF file",
    [DPU_ERR_ELF_NO_SUCH_SECTION] = "no such ELF section",
    [DPU_ERR_TIMEOUT] = "timeout",
    [DPU_ERR_INVALID_PROFILE] = "invalid profile",
    [DPU_ERR_UNKNOWN_SYMBOL] = "unknown symbol",
    [DPU_ERR_LOG_FORMAT] = "invalid log format",
    [DPU_ERR_LOG_CONTEXT_MISSING] = "log context is missing",
    [DPU_ERR_LOG_BUFFER_TOO_SMALL] = "log buffer is too small",
    [DPU_ERR_VPD_INVALID_FILE] = "invalid VPD file",
    [DPU_ERR_VPD_NO_REPAIR] = "no repair in VPD",
    [DPU_ERR_NO_THREAD_PER_RANK] = "no thread for the rank",
    [DPU_ERR_INVALID_BUFFER_SIZE] = "invalid buffer size",
    [DPU_ERR_NONBLOCKING_SYNC_CALLBACK] = "synchronous callback cannot be non-blocking",
    [DPU_ERR_TOO_MANY_TASKLETS] = "program has too many tasklets",
    [DPU_ERR_SG_TOO_MANY_BLOCKS] = "too many scatter/gather blocks",
    [DPU_ERR_SG_LENGTH_MISMATCH] = "scatter/gather blocks do not sum to the length",
    [DPU_ERR_SG_NOT_ACTIVATED] = "scatter/gather transfers are not activated",
    [DPU_ERR_SG_NOT_MRAM_SYMBOL] = "scatter/gather symbol is not in MRAM",
    [DPU_ERR_INVALID_PARALLEL_MEMORY_TRANSFER] = "parallel transfer is not to WRAM",
    [DPU_ERR_WRAM_FIFO_FULL] = "WRAM FIFO is full",
};

const char *dpu_error_to_string(dpu_error_t status)
{
    unsigned number = (unsigned)status & ~(1u << 31);
    const char *text =
        number < sizeof texts / sizeof *texts ? texts[number] : "unknown error";
    const char *prefix = (unsigned)status >> 31 ? "several asynchronous jobs failed, the first: " : "";
    char *copy = malloc(strlen(prefix) + strlen(text) + 1);
    if (copy)
        strcat(strcpy(copy, prefix), text);
    return copy;
}

dpu_error_t host_refuse(dpu_error_t error, const char *function, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "inr-dpu: %s: %s\n", function, text);
    return error;
}
