/*
 * The engine of the DPU emulator: executes one DPU's program as the hardware would.
 *
 * It knows programs (ELF for RV32IM_Zba_Zbb with the custom-0 instructions of docs/emulator.md),
 * DPUs (memories and the state of a run) and faults. It knows nothing of ranks, sets and
 * transfers: that is the host library on top.
 *
 * Threads: a program may be shared by DPUs on any threads once loaded; one DPU is used by one
 * thread at a time. There is no other shared state that changes.
 *
 * What the ELF must hold
 *   sections   code at ENGINE_IRAM_BASE, WRAM data from 0 (the first 8 bytes stay empty), MRAM
 *              data from ENGINE_MRAM_BASE. NOBITS sections in WRAM are zeroed at load, except
 *              those whose name begins with ".noinit" or ".stack"; NOBITS sections in MRAM are
 *              not initialised.
 *   symbols    (absolute or not; values count)
 *     __nr_tasklets       number of tasklets
 *     __stacks_start      WRAM address of tasklet 0's stack, the others follow
 *     __stack_size        bytes of one tasklet's stack, a multiple of 8
 *     __stack_size_<i>    optional: another size for tasklet i
 *     __heap_start        first WRAM byte after everything placed
 *     __log_size          optional: bytes that printf may write in a launch (default 1 MiB)
 *   host-visible symbols: those in sections whose name begins with ".dpu_host" or ".mram", and
 *              __sys_used_mram_end, which reaches to the end of MRAM.
 *   entry      all tasklets start at the ELF's entry with sp at the end of their stack, gp and
 *              the other registers 0; mhartid is the tasklet's number.
 *
 * Lines: section ".inr_lines" (not allocated) of little-endian u32
 *     magic 0x4C524E49 ("INRL"), version 1, rows, bytes of strings
 *     rows x { address, line, offset of the file name in the strings }, sorted by address; a row
 *     is valid up to the next one's address; line 0: unknown
 *     strings, each ending in 0
 *   or the same bytes in a file of its own (engine_program_set_lines). File names that begin
 *   with "<" belong to the device runtime: faults name the caller's line outside it.
 */
#ifndef INR_ENGINE_H
#define INR_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_WRAM_BASE 0x00000000u
#define ENGINE_MRAM_BASE 0x08000000u
#define ENGINE_IRAM_BASE 0x80000000u
#define ENGINE_ATOMIC_BASE 0xF0000000u
#define ENGINE_MRAM_SIZE (64u << 20)
#define ENGINE_WRAM_MAX 65536u
#define ENGINE_MAX_TASKLETS 24
#define ENGINE_ATOMIC_BITS 256
#define ENGINE_POISON 0xA5

/* ---- options ------------------------------------------------------------------------------ */

/* Sizes of a kind of DPU. */
typedef struct engine_target {
    const char *name; /* "v1A", "v1B" */
    uint32_t wram_bytes;
    uint32_t iram_slots; /* instructions */
    uint32_t tasklets;
    double clock_mhz;
} engine_target_t;

/* Constants of the time model; costs.c has their sources. */
typedef struct engine_costs {
    uint32_t revolver;       /* cycles between two instructions of one tasklet */
    double dma_read_latency; /* cycles + dma_latency_byte * bytes until the tasklet goes on */
    double dma_write_latency;
    double dma_latency_byte;
    double dma_occupancy; /* cycles + dma_occupancy_byte * bytes that the DMA engine is taken */
    double dma_occupancy_byte;
    double dma_steal;   /* issue slots lost for 8 bytes moved; 0: the engine is autonomous */
    bool peepholes;     /* RV32 sequences that are one DPU instruction cost one slot */
    bool library_table; /* soft-float and 64-bit division cost the DPU's published slots */
} engine_costs_t;

