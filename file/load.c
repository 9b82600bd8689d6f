/* rota_graph_load: the file's bytes, then what they say, read once from front to back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "file/cbor_read.h"
#include "file/format.h"
#include "file/load_kernels.h"
#include "file/load_records.h"
#include "file/loaded.h"
#include "ops/fuse.h"

/* At least, in a file: of 4 items and their array's head; of 2. */
enum { PIECE_BYTES = 5, ARGUMENT_BYTES = 3 };

/* ---- The bytes ---- */

static rota_status read_stream(FILE *stream, const char *path, uint64_t limit, rota_graph_file *file) {
    size_t capacity = (size_t)rota_file_bytes(stream) + 1; /* with which the end shows; a pipe has none */
    if (capacity > limit + 1) capacity = (size_t)limit + 1;
    if (capacity < 4096) capacity = 4096;
    for (;;) {
        uint8_t *grown = realloc(file->bytes, capacity);
        if (!grown)
            return rota_fail(ROTA_OUT_OF_MEMORY, "graph file '%s': no host memory for %zu bytes", path,
                             capacity);
        file->bytes = grown;
        errno = 0;
        file->size_bytes += fread(file->bytes + file->size_bytes, 1, capacity - file->size_bytes, stream);
        if (ferror(stream))
            return rota_fail(ROTA_SYSTEM, "can't read '%s': %s", path, strerror(errno ? errno : EIO));
        if (file->size_bytes > limit)
            return rota_fail(ROTA_OUT_OF_RANGE, "graph file '%s' has more than %llu bytes, the limit", path,
                             (unsigned long long)limit);
        if (file->size_bytes < capacity) return ROTA_OK;
        capacity *= 2;
    }
}

static rota_status read_file(const char *path, uint64_t limit, rota_graph_file *file) {
    FILE *stream = fopen(path, "rbe");
    if (!stream) return rota_fail(ROTA_SYSTEM, "can't read '%s': %s", path, strerror(errno));
    const rota_status status = read_stream(stream, path, limit, file);
    (void)fclose(stream);
    return status;
}

/* ---- What the graph borrows ---- */

static void free_memory(void *user) {
    rota_arena *arena = user;
    rota_arena_free(arena);
    free(arena);
}

static rota_status make_graph(rota_cbor_reader *reader, rota_graph_file *file, rota_graph_options *options,
                              rota_arena **out_arena) {
    *out_arena = calloc(1, sizeof **out_arena);
    if (!*out_arena) return rota_cbor_no_memory(reader);
    options->release = free_memory;
    options->user = *out_arena;
    const rota_status status = rota_graph_create(options, &file->graph);
    /* The name's memory may have been what there was not: then the graph has not taken the arena. */
    if (status != ROTA_OK) free(*out_arena);
    return status == ROTA_OK ? ROTA_OK : rota_cbor_context(reader, status);
}

/* ---- What the file says ---- */

static rota_status read_head(rota_cbor_reader *reader, rota_graph_file *file, uint32_t *out_version,
                             uint32_t *out_edition) {
    static const char *const formats[] = {ROTA_GRAPH_FILE_FORMAT};
    uint32_t which;
    ROTA_TRY(rota_cbor_read_tag(reader, ROTA_GRAPH_FILE_TAG));
    ROTA_TRY(rota_cbor_begin_map(reader));
    ROTA_TRY(rota_cbor_want_key(reader, "format"));
    ROTA_TRY(rota_cbor_read_name(reader, formats, 1, &which));
    ROTA_TRY(rota_cbor_want_key(reader, "version"));
    ROTA_TRY(rota_cbor_read_u32(reader, 1, UINT32_MAX, out_version));
    if (*out_version > ROTA_GRAPH_FILE_VERSION)
        return rota_cbor_context(reader, rota_fail(ROTA_UNSUPPORTED,
                                                   "format %u; this is rota %s, which reads formats up to %d",
                                                   *out_version, rota_version(), ROTA_GRAPH_FILE_VERSION));
    ROTA_TRY(rota_cbor_want_key(reader, "edition"));
    ROTA_TRY(rota_cbor_read_u32(reader, 1, UINT32_MAX, out_edition));
    ROTA_TRY(rota_cbor_want_key(reader, "writer"));
    return rota_cbor_read_text(reader, &file->arena, &file->info.writer);
}

