/* Walking over sets. */
#include "internal.h"

bool host_valid(struct dpu_set_t set)
{
    if (set.kind == DPU_SET_DPU)
        return set.dpu != NULL;
    return set.kind == DPU_SET_RANKS && set.list.nr_ranks && set.list.ranks;
}

uint64_t host_slots(struct dpu_set_t set, struct dpu_rank_t *rank)
{
    uint64_t slots = 0;
    for (uint32_t slot = 0; slot < DPUS_PER_RANK; slot++)
        if (rank->dpus[slot].enabled &&
            (set.kind == DPU_SET_RANKS || set.dpu == &rank->dpus[slot]))
            slots |= UINT64_C(1) << slot;
    return slots;
}

struct dpu_t *host_single(struct dpu_set_t set)
{
    if (set.kind == DPU_SET_DPU)
        return set.dpu;
    if (set.kind != DPU_SET_RANKS || set.list.nr_ranks != 1)
        return NULL;
    uint64_t slots = host_slots(set, set.list.ranks[0]);
    if (!slots || slots & (slots - 1))
        return NULL;
    return &set.list.ranks[0]->dpus[__builtin_ctzll(slots)];
}

dpu_error_t dpu_get_nr_ranks(struct dpu_set_t dpu_set, uint32_t *nr_ranks)
{
    if (!host_valid(dpu_set))
        return DPU_ERR_INVALID_DPU_SET;
    *nr_ranks = dpu_set.kind == DPU_SET_RANKS ? dpu_set.list.nr_ranks : 1;
    return DPU_OK;
}

dpu_error_t dpu_get_nr_dpus(struct dpu_set_t dpu_set, uint32_t *nr_dpus)
{
    if (!host_valid(dpu_set))
        return DPU_ERR_INVALID_DPU_SET;
    *nr_dpus = 0;
    EACH_RANK (dpu_set, rank)
        *nr_dpus += (uint32_t)__builtin_popcountll(host_slots(dpu_set, rank));
    return DPU_OK;
}

/* ---- iterators ---- */

static struct dpu_set_t rank_at(struct dpu_set_t *set, uint32_t index)
{
    if (set->kind == DPU_SET_DPU)
        return *set;
    return (struct dpu_set_t){.kind = DPU_SET_RANKS,
                              .list = {.nr_ranks = 1, .ranks = set->list.ranks + index}};
}

static void settle_rank(struct dpu_set_rank_iterator_t *iterator)
{
    uint32_t ranks = iterator->set->kind == DPU_SET_DPU ? 1 : iterator->set->list.nr_ranks;
    iterator->has_next = iterator->next_idx < ranks;
    if (iterator->has_next)
        iterator->next = rank_at(iterator->set, iterator->next_idx);
}

struct dpu_set_rank_iterator_t dpu_set_rank_iterator_from(struct dpu_set_t *set)
{
    struct dpu_set_rank_iterator_t iterator = {.set = set, .next = *set};
    settle_rank(&iterator);
    return iterator;
}

void dpu_set_rank_iterator_next(struct dpu_set_rank_iterator_t *iterator)
{
    iterator->count++;
    iterator->next_idx++;
    settle_rank(iterator);
}

/* Moves on to an enabled DPU, from next_idx in the iterator's rank. */
static void settle_dpu(struct dpu_set_dpu_iterator_t *iterator)
{
    struct dpu_set_rank_iterator_t *ranks = &iterator->rank_iterator;
    if (ranks->set->kind == DPU_SET_DPU) {
        iterator->has_next = iterator->next_idx == 0;
        return;
    }
    for (; ranks->has_next; dpu_set_rank_iterator_next(ranks), iterator->next_idx = 0) {
        struct dpu_rank_t *rank = ranks->next.list.ranks[0];
        for (; iterator->next_idx < DPUS_PER_RANK; iterator->next_idx++)
            if (rank->dpus[iterator->next_idx].enabled) {
                iterator->has_next = true;
                iterator->next = dpu_set_from_dpu(&rank->dpus[iterator->next_idx]);
                return;
            }
    }
    iterator->has_next = false;
}

struct dpu_set_dpu_iterator_t dpu_set_dpu_iterator_from(struct dpu_set_t *set)
{
    struct dpu_set_dpu_iterator_t iterator = {.rank_iterator = dpu_set_rank_iterator_from(set),
                                              .next = *set};
    settle_dpu(&iterator);
    return iterator;
}

void dpu_set_dpu_iterator_next(struct dpu_set_dpu_iterator_t *iterator)
{
    iterator->count++;
    iterator->next_idx++;
    settle_dpu(iterator);
}

/* ---- single DPUs ---- */

struct dpu_t *dpu_from_set(struct dpu_set_t set)
{
    return host_valid(set) ? host_single(set) : NULL;
}

struct dpu_rank_t *dpu_rank_from_set(struct dpu_set_t set)
{
    if (!host_valid(set))
        return NULL;
    return set.kind == DPU_SET_DPU ? set.dpu->rank : set.list.ranks[0];
}

struct dpu_set_t dpu_set_from_dpu(struct dpu_t *dpu)
{
    return (struct dpu_set_t){.kind = DPU_SET_DPU, .dpu = dpu};
}

struct dpu_rank_t *dpu_get_rank(struct dpu_t *dpu)
{
    return dpu->rank;
}

dpu_rank_id_t dpu_get_rank_id(struct dpu_rank_t *rank)
{
    return (dpu_rank_id_t)rank->id;
}

dpu_id_t dpu_get_id(struct dpu_t *dpu)
{
    return dpu->rank->id * DPUS_PER_RANK + dpu->slot;
}

dpu_slice_id_t dpu_get_slice_id(struct dpu_t *dpu)
{
    return (dpu_slice_id_t)(dpu->slot % 8); /* the chip */
}

dpu_member_id_t dpu_get_member_id(struct dpu_t *dpu)
{
    return (dpu_member_id_t)(dpu->slot / 8);
}

bool dpu_is_enabled(struct dpu_t *dpu)
{
    return dpu->enabled;
}
