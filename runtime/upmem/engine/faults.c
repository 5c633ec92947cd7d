/* Messages: which DPU, tasklet, source line, rule, address. */
#include "internal.h"

#include <stdarg.h>
#include <string.h>

static const char *const rule_names[ENGINE_RULE_COUNT] = {
    [ENGINE_RULE_NONE] = "none",
    [ENGINE_RULE_WRAM_BOUNDS] = "wram-bounds",
    [ENGINE_RULE_WRAM_NULL] = "wram-null",
    [ENGINE_RULE_MRAM_BOUNDS] = "mram-bounds",
    [ENGINE_RULE_ALIGNMENT] = "alignment",
    [ENGINE_RULE_DMA_SIZE] = "dma-size",
    [ENGINE_RULE_DMA_ALIGNMENT] = "dma-alignment",
    [ENGINE_RULE_DMA_RANGE] = "dma-range",
    [ENGINE_RULE_STACK_OVERFLOW] = "stack-overflow",
    [ENGINE_RULE_HEAP_FULL] = "heap-full",
    [ENGINE_RULE_DIVIDE_BY_ZERO] = "divide-by-zero",
    [ENGINE_RULE_ASSERT] = "assert",
    [ENGINE_RULE_HALT] = "halt",
    [ENGINE_RULE_LOG_OVERFLOW] = "log-overflow",
    [ENGINE_RULE_PROFILING] = "profiling",
    [ENGINE_RULE_RUNTIME_ALIGNMENT] = "runtime-alignment",
    [ENGINE_RULE_RUNTIME_FAULT] = "runtime-fault",
    [ENGINE_RULE_ATOMIC_BIT] = "atomic-bit",
    [ENGINE_RULE_TASKLET] = "tasklet",
    [ENGINE_RULE_ILLEGAL_INSTRUCTION] = "illegal-instruction",
    [ENGINE_RULE_IRAM_FETCH] = "iram-fetch",
    [ENGINE_RULE_DEADLOCK] = "deadlock",
    [ENGINE_RULE_CYCLE_LIMIT] = "cycle-limit",
    [ENGINE_RULE_RACE] = "race",
    [ENGINE_RULE_MRAM_RACE] = "mram-race",
    [ENGINE_RULE_UNINITIALISED_WRAM] = "uninitialised-wram",
    [ENGINE_RULE_UNINITIALISED_MRAM] = "uninitialised-mram",
    [ENGINE_RULE_DMA_WINDOW] = "dma-window",
};

const char *engine_rule_name(engine_rule_t rule)
{
    return rule >= 0 && rule < ENGINE_RULE_COUNT ? rule_names[rule] : "unknown";
}

bool position(const engine_dpu_t *dpu, const tasklet_t *k, const char **file, uint32_t *line,
              const char **function)
{
    const engine_program_t *program = dpu->program;
    bool known =
        engine_program_line(program, ENGINE_IRAM_BASE + k->pc, file, line, function);
    if (known && (*file)[0] != '<')
        return true;
    uint32_t depth = k->depth;
    for (uint32_t back = 1; back <= CALLS && back <= depth; back++) {
        const char *outer_file, *outer_function;
        uint32_t outer_line;
        uint32_t call = k->calls[(depth - back) % CALLS] - 4;
        if (engine_program_line(program, ENGINE_IRAM_BASE + call, &outer_file, &outer_line,
                                &outer_function) &&
            outer_file[0] != '<') {
            *file = outer_file;
            *line = outer_line;
            *function = outer_function;
            return true;
        }
    }
    return known;
}

const char *describe_address(const engine_dpu_t *dpu, uint32_t address, char *buffer, size_t size)
{
    const engine_program_t *program = dpu->program;
    buffer[0] = 0;
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const engine_symbol_t *s = &program->symbols[i];
        if (address >= s->address && address - s->address < s->size &&
            strcmp(s->name, "__sys_used_mram_end")) {
            snprintf(buffer, size, " (%s + %u)", s->name, address - s->address);
            return buffer;
        }
    }
    for (uint32_t t = 0; t < program->tasklets; t++)
        if (address >= program->stack_start[t] &&
            address - program->stack_start[t] < program->stack_size[t])
            snprintf(buffer, size, " (stack of tasklet %u)", t);
    return buffer;
}

