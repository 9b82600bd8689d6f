/* The same kernels through the CUDA driver alone. */
#include "bench/raw_cuda.h"

#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/raw_cuda_driver.h"

#define BUFFER_BYTES 256

struct raw_cuda {
    raw_cuda_driver cuda;
    CUfunction functions[BENCH_OPERANDS_MAX];
    uint64_t bytes;
    uint64_t submitted, edges;
    double build_ns;
};

/* A kernel's parameter (exec/cuda/rota_kernel.cuh), for up to BENCH_OPERANDS_MAX operands. */
typedef struct arguments {
    uint64_t block, masks;
    uint64_t words[BENCH_OPERANDS_MAX + (sizeof(bench_params) + 7) / 8];
} arguments;

static bool open_device(raw_cuda *raw, uint32_t index) {
    raw_cuda_driver *cuda = &raw->cuda;
    if (!raw_cuda_driver_open(cuda, index, bench_kernels_plain[0].cuda.image, raw->bytes)) return false;
    for (uint32_t i = 0; i < BENCH_OPERANDS_MAX; i++)
        RAW_CUDA_CHECK(
            cuda->ModuleGetFunction(&raw->functions[i], cuda->module, bench_kernels_plain[i].cuda.entry));
    return true;
}

/* Whoever last wrote each buffer, and who read it since. */
typedef struct touched {
    uint64_t *writer;       /* by buffer: node + 1 */
    uint64_t *first_reader; /* by buffer: index + 1 in readers, of the last added */
    struct reader {
        uint64_t node, next;
    } * readers;
    uint64_t reader_count;
} touched;

static uint64_t gather(touched *t, const bench_node *node, const CUgraphNode *nodes, CUgraphNode *before) {
    uint64_t count = 0;
    for (uint32_t a = 0; a < node->access_count; a++) {
        uint64_t buffer = node->accesses[a].buffer, reader = t->first_reader[buffer];
        bool writes = node->accesses[a].mode != ROTA_READ;
        /* Readers come after the writer, so that they stand for it. */
        if (t->writer[buffer] && !(writes && reader)) before[count++] = nodes[t->writer[buffer] - 1];
        for (; writes && reader; reader = t->readers[reader - 1].next)
            before[count++] = nodes[t->readers[reader - 1].node];
    }
    /* Two accesses may give the same node, and a node may be named once. */
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = 0;
        while (j < kept && before[j] != before[i]) j++;
        if (j == kept) before[kept++] = before[i];
    }
    return kept;
}

static void touch(touched *t, const bench_node *node, uint64_t index) {
    for (uint32_t a = 0; a < node->access_count; a++) {
        uint64_t buffer = node->accesses[a].buffer;
        if (node->accesses[a].mode == ROTA_READ) {
            t->readers[t->reader_count] = (struct reader){index, t->first_reader[buffer]};
            t->first_reader[buffer] = ++t->reader_count;
        } else {
            t->writer[buffer] = index + 1;
            t->first_reader[buffer] = 0;
        }
    }
}

static bool add_node(raw_cuda *raw, const bench_node *node, const CUgraphNode *before, uint64_t count,
                     CUgraphNode *out_node) {
    arguments a = {0};
    for (uint32_t i = 0; i < node->access_count; i++)
        a.words[i] =
            raw->cuda.memory + node->accesses[i].buffer * BUFFER_BYTES + node->accesses[i].offset_bytes;
    memcpy(&a.words[node->access_count], &node->params, sizeof node->params);
    void *parameters[] = {&a};
    raw->edges += count;
    return raw_cuda_driver_add(&raw->cuda, raw->cuda.graph, raw->functions[node->access_count - 1],
                               parameters, before, count, out_node);
}

static bool build_graph(raw_cuda *raw, const bench_graph *graph) {
    uint64_t accesses = graph->node_count * BENCH_OPERANDS_MAX;
    touched t = {.writer = calloc(graph->buffer_count, sizeof(uint64_t)),
                 .first_reader = calloc(graph->buffer_count, sizeof(uint64_t)),
                 .readers = malloc(accesses * sizeof(struct reader))};
    CUgraphNode *nodes = malloc(graph->node_count * sizeof(CUgraphNode));
    CUgraphNode *before = malloc((accesses + BENCH_OPERANDS_MAX) * sizeof(CUgraphNode));
    bool good = t.writer && t.first_reader && t.readers && nodes && before;
    if (!good) fprintf(stderr, "raw CUDA: out of memory\n");
    uint64_t begin = rota_clock_ns();
    good = good && raw_cuda_driver_check(raw->cuda.GraphCreate(&raw->cuda.graph, 0), "cuGraphCreate");
    for (uint64_t i = 0; i < graph->node_count && good; i++) {
        bench_node node;
        bench_graph_node(graph, i, &node);
        uint64_t count = gather(&t, &node, nodes, before);
        touch(&t, &node, i);
        good = add_node(raw, &node, before, count, &nodes[i]);
    }
    good = good && raw_cuda_driver_instantiate(&raw->cuda);
    raw->build_ns = (double)(rota_clock_ns() - begin);
    free(t.writer);
    free(t.first_reader);
    free(t.readers);
    free(nodes);
    free(before);
    return good;
}

