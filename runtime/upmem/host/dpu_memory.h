/* Memories of one DPU by address instead of by symbol. */
#ifndef DPU_MEMORY_H
#define DPU_MEMORY_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses count from the memory's start; WRAM's are in words of 4 bytes, as is its size. */
dpu_error_t dpu_copy_to_mram(struct dpu_t *dpu, mram_addr_t mram_byte_offset,
                             const uint8_t *source, mram_size_t nb_of_bytes);
dpu_error_t dpu_copy_from_mram(struct dpu_t *dpu, uint8_t *destination,
                               mram_addr_t mram_byte_offset, mram_size_t nb_of_bytes);
dpu_error_t dpu_copy_to_wram_for_dpu(struct dpu_t *dpu, wram_addr_t wram_word_offset,
                                     const uint32_t *source, wram_size_t nb_of_words);
dpu_error_t dpu_copy_from_wram_for_dpu(struct dpu_t *dpu, uint32_t *destination,
                                       wram_addr_t wram_word_offset, wram_size_t nb_of_words);

#ifdef __cplusplus
}
#endif
#endif
