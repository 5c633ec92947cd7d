/*
 * Loading programs.
 *
 *   INR_DPU_BINARIES=folder   what inr-dpu-run has built: a binary there with the name of the
 *                             one asked for, or the only one there, is loaded instead.
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *bytes = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used == room) {
            char *more = realloc(bytes, room = room ? 2 * room : 1 << 16);
            if (!more) {
                free(bytes);
                bytes = NULL;
                break;
            }
            bytes = more;
        }
        size_t got = fread(bytes + used, 1, room - used, file);
        if (!got)
            break;
        used += got;
    }
    fclose(file);
    *size = used;
    return bytes;
}

/* The path of the built binary that is meant, in a static buffer, or NULL. */
static const char *built(const char *path)
{
    static char found[4096];
    const char *folder = getenv("INR_DPU_BINARIES");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    DIR *entries = folder ? opendir(folder) : NULL;
    if (!entries)
        return NULL;
    uint32_t count = 0;
    bool same = false;
    for (struct dirent *entry; (entry = readdir(entries)) && !same;) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        same = !strcmp(entry->d_name, name);
        snprintf(found, sizeof found, "%s/%s", folder, entry->d_name);
    }
    closedir(entries);
    return same || count == 1 ? found : NULL;
}

void host_program_release(struct dpu_program_t *program)
{
    if (--program->references)
        return;
    engine_program_release(program->engine);
    free(program);
}

static dpu_error_t load(struct dpu_set_t set, const void *bytes, size_t size, const char *name,
                        struct dpu_program_t **result)
{
    static const dpu_error_t errors[] = {
        [ENGINE_LOAD_INVALID] = DPU_ERR_ELF_INVALID_FILE,
        [ENGINE_LOAD_TOO_MANY_TASKLETS] = DPU_ERR_TOO_MANY_TASKLETS,
        [ENGINE_LOAD_IRAM_OVERFLOW] = DPU_ERR_INVALID_IRAM_ACCESS,
        [ENGINE_LOAD_WRAM_OVERFLOW] = DPU_ERR_INVALID_WRAM_ACCESS,
        [ENGINE_LOAD_MRAM_OVERFLOW] = DPU_ERR_INVALID_MRAM_ACCESS,
        [ENGINE_LOAD_NO_MEMORY] = DPU_ERR_SYSTEM,
    };
    if (!host_valid(set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, "dpu_load", "no set of dpu_alloc");
    dpu_error_t error = host_idle(set, false, "dpu_load");
    if (error != DPU_OK)
        return error;
    char text[512] = "";
    engine_program_t *engine;
    engine_load_status_t status =
        engine_program_load(bytes, size, &host_options, &engine, text, sizeof text);
    if (status != ENGINE_LOAD_OK)
        return host_refuse(errors[status], "dpu_load", "%s: %s", name, text);
    if (engine_program_warning(engine))
        fprintf(stderr, "inr-dpu: warning: %s: %s\n", name, engine_program_warning(engine));
    struct dpu_program_t *program = calloc(1, sizeof *program);
    if (!program) {
        engine_program_release(engine);
        return DPU_ERR_SYSTEM;
    }
    program->engine = engine;
    program->references = 1;
    EACH_RANK (set, rank) {
        host_drain(rank);
        host_report_profile(rank);
        uint64_t slots = host_slots(set, rank);
        for (; slots; slots &= slots - 1) {
            struct dpu_t *dpu = &rank->dpus[__builtin_ctzll(slots)];
            engine_dpu_attach(dpu->engine, engine);
            if (dpu->program)
                host_program_release(dpu->program);
            dpu->program = program;
            program->references++;
        }
    }
    if (result)
        *result = program;
    host_program_release(program); /* the DPUs hold it */
    return DPU_OK;
}

dpu_error_t dpu_load(struct dpu_set_t dpu_set, const char *binary_path,
                     struct dpu_program_t **program)
{
    if (!binary_path)
        return host_refuse(DPU_ERR_ELF_NO_SUCH_FILE, "dpu_load", "no path");
    const char *path = built(binary_path);
    path = path ? path : binary_path;
    size_t size = 0;
    void *bytes = read_file(path, &size);
    if (!bytes)
        return host_refuse(DPU_ERR_ELF_NO_SUCH_FILE, "dpu_load", "%s: %s", path, strerror(errno));
    dpu_error_t error = load(dpu_set, bytes, size, path, program);
    free(bytes);
    return error;
}

dpu_error_t dpu_load_from_memory(struct dpu_set_t dpu_set, uint8_t *buffer, size_t buffer_size,
                                 struct dpu_program_t **program)
{
    return load(dpu_set, buffer, buffer_size, "program in memory", program);
}

dpu_error_t dpu_load_from_incbin(struct dpu_set_t dpu_set, struct dpu_incbin_t *incbin,
                                 struct dpu_program_t **program)
{
    return load(dpu_set, incbin->buffer, incbin->size, incbin->path, program);
}

dpu_error_t host_common_program(struct dpu_set_t set, struct dpu_program_t **program,
                                const char *caller)
{
    if (!host_valid(set))
        return host_refuse(DPU_ERR_INVALID_DPU_SET, caller, "no set of dpu_alloc");
    struct dpu_program_t *common = NULL;
    bool first = true;
    EACH_RANK (set, rank)
        for (uint64_t slots = host_slots(set, rank); slots; slots &= slots - 1) {
            struct dpu_program_t *its = rank->dpus[__builtin_ctzll(slots)].program;
            if (!first && its != common)
                return host_refuse(DPU_ERR_DIFFERENT_DPU_PROGRAMS, caller,
                                   "the DPUs of the set have different programs");
            common = its;
            first = false;
        }
    if (!common)
        return host_refuse(first ? DPU_ERR_DPU_DISABLED : DPU_ERR_NO_PROGRAM_LOADED, caller, "%s",
                           first ? "the DPU is disabled" : "no program is loaded (dpu_load)");
    *program = common;
    return DPU_OK;
}

dpu_error_t dpu_get_symbol(struct dpu_program_t *program, const char *symbol_name,
                           struct dpu_symbol_t *symbol)
{
    const engine_symbol_t *found = engine_program_symbol(program->engine, symbol_name);
    if (!found)
        return DPU_ERR_UNKNOWN_SYMBOL;
    symbol->address = found->address;
    symbol->size = found->size;
    return DPU_OK;
}