typedef struct engine_options {
    const engine_target_t *target;
    engine_costs_t costs;
    bool hardware_mask;    /* misaligned and wrong-sized DMA is masked as in hardware, not a fault */
    bool check_races;      /* WRAM accesses and MRAM writes of two tasklets without an order */
    bool check_mram_reads; /* MRAM reads against other tasklets' writes too */
    bool check_uninitialised; /* loads of bytes that nobody wrote */
    bool check_dma_window;    /* WRAM of a DMA in flight touched by another tasklet */
    uint64_t seed;       /* 0: oldest first; else a random order of tasklets (times mean nothing) */
    uint64_t max_cycles; /* of one run, then fault "cycle-limit" */
    int statistics; /* for the host library: 0 none, 1 a line a launch; from 2 on with profile */
} engine_options_t;

/* The target of that name ("v1A", "v1B"), or NULL. */
const engine_target_t *engine_target(const char *name);

/* The defaults: v1A, published costs, no optional check. */
void engine_options_default(engine_options_t *options);

/*
 * The defaults changed by the environment:
 *   INR_DPU_TARGET=v1A|v1B
 *   INR_DPU_CHECK=comma list of races, mram-reads, uninitialised, dma-window, all
 *   INR_DPU_MASK=1            hardware_mask
 *   INR_DPU_SEED=n            random order of tasklets
 *   INR_DPU_MAX_CYCLES=n
 *   INR_DPU_STATS=n
 *   INR_DPU_STEAL=x INR_DPU_OCCUPANCY=cycles,per_byte   constants of the time model
 *   INR_DPU_PEEPHOLES=0 INR_DPU_LIBRARY_TABLE=0
 * False, with a message in error, if a value makes no sense.
 */
bool engine_options_environment(engine_options_t *options, char *error, size_t error_size);

/* ---- programs ----------------------------------------------------------------------------- */

typedef struct engine_program engine_program_t;

typedef enum engine_load_status {
    ENGINE_LOAD_OK = 0,
    ENGINE_LOAD_INVALID,           /* no ELF for this machine, or one without what is said above */
    ENGINE_LOAD_TOO_MANY_TASKLETS, /* for the target */
    ENGINE_LOAD_IRAM_OVERFLOW,
    ENGINE_LOAD_WRAM_OVERFLOW,
    ENGINE_LOAD_MRAM_OVERFLOW,
    ENGINE_LOAD_NO_MEMORY,
} engine_load_status_t;

typedef struct engine_symbol {
    const char *name;
    uint32_t address; /* WRAM, MRAM (from ENGINE_MRAM_BASE) */
    uint32_t size;
} engine_symbol_t;

/*
 * Loads a program; the bytes may be freed afterwards. The program has one reference. On failure
 * *program is NULL and error holds one line with rule name and numbers.
 */
engine_load_status_t engine_program_load(const void *elf, size_t size,
                                         const engine_options_t *options,
                                         engine_program_t **program, char *error,
                                         size_t error_size);
/* Replaces the line table by that of a side file's bytes; false if they are none. */
bool engine_program_set_lines(engine_program_t *program, const void *bytes, size_t size);
engine_program_t *engine_program_retain(engine_program_t *program);
void engine_program_release(engine_program_t *program);

uint32_t engine_program_tasklets(const engine_program_t *program);
/* Instructions, and issue slots of IRAM they would take on the DPU (less the peepholes). */
uint32_t engine_program_instructions(const engine_program_t *program);
uint32_t engine_program_iram_slots(const engine_program_t *program);
uint32_t engine_program_heap_start(const engine_program_t *program);
/* A warning of the load ("IRAM nearly full ..."), or NULL. */
const char *engine_program_warning(const engine_program_t *program);

/* Host-visible symbols. */
const engine_symbol_t *engine_program_symbol(const engine_program_t *program, const char *name);
size_t engine_program_symbols(const engine_program_t *program, const engine_symbol_t **symbols);

/* Source position of an instruction; false if unknown. The strings live as long as the program. */
bool engine_program_line(const engine_program_t *program, uint32_t pc, const char **file,
                         uint32_t *line, const char **function);

/* ---- DPUs --------------------------------------------------------------------------------- */

typedef struct engine_dpu engine_dpu_t;

