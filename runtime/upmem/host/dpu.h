/*
 * The host interface of the UPMEM SDK over the emulator: docs/emulator-api.md says what each
 * function does, and what it refuses.
 */
#ifndef DPU_H
#define DPU_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "dpu_error.h"
#include "dpu_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum _dpu_launch_policy_t {
    DPU_ASYNCHRONOUS,
    DPU_SYNCHRONOUS,
} dpu_launch_policy_t;

typedef enum _dpu_xfer_t {
    DPU_XFER_TO_DPU,
    DPU_XFER_FROM_DPU,
} dpu_xfer_t;

typedef enum _dpu_xfer_flags_t {
    DPU_XFER_DEFAULT = 0,
    DPU_XFER_NO_RESET = 1 << 0, /* the prepared buffers stay */
    DPU_XFER_ASYNC = 1 << 1,
    DPU_XFER_PARALLEL = 1 << 2, /* WRAM while the DPUs run */
} dpu_xfer_flags_t;

typedef enum _dpu_sg_xfer_flags_t {
    DPU_SG_XFER_DEFAULT = 0,
    DPU_SG_XFER_ASYNC = 1 << 1,
    /* Blocks may sum to another length: less is filled up with zeros, more is cut. */
    DPU_SG_XFER_DISABLE_LENGTH_CHECK = 1 << 2,
} dpu_sg_xfer_flags_t;

typedef enum _dpu_callback_flags_t {
    DPU_CALLBACK_DEFAULT = 0,          /* now, once for each rank */
    DPU_CALLBACK_ASYNC = 1 << 0,       /* in the ranks' queues */
    DPU_CALLBACK_NONBLOCKING = 1 << 1, /* what follows in the queue does not wait for it */
    DPU_CALLBACK_SINGLE_CALL = 1 << 2, /* once for the set, when all ranks have come to it */
} dpu_callback_flags_t;

#define DPU_ALLOCATE_ALL (UINT_MAX)
#define DPU_MRAM_HEAP_POINTER_NAME "__sys_used_mram_end"

#define DPU_CHECK(statement, on_error)                                                             \
    do {                                                                                           \
        dpu_error_t __dpu_status = (statement);                                                    \
        if (__dpu_status != DPU_OK) {                                                              \
            const char *__dpu_text = dpu_error_to_string(__dpu_status);                            \
            fprintf(stderr, "%s:%d(%s): DPU Error (%s)\n", __FILE__, __LINE__, __func__,           \
                    __dpu_text);                                                                   \
            free((void *)__dpu_text);                                                              \
            on_error;                                                                              \
        }                                                                                          \
    } while (0)
#define DPU_ASSERT(statement) DPU_CHECK(statement, exit(EXIT_FAILURE))

dpu_error_t dpu_alloc(uint32_t nr_dpus, const char *profile, struct dpu_set_t *dpu_set);
dpu_error_t dpu_alloc_ranks(uint32_t nr_ranks, const char *profile, struct dpu_set_t *dpu_set);
dpu_error_t dpu_free(struct dpu_set_t dpu_set);
dpu_error_t dpu_get_nr_ranks(struct dpu_set_t dpu_set, uint32_t *nr_ranks);
dpu_error_t dpu_get_nr_dpus(struct dpu_set_t dpu_set, uint32_t *nr_dpus);

dpu_error_t dpu_load(struct dpu_set_t dpu_set, const char *binary_path,
                     struct dpu_program_t **program);
dpu_error_t dpu_load_from_memory(struct dpu_set_t dpu_set, uint8_t *buffer, size_t buffer_size,
                                 struct dpu_program_t **program);
dpu_error_t dpu_load_from_incbin(struct dpu_set_t dpu_set, struct dpu_incbin_t *incbin,
                                 struct dpu_program_t **program);
dpu_error_t dpu_get_symbol(struct dpu_program_t *program, const char *symbol_name,
                           struct dpu_symbol_t *symbol);

dpu_error_t dpu_launch(struct dpu_set_t dpu_set, dpu_launch_policy_t policy);
dpu_error_t dpu_status(struct dpu_set_t dpu_set, bool *done, bool *fault);
dpu_error_t dpu_sync(struct dpu_set_t dpu_set);

dpu_error_t dpu_copy_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                        const void *src, size_t length);
dpu_error_t dpu_copy_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                               uint32_t symbol_offset, const void *src, size_t length);
dpu_error_t dpu_copy_from(struct dpu_set_t dpu_set, const char *symbol_name,
                          uint32_t symbol_offset, void *dst, size_t length);
dpu_error_t dpu_copy_from_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                 uint32_t symbol_offset, void *dst, size_t length);

dpu_error_t dpu_prepare_xfer(struct dpu_set_t dpu_set, void *buffer);
dpu_error_t dpu_push_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                          uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags);
dpu_error_t dpu_push_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer,
                                 struct dpu_symbol_t symbol, uint32_t symbol_offset, size_t length,
                                 dpu_xfer_flags_t flags);
dpu_error_t dpu_broadcast_to(struct dpu_set_t dpu_set, const char *symbol_name,
                             uint32_t symbol_offset, const void *src, size_t length,
                             dpu_xfer_flags_t flags);
