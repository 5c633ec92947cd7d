/* From RV32IM_Zba_Zbb and custom-0 words to insn_t, and the sequences that are one instruction. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bits(uint32_t word, int low, int count)
{
    return (word >> low) & ((1u << count) - 1);
}

static int32_t signed_bits(uint32_t value, int count)
{
    return (int32_t)(value << (32 - count)) >> (32 - count);
}

static int32_t jump_offset(uint32_t w)
{
    uint32_t u = bits(w, 31, 1) << 20 | bits(w, 12, 8) << 12 | bits(w, 20, 1) << 11 |
                 bits(w, 21, 10) << 1;
    return signed_bits(u, 21);
}

static int32_t branch_offset(uint32_t w)
{
    uint32_t u = bits(w, 31, 1) << 12 | bits(w, 7, 1) << 11 | bits(w, 25, 6) << 5 |
                 bits(w, 8, 4) << 1;
    return signed_bits(u, 13);
}

static uint8_t immediate_operation(insn_t *o, uint32_t w)
{
    static const uint8_t plain[8] = {OP_ADDI, 0, OP_SLTI, OP_SLTIU, OP_XORI, 0, OP_ORI, OP_ANDI};
    static const uint8_t unary[8] = {OP_CLZ,   OP_CTZ,   OP_CPOP, OP_ILLEGAL,
                                     OP_SEXTB, OP_SEXTH, 0,       0};
    uint32_t funct3 = bits(w, 12, 3), funct7 = bits(w, 25, 7), shift = bits(w, 20, 5);
    if (funct3 == 1) {
        if (funct7 == 0x30)
            return shift < 8 ? unary[shift] : OP_ILLEGAL;
        o->imm = (int32_t)shift;
        return funct7 == 0 ? OP_SLLI : OP_ILLEGAL;
    }
    if (funct3 == 5) {
        uint32_t whole = bits(w, 20, 12);
        o->imm = (int32_t)shift;
        if (whole == 0x287)
            return OP_ORCB;
        if (whole == 0x698)
            return OP_REV8;
        return funct7 == 0 ? OP_SRLI : funct7 == 0x20 ? OP_SRAI
                                   : funct7 == 0x30   ? OP_RORI
                                                      : OP_ILLEGAL;
    }
    if (funct3 == 0 && o->rs1 == 0)
        return OP_LI;
    if (funct3 == 0 && o->imm == 0)
        return OP_MV;
    return plain[funct3];
}

static uint8_t register_operation(const insn_t *o, uint32_t w)
{
    static const uint8_t base[8] = {OP_ADD, OP_SLL, OP_SLT, OP_SLTU, OP_XOR, OP_SRL, OP_OR, OP_AND};
    static const uint8_t multiply[8] = {OP_MUL, OP_MULH, OP_MULHSU, OP_MULHU,
                                        OP_DIV, OP_DIVU, OP_REM,    OP_REMU};
    static const uint8_t shift_add[8] = {0, 0, OP_SH1ADD, 0, OP_SH2ADD, 0, OP_SH3ADD, 0};
    static const uint8_t negated[8] = {OP_SUB, 0, 0, 0, OP_XNOR, OP_SRA, OP_ORN, OP_ANDN};
    static const uint8_t extreme[8] = {0, 0, 0, 0, OP_MIN, OP_MINU, OP_MAX, OP_MAXU};
    static const uint8_t rotate[8] = {0, OP_ROL, 0, 0, 0, OP_ROR, 0, 0};
    uint32_t funct3 = bits(w, 12, 3);
    switch (bits(w, 25, 7)) {
    case 0x00: return base[funct3];
    case 0x01: return multiply[funct3];
    case 0x10: return shift_add[funct3];
    case 0x20: return negated[funct3];
    case 0x05: return extreme[funct3];
    case 0x30: return rotate[funct3];
    case 0x04: return funct3 == 4 && o->rs2 == 0 ? OP_ZEXTH : OP_ILLEGAL;
    default: return OP_ILLEGAL;
    }
}

static uint8_t custom_operation(uint32_t w)
{
    uint32_t funct7 = bits(w, 25, 7);
    switch (bits(w, 12, 3)) {
    case 0: return bits(w, 25, 2) == 0 ? OP_DMA_READ : OP_ILLEGAL;
    case 1: return bits(w, 25, 2) == 0 ? OP_DMA_WRITE : OP_ILLEGAL;
    case 2: return funct7 == 0 ? OP_ACQUIRE : funct7 == 1 ? OP_TRY_ACQUIRE : OP_ILLEGAL;
    case 3: return funct7 == 0 ? OP_RELEASE : OP_ILLEGAL;
    case 4: return funct7 == 0 ? OP_STOP : funct7 == 1 ? OP_END : OP_ILLEGAL;
    case 5: return funct7 == 0 ? OP_RESUME : OP_ILLEGAL;
    case 6: {
        static const uint8_t table[4] = {OP_TIME, OP_TIME_CONFIG, OP_FRESH, OP_WRAM_SIZE};
        return funct7 < 4 ? table[funct7] : OP_ILLEGAL;
    }
    default: return funct7 == 0 ? OP_FAULT : funct7 == 1 ? OP_PRINTF : OP_ILLEGAL;
    }
}

/*
 * Slots where one RV32 instruction is not one DPU instruction. Immediates of 32 bits and the
 * tasklet's number are operands of DPU instructions; min and max are a compare and a move; there
 * is a count of leading zeros but none of trailing ones; bytes are swapped in two steps.
 */
