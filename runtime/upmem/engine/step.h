/* One instruction of one tasklet; included by execute.c only, which compiles it more than once. */
#ifndef INR_ENGINE_STEP_H
#define INR_ENGINE_STEP_H

#include "internal.h"

#include <string.h>

static int library(engine_dpu_t *dpu, tasklet_t *k, uint32_t slots);
static int write_stack_pointer(engine_dpu_t *dpu, tasklet_t *k);
static int runtime_fault(engine_dpu_t *dpu, tasklet_t *k, uint32_t number);
static int acquire(engine_dpu_t *dpu, tasklet_t *k, const insn_t *o, bool wait);
static int release(engine_dpu_t *dpu, tasklet_t *k, uint32_t value);
static int resume(engine_dpu_t *dpu, tasklet_t *k, uint32_t number);
static uint32_t counter(const engine_dpu_t *dpu);
static void set_counter(engine_dpu_t *dpu, uint32_t mode, bool reset);

/*
 * Executes `o` at k->pc. Returns the issue slots it takes, with k->pc at the next instruction, or
 * one of STEP_*. `checked` is a constant at each place of use: without the optional checks there
 * is no trace of them.
 */
static inline __attribute__((always_inline)) int step(engine_dpu_t *dpu, tasklet_t *k,
                                                      const insn_t *o, const bool checked)
{
    uint32_t *const x = k->x;
    const uint32_t pc = k->pc, a = x[o->rs1], b = x[o->rs2], imm = (uint32_t)o->imm;
    const int32_t sa = (int32_t)a, sb = (int32_t)b;
    uint32_t r;
    int cost;

#define RESULT(value)                                                                              \
    r = (value);                                                                                   \
    break
#define WIDE(value) /* the width of a sum or product follows from the operands */                  \
    r = (value);                                                                                   \
    goto sum
#define BRANCH(condition)                                                                          \
    k->pc = (condition) ? imm : pc + 4;                                                            \
    return o->cost
#define ADDRESS(bytes)                                                                             \
    const uint32_t address = a + imm;                                                              \
    const bool plain =                                                                             \
        LIKELY(address - 8 <= dpu->wram_bytes - 8 - (bytes) && !(address & ((bytes) - 1)));
#define LOAD(bytes, type)                                                                          \
    {                                                                                              \
        ADDRESS(bytes)                                                                             \
        type value;                                                                                \
        if (UNLIKELY(!plain)) {                                                                    \
            uint32_t word;                                                                         \
            if (load_slow(dpu, k, address, bytes, &word) == STEP_FAULT)                            \
                return STEP_FAULT;                                                                 \
            x[o->rd] = (uint32_t)(int32_t)(type)word;                                              \
            k->width[o->rd] = o->width;                                                            \
            k->pc = pc + 4;                                                                        \
            return STEP_DMA;                                                                       \
        }                                                                                          \
        if (checked && check_load(dpu, k, address, bytes))                                         \
            return STEP_FAULT;                                                                     \
        memcpy(&value, dpu->wram + address, sizeof value);                                         \
        r = (uint32_t)(int32_t)value;                                                              \
        cost = o->op == OP_LW_PAIR && (address & 7) == o->rs3 ? 0 : o->cost;                       \
        goto result;                                                                               \
    }
#define STORE(bytes, type)                                                                         \
    {                                                                                              \
        ADDRESS(bytes)                                                                             \
        const type value = (type)b;                                                                \
        if (UNLIKELY(!plain)) {                                                                    \
            if (store_slow(dpu, k, address, bytes, b) == STEP_FAULT)                               \
                return STEP_FAULT;                                                                 \
            k->pc = pc + 4;                                                                        \
            return STEP_DMA;                                                                       \
        }                                                                                          \
        if (checked && check_store(dpu, k, address, bytes))                                        \
            return STEP_FAULT;                                                                     \
        memcpy(dpu->wram + address, &value, sizeof value);                                         \
        k->pc = pc + 4;                                                                            \
        return o->op == OP_SW_PAIR && (address & 7) == o->rs3 ? 0 : o->cost;                       \
    }
#define DIVIDE(is_signed, value)                                                                   \
    if (UNLIKELY(!b))                                                                              \
        return fault(dpu, k, ENGINE_RULE_DIVIDE_BY_ZERO, "%d divided by 0", sa);                   \
    r = (value);                                                                                   \
    cost = (int)divide_slots(a, b, is_signed);                                                     \
    dpu->statistics.divide_slots += (uint32_t)cost;                                                \
    goto result

    switch (o->op) {
    case OP_LI:
    case OP_LUI: RESULT(imm);
    case OP_JAL:
        x[o->rd] = ENGINE_IRAM_BASE + pc + 4;
        k->pc = imm;
        return o->cost;
    case OP_CALL:
        k->calls[k->depth++ % CALLS] = pc + 4;
        x[1] = ENGINE_IRAM_BASE + pc + 4;
        k->width[1] = 4;
        k->pc = imm;
        return o->cost;
    case OP_CALLR:
    case OP_RETURN:
    case OP_JALR:
        r = ((a + imm) & ~1u) - ENGINE_IRAM_BASE;
        if (UNLIKELY(r / 4 >= dpu->count || r % 4))
            return fault_at(dpu, k, ENGINE_RULE_IRAM_FETCH, ENGINE_IRAM_BASE + r,
                            "jumps to 0x%08x: the program's %u instructions begin at 0x%08x",
                            ENGINE_IRAM_BASE + r, dpu->count, ENGINE_IRAM_BASE);
        if (o->op == OP_CALLR)
            k->calls[k->depth++ % CALLS] = pc + 4;
        else if (o->op == OP_RETURN)
            k->depth -= k->depth != 0;
        x[o->rd] = ENGINE_IRAM_BASE + pc + 4;
        k->width[o->rd] = 4;
        k->pc = r;
        return o->cost;
    case OP_BEQ: BRANCH(a == b);
    case OP_BNE: BRANCH(a != b);
    case OP_BLT: BRANCH(sa < sb);
    case OP_BGE: BRANCH(sa >= sb);
    case OP_BLTU: BRANCH(a < b);
    case OP_BGEU: BRANCH(a >= b);
    case OP_LB: LOAD(1, int8_t)
    case OP_LBU: LOAD(1, uint8_t)
    case OP_LH: LOAD(2, int16_t)
    case OP_LHU: LOAD(2, uint16_t)
    case OP_LW:
    case OP_LW_PAIR: LOAD(4, int32_t)
    case OP_SB: STORE(1, uint8_t)
    case OP_SH: STORE(2, uint16_t)
    case OP_SW:
    case OP_SW_PAIR: STORE(4, uint32_t)
    case OP_MV:
        x[o->rd] = a;
        k->width[o->rd] = k->width[o->rs1];
        k->pc = pc + 4;
        return o->cost;
    case OP_ADDI: RESULT(a + imm);
    case OP_SLTI: RESULT(sa < (int32_t)imm);
    case OP_SLTIU: RESULT(a < imm);
    case OP_XORI: RESULT(a ^ imm);
    case OP_ORI: RESULT(a | imm);
    case OP_ANDI: RESULT(a & imm);
    case OP_SLLI: RESULT(a << imm);
    case OP_SRLI: RESULT(a >> imm);
    case OP_SRAI: RESULT((uint32_t)(sa >> imm));
    case OP_ADD: WIDE(a + b);
    case OP_SUB: WIDE(a - b);
    case OP_SLL: RESULT(a << (b & 31));
    case OP_SLT: RESULT(sa < sb);
    case OP_SLTU: RESULT(a < b);
    case OP_XOR: RESULT(a ^ b);
    case OP_SRL: RESULT(a >> (b & 31));
    case OP_SRA: RESULT((uint32_t)(sa >> (b & 31)));
    case OP_OR: RESULT(a | b);
    case OP_AND: RESULT(a & b);
    case OP_MUL:
        cost = (int)multiply_slots(a, b, k->width[o->rs1], k->width[o->rs2]);
        dpu->statistics.multiply_slots += (uint32_t)cost;
        r = (k->width[o->rs1] | k->width[o->rs2]) == 1 ? 2 : 4;
        x[o->rd] = a * b;
        k->width[o->rd] = (uint8_t)r;
        k->pc = pc + 4;
        return cost;
    case OP_MULH:
    case OP_MULHSU:
    case OP_MULHU:
        dpu->statistics.multiply_slots += o->cost;
        RESULT(o->op == OP_MULH    ? (uint32_t)(((int64_t)sa * sb) >> 32)
               : o->op == OP_MULHU ? (uint32_t)(((uint64_t)a * b) >> 32)
                                   : (uint32_t)(((int64_t)sa * (int64_t)(uint64_t)b) >> 32));
    case OP_DIV: DIVIDE(true, sa == INT32_MIN && sb == -1 ? a : (uint32_t)(sa / sb));
    case OP_DIVU: DIVIDE(false, a / b);
    case OP_REM: DIVIDE(true, sa == INT32_MIN && sb == -1 ? 0 : (uint32_t)(sa % sb));
    case OP_REMU: DIVIDE(false, a % b);
    case OP_SH1ADD: RESULT((a << 1) + b);
    case OP_SH2ADD: RESULT((a << 2) + b);
    case OP_SH3ADD: RESULT((a << 3) + b);
    case OP_ANDN: RESULT(a & ~b);
    case OP_ORN: RESULT(a | ~b);
    case OP_XNOR: RESULT(~(a ^ b));
    case OP_CLZ: RESULT(a ? (uint32_t)__builtin_clz(a) : 32);
    case OP_CTZ: RESULT(a ? (uint32_t)__builtin_ctz(a) : 32);
    case OP_CPOP: RESULT((uint32_t)__builtin_popcount(a));
    case OP_MAX: RESULT(sa > sb ? a : b);
    case OP_MAXU: RESULT(a > b ? a : b);
    case OP_MIN: RESULT(sa < sb ? a : b);
    case OP_MINU: RESULT(a < b ? a : b);
    case OP_SEXTB: RESULT((uint32_t)(int32_t)(int8_t)a);
    case OP_SEXTH: RESULT((uint32_t)(int32_t)(int16_t)a);
    case OP_ZEXTH: RESULT((uint16_t)a);
    case OP_ROL: RESULT(a << (b & 31) | a >> (-b & 31));
    case OP_ROR: RESULT(a >> (b & 31) | a << (-b & 31));
    case OP_RORI: RESULT(a >> imm | a << (-imm & 31));
    case OP_ORCB:
        r = 0;
        for (int i = 0; i < 32; i += 8)
            r |= (a >> i & 255 ? 255u : 0u) << i;
        break;
    case OP_REV8: RESULT(__builtin_bswap32(a));
    case OP_TASKLET: RESULT(k->id);
    case OP_NOP:
        k->pc = pc + 4;
        return o->cost;
    case OP_DMA_READ: return dma(dpu, k, o, true);
    case OP_DMA_WRITE: return dma(dpu, k, o, false);
    case OP_ACQUIRE: return acquire(dpu, k, o, true);
    case OP_TRY_ACQUIRE: return acquire(dpu, k, o, false);
    case OP_RELEASE: return release(dpu, k, a);
    case OP_STOP: k->pc = pc + 4; return STEP_STOP;
    case OP_END: return STEP_END;
    case OP_RESUME: return resume(dpu, k, a);
    case OP_TIME: RESULT(counter(dpu));
    case OP_TIME_CONFIG:
        r = counter(dpu);
        set_counter(dpu, a, b != 0);
        break;
    case OP_FRESH:
        if (checked)
            check_fresh(dpu, a, b);
        k->pc = pc + 4;
        return o->cost;
    case OP_WRAM_SIZE: RESULT(dpu->wram_bytes);
    case OP_FAULT: return runtime_fault(dpu, k, a);
    case OP_PRINTF:
        cost = print(dpu, k, a, b, &r);
        if (cost == STEP_FAULT)
            return cost;
        goto result;
    case OP_STACK: return write_stack_pointer(dpu, k);
    case OP_LIBRARY: return library(dpu, k, imm);
    default:
        return fault(dpu, k, ENGINE_RULE_ILLEGAL_INSTRUCTION,
                     "no instruction of the DPU stand-in (__builtin_trap, or data executed)");
    }
    cost = o->cost;
result:
    x[o->rd] = r;
    k->width[o->rd] = o->width;
    k->pc = pc + 4;
    return cost;
sum:
    x[o->rd] = r;
    k->width[o->rd] = (k->width[o->rs1] | k->width[o->rs2]) == 1 ? 2 : 4;
    k->pc = pc + 4;
    return o->cost;
#undef RESULT
#undef WIDE
#undef BRANCH
#undef ADDRESS
#undef LOAD
#undef STORE
#undef DIVIDE
}

#endif
