/* A loaded graph file: what is in it, and its end. */
#include "file/loaded.h"

#include <stdlib.h>
#include <string.h>
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/graph_internal.h"

void rota_graph_file_release(rota_graph_file *file) {
    if (!file) return;
    for (uint32_t i = 0; i < file->info.buffer_count; i++) {
        if (file->host) free(file->host[i]);
        if (file->bound) rota_buffer_release(file->bound[i]);
    }
    for (uint32_t i = 0; i < file->held_count; i++) rota_buffer_release(file->held[i]);
    rota_graph_release(file->graph);
    rota_vector_free(&file->writes);
    rota_arena_free(&file->arena);
    free(file->bytes);
    free(file);
}

rota_graph *rota_graph_file_graph(const rota_graph_file *file) {
    return file ? file->graph : NULL;
}

rota_status rota_graph_file_get_info(const rota_graph_file *file, rota_graph_file_info *out_info) {
    ROTA_GIVEN(file);
    ROTA_GIVEN(out_info);
    ROTA_TRY(rota_sized_check(out_info->struct_size, "rota_graph_file_info"));
    rota_sized_out(out_info, &file->info, sizeof file->info);
    return ROTA_OK;
}

rota_buffer *rota_graph_file_buffer(const rota_graph_file *file, uint32_t index) {
    return file && index < file->info.buffer_count ? file->buffers[index] : NULL;
}

rota_status rota_graph_file_find_buffer(const rota_graph_file *file, const char *name,
                                        rota_buffer **out_buffer) {
    ROTA_GIVEN(file);
    ROTA_GIVEN(name);
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    for (uint32_t i = 0; i < file->info.buffer_count && !*out_buffer; i++)
        if (strcmp(rota_buffer_name(file->buffers[i]), name) == 0) *out_buffer = file->buffers[i];
    return *out_buffer ? ROTA_OK
                       : rota_fail(ROTA_NOT_FOUND, "graph '%s', from a file, has no buffer '%s'",
                                   file->info.name, name);
}

rota_status rota_graph_file_find_slot(const rota_graph_file *file, const char *name, rota_slot *out_slot) {
    ROTA_GIVEN(file);
    ROTA_GIVEN(name);
    ROTA_GIVEN(out_slot);
    *out_slot = (rota_slot){0};
    for (uint32_t i = 1; i <= file->info.slot_count && !out_slot->index; i++)
        if (strcmp(rota_graph_slot_info(file->graph, i)->name, name) == 0) out_slot->index = i;
    return out_slot->index ? ROTA_OK
                           : rota_fail(ROTA_NOT_FOUND, "graph '%s', from a file, has no slot '%s'",
                                       file->info.name, name);
}

rota_status rota_loaded_no_memory(const rota_graph_file *file, uint64_t bytes) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "graph '%s', from a file: no host memory for %llu bytes",
                     file->info.name, (unsigned long long)bytes);
}

rota_status rota_loaded_check_prepared(const rota_graph_file *file) {
    if (!file->is_prepared)
        return rota_fail(ROTA_WRONG_STATE, "graph '%s', from a file, was not prepared for its replays",
                         file->info.name);
    return rota_opened_check(file->opened);
}

rota_status rota_loaded_output(const rota_graph_file *file, uint32_t index, const uint8_t **out_memory) {
    *out_memory = file->host[index];
    if (*out_memory) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE,
                     "graph '%s', from a file, was prepared without arguments: OUTPUT '%s' has no memory",
                     file->info.name, rota_buffer_name(file->buffers[index]));
}
