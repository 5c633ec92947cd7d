/* DPUs: their memories, and what the host does with them. */
#define _GNU_SOURCE
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Poisoned MRAM without touching it: a file of POISON_FILE bytes, mapped copy-on-write as often as
 * MRAM needs. Only what a program writes takes memory of its own; 2,560 DPUs map 20,480 pieces, a
 * third of what Linux allows a process.
 */
#define POISON_FILE (8u << 20)

static int poison_file = -1;
static pthread_once_t poison_once = PTHREAD_ONCE_INIT;

static void make_poison_file(void)
{
    int file = memfd_create("dpu-poison", MFD_CLOEXEC);
    if (file < 0)
        return;
    if (ftruncate(file, POISON_FILE) == 0) {
        void *bytes = mmap(NULL, POISON_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (bytes != MAP_FAILED) {
            memset(bytes, ENGINE_POISON, POISON_FILE);
            munmap(bytes, POISON_FILE);
            poison_file = file;
            return;
        }
    }
    close(file);
}

uint8_t *mram_create(void)
{
    pthread_once(&poison_once, make_poison_file);
    uint8_t *mram = mmap(NULL, ENGINE_MRAM_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mram == MAP_FAILED)
        return NULL;
    for (uint32_t at = 0; at < ENGINE_MRAM_SIZE; at += POISON_FILE)
        if (poison_file < 0 ||
            mmap(mram + at, POISON_FILE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, poison_file, 0) == MAP_FAILED) {
            munmap(mram, ENGINE_MRAM_SIZE);
            return NULL;
        }
    return mram;
}

void mram_destroy(uint8_t *mram)
{
    if (mram)
        munmap(mram, ENGINE_MRAM_SIZE);
}

engine_dpu_t *engine_dpu_create(uint32_t id, const engine_options_t *options)
{
    engine_dpu_t *dpu = calloc(1, sizeof *dpu);
    if (!dpu)
        return NULL;
    dpu->id = id;
    dpu->options = *options;
    dpu->wram_bytes = options->target->wram_bytes;
    dpu->wram = malloc(ENGINE_WRAM_MAX);
    dpu->mram = mram_create();
    dpu->log = calloc(1, 1);
    dpu->log_capacity = 1;
    if (options->check_uninitialised)
        dpu->shadow = shadow_create();
    if (!dpu->wram || !dpu->mram || !dpu->log || (options->check_uninitialised && !dpu->shadow)) {
        engine_dpu_destroy(dpu);
        return NULL;
    }
    memset(dpu->wram, ENGINE_POISON, ENGINE_WRAM_MAX);
    return dpu;
}

void engine_dpu_destroy(engine_dpu_t *dpu)
{
    if (!dpu)
        return;
    engine_program_release(dpu->program);
    free(dpu->wram);
    mram_destroy(dpu->mram);
    shadow_destroy(dpu->shadow);
    races_destroy(dpu->races);
    free(dpu->profile);
    free(dpu->log);
    free(dpu);
}

static void fill(uint8_t *memory, const image_t *image)
{
    if (image->bytes)
        memcpy(memory + image->address, image->bytes, image->size);
    else
        memset(memory + image->address, 0, image->size);
}

void engine_dpu_attach(engine_dpu_t *dpu, engine_program_t *program)
{
    engine_program_retain(program);
    engine_program_release(dpu->program);
    dpu->program = program;
    dpu->code = program->code;
    dpu->count = program->count;
    free(dpu->profile);
    dpu->profile = dpu->options.statistics >= 2 ? calloc(dpu->count, sizeof *dpu->profile) : NULL;
    memset(dpu->wram, ENGINE_POISON, ENGINE_WRAM_MAX);
    if (dpu->shadow)
        shadow_wram_fill(dpu->shadow, 0, ENGINE_WRAM_MAX, false);
    for (uint32_t i = 0; i < program->image_count[0]; i++) {
        const image_t *image = &program->images[0][i];
        fill(dpu->wram, image);
        engine_dpu_host_wrote(dpu, ENGINE_WRAM_BASE + image->address, image->size);
    }
    for (uint32_t i = 0; i < program->image_count[1]; i++) {
        const image_t *image = &program->images[1][i];
        fill(dpu->mram, image);
        engine_dpu_host_wrote(dpu, ENGINE_MRAM_BASE + image->address, image->size);
    }
    memset(&dpu->fault, 0, sizeof dpu->fault);
    memset(&dpu->statistics, 0, sizeof dpu->statistics);
    dpu->log_size = 0;
    dpu->log[0] = 0;
}

void engine_dpu_host_wrote(engine_dpu_t *dpu, uint32_t address, uint32_t size)
{
    if (!dpu->shadow || !size)
        return;
    if (address >= ENGINE_MRAM_BASE)
        shadow_mram_initialised(dpu->shadow, address - ENGINE_MRAM_BASE, size);
    else
        shadow_wram_fill(dpu->shadow, address, size, true);
}

uint64_t engine_dpu_first_uninitialised(const engine_dpu_t *dpu, uint32_t address, uint32_t size)
{
    if (!dpu->shadow || !size)
        return UINT64_MAX;
    if (address < ENGINE_MRAM_BASE)
        return shadow_wram_first(dpu->shadow, address, size);
    uint64_t first = shadow_mram_first(dpu->shadow, address - ENGINE_MRAM_BASE, size);
    return first == UINT64_MAX ? first : first + ENGINE_MRAM_BASE;
}

engine_program_t *engine_dpu_program(const engine_dpu_t *dpu) { return dpu->program; }
uint8_t *engine_dpu_wram(engine_dpu_t *dpu) { return dpu->wram; }
uint8_t *engine_dpu_mram(engine_dpu_t *dpu) { return dpu->mram; }
const engine_fault_t *engine_dpu_fault(const engine_dpu_t *dpu) { return &dpu->fault; }
const engine_options_t *engine_dpu_options(const engine_dpu_t *dpu) { return &dpu->options; }

const uint64_t *engine_dpu_profile(const engine_dpu_t *dpu, uint32_t *instructions)
{
    *instructions = dpu->profile ? dpu->count : 0;
    return dpu->profile;
}

const engine_statistics_t *engine_dpu_statistics(const engine_dpu_t *dpu)
{
    return &dpu->statistics;
}

const char *engine_dpu_log(const engine_dpu_t *dpu, size_t *size)
{
    if (size)
        *size = dpu->log_size;
    return dpu->log;
}