/* A DPU with poisoned memories (ENGINE_POISON) and no program; NULL when memory is out. */
engine_dpu_t *engine_dpu_create(uint32_t id, const engine_options_t *options);
void engine_dpu_destroy(engine_dpu_t *dpu);

/*
 * Loads the program's images: WRAM is poisoned, then filled; MRAM keeps what no initialised
 * section covers. The DPU holds a reference of the program.
 */
void engine_dpu_attach(engine_dpu_t *dpu, engine_program_t *program);
engine_program_t *engine_dpu_program(const engine_dpu_t *dpu); /* or NULL */

/* The memories, ENGINE_WRAM_MAX and ENGINE_MRAM_SIZE bytes, for host transfers. */
uint8_t *engine_dpu_wram(engine_dpu_t *dpu);
uint8_t *engine_dpu_mram(engine_dpu_t *dpu);
/* To be called after the host wrote: address as in symbols (WRAM from 0, MRAM from its base). */
void engine_dpu_host_wrote(engine_dpu_t *dpu, uint32_t address, uint32_t size);
/* First never written byte in the range, or UINT64_MAX; needs check_uninitialised. */
uint64_t engine_dpu_first_uninitialised(const engine_dpu_t *dpu, uint32_t address, uint32_t size);

typedef enum engine_rule {
    ENGINE_RULE_NONE = 0,
    /* always on */
    ENGINE_RULE_WRAM_BOUNDS,         /* "wram-bounds" */
    ENGINE_RULE_WRAM_NULL,           /* "wram-null": the first 8 bytes */
    ENGINE_RULE_MRAM_BOUNDS,         /* "mram-bounds": direct access past MRAM */
    ENGINE_RULE_ALIGNMENT,           /* "alignment" of a load or store */
    ENGINE_RULE_DMA_SIZE,            /* "dma-size" */
    ENGINE_RULE_DMA_ALIGNMENT,       /* "dma-alignment" */
    ENGINE_RULE_DMA_RANGE,           /* "dma-range" */
    ENGINE_RULE_STACK_OVERFLOW,      /* "stack-overflow" */
    ENGINE_RULE_HEAP_FULL,           /* "heap-full": runtime fault 1 */
    ENGINE_RULE_DIVIDE_BY_ZERO,      /* "divide-by-zero": runtime fault 2 */
    ENGINE_RULE_ASSERT,              /* "assert": runtime fault 3 */
    ENGINE_RULE_HALT,                /* "halt": runtime fault 4 */
    ENGINE_RULE_LOG_OVERFLOW,        /* "log-overflow": runtime fault 5 */
    ENGINE_RULE_PROFILING,           /* "profiling": runtime faults 6 and 7 */
    ENGINE_RULE_RUNTIME_ALIGNMENT,   /* "runtime-alignment": runtime fault 8 */
    ENGINE_RULE_RUNTIME_FAULT,       /* "runtime-fault": any other number */
    ENGINE_RULE_ATOMIC_BIT,          /* "atomic-bit": number outside 0..255 */
    ENGINE_RULE_TASKLET,             /* "tasklet": resume of a tasklet that does not exist */
    ENGINE_RULE_ILLEGAL_INSTRUCTION, /* "illegal-instruction" */
    ENGINE_RULE_IRAM_FETCH,          /* "iram-fetch" */
    ENGINE_RULE_DEADLOCK,            /* "deadlock" */
    ENGINE_RULE_CYCLE_LIMIT,         /* "cycle-limit" */
    /* optional */
    ENGINE_RULE_RACE,               /* "race" in WRAM */
    ENGINE_RULE_MRAM_RACE,          /* "mram-race": one 8-byte word, two tasklets */
    ENGINE_RULE_UNINITIALISED_WRAM, /* "uninitialised-wram" */
    ENGINE_RULE_UNINITIALISED_MRAM, /* "uninitialised-mram": loaded bytes came from unwritten MRAM */
    ENGINE_RULE_DMA_WINDOW,         /* "dma-window" */
    ENGINE_RULE_COUNT
} engine_rule_t;

const char *engine_rule_name(engine_rule_t rule);

