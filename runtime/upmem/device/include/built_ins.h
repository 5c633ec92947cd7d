/*
 * DPU instructions by name, as the SDK's compiler has them: the last letters say where operands
 * go (r: register, i: constant), the first argument takes the result.
 */
#ifndef DPU_BUILT_INS_H
#define DPU_BUILT_INS_H

#include <stdint.h>

#define __DPU_U(x) ((uint32_t)(x))

#define __builtin_clz_rr(result, a)                                                                \
    ((result) = __DPU_U(a) ? (uint32_t)__builtin_clz(__DPU_U(a)) : 32u)
#define __builtin_clo_rr(result, a)                                                                \
    ((result) = ~__DPU_U(a) ? (uint32_t)__builtin_clz(~__DPU_U(a)) : 32u)
#define __builtin_cls_rr(result, a) ((result) = (uint32_t)__builtin_clrsb((int)(a)) + 1u)
#define __builtin_cao_rr(result, a) ((result) = (uint32_t)__builtin_popcount(__DPU_U(a)))
#define __builtin_extsb_rr(result, a) ((result) = (int32_t)(int8_t)(a))
#define __builtin_extsh_rr(result, a) ((result) = (int32_t)(int16_t)(a))
#define __builtin_extub_rr(result, a) ((result) = (uint32_t)(uint8_t)(a))
#define __builtin_extuh_rr(result, a) ((result) = (uint32_t)(uint16_t)(a))
#define __builtin_rol_rri(result, a, n)                                                            \
    ((result) = __DPU_U(a) << ((n) & 31) | __DPU_U(a) >> ((32 - (n)) & 31))
#define __builtin_ror_rri(result, a, n)                                                            \
    ((result) = __DPU_U(a) >> ((n) & 31) | __DPU_U(a) << ((32 - (n)) & 31))
#define __builtin_lsl_add_rrri(result, a, b, n) ((result) = __DPU_U(a) + (__DPU_U(b) << (n)))
#define __builtin_lsl_sub_rrri(result, a, b, n) ((result) = __DPU_U(a) - (__DPU_U(b) << (n)))
#define __builtin_lsr_add_rrri(result, a, b, n) ((result) = __DPU_U(a) + (__DPU_U(b) >> (n)))

/* Byte products: s or u is the sign of an operand, l or h its byte 0 or 1. */
#define __DPU_UL(x) ((uint8_t)(x))
#define __DPU_UH(x) ((uint8_t)(__DPU_U(x) >> 8))
#define __DPU_SL(x) ((int8_t)(x))
#define __DPU_SH(x) ((int8_t)(__DPU_U(x) >> 8))
#define __builtin_mul_ul_ul_rrr(result, a, b) ((result) = (uint32_t)__DPU_UL(a) * __DPU_UL(b))
#define __builtin_mul_ul_uh_rrr(result, a, b) ((result) = (uint32_t)__DPU_UL(a) * __DPU_UH(b))
#define __builtin_mul_uh_ul_rrr(result, a, b) ((result) = (uint32_t)__DPU_UH(a) * __DPU_UL(b))
#define __builtin_mul_uh_uh_rrr(result, a, b) ((result) = (uint32_t)__DPU_UH(a) * __DPU_UH(b))
#define __builtin_mul_sl_sl_rrr(result, a, b) ((result) = __DPU_SL(a) * __DPU_SL(b))
#define __builtin_mul_sl_sh_rrr(result, a, b) ((result) = __DPU_SL(a) * __DPU_SH(b))
#define __builtin_mul_sh_sl_rrr(result, a, b) ((result) = __DPU_SH(a) * __DPU_SL(b))
#define __builtin_mul_sh_sh_rrr(result, a, b) ((result) = __DPU_SH(a) * __DPU_SH(b))
#define __builtin_mul_sl_ul_rrr(result, a, b) ((result) = __DPU_SL(a) * (int)__DPU_UL(b))
#define __builtin_mul_sl_uh_rrr(result, a, b) ((result) = __DPU_SL(a) * (int)__DPU_UH(b))
#define __builtin_mul_sh_ul_rrr(result, a, b) ((result) = __DPU_SH(a) * (int)__DPU_UL(b))
#define __builtin_mul_sh_uh_rrr(result, a, b) ((result) = __DPU_SH(a) * (int)__DPU_UH(b))

#endif
