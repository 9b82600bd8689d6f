/* Files of tensors in the safetensors format. */
#include "examples/common/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "bench/half.h"

static const struct {
    const char *name;
    rota_dtype dtype;
} dtypes[] = {{"F32", ROTA_F32},
              {"F16", ROTA_F16},
              {"BF16", ROTA_BF16},
              {"F8_E4M3", ROTA_F8_E4M3FN},
              {"F8_E5M2", ROTA_F8_E5M2}};

/* ---- Elements ---- */

/* Their bytes are at any address. */
void safetensors_to_f32(const safetensors_tensor *tensor, uint64_t count, float *out) {
    const size_t bytes = rota_dtype_bytes(tensor->dtype);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t element = 0;
        memcpy(&element, tensor->data + i * bytes, bytes);
        out[i] = element_get(&element, tensor->dtype, 0);
    }
}

size_t safetensors_from_f32(float *values, uint64_t count, rota_dtype dtype) {
    const size_t bytes = rota_dtype_bytes(dtype);
    unsigned char *out = (unsigned char *)values; /* never ahead of what is read */
    for (uint64_t i = 0; i < count; i++) {
        uint32_t element;
        element_set(&element, dtype, 0, values[i]);
        memcpy(out + i * bytes, &element, bytes);
    }
    return count * bytes;
}

/* ---- Reading ---- */

/* JSON's numbers are doubles: whole ones, exactly. */
static bool whole_number(const cJSON *number, uint64_t *out) {
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0 && number->valuedouble <= 0x1p53)) return false;
    *out = (uint64_t)number->valuedouble;
    return (double)*out == number->valuedouble;
}

static void describe(safetensors_file *file, const cJSON *entry, const char *data, safetensors_tensor *out) {
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape"), *extent;
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    uint64_t from, to, count = 1;
    *out = (safetensors_tensor){.name = entry->string, .count = 1};
    bool good = cJSON_IsArray(shape) && dtype && whole_number(cJSON_GetArrayItem(offsets, 0), &from) &&
                whole_number(cJSON_GetArrayItem(offsets, 1), &to);
    size_t d = 0;
    while (good && d < sizeof dtypes / sizeof *dtypes && strcmp(dtypes[d].name, dtype) != 0) d++;
    if (!good || d == sizeof dtypes / sizeof *dtypes) return;
    out->dtype = dtypes[d].dtype;
    cJSON_ArrayForEach(extent, shape) {
        if (out->rank == ROTA_RANK_MAX || !whole_number(extent, &out->shape[out->rank])) return;
        const uint64_t n = out->shape[out->rank++];
        if (n && count > ((uint64_t)1 << 53) / n) return;
        count *= n;
    }
    if (from > to || to > file->data_bytes || to - from != count * rota_dtype_bytes(out->dtype)) return;
    out->count = count;
    out->data = (const unsigned char *)data + from;
    out->known = true;
}

/* Where the header is, and how long; false with one sentence. */
static bool find_header(const char *path, const char *bytes, size_t size, uint64_t *out_length) {
    uint64_t length = 0;
    for (int i = 0; i < 8 && size >= 8; i++) length |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    if (size < 8) {
        fprintf(stderr,
                "'%s' is truncated, or not a safetensors file: it has %zu bytes, and the length of a header "
                "takes "
                "8\n",
                path, size);
        return false;
    }
    if (size > 8 && bytes[8] != '{') {
        fprintf(stderr,
                "'%s' is not a safetensors file: after 8 bytes for its length there is no header that begins "
                "with "
                "'{'\n",
                path);
        return false;
    }
    if (length > GPT_HEADER_MOST) {
        fprintf(stderr, "'%s' has a header of %" PRIu64 " bytes, more than the %d that are supported\n", path,
                length, GPT_HEADER_MOST);
        return false;
    }
    if (length > size - 8) {
        fprintf(stderr, "'%s' is truncated: its header has %" PRIu64 " bytes, of which %zu are there\n", path,
                length, size - 8);
        return false;
    }
    *out_length = length;
    return true;
}

static bool parse_header(const char *path, uint64_t length, safetensors_file *out) {
    out->header = cJSON_ParseWithLength(out->bytes + 8, length);
    if (cJSON_IsObject(out->header)) return true;
    fprintf(stderr, "'%s' is not a safetensors file: its header is not JSON\n", path);
    return false;
}

