/*
 * Layers of tables on UPMEM DPUs: see inr_lut.h.
 *
 * Compile with -ffp-contract=off: outputs are rounded after the product with the scale and after
 * the bias, as everywhere else.
 */
#include "inr_lut.h"

#include <dpu.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef INR_EMULATOR
#include <inr_dpu.h>
#endif

#include "inr_search.h"

enum { SEARCH_ROWS = 256 }; /* rows searched before they are packed */

struct inr_lut_model {
    const inr_lut_program *program;
    struct dpu_set_t *groups; /* one set of whole ranks each */
    uint32_t *group_first;    /* number of its first DPU; one more entry ends the last */
    uint32_t open_groups;
    uint8_t *weights;
    inr_search *searches; /* one a layer */
    uint32_t open_searches;
    /* room for one call of any layer */
    uint8_t *packed, *gathered, *found;
    int32_t *sums, *batches;
    uint64_t cycles, sent, received;
};

static char last_error[512];

const char *inr_lut_error(void)
{
    return last_error;
}

static int fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return -1;
}

/* The result of an SDK call: 0, or -1 with what the SDK says. */
static int check(dpu_error_t status, const char *what)
{
    if (status == DPU_OK)
        return 0;
    const char *text = dpu_error_to_string(status);
    fail("%s: %s", what, text == NULL ? "unknown error" : text);
    free((void *)text);
    return -1;
}