typedef struct engine_fault {
    engine_rule_t rule; /* ENGINE_RULE_NONE: no fault */
    uint32_t dpu, tasklet, pc;
    bool has_address;
    uint32_t address;
    const char *file; /* first position outside the runtime, or NULL; lives with the program */
    uint32_t line;
    const char *function;
    char message[512]; /* one line: all of the above and the numbers; a deadlock has one a tasklet */
} engine_fault_t;

typedef struct engine_statistics {
    uint64_t cycles;       /* modelled */
    uint64_t slots;        /* issued; cycles = slots + idle + stolen */
    uint64_t idle;         /* cycles with no tasklet ready */
    uint64_t stolen;       /* cycles lost to the DMA engine (dma_steal) */
    uint64_t instructions; /* RV32 instructions executed */
    uint64_t library_calls, library_slots;
    uint64_t multiply_slots, divide_slots;
    uint64_t dma_reads, dma_writes, dma_read_bytes, dma_write_bytes;
    uint64_t dma_busy;        /* cycles that the DMA engine was taken */
    uint64_t dma_masked;      /* hardware_mask: transfers that the hardware would have changed */
    uint64_t direct_accesses; /* loads and stores to MRAM addresses */
    uint64_t lock_retries;
    uint64_t tasklet_slots[ENGINE_MAX_TASKLETS];
    uint32_t tasklet_stack[ENGINE_MAX_TASKLETS]; /* deepest use in bytes */
} engine_statistics_t;

/*
 * Runs the attached program from its entry until every tasklet has ended: true; or until a fault:
 * false. Registers, stacks' state, atomic bits, log and statistics start fresh; memories stay.
 */
bool engine_dpu_run(engine_dpu_t *dpu);
const engine_fault_t *engine_dpu_fault(const engine_dpu_t *dpu); /* of the last run */
const engine_statistics_t *engine_dpu_statistics(const engine_dpu_t *dpu);
/* What printf wrote in the last run, ending in 0. */
const char *engine_dpu_log(const engine_dpu_t *dpu, size_t *size);
const engine_options_t *engine_dpu_options(const engine_dpu_t *dpu);
/*
 * Issue slots by instruction, summed over all runs of the attached program: element i is the
 * instruction at ENGINE_IRAM_BASE + 4 i. Kept with options.statistics >= 2, else NULL. What waiting
 * for DMA takes is no slot; a library routine's slots are at its entry.
 */
const uint64_t *engine_dpu_profile(const engine_dpu_t *dpu, uint32_t *instructions);

/*
 * custom-0 instructions (opcode 0x0b), funct3 / funct7:
 *   0      r4: DMA MRAM -> WRAM, rs1 WRAM address, rs2 MRAM address (with or without its base),
 *          rs3 bytes
 *   1      r4: DMA WRAM -> MRAM, same operands
 *   2 / 0  acquire atomic bit rs1 (its number, or ENGINE_ATOMIC_BASE + number); waits by retrying
 *   2 / 1  try to acquire: rd = 1 if got
 *   3 / 0  release
 *   4 / 0  stop (sleep) until resumed        4 / 1  this tasklet ends
 *   5 / 0  resume tasklet rs1; waits by retrying until that one is stopped
 *   6 / 0  rd = counter >> 4
 *   6 / 1  counter: rs1 = 0 keeps the mode, 1 cycles, 2 instructions, 3 nothing; rs2 != 0 sets it
 *          to 0; rd = counter >> 4 before that
 *   6 / 2  [rs1, rs1 + rs2) of WRAM is fresh: nobody wrote it, no order to keep (no slot)
 *   6 / 3  rd = WRAM bytes of the target
 *   7 / 0  runtime fault number rs1 (1 heap, 2 division, 3 assert, 4 halt, 5 log, 6, 7 profiling,
 *          8 alignment)
 *   7 / 1  printf: rs1 format, rs2 pointer to the arguments (a RISC-V va_list), rd = characters
 * me(): csrr rd, mhartid (no slot).
 */

#ifdef __cplusplus
}
#endif
#endif