static bool write_first(raw_cuda *raw, const bench_graph *graph) {
    uint32_t *state = bench_graph_state(graph, 0, NULL);
    uint8_t *host = calloc(1, raw->bytes);
    bool good = state && host;
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++)
        memcpy(host + buffer * BUFFER_BYTES, state + buffer * BENCH_WORDS_MAX, (size_t)BENCH_WORDS_MAX * 4);
    good =
        good &&
        raw_cuda_driver_check(raw->cuda.MemcpyHtoDAsync(raw->cuda.memory, host, raw->bytes, raw->cuda.stream),
                              "cuMemcpyHtoDAsync") &&
        raw_cuda_wait(raw);
    free(state);
    free(host);
    return good;
}

static bool create(raw_cuda *raw, const bench_graph *graph, uint32_t index) {
    raw->bytes = graph->buffer_count * BUFFER_BYTES;
    return open_device(raw, index) && write_first(raw, graph) && build_graph(raw, graph) &&
           raw_cuda_wait(raw);
}

raw_cuda *raw_cuda_create(const bench_graph *graph, uint32_t index) {
    raw_cuda *raw = calloc(1, sizeof *raw);
    if (raw && create(raw, graph, index)) return raw;
    raw_cuda_destroy(raw);
    return NULL;
}

void raw_cuda_destroy(raw_cuda *raw) {
    if (!raw) return;
    raw_cuda_driver_close(&raw->cuda);
    free(raw);
}

bool raw_cuda_submit(raw_cuda *raw) {
    RAW_CUDA_CHECK(raw->cuda.GraphLaunch(raw->cuda.exec, raw->cuda.stream));
    raw->submitted++;
    return true;
}

bool raw_cuda_wait(raw_cuda *raw) {
    return raw_cuda_driver_wait(&raw->cuda);
}

uint64_t raw_cuda_submitted(const raw_cuda *raw) {
    return raw->submitted;
}

uint64_t raw_cuda_edges(const raw_cuda *raw) {
    return raw->edges;
}

double raw_cuda_build_ns(const raw_cuda *raw) {
    return raw->build_ns;
}

bool raw_cuda_check(raw_cuda *raw, const bench_graph *graph, uint64_t replays) {
    uint8_t *host = malloc(raw->bytes);
    uint32_t *state = bench_graph_state(graph, replays, NULL);
    bool good =
        host && state &&
        raw_cuda_driver_check(raw->cuda.MemcpyDtoHAsync(host, raw->cuda.memory, raw->bytes, raw->cuda.stream),
                              "cuMemcpyDtoHAsync") &&
        raw_cuda_wait(raw);
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++) {
        if (!graph->persistent_number[buffer]) continue;
        uint32_t got, expected = state[buffer * BENCH_WORDS_MAX];
        memcpy(&got, host + buffer * BUFFER_BYTES, 4);
        good = got == expected;
        if (!good)
            fprintf(stderr,
                    "raw CUDA: place %" PRIu64 " holds %" PRIu32 " after %" PRIu64 " replays, not %" PRIu32
                    "\n",
                    buffer, got, replays, expected);
    }
    free(host);
    free(state);
    return good;
}

#else
raw_cuda *raw_cuda_create(const bench_graph *graph, uint32_t index) {
    (void)graph, (void)index;
    fprintf(stderr, "raw CUDA: this build was made without the CUDA toolkit's headers\n");
    return NULL;
}
void raw_cuda_destroy(raw_cuda *raw) {
    (void)raw;
}
bool raw_cuda_submit(raw_cuda *raw) {
    (void)raw;
    return false;
}
bool raw_cuda_wait(raw_cuda *raw) {
    (void)raw;
    return false;
}
uint64_t raw_cuda_submitted(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
uint64_t raw_cuda_edges(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
double raw_cuda_build_ns(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
bool raw_cuda_check(raw_cuda *raw, const bench_graph *graph, uint64_t replays) {
    (void)raw, (void)graph, (void)replays;
    return false;
}
#endif
