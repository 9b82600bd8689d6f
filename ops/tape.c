/* Tapes: what ops are recorded with, and what is known of the buffers that they touch. */
#include "ops/tape.h"
#include "base/given.h"
#include "base/hash.h"

#include "base/sized_copy.h"
#include "graph/graph_internal.h" /* IWYU pragma: keep */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rota_status rota_tape_create(rota_recorder *recorder, const rota_tape_options *options,
                             rota_tape **out_tape) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(out_tape);
    *out_tape = NULL;
    rota_tape_options room;
    if (options && !(options = ROTA_SIZED_IN(rota_tape_options, options, &room)))
        return ROTA_INVALID_ARGUMENT;
    if (options && options->rank >= (options->ranks ? options->ranks : 1))
        return rota_fail(ROTA_INVALID_ARGUMENT, "tape: rank %u of %u, expected one below", options->rank,
                         options->ranks ? options->ranks : 1);
    rota_tape *tape = calloc(1, sizeof *tape);
    if (!tape) return rota_fail(ROTA_OUT_OF_MEMORY, "tape: no host memory");
    tape->recorder = recorder;
    tape->graph = rota_recorder_graph(recorder);
    tape->is_in_body = tape->graph->outer != NULL;
    if (options) tape->options = *options;
    tape->remember = !tape->options.no_gradients;
    *out_tape = tape;
    return ROTA_OK;
}

void rota_tape_forget(rota_tape *tape) {
    rota_arena_free(&tape->arena);
    free(tape->map);
    tape->map = NULL;
    tape->map_count = tape->map_capacity = 0;
    tape->use_count = 0;
}

/* Without memory for them the body has no gradients. */
static void leave_uses(const rota_tape *tape) {
    rota_recorder *lane = tape->recorder;
    rota_taped_uses *left =
        rota_arena_alloc(&lane->arena, sizeof *left + (size_t)tape->use_count * sizeof *left->uses, 8);
    if (!left) return;
    left->next = lane->taped;
    left->kept = NULL;
    left->count = tape->use_count;
    for (uint64_t i = 0; i < tape->use_count; i++) left->uses[i] = *tape->uses[i];
    lane->taped = left;
}

void rota_tape_destroy(rota_tape *tape) {
    if (!tape) return;
    if (tape->is_in_body && !tape->options.no_gradients) leave_uses(tape);
    rota_tape_forget(tape);
    if (tape->device) {
        rota_recorder_close(tape->recorder);
        rota_plan_release(tape->plan);
        rota_graph_release(tape->graph);
    }
    free(tape->uses);
    free(tape);
}

rota_recorder *rota_tape_recorder(const rota_tape *tape) {
    return tape ? tape->recorder : NULL;
}

rota_graph *rota_tape_graph(const rota_tape *tape) {
    return tape ? tape->graph : NULL;
}

void rota_tape_remember(rota_tape *tape, bool remember) {
    if (tape) tape->remember = remember && !tape->options.no_gradients;
}

rota_status rota_tape_name(rota_tape *tape, const char *name) {
    ROTA_GIVEN(tape);
    /* The lane's arena lives as long as the graph, which its plans hold. */
    const char *copy = name ? rota_arena_strdup(&tape->recorder->arena, name) : NULL;
    if (name && !copy) return rota_fail(ROTA_OUT_OF_MEMORY, "tape: no host memory for a name");
    tape->name = copy;
    return ROTA_OK;
}

rota_status rota_tape_tensor(rota_tape *tape, rota_buffer_kind kind, const char *name, rota_dtype dtype,
                             uint32_t rank, const uint64_t *shape, rota_tensor *out_tensor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_tensor);
    rota_tensor tensor; /* not *out_tensor: shape may be its */
    ROTA_TRY(rota_tensor_of(NULL, 0, dtype, rank, shape, &tensor));
    uint64_t bytes = rota_shape_bytes(dtype, rank, shape);
    if (bytes == 0) bytes = 4; /* no buffer is smaller */
    /* INPUT and OUTPUT have exactly the host's bytes. The rest are whole words, which is what fills write. */
    if (kind != ROTA_BUFFER_INPUT && kind != ROTA_BUFFER_OUTPUT) bytes = (bytes + 3) / 4 * 4;
    ROTA_TRY(rota_recorder_buffer(tape->recorder, kind, name, bytes, &tensor.buffer));
    *out_tensor = tensor;
    return ROTA_OK;
}

rota_status rota_tape_temporary(rota_tape *tape, const char *name, rota_dtype dtype, uint32_t rank,
                                const uint64_t *shape, rota_tensor *out_tensor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_tensor);
    return rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, name, dtype, rank, shape, out_tensor);
}

/* ---- Names ---- */

rota_status rota_tape_label_of(rota_tape *tape, const char *text, const char *suffix, const char **out_made) {
    rota_tape_label *label =
        &tape->labels[(rota_hash_word((uintptr_t)text) + (uint8_t)suffix[0]) & (ROTA_TAPE_LABELS - 1)];
    /* An op's own name may be another one's by now, in the same place; what this made of it stays. */
    if (label->of != text || (!suffix[0] && strcmp(label->made, text) != 0)) {
        const size_t length = strlen(text), more = strlen(suffix) + 1;
        char *made = rota_arena_alloc(&tape->recorder->arena, length + more, 1);
        if (!made) return rota_fail(ROTA_OUT_OF_MEMORY, "tape: no host memory for a name");
        memcpy(made, text, length);
        memcpy(made + length, suffix, more);
        *label = (rota_tape_label){text, made};
    }
    *out_made = label->made;
    return ROTA_OK;
}

/* ---- Buffers by address ---- */

static rota_tape_buffer *find(rota_tape_buffer *map, uint64_t capacity, const rota_buffer *root) {
    uint64_t i = rota_hash_pointer(root) & (capacity - 1);
    while (map[i].root && map[i].root != root) i = (i + 1) & (capacity - 1);
    return &map[i];
}

static bool grow(rota_tape *tape) {
    uint64_t capacity = tape->map_capacity ? tape->map_capacity * 2 : 256;
    rota_tape_buffer *map = calloc(capacity, sizeof *map);
    if (!map) return false;
    for (uint64_t i = 0; i < tape->map_capacity; i++)
        if (tape->map[i].root) *find(map, capacity, tape->map[i].root) = tape->map[i];
    free(tape->map);
    tape->map = map;
    tape->map_capacity = capacity;
    return true;
}

rota_tape_buffer *rota_tape_lookup(rota_tape *tape, const rota_tensor *tensor) {
    if (tape->map_count * 2 >= tape->map_capacity && !grow(tape)) return NULL;
    rota_buffer *root = rota_tensor_root(tensor);
    rota_tape_buffer *entry = find(tape->map, tape->map_capacity, root);
    if (!entry->root) {
        *entry = (rota_tape_buffer){.root = root, .first_read = UINT64_MAX};
        tape->map_count++;
    }
    return entry->same_as ? find(tape->map, tape->map_capacity, entry->same_as) : entry;
}

/* ---- Errors ---- */

rota_status rota_op_fail(const rota_op *op, rota_status status, const char *format, ...) {
    char text[ROTA_ERROR_MESSAGE_MAX] = "";
    va_list arguments;
    va_start(arguments, format);
    if (format) vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_fail(status, "op '%s': %s", op && op->name ? op->name : "", text);
}
