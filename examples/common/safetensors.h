/* Files of tensors in the safetensors format: 8 bytes little-endian header length, a JSON object from tensor
 * names to {dtype, shape, data_offsets} with "__metadata__" from strings to strings, then the data. */
#ifndef ROTA_EXAMPLES_COMMON_SAFETENSORS_H
#define ROTA_EXAMPLES_COMMON_SAFETENSORS_H

#include <cjson/cJSON.h>
#include "bench/files.h"
#include "examples/common/strings.h"
#include "ops/tensor.h"

/* ---- Reading ---- */

/* Bytes of a header: those of published models have some 100 for a tensor. Parsed, JSON takes up to 40 times
 * as much memory. */
#define GPT_HEADER_MOST (8 << 20)

typedef struct safetensors_tensor {
    const char *name;
    bool
        known; /* dtype, rank, shape and data below hold; else its description makes no sense or is cut off */
    rota_dtype dtype; /* ROTA_F32, ROTA_F16, ROTA_BF16, ROTA_F8_E4M3FN (F8_E4M3) or ROTA_F8_E5M2 */
    uint32_t rank;
    uint64_t shape[ROTA_RANK_MAX];
    uint64_t count;
    const unsigned char *data;
} safetensors_tensor;

typedef struct safetensors_file {
    char *bytes;
    cJSON *header;
    const cJSON *metadata;
    safetensors_tensor *tensors; /* in the header's order */
    string_set names;            /* number = index in `tensors` */
    uint64_t data_bytes;
} safetensors_file;

/* The whole file. False with one sentence: unreadable, truncated, no such file. Tensors that are cut off are
 * not `known`. */
bool safetensors_read(const char *path, safetensors_file *out);
/* The metadata alone, to be given to safetensors_free too; no tensor is read. */
bool safetensors_read_metadata(const char *path, safetensors_file *out);
void safetensors_free(safetensors_file *file);
/* NULL: there is none of that name. */
const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name);
/* count elements as f32. */
void safetensors_to_f32(const safetensors_tensor *tensor, uint64_t count, float *out);

/* ---- Numbers of a file's metadata, whose values are strings ---- */

void safetensors_add_number(cJSON *metadata, const char *name, uint64_t value);
/* False, silently: there is none of that name, or it is no number. */
bool safetensors_read_number(const cJSON *metadata, const char *name, uint64_t *out_value);

/* "dir/file", to be freed; where `dir` is a file itself, its name. NULL with one sentence: no memory. */
char *safetensors_path(const char *dir, const char *file);

/* ---- Writing: the header first, then each tensor's data in the same order ---- */

void safetensors_add(cJSON *header, const char *name, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                     uint64_t *offset);
/* Writes what precedes the data. False with one sentence: no memory. */
bool safetensors_begin(file_writer *file, const cJSON *header);
/* Converts to dtype (rounded to nearest even), in place; returns the bytes. */
size_t safetensors_from_f32(float *values, uint64_t count, rota_dtype dtype);

#endif