bool safetensors_read_metadata(const char *path, safetensors_file *out) {
    *out = (safetensors_file){0};
    size_t size;
    uint64_t length, whole;
    out->bytes = file_read_head(path, GPT_HEADER_MOST + 8, &size, &whole);
    if (out->bytes && find_header(path, out->bytes, size, &length) && parse_header(path, length, out)) {
        out->metadata = cJSON_GetObjectItemCaseSensitive(out->header, "__metadata__");
        return true;
    }
    safetensors_free(out);
    return false;
}

bool safetensors_read(const char *path, safetensors_file *out) {
    *out = (safetensors_file){0};
    size_t size;
    uint64_t length;
    out->bytes = file_read(path, &size);
    if (!out->bytes) return false;
    if (!find_header(path, out->bytes, size, &length)) goto bad;
    if (!parse_header(path, length, out)) goto bad;
    out->data_bytes = size - 8 - length;
    out->tensors = calloc((size_t)cJSON_GetArraySize(out->header) + 1, sizeof *out->tensors);
    for (const cJSON *entry = out->header->child; out->tensors && entry; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0) {
            out->metadata = entry;
            continue;
        }
        uint32_t known = out->names.count,
                 number = string_set_add(&out->names, entry->string, strlen(entry->string));
        if (number == STRING_SET_NONE) goto no_memory;
        if (number == known) describe(out, entry, out->bytes + 8 + length, &out->tensors[number]);
    }
    if (out->tensors) return true;
no_memory:
    fprintf(stderr, "no memory for the header of '%s'\n", path);
bad:
    safetensors_free(out);
    return false;
}

void safetensors_free(safetensors_file *file) {
    cJSON_Delete(file->header);
    string_set_free(&file->names);
    free(file->tensors);
    free(file->bytes);
    *file = (safetensors_file){0};
}

const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name) {
    uint32_t number = string_set_find(&file->names, name, strlen(name));
    return number == STRING_SET_NONE ? NULL : &file->tensors[number];
}

/* ---- Writing ---- */

void safetensors_add(cJSON *header, const char *name, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                     uint64_t *offset) {
    size_t d = 0;
    while (dtypes[d].dtype != dtype) d++;
    cJSON *tensor = cJSON_AddObjectToObject(header, name);
    cJSON_AddStringToObject(tensor, "dtype", dtypes[d].name);
    cJSON *extents = cJSON_AddArrayToObject(tensor, "shape");
    for (uint32_t i = 0; i < rank; i++) cJSON_AddItemToArray(extents, cJSON_CreateNumber((double)shape[i]));
    cJSON *offsets = cJSON_AddArrayToObject(tensor, "data_offsets");
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
    *offset += rota_shape_bytes(dtype, rank, shape);
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
}

bool safetensors_begin(file_writer *file, const cJSON *header) {
    char *text = cJSON_PrintUnformatted(header);
    if (!text) {
        fprintf(stderr, "no memory for the header of '%s'\n", file->path);
        return false;
    }
    /* The data starts at a multiple of 8; a header may end in spaces. */
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    file_put(file, prefix, sizeof prefix);
    file_put(file, text, length);
    file_put(file, "       ", padded - length);
    cJSON_free(text);
    return true;
}

/* ---- Metadata ---- */

void safetensors_add_number(cJSON *metadata, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    cJSON_AddStringToObject(metadata, name, text);
}

bool safetensors_read_number(const cJSON *metadata, const char *name, uint64_t *out_value) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, name));
    if (!text || *text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    *out_value = strtoull(text, &end, 10);
    return !errno && !*end;
}

char *safetensors_path(const char *dir, const char *file) {
    struct stat status;
    const bool is_file = stat(dir, &status) == 0 && S_ISREG(status.st_mode);
    const size_t length = strlen(dir) + strlen(file) + 2;
    char *path = malloc(length);
    if (path)
        snprintf(path, length, "%s%s%s", dir, is_file ? "" : "/", is_file ? "" : file);
    else
        fprintf(stderr, "out of memory for the name of a checkpoint\n");
    return path;
}
