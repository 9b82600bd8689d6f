/* A benchmark's graph as a file. */
#include "bench/graphs_file.h"

#include <stdlib.h>
#include "bench/kernels.h"

void bench_graph_kernels(const rota_kernel *out_kernels[BENCH_KERNEL_COUNT]) {
    static const rota_kernel *const families[] = {bench_kernels, bench_kernels_inplace, bench_kernels_seeded,
                                                  bench_kernels_plain};
    for (uint32_t f = 0; f < 4; f++)
        for (uint32_t i = 0; i < BENCH_OPERANDS_MAX; i++)
            out_kernels[f * BENCH_OPERANDS_MAX + i] = &families[f][i];
}

/* What is given to rota_graph_save: as many of each as there are buffers, and seeds. */
typedef struct saved {
    rota_graph_file_bytes *first, *results;
    rota_graph_file_argument *arguments;
    uint32_t *state;
    rota_graph_save_options options;
} saved;

static void add_buffer(const bench_graph *graph, uint64_t number, saved *s) {
    rota_buffer *buffer = graph->buffers[number], *bound = graph->bound[number];
    const uint32_t *words = s->state + number * BENCH_WORDS_MAX;
    if (bound)
        s->arguments[s->options.argument_count++] =
            (rota_graph_file_argument){.slot_buffer = buffer, .bound = bound};
    if (rota_buffer_get_kind(buffer) == ROTA_BUFFER_INPUT)
        s->first[s->options.first_count++] =
            (rota_graph_file_bytes){buffer, words, 0}; /* which no node writes */
    if (graph->persistent_number[number])
        s->results[s->options.result_count++] = (rota_graph_file_bytes){bound ? bound : buffer, words, 0};
}

static rota_status save_with_results(const bench_graph *graph, saved *s, const char *path) {
    const size_t count =
        (size_t)graph->buffer_count + (graph->seed_slots ? (size_t)graph->node_count : 0) + 1;
    s->options = ROTA_GRAPH_SAVE_OPTIONS(.contents = true);
    s->first = calloc(count, sizeof *s->first);
    s->results = calloc(count, sizeof *s->results);
    s->arguments = calloc(count, sizeof *s->arguments);
    s->state = bench_graph_state(graph, 1, NULL);
    if (!s->first || !s->results || !s->arguments || !s->state)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a benchmark's reference");
    for (uint64_t i = 0; i < graph->buffer_count; i++)
        if (graph->buffers[i]) add_buffer(graph, i, s);
    for (uint64_t i = 0; graph->seed_slots && i < graph->node_count; i++)
        s->arguments[s->options.argument_count++] =
            (rota_graph_file_argument){.slot = graph->seed_slots[i], .value = i};
    s->options.first = s->first;
    s->options.results = s->results;
    s->options.arguments = s->arguments;
    return rota_graph_save(graph->graph, &s->options, path);
}

rota_status bench_graph_save(const bench_graph *graph, const char *path) {
    if (!graph->options.runtime) return rota_graph_save(graph->graph, NULL, path);
    saved s = {0};
    const rota_status status = save_with_results(graph, &s, path);
    free(s.first);
    free(s.results);
    free(s.arguments);
    free(s.state);
    return status;
}