static size_t place(engine_fault_t *f, const engine_dpu_t *dpu, const tasklet_t *k)
{
    const char *inner_file, *inner_function;
    uint32_t inner_line;
    size_t n = 0, size = sizeof f->message;
#define ADD(...)                                                                                   \
    do {                                                                                           \
        int m = snprintf(f->message + n, size - n, __VA_ARGS__);                                   \
        n = m < 0 ? n : n + (size_t)m < size ? n + (size_t)m : size - 1;                           \
    } while (0)
    ADD("DPU %u, tasklet %u, ", dpu->id, (uint32_t)k->id);
    bool known = position(dpu, k, &f->file, &f->line, &f->function);
    if (known)
        ADD("%s:%u, ", f->file, f->line);
    if (f->function)
        ADD("in %s, ", f->function);
    engine_program_line(dpu->program, ENGINE_IRAM_BASE + k->pc, &inner_file, &inner_line,
                        &inner_function);
    if (inner_function && f->function && strcmp(inner_function, f->function))
        ADD("called %s, ", inner_function);
    ADD("pc 0x%08x: %s: ", ENGINE_IRAM_BASE + k->pc, engine_rule_name(f->rule));
#undef ADD
    return n;
}

static void raise(engine_dpu_t *dpu, const tasklet_t *k, engine_rule_t rule, bool has_address,
                  uint32_t address, const char *format, va_list arguments)
{
    engine_fault_t *f = &dpu->fault;
    if (f->rule != ENGINE_RULE_NONE)
        return;
    f->rule = rule;
    f->dpu = dpu->id;
    f->tasklet = k->id;
    f->pc = ENGINE_IRAM_BASE + k->pc;
    f->has_address = has_address;
    f->address = address;
    size_t n = place(f, dpu, k);
    vsnprintf(f->message + n, sizeof f->message - n, format, arguments);
}

int fault(engine_dpu_t *dpu, const tasklet_t *k, engine_rule_t rule, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    raise(dpu, k, rule, false, 0, format, arguments);
    va_end(arguments);
    return STEP_FAULT;
}

int fault_at(engine_dpu_t *dpu, const tasklet_t *k, engine_rule_t rule, uint32_t address,
             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    raise(dpu, k, rule, true, address, format, arguments);
    va_end(arguments);
    return STEP_FAULT;
}

/* What a tasklet that cannot go on waits for. */
static void waits_for(const engine_dpu_t *dpu, const tasklet_t *k, char *buffer, size_t size)
{
    const insn_t *o = &dpu->program->original[k->pc / 4];
    uint32_t operand = k->x[o->rs1];
    if (k->state == TASKLET_STOPPED)
        snprintf(buffer, size, "stopped, nobody resumes it");
    else if (o->op == OP_ACQUIRE)
        snprintf(buffer, size, "waits for atomic bit %u", operand % ENGINE_ATOMIC_BITS);
    else
        snprintf(buffer, size, "waits to resume tasklet %u", operand);
}

int deadlock(engine_dpu_t *dpu)
{
    const tasklet_t *first = NULL;
    char text[400], state[64];
    size_t n = 0;
    text[0] = 0;
    for (uint32_t t = 0; t < dpu->program->tasklets; t++) {
        const tasklet_t *k = &dpu->tasklets[t];
        if (k->state == TASKLET_ENDED)
            continue;
        tasklet_t at = *k;
        if (k->state == TASKLET_STOPPED) /* its pc is behind the stop */
            at.pc -= 4;
        if (!first)
            first = k;
        const char *file, *function;
        uint32_t line;
        waits_for(dpu, k, state, sizeof state);
        bool known = position(dpu, &at, &file, &line, &function);
        int m = known ? snprintf(text + n, sizeof text - n, "; %u (%s:%u): %s", t, file, line, state)
                      : snprintf(text + n, sizeof text - n, "; %u: %s", t, state);
        if (m < 0 || n + (size_t)m >= sizeof text) {
            text[n] = 0;
            break;
        }
        n += (size_t)m;
    }
    tasklet_t at = *first;
    if (at.state == TASKLET_STOPPED)
        at.pc -= 4;
    return fault(dpu, &at, ENGINE_RULE_DEADLOCK, "none of the %u tasklets left can go on%s",
                 dpu->alive, text);
}