static rota_status read_graph(rota_cbor_reader *reader, rota_graph_file *file, bool *out_fuses,
                              rota_arena **out_arena) {
    rota_graph_options options = ROTA_GRAPH_OPTIONS();
    ROTA_TRY(rota_cbor_want_key(reader, "name"));
    ROTA_TRY(rota_cbor_read_text(reader, &file->arena, &options.name));
    file->info.name = options.name;
    ROTA_TRY(rota_cbor_want_key(reader, "reassociation"));
    ROTA_TRY(rota_cbor_read_bool(reader, &options.allow_reassociation));
    ROTA_TRY(rota_cbor_want_key(reader, "memory limit"));
    ROTA_TRY(rota_cbor_read_uint(reader, UINT64_MAX, &options.memory_limit_bytes));
    ROTA_TRY(rota_cbor_want_key(reader, "fuse"));
    ROTA_TRY(rota_cbor_read_bool(reader, out_fuses));
    return make_graph(reader, file, &options, out_arena);
}

/* buffer, offset, and a size where `size_bytes` is not given, within a buffer of one of two kinds. */
static rota_status read_range(rota_cbor_reader *reader, const rota_graph_file *file, uint32_t element,
                              rota_buffer_kind kind, bool has_size, rota_loaded_piece *out) {
    rota_cbor_element(reader, element);
    ROTA_TRY(rota_load_buffer_number(reader, file, &out->index));
    out->buffer = file->buffers[out->index];
    const rota_buffer_kind found = rota_buffer_get_kind(out->buffer);
    if (found != kind && found != ROTA_BUFFER_PERSISTENT)
        return rota_cbor_refuse(reader, "buffer '%s', which is %s, expected %s",
                                rota_buffer_name(out->buffer), rota_buffer_kind_name(found),
                                rota_buffer_kind_name(kind));
    const uint64_t size = rota_buffer_size(out->buffer);
    rota_cbor_element(reader, element + 1);
    ROTA_TRY(rota_cbor_read_uint(reader, size - 1, &out->offset_bytes));
    if (!has_size) return ROTA_OK;
    rota_cbor_element(reader, element + 2);
    ROTA_TRY(rota_cbor_read_uint(reader, size - out->offset_bytes, &out->size_bytes));
    return out->size_bytes ? ROTA_OK : rota_cbor_refuse(reader, "0 bytes");
}

/* Those whose bytes are not known are left out. */
static rota_status read_first(rota_cbor_reader *reader, rota_graph_file *file) {
    uint64_t count, four, zero;
    ROTA_TRY(rota_cbor_want_key(reader, "first"));
    ROTA_TRY(rota_cbor_begin_list(reader, PIECE_BYTES, UINT32_MAX, &count));
    file->first = rota_arena_calloc(&file->arena, sizeof *file->first * ((size_t)count + 1), 8);
    if (!file->first) return rota_cbor_no_memory(reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_loaded_piece *piece = &file->first[file->info.first_count];
        rota_cbor_bytes bytes = {0};
        *piece = (rota_loaded_piece){0};
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 4, 4, &four));
        ROTA_TRY(read_range(reader, file, 0, ROTA_BUFFER_INPUT, true, piece));
        rota_cbor_element(reader, 3);
        if (rota_cbor_take_null(reader)) {
            ROTA_TRY(rota_cbor_end(reader));
            continue;
        }
        if (rota_cbor_is_uint(reader)) {
            ROTA_TRY(rota_cbor_read_uint(reader, 0, &zero));
        } else {
            ROTA_TRY(rota_cbor_read_bytes(reader, &bytes));
            if (bytes.size != piece->size_bytes)
                return rota_cbor_refuse(reader, "%zu bytes, expected %llu", bytes.size,
                                        (unsigned long long)piece->size_bytes);
        }
        piece->data = bytes.data;
        file->info.first_count++;
        ROTA_TRY(rota_cbor_end(reader));
    }
    return rota_cbor_end(reader);
}

