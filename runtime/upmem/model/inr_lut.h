/*
 * Layers of tables on UPMEM DPUs: the host's side, for every model.
 *
 * A generated program has one inr_lut_program: what its layers are and how each is laid out over
 * DPUs. Everything else is here: allocation, tables that stay on the DPUs, the search for the
 * nearest centroids (inr_search.h), packing of indices, transfers, launches, sums and outputs.
 *
 * DPU d of a layer has row group d / (split_cb * lp), codebook part d / lp % split_cb and column
 * group d % lp. The DPUs are cut into `groups` sets of whole ranks: one transfers while another
 * runs. How many DPUs of a rank work is never assumed.
 *
 * Functions return 0, or -1 with the reason in inr_lut_error(). A model is used by one thread at
 * a time.
 */
#ifndef INR_LUT_H
#define INR_LUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where an array lies in the weights file; bytes 0: there is none. */
typedef struct {
    size_t offset, bytes;
} inr_lut_array;

typedef struct {
    const char *name;
    uint32_t operation; /* what the DPUs' program runs for it */
    uint32_t rows;      /* at most in one launch; longer calls take several */
    uint32_t inputs, vec, codebooks, centroids, features;
    /* over DPUs */
    uint32_t ip, lp, split_cb;
    /* of one DPU */
    uint32_t dpu_codebooks, dpu_features;
    uint32_t codebook_tile, feature_tile; /* c_m, f_m: what lies together in MRAM */
    uint32_t idx_bits, idx_scale;         /* an index of 16 bits is multiplied by idx_scale */
    uint32_t sum_bytes;                   /* 4 or 2 */
    /*
     * An int8 product: `codebooks` are inputs, activations rounded to bytes stand where indices
     * would, `table` has the weights, `steps` the one step of the activations.
     */
    int product;
    const char *table_symbol;
    uint32_t table_bytes; /* of a DPU */
    int resident;         /* the table stays on the DPUs, or comes with every call */
    /* in the weights file */
    inr_lut_array table;     /* split_cb * lp tables, or weights, as DPUs read them */
    inr_lut_array points;    /* codebooks x centroids x vec, int16, on the grid of the search */
    inr_lut_array steps;     /* codebooks, float */
    inr_lut_array scale;     /* features, float */
    inr_lut_array bias;      /* features, float, or none */
    inr_lut_array channels;  /* int32, or none: inputs multiplied exactly */
    inr_lut_array residual;  /* their weights, channels x features, float */
} inr_lut_layer;

typedef struct {
    const char *name;
    uint32_t dpus, groups;
    const char *index_symbol, *sums_symbol, *batch_symbol, *operation_symbol;
    size_t weights_bytes;
    const inr_lut_layer *layers;
    uint32_t layer_count;
} inr_lut_program;

typedef struct inr_lut_model inr_lut_model;

/*
 * Allocates the DPUs, loads the program `binary` and the file `weights`, puts tables that stay
 * into MRAM. NULL on failure. `profile` as for dpu_alloc, or NULL.
 */
inr_lut_model *inr_lut_open(const inr_lut_program *program, const char *binary,
                            const char *weights, const char *profile);
void inr_lut_close(inr_lut_model *model);

/* y (rows x features) = layer(x (rows x inputs)). */
int inr_lut_run(inr_lut_model *model, uint32_t layer, const float *x, size_t rows, float *y);

/* The sums (rows x features) that indices, or the activations of a product, select (rows x
   codebooks). */
int inr_lut_sums(inr_lut_model *model, uint32_t layer, const uint8_t *indices, size_t rows,
                 int32_t *sums);

/* Cycles of the slowest DPUs since the model was opened: modelled by the emulator, 0 elsewhere. */
uint64_t inr_lut_cycles(const inr_lut_model *model);

/* Bytes moved to and from DPUs since the model was opened, repeated ones counted each time. */
uint64_t inr_lut_bytes_sent(const inr_lut_model *model);
uint64_t inr_lut_bytes_received(const inr_lut_model *model);

/* What failed last, for a person. */
const char *inr_lut_error(void);

#ifdef __cplusplus
}
#endif
#endif
