/* What the parts of the engine share; not for users of engine.h. */
#ifndef INR_ENGINE_INTERNAL_H
#define INR_ENGINE_INTERNAL_H

#include "engine.h"

#include <stdatomic.h>
#include <stdio.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- decoded instructions (decode.c) ------------------------------------------------------ */

/* clang-format off */
enum {
    OP_ILLEGAL, OP_LUI, OP_JAL, OP_CALL, OP_JALR, OP_CALLR, OP_RETURN,
    OP_BEQ, OP_BNE, OP_BLT, OP_BGE, OP_BLTU, OP_BGEU,
    OP_LB, OP_LH, OP_LW, OP_LBU, OP_LHU, OP_SB, OP_SH, OP_SW,
    OP_LW_PAIR, OP_SW_PAIR, /* second half of a 64-bit access: free where aligned */
    OP_ADDI, OP_LI, OP_MV, OP_SLTI, OP_SLTIU, OP_XORI, OP_ORI, OP_ANDI, OP_SLLI, OP_SRLI, OP_SRAI,
    OP_ADD, OP_SUB, OP_SLL, OP_SLT, OP_SLTU, OP_XOR, OP_SRL, OP_SRA, OP_OR, OP_AND,
    OP_MUL, OP_MULH, OP_MULHSU, OP_MULHU, OP_DIV, OP_DIVU, OP_REM, OP_REMU,
    OP_SH1ADD, OP_SH2ADD, OP_SH3ADD, OP_ANDN, OP_ORN, OP_XNOR, OP_CLZ, OP_CTZ, OP_CPOP,
    OP_MAX, OP_MAXU, OP_MIN, OP_MINU, OP_SEXTB, OP_SEXTH, OP_ZEXTH, OP_ROL, OP_ROR, OP_RORI,
    OP_ORCB, OP_REV8, OP_TASKLET, OP_NOP,
    OP_DMA_READ, OP_DMA_WRITE, OP_ACQUIRE, OP_TRY_ACQUIRE, OP_RELEASE, OP_STOP, OP_END, OP_RESUME,
    OP_TIME, OP_TIME_CONFIG, OP_FRESH, OP_WRAM_SIZE, OP_FAULT, OP_PRINTF,
    OP_STACK,   /* writes sp: the original instruction, then the stack check */
    OP_LIBRARY, /* entry of a library routine with a fixed cost */
    OP_COUNT
};
/* clang-format on */

#define NO_REGISTER 32 /* where writes to x0 go */

typedef struct insn {
    uint8_t op, rd, rs1, rs2;
    uint8_t rs3;  /* DMA: the register of the size; pairs: the low address bits of the free half */
    uint8_t cost; /* issue slots; 0: free, part of another DPU instruction */
    uint8_t width; /* of the result where it is known from the instruction: 1, 2 or 4 bytes */
    int32_t imm; /* jumps and branches: byte offset of the target in IRAM */
} insn_t;

/* Decodes one word at byte offset `offset` of IRAM. */
insn_t decode(uint32_t word, uint32_t offset);
bool is_branch(const insn_t *insn);
bool is_jump(const insn_t *insn);
bool is_store(const insn_t *insn);
/* Marks RV32 instructions that the DPU needs none for; leader[i]: something jumps to i. */
void find_peepholes(insn_t *code, uint32_t count, const bool *leader);

/* ---- costs (costs.c) ---------------------------------------------------------------------- */

/* Fixed costs that are no option; sources in costs.c. */
enum {
    COST_MULTIPLY_HIGH = 40,
    COST_DIRECT_READ = 4,
    COST_DIRECT_WRITE = 6,
    COST_PRINTF = 100,
    COST_PRINTF_CHARACTER = 20,
};

extern const engine_costs_t default_costs;
uint32_t multiply_slots(uint32_t a, uint32_t b, uint32_t width_a, uint32_t width_b);
uint32_t divide_slots(uint32_t a, uint32_t b, bool is_signed);
/* Slots of a library routine, or 0 if it costs what its instructions cost. */
uint32_t library_slots(const char *name);

/* ---- programs (program.c, lines.c) -------------------------------------------------------- */

