/* The same nodes as plain function calls in record order, on one thread. */
#include "bench/raw_cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One node as its kernel is called. */
typedef struct raw_call {
    rota_cpu_fn fn; /* NULL: an upload */
    rota_kernel_call call;
    void *operands[BENCH_OPERANDS_MAX];
    uint64_t operand_bytes[BENCH_OPERANDS_MAX];
    bench_params params;
} raw_call;

struct raw_cpu {
    uint32_t *state;
    raw_call *calls;
    uint64_t count, runs;
};

raw_cpu *raw_cpu_create(const bench_graph *graph) {
    raw_cpu *raw = calloc(1, sizeof *raw);
    if (!raw) return NULL;
    raw->count = graph->node_count;
    raw->state = bench_graph_state(graph, 0, NULL);
    raw->calls = calloc(raw->count, sizeof *raw->calls);
    if (!raw->state || !raw->calls) {
        raw_cpu_destroy(raw);
        return NULL;
    }
    for (uint64_t i = 0; i < raw->count; i++) {
        bench_node node;
        bench_graph_node(graph, i, &node);
        raw_call *c = &raw->calls[i];
        c->fn = node.kernel ? node.kernel->cpu.fn : NULL;
        c->params = node.params;
        for (uint32_t a = 0; a < node.access_count; a++) {
            c->operands[a] =
                raw->state + node.accesses[a].buffer * BENCH_WORDS_MAX + node.accesses[a].offset_bytes / 4;
            c->operand_bytes[a] = 4;
        }
        c->call = (rota_kernel_call){.operands = c->operands,
                                     .params = &c->params,
                                     .end = 1,
                                     .items = 1,
                                     .operand_count = node.access_count,
                                     .operand_bytes = c->operand_bytes};
    }
    return raw;
}

void raw_cpu_destroy(raw_cpu *raw) {
    if (!raw) return;
    free(raw->state);
    free(raw->calls);
    free(raw);
}

void raw_cpu_run(raw_cpu *raw) {
    for (uint64_t i = 0; i < raw->count; i++) {
        raw_call *c = &raw->calls[i];
        if (c->fn)
            (void)c->fn(&c->call);
        else
            memcpy(c->operands[0], c->operands[1], 4);
    }
    raw->runs++;
}

bool raw_cpu_check(const raw_cpu *raw, const bench_graph *graph) {
    uint32_t *expected = bench_graph_state(graph, raw->runs, NULL);
    if (!expected) return false;
    bool good = true;
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++) {
        if (!graph->persistent_number[buffer]) continue;
        good = raw->state[buffer * BENCH_WORDS_MAX] == expected[buffer * BENCH_WORDS_MAX];
        if (!good)
            fprintf(stderr, "plain calls: place %" PRIu64 " is wrong after %" PRIu64 " runs\n", buffer,
                    raw->runs);
    }
    free(expected);
    return good;
}