static uint8_t fixed_cost(uint8_t op)
{
    switch (op) {
    case OP_LUI:
    case OP_TASKLET:
    case OP_NOP:
    case OP_FRESH: return 0;
    case OP_MIN:
    case OP_MINU:
    case OP_MAX:
    case OP_MAXU:
    case OP_REV8: return 2;
    case OP_CTZ: return 3;
    case OP_ORCB: return 4;
    case OP_MULH:
    case OP_MULHSU:
    case OP_MULHU: return COST_MULTIPLY_HIGH;
    default: return 1;
    }
}

/* Bytes that the result is known to fit in, signed or unsigned; what makes a narrow multiply. */
static uint8_t result_width(const insn_t *o)
{
    switch (o->op) {
    case OP_LB:
    case OP_LBU:
    case OP_SLT:
    case OP_SLTU:
    case OP_SLTI:
    case OP_SLTIU:
    case OP_SEXTB:
    case OP_CLZ:
    case OP_CTZ:
    case OP_CPOP:
    case OP_TASKLET:
    case OP_TRY_ACQUIRE: return 1;
    case OP_LH:
    case OP_LHU:
    case OP_SEXTH:
    case OP_ZEXTH: return 2;
    case OP_LI: return o->imm >= -128 && o->imm < 256 ? 1 : 2;
    case OP_ANDI: return o->imm >= 0 && o->imm < 256 ? 1 : o->imm >= 0 ? 2 : 4;
    case OP_SRLI:
    case OP_SRAI: return o->imm >= 24 ? 1 : o->imm >= 16 ? 2 : 4;
    default: return 4;
    }
}

insn_t decode(uint32_t w, uint32_t offset)
{
    insn_t o;
    memset(&o, 0, sizeof o);
    o.rd = (uint8_t)bits(w, 7, 5);
    o.rs1 = (uint8_t)bits(w, 15, 5);
    o.rs2 = (uint8_t)bits(w, 20, 5);
    o.rs3 = (uint8_t)bits(w, 27, 5);
    o.imm = (int32_t)w >> 20;
    uint32_t funct3 = bits(w, 12, 3);
    switch (w & 0x7f) {
    case 0x37:
        o.op = OP_LUI;
        o.imm = (int32_t)(w & 0xfffff000u);
        break;
    case 0x17: /* auipc: its value is known here */
        o.op = OP_LUI;
        o.imm = (int32_t)((w & 0xfffff000u) + ENGINE_IRAM_BASE + offset);
        break;
    case 0x6f:
        o.op = o.rd == 1 ? OP_CALL : OP_JAL;
        o.imm = (int32_t)offset + jump_offset(w);
        break;
    case 0x67:
        if (funct3 == 0)
            o.op = o.rd == 1               ? OP_CALLR
                   : o.rd == 0 && o.rs1 == 1 ? OP_RETURN
                                             : OP_JALR;
        break;
    case 0x63: {
        static const uint8_t table[8] = {OP_BEQ, OP_BNE, 0, 0, OP_BLT, OP_BGE, OP_BLTU, OP_BGEU};
        o.op = table[funct3];
        o.imm = (int32_t)offset + branch_offset(w);
        o.rd = 0;
        break;
    }
    case 0x03: {
        static const uint8_t table[8] = {OP_LB, OP_LH, OP_LW, 0, OP_LBU, OP_LHU, 0, 0};
        o.op = table[funct3];
        break;
    }
    case 0x23: {
        static const uint8_t table[8] = {OP_SB, OP_SH, OP_SW, 0, 0, 0, 0, 0};
        o.op = table[funct3];
        o.imm = signed_bits(bits(w, 25, 7) << 5 | bits(w, 7, 5), 12);
        o.rd = 0;
        break;
    }
    case 0x13: o.op = immediate_operation(&o, w); break;
    case 0x33: o.op = register_operation(&o, w); break;
    case 0x0f: o.op = OP_NOP; break; /* fence: accesses are never reordered */
    case 0x73: /* only csrr rd, mhartid */
        if (funct3 == 2 && o.rs1 == 0 && bits(w, 20, 12) == 0xf14)
            o.op = OP_TASKLET;
        break;
    case 0x0b:
        o.op = custom_operation(w);
        if (o.op == OP_DMA_READ || o.op == OP_DMA_WRITE || o.op == OP_ACQUIRE ||
            o.op == OP_RELEASE || o.op == OP_STOP || o.op == OP_END || o.op == OP_RESUME ||
            o.op == OP_FRESH || o.op == OP_FAULT)
            o.rd = 0;
        break;
    default: break;
    }
    if (o.rd == 0)
        o.rd = NO_REGISTER;
    o.cost = fixed_cost(o.op);
    o.width = result_width(&o);
    return o;
}