typedef struct line_row {
    uint32_t address, line, file;
} line_row_t;

typedef struct function {
    uint32_t address, size;
    const char *name;
} function_t;

/* Bytes that a load puts into a memory. */
typedef struct image {
    uint32_t address, size; /* address in its memory, without base */
    uint8_t *bytes;         /* NULL: zeros */
} image_t;

typedef struct library {
    uint32_t index, slots; /* instruction index of the entry */
} library_t;

struct engine_program {
    atomic_uint references;
    insn_t *code;     /* as executed */
    insn_t *original; /* without OP_STACK, OP_LIBRARY */
    uint32_t count;   /* instructions */
    uint32_t slots;
    uint32_t entry; /* byte offset in IRAM */
    uint32_t tasklets, heap_start, log_size;
    uint32_t stack_start[ENGINE_MAX_TASKLETS], stack_size[ENGINE_MAX_TASKLETS];
    image_t *images[2]; /* WRAM, MRAM */
    uint32_t image_count[2];
    engine_symbol_t *symbols;
    uint32_t symbol_count;
    function_t *functions; /* sorted by address */
    uint32_t function_count;
    library_t *libraries;
    uint32_t library_count;
    char *names; /* strings of symbols and functions */
    line_row_t *rows;
    uint32_t row_count;
    char *files;
    uint32_t files_size;
    bool warned;
    char warning[160];
};

/* ---- DPUs --------------------------------------------------------------------------------- */

enum { COUNT_SAME, COUNT_CYCLES, COUNT_SLOTS, COUNT_NOTHING }; /* modes of the counter */
enum { TASKLET_READY, TASKLET_DMA, TASKLET_STOPPED, TASKLET_ENDED };
#define CALLS 32 /* remembered for the messages */

typedef struct tasklet {
    uint32_t x[NO_REGISTER + 1];
    uint8_t width[NO_REGISTER + 1];
    uint32_t pc;   /* byte offset in IRAM of the next instruction */
    uint32_t debt; /* slots still to be paid for the last instruction */
    uint64_t ready;
    uint64_t slots, instructions;
    uint64_t spin; /* the state of d->changes at its last failed try */
    uint32_t stack_low, stack_high, stack_used;
    uint32_t window, window_size; /* WRAM of its DMA in flight */
    uint32_t depth;
    uint32_t calls[CALLS]; /* return addresses */
    uint8_t state, id;
    bool window_written;
} tasklet_t;

typedef struct races races_t;
typedef struct shadow shadow_t;

typedef struct wake {
    uint64_t ready;
    tasklet_t *tasklet;
} wake_t;

#define QUEUE 32 /* power of two over ENGINE_MAX_TASKLETS */

struct engine_dpu {
    /* what the loop reads */
    uint8_t *wram;
    uint8_t *mram;
    const insn_t *code;
    uint32_t count;
    uint32_t wram_bytes;
    uint64_t cycle, idle, stolen_total;
    double stolen;   /* slots the DMA engine has still to take */
    double dma_free; /* cycle at which the DMA engine is free */
    double dma_busy;
    uint32_t alive, stopped, spinning;
    uint64_t changes; /* counts what a spinning tasklet could have waited for */
    races_t *races;
    shadow_t *shadow;
    uint64_t *profile; /* slots by instruction, or NULL */
    engine_program_t *program;
    /* tasklets by the cycle they are ready: those 11 cycles after an issue come in order */
    wake_t queue[QUEUE];
    uint32_t head, tail;
    wake_t wakes[ENGINE_MAX_TASKLETS]; /* the others, latest first */
    uint32_t wake_count;
    tasklet_t tasklets[ENGINE_MAX_TASKLETS];
    uint8_t locks[ENGINE_ATOMIC_BITS];
    uint32_t counter_mode;
    uint64_t counter_base;
    uint64_t random;
    uint32_t id;
    engine_options_t options;
    engine_fault_t fault;
    engine_statistics_t statistics;
    char *log;
    size_t log_size, log_capacity;
};

/* ---- faults (faults.c) -------------------------------------------------------------------- */