static rota_status read_argument(rota_cbor_reader *reader, rota_graph_file *file, rota_loaded_argument *out) {
    uint64_t count;
    uint32_t number;
    ROTA_TRY(rota_cbor_begin_array(reader, 2, 4, &count));
    if (count == 3) return rota_cbor_refuse(reader, "an array of 3, expected 2 or 4");
    rota_cbor_element(reader, 0);
    if (count == 2) {
        if (!file->info.slot_count) return rota_cbor_refuse(reader, "a slot, of which the file has none");
        ROTA_TRY(rota_cbor_read_u32(reader, 0, file->info.slot_count - 1, &number));
        out->slot.index = number + 1;
        rota_cbor_element(reader, 1);
        ROTA_TRY(rota_cbor_read_uint(reader, UINT64_MAX, &out->value));
        return rota_cbor_end(reader);
    }
    ROTA_TRY(rota_load_buffer_number(reader, file, &number));
    out->slot_buffer = file->buffers[number];
    out->slot_index = number;
    if (rota_buffer_get_kind(out->slot_buffer) != ROTA_BUFFER_SLOT)
        return rota_cbor_refuse(reader, "buffer '%s', which is %s, expected SLOT",
                                rota_buffer_name(out->slot_buffer),
                                rota_buffer_kind_name(rota_buffer_get_kind(out->slot_buffer)));
    ROTA_TRY(read_range(reader, file, 1, ROTA_BUFFER_PERSISTENT, true, &out->bound));
    if (out->bound.size_bytes < rota_buffer_size(out->slot_buffer))
        return rota_cbor_refuse(reader, "%llu bytes of '%s', SLOT buffer '%s' has %llu",
                                (unsigned long long)out->bound.size_bytes,
                                rota_buffer_name(out->bound.buffer), rota_buffer_name(out->slot_buffer),
                                (unsigned long long)rota_buffer_size(out->slot_buffer));
    return rota_cbor_end(reader);
}

static rota_status read_arguments(rota_cbor_reader *reader, rota_graph_file *file) {
    uint64_t count;
    ROTA_TRY(rota_cbor_want_key(reader, "arguments"));
    ROTA_TRY(rota_cbor_begin_list(reader, ARGUMENT_BYTES, UINT32_MAX, &count));
    file->arguments = rota_arena_calloc(&file->arena, sizeof *file->arguments * ((size_t)count + 1), 8);
    if (!file->arguments) return rota_cbor_no_memory(reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_cbor_element(reader, i);
        ROTA_TRY(read_argument(reader, file, &file->arguments[i]));
    }
    file->argument_count = (uint32_t)count;
    return rota_cbor_end(reader);
}

static rota_status read_results(rota_cbor_reader *reader, rota_graph_file *file) {
    uint64_t count, four;
    ROTA_TRY(rota_cbor_want_key(reader, "results"));
    file->results_at = reader->at;
    ROTA_TRY(rota_cbor_begin_list(reader, PIECE_BYTES, UINT32_MAX, &count));
    file->results = rota_arena_calloc(&file->arena, sizeof *file->results * ((size_t)count + 1), 8);
    if (!file->results) return rota_cbor_no_memory(reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_loaded_piece *piece = &file->results[i];
        rota_cbor_bytes bytes;
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_begin_array(reader, 4, 4, &four));
        ROTA_TRY(read_range(reader, file, 0, ROTA_BUFFER_OUTPUT, false, piece));
        rota_cbor_element(reader, 2);
        ROTA_TRY(rota_cbor_read_bytes(reader, &bytes));
        const uint64_t left = rota_buffer_size(piece->buffer) - piece->offset_bytes;
        if (!bytes.size || bytes.size > left)
            return rota_cbor_refuse(reader, "%zu bytes, expected 1 to %llu", bytes.size,
                                    (unsigned long long)left);
        piece->data = bytes.data;
        piece->size_bytes = bytes.size;
        rota_cbor_element(reader, 3);
        ROTA_TRY(rota_cbor_read_f32(reader, &piece->tolerance));
        if (!(piece->tolerance >= 0) || (piece->tolerance > 0 && (bytes.size % 4 || piece->offset_bytes % 4)))
            return rota_cbor_refuse(
                reader, "tolerance %g of %zu bytes at byte %llu, expected 0, or more for f32",
                (double)piece->tolerance, bytes.size, (unsigned long long)piece->offset_bytes);
        ROTA_TRY(rota_cbor_end(reader));
    }
    file->info.result_count = (uint32_t)count;
    return rota_cbor_end(reader);
}

