/* The replays that a graph file describes: what they begin with, and what they must make. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/given.h"
#include "file/loaded.h"
#include "graph/graph_internal.h"

#define ZEROS_BYTES ((uint64_t)16 << 20) /* written at a time */

/* ---- Before ---- */

static bool is_whole(const rota_loaded_piece *piece) {
    return piece->size_bytes == rota_buffer_size(piece->buffer);
}

static rota_status write_zeros(const rota_graph_file *file, rota_device *device, rota_buffer *buffer,
                               uint64_t offset, uint64_t size) {
    const uint64_t most = size < ZEROS_BYTES ? size : ZEROS_BYTES;
    void *zeros = calloc(1, most);
    rota_status status = zeros ? ROTA_OK : rota_loaded_no_memory(file, most);
    for (uint64_t at = 0; at < size && status == ROTA_OK; at += most)
        status =
            rota_buffer_write(buffer, device, offset + at, zeros, size - at < most ? size - at : most, NULL);
    free(zeros);
    return status;
}

/* What the file says, by what it is of. */
typedef struct lookup {
    rota_arena arena; /* of what is here */
    bool *is_whole;   /* by buffer: one piece of `first` is all of it */
    /* By buffer: its pieces are pieces[begin[index]] to pieces[begin[index + 1]], in the order of the file. */
    uint32_t *begin;
    const rota_loaded_piece **pieces;
    const rota_loaded_argument **bound; /* by buffer: the last of a SLOT one, or NULL */
    uint64_t *values;                   /* by slot, from 1: the last that is said, else 0 */
} lookup;

/* Ended by rota_arena_free of its arena either way. */
static rota_status look_up(const rota_graph_file *file, lookup *out) {
    const size_t buffers = file->info.buffer_count, slots = file->info.slot_count;
    const size_t pieces = file->info.first_count;
    *out = (lookup){0};
    out->is_whole = rota_arena_calloc(&out->arena, buffers + 1, 1);
    out->begin = rota_arena_calloc(&out->arena, sizeof *out->begin * (buffers + 2), 8);
    out->pieces = rota_arena_alloc(&out->arena, sizeof *out->pieces * (pieces + 1), 8);
    out->bound = rota_arena_calloc(&out->arena, sizeof *out->bound * (buffers + 1), 8);
    out->values = rota_arena_calloc(&out->arena, sizeof *out->values * (slots + 1), 8);
    if (!out->is_whole || !out->begin || !out->pieces || !out->bound || !out->values)
        return rota_loaded_no_memory(file, buffers * 32 + pieces * 8 + slots * 8);
    /* Counted two places on, so that filling moves each begin to where it belongs. */
    for (size_t i = 0; i < pieces; i++) {
        out->begin[file->first[i].index + 2]++;
        if (is_whole(&file->first[i])) out->is_whole[file->first[i].index] = true;
    }
    for (size_t i = 1; i < buffers + 2; i++) out->begin[i] += out->begin[i - 1];
    for (size_t i = 0; i < pieces; i++) out->pieces[out->begin[file->first[i].index + 1]++] = &file->first[i];
    for (uint32_t i = 0; i < file->argument_count; i++) {
        const rota_loaded_argument *argument = &file->arguments[i];
        if (argument->slot_buffer)
            out->bound[argument->slot_index] = argument;
        else
            out->values[argument->slot.index] = argument->value;
    }
    return ROTA_OK;
}

/* Zeros to each buffer of which no piece is all, then the pieces. */
static rota_status write_persistent(const rota_graph_file *file, rota_device *device, const lookup *said) {
    for (uint32_t i = 0; i < file->info.buffer_count; i++) {
        rota_buffer *buffer = file->buffers[i];
        if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_PERSISTENT && !said->is_whole[i])
            ROTA_TRY(write_zeros(file, device, buffer, 0, rota_buffer_size(buffer)));
    }
    for (uint32_t i = 0; i < file->info.first_count; i++) {
        const rota_loaded_piece *piece = &file->first[i];
        if (rota_buffer_get_kind(piece->buffer) != ROTA_BUFFER_PERSISTENT) continue;
        ROTA_TRY(piece->data
                     ? rota_buffer_write(piece->buffer, device, piece->offset_bytes, piece->data,
                                         piece->size_bytes, NULL)
                     : write_zeros(file, device, piece->buffer, piece->offset_bytes, piece->size_bytes));
    }
    return ROTA_OK;
}

