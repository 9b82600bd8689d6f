/* What replays made, as the results of the file that describes them. */
#include <stdlib.h>
#include <string.h>
#include "base/given.h"
#include "base/output.h"
#include "file/cbor_write.h"
#include "file/loaded.h"

static int compare_writes(const void *a, const void *b) {
    const rota_loaded_write *x = a, *y = b;
    if (x->index != y->index) return x->index < y->index ? -1 : 1;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

/* Of what is bound to SLOT buffers instead of these; those to which the file binds nothing are left out. How many. */
static uint64_t take_bound(const rota_graph_file *file, const rota_loaded_argument **bound,
                           rota_loaded_write *writes, uint64_t count) {
    uint64_t kept = 0;
    for (uint32_t i = 0; i < file->argument_count; i++) /* the last one counts, as where it is prepared */
        if (file->arguments[i].slot_buffer) bound[file->arguments[i].slot_index] = &file->arguments[i];
    for (uint64_t i = 0; i < count; i++) {
        rota_loaded_write write = writes[i];
        const rota_buffer *buffer = file->buffers[write.index];
        if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_SLOT) {
            const rota_loaded_argument *argument = bound[write.index];
            if (!argument) continue;
            write.index = argument->bound.index;
            write.offset_bytes += argument->bound.offset_bytes;
        }
        writes[kept++] = write;
    }
    return kept;
}

/* Each byte once, in order. How many. */
static uint64_t join(rota_loaded_write *writes, uint64_t count) {
    uint64_t kept = 0;
    qsort(writes, (size_t)count, sizeof *writes, compare_writes);
    for (uint64_t i = 0; i < count; i++) {
        rota_loaded_write *last = kept ? &writes[kept - 1] : NULL;
        const uint64_t end = writes[i].offset_bytes + writes[i].size_bytes;
        if (!last || last->index != writes[i].index ||
            writes[i].offset_bytes > last->offset_bytes + last->size_bytes)
            writes[kept++] = writes[i];
        else if (end > last->offset_bytes + last->size_bytes)
            last->size_bytes = end - last->offset_bytes;
    }
    return kept;
}

static void put_bytes(FILE *stream, const rota_loaded_write *write, const uint8_t *bytes, float tolerance) {
    const bool is_words = write->size_bytes % 4 == 0 && write->offset_bytes % 4 == 0;
    rota_cbor_put_array(stream, 4);
    rota_cbor_put_uint(stream, write->index);
    rota_cbor_put_uint(stream, write->offset_bytes);
    rota_cbor_put_bytes(stream, bytes, (size_t)write->size_bytes);
    rota_cbor_put_f32(stream, is_words ? tolerance : 0);
}

static rota_status put_result(const rota_graph_file *file, const rota_loaded_write *write, float tolerance,
                              FILE *stream) {
    rota_buffer *buffer = file->buffers[write->index];
    if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_OUTPUT) {
        const uint8_t *memory;
        ROTA_TRY(rota_loaded_output(file, write->index, &memory));
        put_bytes(stream, write, memory + write->offset_bytes, tolerance);
        return ROTA_OK;
    }
    uint8_t *bytes = malloc((size_t)write->size_bytes);
    if (!bytes) return rota_loaded_no_memory(file, write->size_bytes);
    const rota_status status = rota_buffer_read(buffer, write->offset_bytes, bytes, write->size_bytes);
    if (status == ROTA_OK) put_bytes(stream, write, bytes, tolerance);
    free(bytes);
    return status;
}

/* The file as it is, up to its results, which are its last. */
static rota_status put_file(const rota_graph_file *file, const rota_loaded_write *writes, uint64_t count,
                            float tolerance, FILE *stream) {
    (void)fwrite(file->bytes, 1, file->results_at, stream);
    rota_cbor_put_array(stream, (size_t)count);
    for (uint64_t i = 0; i < count; i++) ROTA_TRY(put_result(file, &writes[i], tolerance, stream));
    return ROTA_OK;
}

rota_status rota_graph_file_save_results(rota_graph_file *file, float tolerance, const char *path) {
    ROTA_GIVEN(file);
    ROTA_GIVEN(path);
    ROTA_TRY(rota_loaded_check_prepared(file));
    if (!(tolerance >= 0))
        return rota_fail(ROTA_INVALID_ARGUMENT, "graph '%s': a tolerance of %g, expected 0 or more",
                         file->info.name, (double)tolerance);
    rota_arena arena = ROTA_ARENA_INIT;
    const rota_loaded_argument **bound =
        rota_arena_calloc(&arena, sizeof *bound * ((size_t)file->info.buffer_count + 1), 8);
    rota_loaded_write *writes =
        rota_arena_alloc(&arena, sizeof *writes * ((size_t)file->writes.count + 1), 8);
    rota_status status =
        bound && writes ? ROTA_OK : rota_loaded_no_memory(file, sizeof *writes * file->writes.count);
    if (status == ROTA_OK && file->writes.count)
        memcpy(writes, file->writes.data, sizeof *writes * (size_t)file->writes.count);
    rota_output output;
    if (status == ROTA_OK) status = rota_output_open(&output, path);
    if (status == ROTA_OK) {
        const uint64_t count = join(writes, take_bound(file, bound, writes, file->writes.count));
        status = rota_output_close(&output, put_file(file, writes, count, tolerance, output.file));
    }
    rota_arena_free(&arena);
    return status;
}