bool is_branch(const insn_t *o)
{
    return o->op >= OP_BEQ && o->op <= OP_BGEU;
}

bool is_jump(const insn_t *o)
{
    return o->op >= OP_JAL && o->op <= OP_RETURN;
}

bool is_store(const insn_t *o)
{
    return o->op == OP_SB || o->op == OP_SH || o->op == OP_SW || o->op == OP_SW_PAIR;
}

/* ---- sequences ---------------------------------------------------------------------------- */

/* Whether control may enter or leave between instruction i and j > i: then they are no pair. */
static bool straight(const insn_t *code, const bool *leader, uint32_t i, uint32_t j)
{
    for (uint32_t k = i; k < j; k++)
        if (is_branch(&code[k]) || is_jump(&code[k]) || leader[k + 1])
            return false;
    return true;
}

/*
 * lw/lw or sw/sw on the two halves of 8 bytes: ld, sd. The second half is free if its address
 * turns out to be in the 8 bytes of the first.
 */
static void wide_accesses(insn_t *code, uint32_t count, const bool *leader)
{
    for (uint32_t i = 0; i < count; i++) {
        insn_t *a = &code[i];
        if (a->op != OP_LW && a->op != OP_SW)
            continue;
        for (uint32_t j = i + 1; j < count && j <= i + 12 && straight(code, leader, i, j); j++) {
            const insn_t *before = &code[j - 1];
            if (before->rd == a->rs1) /* the base changed */
                break;
            insn_t *b = &code[j];
            int32_t low = a->imm < b->imm ? a->imm : b->imm;
            if (b->op != a->op || b->rs1 != a->rs1 || b->imm == a->imm ||
                b->imm + a->imm != 2 * low + 4 || low % 8)
                continue;
            b->op = a->op == OP_LW ? OP_LW_PAIR : OP_SW_PAIR;
            b->rs3 = b->imm > a->imm ? 4 : 0;
            break;
        }
    }
}

static bool carries(const insn_t *carry, const insn_t *sum)
{
    if (sum->op == OP_ADD && carry->op == OP_SLTU && carry->rs1 == sum->rd)
        return carry->rs2 != sum->rd && (carry->rs2 == sum->rs1 || carry->rs2 == sum->rs2);
    /* x + 1 carries if it became 0 */
    return sum->op == OP_ADDI && sum->imm == 1 && carry->op == OP_SLTIU && carry->imm == 1 &&
           carry->rs1 == sum->rd;
}

/*
 * 64-bit additions: add, sltu, add, add is add, addc; the compare and the addition of the carry
 * are free. Subtractions likewise, where the borrow is a compare of the operands.
 */
static void carry_chains(insn_t *code, uint32_t count, const bool *leader)
{
    for (uint32_t i = 0; i < count; i++) {
        insn_t *carry = &code[i];
        bool addition = false, subtraction = false;
        for (uint32_t k = i > 3 ? i - 3 : 0; k < i; k++)
            addition |= carries(carry, &code[k]) && straight(code, leader, k, i);
        if (!addition && carry->op == OP_SLTU)
            for (uint32_t k = i > 4 ? i - 4 : 0; k < count && k <= i + 4; k++)
                subtraction |= code[k].op == OP_SUB && code[k].rs1 == carry->rs1 &&
                               code[k].rs2 == carry->rs2 &&
                               straight(code, leader, k < i ? k : i, k < i ? i : k);
        if (!addition && !subtraction)
            continue;
        uint8_t use = addition ? OP_ADD : OP_SUB;
        for (uint32_t j = i + 1; j < count && j <= i + 4 && straight(code, leader, i, j); j++) {
            bool uses = code[j].op == use && (code[j].rs2 == carry->rd ||
                                              (addition && code[j].rs1 == carry->rd));
            if (uses) {
                carry->cost = 0;
                code[j].cost = 0;
                break;
            }
            if (code[j].rd == carry->rd)
                break;
        }
    }
}