static rota_status host_memory(rota_graph_file *file, uint32_t index, void **out_memory) {
    const uint64_t size = rota_buffer_size(file->buffers[index]);
    if (file->host[index])
        memset(file->host[index], 0, size);
    else
        file->host[index] = calloc(1, size); /* of which pages that stay zero are not touched */
    *out_memory = file->host[index];
    return *out_memory ? ROTA_OK : rota_loaded_no_memory(file, size);
}

/* The file's own bytes where they are all of it. */
static rota_status set_input(rota_graph_file *file, const lookup *said, uint32_t index, rota_args *args) {
    rota_buffer *buffer = file->buffers[index];
    const void *data = NULL;
    void *memory = NULL;
    for (uint32_t i = said->begin[index]; i < said->begin[index + 1]; i++) {
        const rota_loaded_piece *piece = said->pieces[i];
        if (is_whole(piece) && piece->data) {
            data = piece->data;
            memory = NULL;
            continue;
        }
        if (!memory) {
            ROTA_TRY(host_memory(file, index, &memory));
            if (data) memcpy(memory, data, rota_buffer_size(buffer));
            data = memory;
        }
        if (piece->data)
            memcpy((uint8_t *)memory + piece->offset_bytes, piece->data, piece->size_bytes);
        else
            memset((uint8_t *)memory + piece->offset_bytes, 0, piece->size_bytes);
    }
    if (!data) {
        ROTA_TRY(host_memory(file, index, &memory));
        data = memory;
    }
    return rota_args_set_input(args, buffer, data, rota_buffer_size(buffer), false);
}

/* What is bound to a SLOT buffer: as the file says, else a buffer of zeros. */
static rota_status make_bound(rota_graph_file *file, const lookup *said, uint32_t index,
                              rota_device *device) {
    rota_buffer *slot = file->buffers[index];
    const rota_loaded_argument *argument = said->bound[index];
    if (file->bound[index]) return ROTA_OK;
    if (argument)
        return rota_buffer_create_view(argument->bound.buffer, argument->bound.offset_bytes,
                                       argument->bound.size_bytes, &file->bound[index]);
    rota_buffer *made;
    ROTA_TRY(
        rota_buffer_create_in(file->opened.runtime, rota_buffer_name(slot), rota_buffer_size(slot), &made));
    const rota_status status = write_zeros(file, device, made, 0, rota_buffer_size(slot));
    if (status == ROTA_OK)
        file->bound[index] = made;
    else
        rota_buffer_release(made);
    return status;
}

static rota_status set_buffers(rota_graph_file *file, const lookup *said, rota_device *device,
                               rota_args *args) {
    for (uint32_t i = 0; i < file->info.buffer_count; i++) {
        rota_buffer *buffer = file->buffers[i];
        void *memory;
        switch (rota_buffer_get_kind(buffer)) {
        case ROTA_BUFFER_INPUT:
            ROTA_TRY(set_input(file, said, i, args));
            break;
        case ROTA_BUFFER_OUTPUT:
            ROTA_TRY(host_memory(file, i, &memory));
            ROTA_TRY(rota_args_set_output(args, buffer, memory, rota_buffer_size(buffer)));
            break;
        case ROTA_BUFFER_SLOT:
            ROTA_TRY(make_bound(file, said, i, device));
            ROTA_TRY(rota_args_set_buffer(args, buffer, file->bound[i]));
            break;
        default:
            break;
        }
    }
    return ROTA_OK;
}

static rota_status set_value(const rota_graph_file *file, rota_slot slot, uint64_t value, rota_args *args) {
    rota_slot_info *info = rota_graph_slot_info(file->graph, slot.index);
    const uint32_t word = (uint32_t)value;
    float real;
    if (info->size_bytes == 8) return rota_args_set_u64(args, slot, value);
    /* Relaxed: recording, which sets it, was over when the file was loaded. */
    if (ra_load_relaxed(&info->type) != ROTA_VALUE_F32) return rota_args_set_u32(args, slot, word);
    memcpy(&real, &word, sizeof real);
    return rota_args_set_f32(args, slot, real);
}