/* What a step says besides a cost. */
enum { STEP_FAULT = -1, STEP_DMA = -2, STEP_RETRY = -3, STEP_STOP = -4, STEP_END = -5 };

/* Keeps the first fault of a run; returns STEP_FAULT. */
int fault(engine_dpu_t *dpu, const tasklet_t *tasklet, engine_rule_t rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int fault_at(engine_dpu_t *dpu, const tasklet_t *tasklet, engine_rule_t rule, uint32_t address,
             const char *format, ...) __attribute__((format(printf, 5, 6)));
/* "symbol+offset" of an address, for messages; "" if no symbol is there. */
const char *describe_address(const engine_dpu_t *dpu, uint32_t address, char *buffer, size_t size);
int deadlock(engine_dpu_t *dpu);
/* Where a tasklet stands: the first call outside the runtime. False if there are no lines. */
bool position(const engine_dpu_t *dpu, const tasklet_t *tasklet, const char **file, uint32_t *line,
              const char **function);

/* ---- memories, slow accesses (memory.c, access.c) ---------------------------------------- */

uint8_t *mram_create(void);
void mram_destroy(uint8_t *mram);
int dma(engine_dpu_t *dpu, tasklet_t *tasklet, const insn_t *insn, bool read);
/* An access that is no aligned WRAM access: to MRAM directly (STEP_DMA, pc stays), or a fault. */
int load_slow(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t address, uint32_t bytes,
              uint32_t *value);
int store_slow(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t address, uint32_t bytes,
               uint32_t value);
/* printf.c; returns the slots or STEP_FAULT */
int print(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t format, uint32_t arguments,
          uint32_t *written);

/* ---- optional checks (races.c, shadow.c) -------------------------------------------------- */

static inline bool checks_on(const engine_options_t *o)
{
    return o->check_races || o->check_mram_reads || o->check_uninitialised || o->check_dma_window;
}

/* All return 0, or STEP_FAULT. Addresses are those in the memory. */
int check_load(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t address, uint32_t bytes);
int check_store(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t address, uint32_t bytes);
int check_dma(engine_dpu_t *dpu, tasklet_t *tasklet, bool read, uint32_t wram, uint32_t mram,
              uint32_t bytes);
int check_direct(engine_dpu_t *dpu, tasklet_t *tasklet, bool read, uint32_t mram, uint32_t bytes);
void check_fresh(engine_dpu_t *dpu, uint32_t address, uint32_t bytes);
void check_stack_moved(engine_dpu_t *dpu, uint32_t old_sp, uint32_t new_sp);
bool checks_start(engine_dpu_t *dpu);
void checks_end(engine_dpu_t *dpu);
void order_acquire(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t bit);
void order_release(engine_dpu_t *dpu, tasklet_t *tasklet, uint32_t bit);
void order_resume(engine_dpu_t *dpu, tasklet_t *tasklet, tasklet_t *resumed);

races_t *races_create(void);
void races_destroy(races_t *races);
int races_wram(engine_dpu_t *dpu, tasklet_t *tasklet, bool write, uint32_t address,
               uint32_t bytes);
int races_mram(engine_dpu_t *dpu, tasklet_t *tasklet, bool write, uint32_t address,
               uint32_t bytes);
void races_fresh(races_t *races, uint32_t address, uint32_t bytes);

shadow_t *shadow_create(void);
void shadow_destroy(shadow_t *shadow);
void shadow_wram_fill(shadow_t *shadow, uint32_t address, uint32_t bytes, bool initialised);
void shadow_mram_initialised(shadow_t *shadow, uint32_t address, uint32_t bytes);
void shadow_dma(shadow_t *shadow, bool read, uint32_t wram, uint32_t mram, uint32_t bytes);
/* Rule broken by loading these bytes, and the first offending address. */
engine_rule_t shadow_wram_load(const shadow_t *shadow, uint32_t address, uint32_t bytes,
                               uint32_t *first);
uint64_t shadow_wram_first(const shadow_t *shadow, uint32_t address, uint32_t bytes);
uint64_t shadow_mram_first(const shadow_t *shadow, uint32_t address, uint32_t bytes);

#endif