dpu_error_t dpu_broadcast_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, const void *src, size_t length,
                                    dpu_xfer_flags_t flags);

struct sg_block_info {
    uint8_t *addr;
    uint32_t length;
};
/* Fills in block block_index of DPU dpu_index (in the set); false where there is none. */
typedef bool (*get_block_func_t)(struct sg_block_info *out, uint32_t dpu_index,
                                 uint32_t block_index, void *args);
typedef struct get_block_t {
    get_block_func_t f;
    void *args;
    size_t args_size;
} get_block_t;

dpu_error_t dpu_push_sg_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                             uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                             dpu_sg_xfer_flags_t flags);
dpu_error_t dpu_push_sg_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer,
                                    struct dpu_symbol_t symbol, uint32_t symbol_offset,
                                    size_t length, get_block_t *get_block_info,
                                    dpu_sg_xfer_flags_t flags);

dpu_error_t dpu_callback(struct dpu_set_t dpu_set,
                         dpu_error_t (*callback)(struct dpu_set_t, uint32_t, void *), void *args,
                         dpu_callback_flags_t flags);

dpu_error_t dpu_log_read(struct dpu_set_t dpu_set, FILE *stream);

/* ---- DPU_FOREACH(set, dpu), DPU_FOREACH(set, dpu, index) and the same for ranks ---- */

struct dpu_set_rank_iterator_t {
    struct dpu_set_t *set;
    uint32_t count;
    uint32_t next_idx;
    bool has_next;
    struct dpu_set_t next;
};

struct dpu_set_dpu_iterator_t {
    struct dpu_set_rank_iterator_t rank_iterator;
    uint32_t count;
    uint32_t next_idx;
    bool has_next;
    struct dpu_set_t next;
};

struct dpu_set_rank_iterator_t dpu_set_rank_iterator_from(struct dpu_set_t *set);
void dpu_set_rank_iterator_next(struct dpu_set_rank_iterator_t *iterator);
struct dpu_set_dpu_iterator_t dpu_set_dpu_iterator_from(struct dpu_set_t *set);
void dpu_set_dpu_iterator_next(struct dpu_set_dpu_iterator_t *iterator);

#define __DPU_PICK(_1, _2, _3, name, ...) name
#define DPU_FOREACH(...)                                                                           \
    __DPU_PICK(__VA_ARGS__, __DPU_FOREACH_I, __DPU_FOREACH_X, 0)(__VA_ARGS__)
#define DPU_RANK_FOREACH(...)                                                                      \
    __DPU_PICK(__VA_ARGS__, __DPU_RANK_FOREACH_I, __DPU_RANK_FOREACH_X, 0)(__VA_ARGS__)

#define __DPU_FOREACH_X(set, one)                                                                  \
    for (struct dpu_set_dpu_iterator_t __dpu_it = dpu_set_dpu_iterator_from(&set);                 \
         one = __dpu_it.next, __dpu_it.has_next; dpu_set_dpu_iterator_next(&__dpu_it))
#define __DPU_FOREACH_I(set, one, i)                                                               \
    for (struct dpu_set_dpu_iterator_t __dpu_it = dpu_set_dpu_iterator_from(&set);                 \
         i = __dpu_it.count, one = __dpu_it.next, __dpu_it.has_next;                               \
         dpu_set_dpu_iterator_next(&__dpu_it))
#define __DPU_RANK_FOREACH_X(set, one)                                                             \
    for (struct dpu_set_rank_iterator_t __rank_it = dpu_set_rank_iterator_from(&set);              \
         one = __rank_it.next, __rank_it.has_next; dpu_set_rank_iterator_next(&__rank_it))
#define __DPU_RANK_FOREACH_I(set, one, i)                                                          \
    for (struct dpu_set_rank_iterator_t __rank_it = dpu_set_rank_iterator_from(&set);              \
         i = __rank_it.count, one = __rank_it.next, __rank_it.has_next;                            \
         dpu_set_rank_iterator_next(&__rank_it))

/* ---- a device binary as part of the host program ---- */

#define __DPU_STRING(x) #x
#ifdef __cplusplus
#define __DPU_EXTERN extern "C"
#else
#define __DPU_EXTERN extern
#endif
#define DPU_INCBIN(name, file)                                                                     \
    __asm__(".pushsection .rodata.dpu_incbin, \"a\"\n"                                             \
            ".balign 8\n"                                                                          \
            ".globl dpu_incbin_" __DPU_STRING(name) "\n"                                           \
            "dpu_incbin_" __DPU_STRING(name) ":\n"                                                 \
            ".incbin \"" file "\"\n"                                                               \
            ".globl dpu_incbin_end_" __DPU_STRING(name) "\n"                                       \
            "dpu_incbin_end_" __DPU_STRING(name) ":\n"                                             \
            ".popsection\n");                                                                      \
    __DPU_EXTERN uint8_t dpu_incbin_##name[], dpu_incbin_end_##name[];                             \
    struct dpu_incbin_t name = {dpu_incbin_##name, 0, file};                                \
    __attribute__((constructor)) static void dpu_incbin_size_##name(void)                          \
    {                                                                                              \
        name.size = (size_t)(dpu_incbin_end_##name - dpu_incbin_##name);                           \
    }

#ifdef __cplusplus
}
#endif
#endif
