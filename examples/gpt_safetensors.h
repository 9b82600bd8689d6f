/* Files of tensors in the safetensors format: 8 bytes little-endian header length, a JSON object from tensor
 * names to {dtype, shape, data_offsets} with "__metadata__" from strings to strings, then the data. */
#ifndef ROTA_EXAMPLES_GPT_SAFETENSORS_H
#define ROTA_EXAMPLES_GPT_SAFETENSORS_H

#include <cjson/cJSON.h>
#include "bench/files.h"
#include "examples/gpt_strings.h"
#include "ops/tensor.h"

/* ---- Reading ---- */

/* Bytes of a header: those of published models have some 100 for a tensor. Parsed, JSON takes up to 40 times
 * as much memory. */
#define GPT_HEADER_MOST (8 << 20)

typedef struct gpt_tensor {
    const char *name;
    bool
        known; /* dtype, rank, shape and data below hold; else its description makes no sense or is cut off */
    rota_dtype dtype; /* ROTA_F32, ROTA_F16, ROTA_BF16 */
    uint32_t rank;
    uint64_t shape[ROTA_RANK_MAX];
    uint64_t count;
    const unsigned char *data;
} gpt_tensor;

typedef struct gpt_tensor_file {
    char *bytes;
    cJSON *header;
    const cJSON *metadata;
    gpt_tensor *tensors; /* in the header's order */
    gpt_strings names;   /* number = place in `tensors` */
    uint64_t data_bytes;
} gpt_tensor_file;

/* The whole file. False with one sentence: unreadable, truncated, no such file. Tensors that are cut off are
 * not `known`. */
bool gpt_tensors_read(const char *path, gpt_tensor_file *out);
void gpt_tensors_free(gpt_tensor_file *file);
/* NULL: there is none of that name. */
const gpt_tensor *gpt_tensors_find(const gpt_tensor_file *file, const char *name);
/* count elements as f32. */
void gpt_tensor_to_f32(const gpt_tensor *tensor, uint64_t count, float *out);

/* ---- Numbers of a file's metadata, whose values are strings ---- */

void gpt_tensors_add_number(cJSON *metadata, const char *name, uint64_t value);
/* False, silently: there is none of that name, or it is no number. */
bool gpt_tensors_read_number(const cJSON *metadata, const char *name, uint64_t *out_value);

/* "dir/file", to be freed; NULL with one sentence: no memory. */
char *gpt_tensors_path(const char *dir, const char *file);

/* ---- Writing: the header first, then each tensor's data in the same order ---- */

void gpt_tensors_add(cJSON *header, const char *name, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                     uint64_t *offset);
/* Writes what precedes the data. False with one sentence: no memory. */
bool gpt_tensors_begin(file_writer *file, const cJSON *header);
/* Converts to dtype (rounded to nearest even), in place; returns the bytes. */
size_t gpt_tensor_from_f32(float *values, uint64_t count, rota_dtype dtype);

#endif
