/* What a DPU of a set is: where it sits, and what it runs. */
#ifndef DPU_MANAGEMENT_H
#define DPU_MANAGEMENT_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dpu_t *dpu_from_set(struct dpu_set_t set);           /* NULL where it is no single DPU */
struct dpu_rank_t *dpu_rank_from_set(struct dpu_set_t set); /* of the set's first DPU */
struct dpu_set_t dpu_set_from_dpu(struct dpu_t *dpu);
struct dpu_rank_t *dpu_get_rank(struct dpu_t *dpu);
dpu_rank_id_t dpu_get_rank_id(struct dpu_rank_t *rank);
dpu_id_t dpu_get_id(struct dpu_t *dpu); /* in the machine */
dpu_slice_id_t dpu_get_slice_id(struct dpu_t *dpu);
dpu_member_id_t dpu_get_member_id(struct dpu_t *dpu);
bool dpu_is_enabled(struct dpu_t *dpu);

#ifdef __cplusplus
}
#endif
#endif