static uint32_t up(uint32_t value, uint32_t step)
{
    return (value + step - 1) / step * step;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- layout ------------------------------------------------------------------------------- */

/* Bytes of the indices of one row in a tile of so many codebooks. */
static uint32_t pitch(const inr_lut_layer *layer, uint32_t codebooks)
{
    return up((codebooks * layer->idx_bits + 7) / 8, 8);
}

/* Bytes of the indices of one row in all tiles of a DPU. */
static uint32_t index_row(const inr_lut_layer *layer)
{
    uint32_t bytes = 0;
    for (uint32_t c = 0; c < layer->dpu_codebooks; c += layer->codebook_tile)
        bytes += pitch(layer, least(layer->codebook_tile, layer->dpu_codebooks - c));
    return bytes;
}

static uint32_t dpus_of(const inr_lut_layer *layer)
{
    return layer->ip * layer->split_cb * layer->lp;
}

/* Rows of a row group where a call has `rows`; also the distance of tiles in MRAM. */
static uint32_t stride_of(const inr_lut_layer *layer, uint32_t rows)
{
    return (rows + layer->ip - 1) / layer->ip;
}

static const void *array_of(const inr_lut_model *model, inr_lut_array array)
{
    return array.bytes == 0 ? NULL : model->weights + array.offset;
}

/*
 * Indices of `count` rows from `first` on into the buffers of their DPUs: for each codebook part,
 * tile by tile of codebooks, `stride` rows of `pitch` bytes.
 */
static void pack_rows(const inr_lut_layer *layer, const uint8_t *indices, uint32_t first,
                      uint32_t count, uint32_t stride, uint8_t *packed)
{
    size_t part_bytes = (size_t)stride * index_row(layer);
    for (uint32_t r = 0; r < count; r++) {
        const uint8_t *row = indices + (size_t)r * layer->codebooks;
        uint32_t group = (first + r) / stride, inside = (first + r) % stride;
        for (uint32_t s = 0; s < layer->split_cb; s++) {
            uint8_t *tile = packed + (group * layer->split_cb + s) * part_bytes;
            for (uint32_t c = 0; c < layer->dpu_codebooks; c += layer->codebook_tile) {
                uint32_t width = least(layer->codebook_tile, layer->dpu_codebooks - c);
                uint8_t *to = tile + (size_t)inside * pitch(layer, width);
                uint32_t start = s * layer->dpu_codebooks + c;
                uint32_t there = start < layer->codebooks
                                     ? least(width, layer->codebooks - start)
                                     : 0;
                memset(to, 0, pitch(layer, width));
                for (uint32_t k = 0; k < there; k++) {
                    uint32_t value = row[start + k];
                    if (layer->idx_bits == 8) {
                        to[k] = (uint8_t)value;
                    } else if (layer->idx_bits == 4) {
                        to[k / 2] |= (uint8_t)(value << (4 * (k % 2)));
                    } else {
                        uint32_t scaled = value * layer->idx_scale;
                        to[2 * k] = (uint8_t)scaled;
                        to[2 * k + 1] = (uint8_t)(scaled >> 8);
                    }
                }
                tile += (size_t)stride * pitch(layer, width);
            }
        }
    }
}

/*
 * Activations as bytes: x * (1 / step) rounded to float, then to an integer, halves to even, within
 * +-127; NaN is 0. Adding 1.5 * 2^23 leaves no room for what is behind the point.
 */
static void round_rows(const inr_lut_layer *layer, float step, const float *x, uint32_t count,
                       uint8_t *out)
{
    const float inverse = 1.0f / step, shift = 12582912.0f;
    for (size_t i = 0; i < (size_t)count * layer->inputs; i++) {
        float value = x[i] * inverse;
        value = value == value ? value : 0.0f;
        value = value < -127.0f ? -127.0f : value > 127.0f ? 127.0f : value;
        out[i] = (uint8_t)(int8_t)(value + shift - shift);
    }
}

/* Sums of all DPUs, tile by tile of columns, as rows; codebook parts are added. */
static void unpack_sums(const inr_lut_layer *layer, const uint8_t *gathered, uint32_t rows,
                        int32_t *sums)
{
    uint32_t stride = stride_of(layer, rows);
    size_t dpu_bytes = (size_t)stride * layer->dpu_features * layer->sum_bytes;
    memset(sums, 0, (size_t)rows * layer->features * sizeof *sums);
    for (uint32_t d = 0; d < dpus_of(layer); d++) {
        const uint8_t *tile = gathered + d * dpu_bytes;
        uint32_t group = d / layer->lp / layer->split_cb;
        uint32_t column = d % layer->lp * layer->dpu_features;
        for (uint32_t f = 0; f < layer->dpu_features; f += layer->feature_tile) {
            uint32_t width = least(layer->feature_tile, layer->dpu_features - f);
            for (uint32_t r = 0; r < stride && group * stride + r < rows; r++) {
                int32_t *to = sums + (size_t)(group * stride + r) * layer->features;
                const uint8_t *from = tile + (size_t)r * width * layer->sum_bytes;
                for (uint32_t k = 0; k < width && column + f + k < layer->features; k++) {
                    int32_t value;
                    int16_t narrow;
                    if (layer->sum_bytes == 4) {
                        memcpy(&value, from + 4 * k, 4);
                        to[column + f + k] += value;
                    } else { /* parts may have wrapped around, the whole fits */
                        memcpy(&narrow, from + 2 * k, 2);
                        to[column + f + k] = (int16_t)(to[column + f + k] + narrow);
                    }
                }
            }
            tile += (size_t)stride * width * layer->sum_bytes;
        }
    }
}

/* ---- transfers ---------------------------------------------------------------------------- */

/*
 * The first `bytes` bytes at rows + row(d) * pitch for each DPU d below `dpus` of a group, where
 * row(d) is d / divide % modulo (modulo 0: no remainder).
 */
static int push(inr_lut_model *model, uint32_t group, dpu_xfer_t direction, const char *symbol,
                const void *rows, size_t row_pitch, size_t bytes, uint32_t divide, uint32_t modulo,
                uint32_t dpus)
{
    struct dpu_set_t dpu;
    uint32_t d = model->group_first[group], moved = 0;
    DPU_FOREACH(model->groups[group], dpu) {
        if (d < dpus) {
            uint32_t row = d / divide;
            row = modulo == 0 ? row : row % modulo;
            if (check(dpu_prepare_xfer(dpu, (uint8_t *)rows + row * row_pitch), symbol))
                return -1;
            moved++;
        }
        d++;
    }
    if (moved == 0)
        return 0;
    dpu_xfer_flags_t flags = direction == DPU_XFER_TO_DPU ? DPU_XFER_ASYNC : DPU_XFER_DEFAULT;
    *(direction == DPU_XFER_TO_DPU ? &model->sent : &model->received) += (uint64_t)moved * bytes;
    return check(dpu_push_xfer(model->groups[group], direction, symbol, 0, bytes, flags), symbol);
}

static int send_table(inr_lut_model *model, const inr_lut_layer *layer, uint32_t group)
{
    uint32_t parts = layer->lp * layer->split_cb;
    const void *tables = array_of(model, layer->table);
    if (parts == 1 && model->group_first[group + 1] <= dpus_of(layer)) {
        uint32_t dpus = model->group_first[group + 1] - model->group_first[group];
        model->sent += (uint64_t)dpus * layer->table_bytes;
        return check(dpu_broadcast_to(model->groups[group], layer->table_symbol, 0, tables,
                                      layer->table_bytes, DPU_XFER_ASYNC),
                     layer->table_symbol);
    }
    return push(model, group, DPU_XFER_TO_DPU, layer->table_symbol, tables, layer->table_bytes,
                layer->table_bytes, 1, parts, dpus_of(layer));
}

/* ---- one launch --------------------------------------------------------------------------- */

/* Sends what a group needs and starts it. */
static int start(inr_lut_model *model, const inr_lut_layer *layer, uint32_t group, uint32_t stride)
{
    const inr_lut_program *program = model->program;
    size_t index_bytes = (size_t)stride * index_row(layer);
    uint32_t all = model->group_first[group + 1];
    if (check(dpu_broadcast_to(model->groups[group], program->operation_symbol, 0,
                               &layer->operation, sizeof layer->operation, DPU_XFER_ASYNC),
              program->operation_symbol) ||
        push(model, group, DPU_XFER_TO_DPU, program->batch_symbol, model->batches, 8, 8,
             layer->lp * layer->split_cb, 0, all) ||
        push(model, group, DPU_XFER_TO_DPU, program->index_symbol, model->packed, index_bytes,
             index_bytes, layer->lp, 0, dpus_of(layer)))
        return -1;
    if (!layer->resident && send_table(model, layer, group))
        return -1;
    return check(dpu_launch(model->groups[group], DPU_ASYNCHRONOUS), layer->name);
}

/* Waits for a group and brings its sums. */
static int finish(inr_lut_model *model, const inr_lut_layer *layer, uint32_t group,
                  uint32_t stride, uint64_t *cycles)
{
    size_t bytes = (size_t)stride * layer->dpu_features * layer->sum_bytes;
    dpu_error_t status = dpu_sync(model->groups[group]);
#ifdef INR_EMULATOR
    const char *why = inr_dpu_fault(model->groups[group]);
    if (status != DPU_OK && why != NULL)
        return fail("%s: %s", layer->name, why);
    uint64_t own = inr_dpu_cycles(model->groups[group]);
    *cycles = own > *cycles ? own : *cycles;
#else
    (void)cycles;
#endif
    if (check(status, layer->name))
        return -1;
    return push(model, group, DPU_XFER_FROM_DPU, model->program->sums_symbol, model->gathered,
                bytes, bytes, 1, 0, dpus_of(layer));
}

/* Runs a layer on indices that are packed; the sums come into model->sums. */
static int launch(inr_lut_model *model, const inr_lut_layer *layer, uint32_t rows)
{
    uint32_t stride = stride_of(layer, rows), sharing = layer->lp * layer->split_cb;
    for (uint32_t i = 0; i * sharing < model->program->dpus; i++) {
        uint32_t before = i < layer->ip ? i * stride : rows;
        model->batches[2 * i] = before < rows ? (int32_t)least(stride, rows - before) : 0;
        model->batches[2 * i + 1] = (int32_t)stride;
    }
    uint64_t cycles = 0;
    for (uint32_t group = 0; group < model->program->groups; group++)
        if (start(model, layer, group, stride))
            return -1;
    for (uint32_t group = 0; group < model->program->groups; group++)
        if (finish(model, layer, group, stride, &cycles))
            return -1;
    model->cycles += cycles;
    unpack_sums(layer, model->gathered, rows, model->sums);
    return 0;
}

/* ---- outputs ------------------------------------------------------------------------------ */

static void dequantise(const inr_lut_model *model, const inr_lut_layer *layer, const float *x,
                       uint32_t rows, float *y)
{
    const float *scale = array_of(model, layer->scale), *bias = array_of(model, layer->bias);
    const float *residual = array_of(model, layer->residual);
    const int32_t *channels = array_of(model, layer->channels);
    size_t count = layer->channels.bytes / sizeof *channels;
    for (uint32_t r = 0; r < rows; r++) {
        const int32_t *sums = model->sums + (size_t)r * layer->features;
        float *out = y + (size_t)r * layer->features;
        for (uint32_t f = 0; f < layer->features; f++) {
            float value = (float)sums[f] * scale[f];
            out[f] = bias == NULL ? value : value + bias[f];
        }
        for (size_t c = 0; c < count; c++) {
            float factor = x[(size_t)r * layer->inputs + channels[c]];
            for (uint32_t f = 0; f < layer->features; f++)
                out[f] += factor * residual[c * layer->features + f];
        }
    }
}

static const inr_lut_layer *layer_of(const inr_lut_model *model, uint32_t layer)
{
    if (layer < model->program->layer_count)
        return &model->program->layers[layer];
    fail("%s has %u layers, no number %u", model->program->name, model->program->layer_count,
         layer);
    return NULL;
}

int inr_lut_run(inr_lut_model *model, uint32_t number, const float *x, size_t rows, float *y)
{
    const inr_lut_layer *layer = layer_of(model, number);
    if (layer == NULL)
        return -1;
    if (layer->scale.bytes == 0 || (layer->product ? layer->steps : layer->points).bytes == 0)
        return fail("%s has no %s or no scale in the program; only its sums can be had",
                    layer->name, layer->product ? "step" : "search");
    const float *steps = array_of(model, layer->steps);
    for (size_t done = 0; done < rows; done += layer->rows) {
        uint32_t batch = rows - done < layer->rows ? (uint32_t)(rows - done) : layer->rows;
        const float *from = x + done * layer->inputs;
        for (uint32_t r = 0; r < batch; r += SEARCH_ROWS) {
            uint32_t count = least(SEARCH_ROWS, batch - r);
            const float *row = from + (size_t)r * layer->inputs;
            if (layer->product)
                round_rows(layer, steps[0], row, count, model->found);
            else if (inr_search_rows(&model->searches[number], row, count, model->found, 0,
                                     INR_SEARCH_BEST))
                return fail("%s: no memory for the search", layer->name);
            pack_rows(layer, model->found, r, count, stride_of(layer, batch), model->packed);
        }
        if (launch(model, layer, batch))
            return -1;
        dequantise(model, layer, from, batch, y + done * layer->features);
    }
    return 0;
}

int inr_lut_sums(inr_lut_model *model, uint32_t number, const uint8_t *indices, size_t rows,
                 int32_t *sums)
{
    const inr_lut_layer *layer = layer_of(model, number);
    if (layer == NULL)
        return -1;
    for (size_t i = 0; i < rows * layer->codebooks; i++)
        if (!layer->product && indices[i] >= layer->centroids)
            return fail("%s: index %u of %u centroids", layer->name, indices[i], layer->centroids);
    for (size_t done = 0; done < rows; done += layer->rows) {
        uint32_t batch = rows - done < layer->rows ? (uint32_t)(rows - done) : layer->rows;
        pack_rows(layer, indices + done * layer->codebooks, 0, batch, stride_of(layer, batch),
                  model->packed);
        if (launch(model, layer, batch))
            return -1;
        memcpy(sums + done * layer->features, model->sums,
               (size_t)batch * layer->features * sizeof *sums);
    }
    return 0;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static int load_weights(inr_lut_model *model, const char *path)
{
    size_t size = model->program->weights_bytes;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail("cannot open %s", path);
    model->weights = malloc(size == 0 ? 1 : size);
    size_t got = model->weights == NULL ? 0 : fread(model->weights, 1, size, file);
    int more = fgetc(file) != EOF;
    fclose(file);
    if (model->weights == NULL)
        return fail("no memory for the %zu bytes of %s", size, path);
    if (got != size || more)
        return fail("%s is not of %zu bytes: it belongs to another program", path, size);
    return 0;
}

static int open_groups(inr_lut_model *model, const char *binary, const char *profile)
{
    const inr_lut_program *program = model->program;
    uint32_t each = (program->dpus + program->groups - 1) / program->groups;
    model->groups = calloc(program->groups, sizeof *model->groups);
    model->group_first = calloc(program->groups + 1, sizeof *model->group_first);
    if (model->groups == NULL || model->group_first == NULL)
        return fail("no memory");
    for (uint32_t g = 0; g < program->groups; g++) {
        uint32_t first = g * each, count = least(each, program->dpus - first), got = 0;
        if (dpu_alloc(count, profile, &model->groups[g]) != DPU_OK)
            return fail("%s needs %u DPUs in %u groups; there are not as many free",
                        program->name, program->dpus, program->groups);
        model->open_groups = g + 1;
        model->group_first[g + 1] = first + count;
        if (check(dpu_get_nr_dpus(model->groups[g], &got), "dpu_get_nr_dpus"))
            return -1;
        if (got != count)
            return fail("%u DPUs allocated, %u there", count, got);
        if (check(dpu_load(model->groups[g], binary, NULL), binary))
            return -1;
    }
    return 0;
}

static int open_layers(inr_lut_model *model)
{
    const inr_lut_program *program = model->program;
    size_t packed = 0, gathered = 0, found = 0, sums = 0;
    model->searches = calloc(program->layer_count, sizeof *model->searches);
    if (model->searches == NULL)
        return fail("no memory");
    for (uint32_t n = 0; n < program->layer_count; n++) {
        const inr_lut_layer *layer = &program->layers[n];
        size_t stride = stride_of(layer, layer->rows);
        size_t in = stride * index_row(layer) * layer->ip * layer->split_cb;
        size_t out = stride * layer->dpu_features * layer->sum_bytes * dpus_of(layer);
        size_t codes = (size_t)SEARCH_ROWS * layer->codebooks;
        size_t all = (size_t)layer->rows * layer->features;
        packed = in > packed ? in : packed;
        gathered = out > gathered ? out : gathered;
        found = codes > found ? codes : found;
        sums = all > sums ? all : sums;
        if (layer->points.bytes != 0 &&
            inr_search_prepare(&model->searches[n], (int)layer->inputs, (int)layer->codebooks,
                               (int)layer->centroids, (int)layer->vec,
                               array_of(model, layer->points), array_of(model, layer->steps)))
            return fail("%s: no memory for the search", layer->name);
        model->open_searches = n + 1;
        for (uint32_t g = 0; layer->resident && g < program->groups; g++)
            if (send_table(model, layer, g) ||
                check(dpu_sync(model->groups[g]), layer->table_symbol))
                return -1;
    }
    model->packed = calloc(packed, 1);
    model->gathered = malloc(gathered);
    model->found = malloc(found);
    model->sums = malloc(sums * sizeof *model->sums);
    model->batches = calloc(2 * ((size_t)program->dpus + 1), sizeof *model->batches);
    if (model->packed == NULL || model->gathered == NULL || model->found == NULL ||
        model->sums == NULL || model->batches == NULL)
        return fail("no memory for calls of %s", program->name);
    return 0;
}

inr_lut_model *inr_lut_open(const inr_lut_program *program, const char *binary,
                            const char *weights, const char *profile)
{
    inr_lut_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        fail("no memory");
        return NULL;
    }
    model->program = program;
    if (load_weights(model, weights) || open_groups(model, binary, profile) ||
        open_layers(model)) {
        inr_lut_close(model);
        return NULL;
    }
    return model;
}

void inr_lut_close(inr_lut_model *model)
{
    if (model == NULL)
        return;
    for (uint32_t g = 0; g < model->open_groups; g++)
        (void)dpu_free(model->groups[g]);
    for (uint32_t n = 0; n < model->open_searches; n++)
        if (model->program->layers[n].points.bytes != 0)
            inr_search_free(&model->searches[n]);
    free(model->searches);
    free(model->groups);
    free(model->group_first);
    free(model->weights);
    free(model->packed);
    free(model->gathered);
    free(model->found);
    free(model->sums);
    free(model->batches);
    free(model);
}

uint64_t inr_lut_cycles(const inr_lut_model *model)
{
    return model->cycles;
}

uint64_t inr_lut_bytes_sent(const inr_lut_model *model)
{
    return model->sent;
}

uint64_t inr_lut_bytes_received(const inr_lut_model *model)
{
    return model->received;
}