static rota_status set_values(const rota_graph_file *file, const lookup *said, rota_args *args) {
    for (uint32_t i = 1; i <= file->info.slot_count; i++) {
        const rota_status status = set_value(file, (rota_slot){i}, said->values[i], args);
        if (status != ROTA_OK && status != ROTA_NOT_FOUND) return status; /* no node reads it */
    }
    return ROTA_OK;
}

rota_status rota_graph_file_prepare(rota_graph_file *file, rota_device *device, rota_args *args) {
    ROTA_GIVEN(file);
    if (!file->opened.runtime)
        return rota_fail(ROTA_WRONG_STATE,
                         "graph '%s' was loaded from a file without a runtime: it can't run",
                         file->info.name);
    ROTA_TRY(rota_opened_check(file->opened));
    const size_t count = file->info.buffer_count;
    if (!file->host) file->host = rota_arena_calloc(&file->arena, sizeof *file->host * (count + 1), 8);
    if (!file->bound) file->bound = rota_arena_calloc(&file->arena, sizeof *file->bound * (count + 1), 8);
    if (!file->host || !file->bound) return rota_loaded_no_memory(file, count * 2 * sizeof(void *));
    lookup said;
    rota_status status = look_up(file, &said);
    if (status == ROTA_OK) status = write_persistent(file, device, &said);
    if (status == ROTA_OK && args) status = set_buffers(file, &said, device, args);
    if (status == ROTA_OK && args) status = set_values(file, &said, args);
    rota_arena_free(&said.arena);
    file->is_prepared = status == ROTA_OK;
    return status;
}

/* ---- After ---- */

static bool is_near(float made, float expected, float tolerance) {
    if (isnan(made) || isnan(expected)) return isnan(made) && isnan(expected);
    const float size = fabsf(expected) > 1 ? fabsf(expected) : 1;
    return made == expected || fabsf(made - expected) <= tolerance * size;
}

static rota_status compare(const rota_graph_file *file, const rota_loaded_piece *piece, const uint8_t *made) {
    const char *name = rota_buffer_name(piece->buffer);
    const unsigned long long offset = piece->offset_bytes;
    if (piece->tolerance == 0) {
        if (memcmp(made, piece->data, piece->size_bytes) == 0) return ROTA_OK;
        uint64_t at = 0;
        while (made[at] == piece->data[at]) at++;
        return rota_fail(ROTA_INTERNAL, "graph '%s': byte %llu of buffer '%s' is 0x%02x, expected 0x%02x",
                         file->info.name, offset + at, name, made[at], piece->data[at]);
    }
    for (uint64_t i = 0; i < piece->size_bytes / sizeof(float); i++) {
        float is, expected;
        memcpy(&is, made + i * sizeof is, sizeof is);
        memcpy(&expected, piece->data + i * sizeof expected, sizeof expected);
        if (!is_near(is, expected, piece->tolerance))
            return rota_fail(ROTA_INTERNAL,
                             "graph '%s': f32 at byte %llu of buffer '%s' is %.9g, expected %.9g within %g",
                             file->info.name, offset + i * sizeof is, name, (double)is, (double)expected,
                             (double)piece->tolerance);
    }
    return ROTA_OK;
}

static rota_status check_piece(const rota_graph_file *file, const rota_loaded_piece *piece) {
    if (rota_buffer_get_kind(piece->buffer) == ROTA_BUFFER_OUTPUT) {
        const uint8_t *memory;
        ROTA_TRY(rota_loaded_output(file, piece->index, &memory));
        return compare(file, piece, memory + piece->offset_bytes);
    }
    uint8_t *made = malloc(piece->size_bytes);
    if (!made) return rota_loaded_no_memory(file, piece->size_bytes);
    rota_status status = rota_buffer_read(piece->buffer, piece->offset_bytes, made, piece->size_bytes);
    if (status == ROTA_OK) status = compare(file, piece, made);
    free(made);
    return status;
}

rota_status rota_graph_file_check(rota_graph_file *file) {
    ROTA_GIVEN(file);
    ROTA_TRY(rota_loaded_check_prepared(file));
    if (!file->info.result_count)
        return rota_fail(ROTA_NOT_FOUND, "graph '%s': its file has no results to compare with",
                         file->info.name);
    for (uint32_t i = 0; i < file->info.result_count; i++) ROTA_TRY(check_piece(file, &file->results[i]));
    return ROTA_OK;
}
