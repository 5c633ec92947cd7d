#ifndef DPU_TYPES_H
#define DPU_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct dpu_t;
struct dpu_rank_t;
struct dpu_program_t;

typedef uint16_t dpu_rank_id_t;
typedef uint32_t dpu_id_t;
typedef uint8_t dpu_slice_id_t;
typedef uint8_t dpu_member_id_t;
typedef uint8_t dpu_thread_t;
typedef uint32_t wram_addr_t;
typedef uint32_t mram_addr_t;
typedef uint32_t wram_size_t;
typedef uint32_t mram_size_t;
typedef mram_addr_t dpu_mem_max_addr_t;
typedef mram_size_t dpu_mem_max_size_t;

typedef enum _dpu_set_kind_t {
    DPU_SET_RANKS,
    DPU_SET_DPU,
} dpu_set_kind_t;

/* Some ranks, or one DPU. */
struct dpu_set_t {
    dpu_set_kind_t kind;
    union {
        struct {
            uint32_t nr_ranks;
            struct dpu_rank_t **ranks;
        } list;
        struct dpu_t *dpu;
    };
};

struct dpu_symbol_t {
    dpu_mem_max_addr_t address; /* WRAM from 0, MRAM from 0x08000000 */
    dpu_mem_max_size_t size;
};

struct dpu_incbin_t {
    uint8_t *buffer;
    size_t size;
    const char *path;
};

#endif