static bool reads(const insn_t *o, uint8_t r)
{
    return o->rs1 == r || o->rs2 == r || o->rs3 == r; /* of some forms these are no registers: safe */
}

/* The registers that something may still read behind each instruction, a bit each. */
static uint32_t *live_registers(const insn_t *code, uint32_t count)
{
    uint32_t *live = calloc(count + 1, sizeof *live); /* behind i; where nobody knows: all */
    uint32_t *before = calloc(count + 1, sizeof *before);
    bool changed = live != NULL && before != NULL;
    while (changed) {
        changed = false;
        for (uint32_t i = count; i-- > 0;) {
            const insn_t *o = &code[i];
            uint32_t out = before[i + 1];
            if (is_branch(o) || (o->op == OP_JAL && o->rd == NO_REGISTER)) {
                uint32_t target = (uint32_t)o->imm / 4;
                uint32_t there = target < count ? before[target] : UINT32_MAX;
                out = is_branch(o) ? out | there : there;
            } else if (is_jump(o)) {
                out = UINT32_MAX;
            }
            uint32_t in = o->rd == NO_REGISTER ? out : out & ~(1u << o->rd);
            in |= 1u << (o->rs1 & 31) | 1u << (o->rs2 & 31) | 1u << (o->rs3 & 31);
            changed |= in != before[i];
            live[i] = out;
            before[i] = in;
        }
    }
    free(before);
    return live;
}

/*
 * slli or srli of any amount whose result only one add takes: lsl_add, lsr_add. The shift then
 * reads its operand where the add stands, so nothing may write that between the two.
 */
static void shift_additions(insn_t *code, uint32_t count, const bool *leader)
{
    bool *taken = calloc(count, sizeof *taken); /* an add takes one shift */
    uint32_t *live = live_registers(code, count);
    if (taken == NULL || live == NULL)
        count = 0; /* every shift costs a slot then */
    for (uint32_t i = 0; i < count; i++) {
        insn_t *shift = &code[i];
        if ((shift->op != OP_SLLI && shift->op != OP_SRLI) || shift->rd == NO_REGISTER)
            continue;
        for (uint32_t j = i + 1; j < count && j <= i + 32 && straight(code, leader, i, j); j++) {
            const insn_t *add = &code[j];
            if (add->op == OP_ADD && add->cost && !taken[j] &&
                (add->rs1 == shift->rd) != (add->rs2 == shift->rd) &&
                (add->rd == shift->rd || !(live[j] >> shift->rd & 1))) {
                shift->cost = 0;
                taken[j] = true;
                break;
            }
            if (reads(add, shift->rd) || add->rd == shift->rd || add->rd == shift->rs1)
                break;
        }
    }
    free(taken);
    free(live);
}

/* xor, xor, or, b(n)ez compares 64 bits: two instructions with their jumps. */
static void wide_compares(insn_t *code, uint32_t count, const bool *leader)
{
    for (uint32_t i = 2; i + 1 < count; i++) {
        insn_t *both = &code[i], *high = &code[i - 1], *low = &code[i - 2], *jump = &code[i + 1];
        if (both->op != OP_OR || high->op != OP_XOR || low->op != OP_XOR ||
            !straight(code, leader, i - 2, i + 1))
            continue;
        bool joins = (both->rs1 == high->rd && both->rs2 == low->rd) ||
                     (both->rs1 == low->rd && both->rs2 == high->rd);
        bool decides = (jump->op == OP_BEQ || jump->op == OP_BNE) &&
                       ((jump->rs1 == both->rd && jump->rs2 == 0) ||
                        (jump->rs2 == both->rd && jump->rs1 == 0));
        if (joins && decides && high->rd != low->rd)
            both->cost = high->cost = 0;
    }
}

void find_peepholes(insn_t *code, uint32_t count, const bool *leader)
{
    wide_accesses(code, count, leader);
    carry_chains(code, count, leader);
    wide_compares(code, count, leader);
    shift_additions(code, count, leader);
}