static rota_status read_replays(rota_cbor_reader *reader, rota_graph_file *file) {
    ROTA_TRY(rota_cbor_want_key(reader, "replays"));
    ROTA_TRY(rota_cbor_read_u32(reader, 1, ROTA_GRAPH_FILE_REPLAYS_MAX, &file->info.replays));
    ROTA_TRY(read_first(reader, file));
    ROTA_TRY(read_arguments(reader, file));
    return read_results(reader, file);
}

static rota_status read_records(rota_record_loader *loader, uint32_t edition) {
    rota_graph_file *file = loader->file;
    ROTA_TRY(rota_load_records_begin(loader));
    ROTA_TRY(rota_load_kernels(loader->reader, loader->arena, &file->arena, loader->options, edition,
                               file->info.writer, &loader->kernels));
    file->info.kernel_count = loader->kernels.count;
    file->info.given_kernel_count = loader->kernels.given_count;
    ROTA_TRY(rota_load_bodies(loader));
    ROTA_TRY(rota_load_lanes(loader));
    ROTA_TRY(rota_load_buffers(loader));
    ROTA_TRY(rota_load_slots(loader));
    return rota_load_records(loader);
}

static rota_status read_all(const char *path, const rota_graph_load_options *options, rota_graph_file *file) {
    rota_cbor_reader reader = {.path = path, .bytes = file->bytes, .size = file->size_bytes};
    rota_record_loader loader = {.reader = &reader, .options = options, .file = file};
    uint32_t version = 0, edition = 0;
    bool fuses = false;
    file->info.device_count = file->info.queue_count = 1;
    ROTA_TRY(read_head(&reader, file, &version, &edition));
    loader.has_bodies = version >= ROTA_GRAPH_FILE_VERSION_BODIES;
    loader.has_counts = version >= ROTA_GRAPH_FILE_VERSION_COUNTS;
    ROTA_TRY(read_graph(&reader, file, &fuses, &loader.arena));
    rota_status status = read_records(&loader, edition);
    rota_load_records_end(&loader);
    if (status == ROTA_OK && fuses) status = rota_graph_fuse(file->graph);
    if (status == ROTA_OK) status = read_replays(&reader, file);
    if (status == ROTA_OK) status = rota_cbor_end(&reader);
    if (status == ROTA_OK && reader.at != reader.size) {
        reader.item = reader.at;
        status = rota_cbor_refuse(&reader, "%zu bytes behind the end", reader.size - reader.at);
    }
    return status;
}

/* ---- A file ---- */

rota_status rota_graph_load(const char *path, const rota_graph_load_options *options,
                            rota_graph_file **out_file) {
    ROTA_GIVEN(path);
    ROTA_GIVEN(out_file);
    *out_file = NULL;
    rota_graph_load_options room, none = ROTA_GRAPH_LOAD_OPTIONS();
    if (!options) options = &none;
    if (!(options = ROTA_SIZED_IN(rota_graph_load_options, options, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_GIVEN_ARRAY(options->kernels, options->kernel_count);
    ROTA_GIVEN_ARRAY(options->hosts, options->host_count);
    if (options->runtime) ROTA_TRY(rota_runtime_check(options->runtime));
    rota_graph_file *file = calloc(1, sizeof *file);
    if (!file) return rota_fail(ROTA_OUT_OF_MEMORY, "graph file '%s': no host memory", path);
    if (options->runtime) file->opened = rota_opened_now(options->runtime);
    file->info.struct_size = sizeof file->info;
    rota_status status =
        read_file(path, options->limit_bytes ? options->limit_bytes : ROTA_GRAPH_FILE_LIMIT_BYTES, file);
    if (status == ROTA_OK) status = read_all(path, options, file);
    if (status == ROTA_OK)
        *out_file = file;
    else
        rota_graph_file_release(file);
    return status;
}
