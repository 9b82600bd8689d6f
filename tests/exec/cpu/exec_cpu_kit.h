/* A small kit for driving the executor contract directly: hand-built programs, a host that records what it is
 * told. */
#ifndef ROTA_TESTS_EXEC_CPU_KIT_H
#define ROTA_TESTS_EXEC_CPU_KIT_H

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/exec.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

/* What the executor told the host. */
typedef struct kit_host {
    _Atomic uint64_t timeline[ROTA_EXEC_QUEUES_MAX];
    _Atomic uint32_t
        disorder; /* times that advanced went back or stood still, or was called by two threads at once */
    _Atomic uint32_t inside[ROTA_EXEC_QUEUES_MAX];
    _Atomic uint32_t failures, successes, losses;
    _Atomic uint32_t failed_node;
    _Atomic uint32_t poison;
    _Atomic uint32_t skip[64]; /* nodes below 64 to skip while poison is set */
    char message[256];
} kit_host;

static void kit_advanced(void *user, uint32_t queue, uint64_t value) {
    kit_host *host = user;
    if (ra_fetch_add_acq_rel(&host->inside[queue], 1) != 0) ra_fetch_add_relaxed(&host->disorder, 1);
    if (value <= ra_load_relaxed(&host->timeline[queue])) ra_fetch_add_relaxed(&host->disorder, 1);
    ra_store_release(&host->timeline[queue], value);
    ra_fetch_sub_acq_rel(&host->inside[queue], 1);
}

static void kit_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                       const char *message) {
    kit_host *host = user;
    (void)cookie, (void)owner, (void)status;
    (void)strncpy(host->message, message, sizeof host->message - 1);
    ra_store_relaxed(&host->failed_node, node);
    ra_store_release(&host->poison, 1);
    ra_fetch_add_acq_rel(&host->failures, 1);
}

static void kit_lost(void *user, rota_status status, const char *message) {
    (void)status, (void)message;
    ra_fetch_add_acq_rel(&((kit_host *)user)->losses, 1);
}

static bool kit_must_skip(void *user, void *cookie, const void *owner, uint32_t node) {
    (void)cookie, (void)owner;
    return node < 64 && ra_load_acquire(&((kit_host *)user)->skip[node]) != 0;
}

static void kit_succeeded(void *user, void *cookie, const void *owner, uint32_t node) {
    (void)cookie, (void)owner, (void)node;
    ra_fetch_add_acq_rel(&((kit_host *)user)->successes, 1);
}

static const char *kit_node_name(const void *owner, uint32_t node) {
    (void)owner, (void)node;
    return "test node";
}

static inline rota_exec_device *kit_open(kit_host *host, uint32_t workers, uint32_t queues,
                                         bool diagnostics) {
    memset(host, 0, sizeof *host);
    rota_exec_open_options options = {.host = {.user = host,
                                               .advanced = kit_advanced,
                                               .failed = kit_failed,
                                               .lost = kit_lost,
                                               .poison_active = &host->poison,
                                               .must_skip = kit_must_skip,
                                               .succeeded = kit_succeeded,
                                               .node_name = kit_node_name},
                                      .queue_count = queues,
                                      .transfer_queue = queues,
                                      .worker_threads = workers,
                                      .diagnostics = diagnostics};
    rota_exec_device *device = NULL;
    assert_ok(rota_exec_cpu_driver.open(&rota_exec_cpu_driver, 0, &options, &device));
    return device;
}

static inline void kit_close(rota_exec_device *device) {
    uint64_t abandoned = 1;
    device->vtable->close(device, rota_deadline_after(10000000000u), &abandoned);
    assert_int_equal(abandoned, 0);
}

static inline void kit_wait(kit_host *host, uint32_t queue, uint64_t value) {
    uint64_t deadline = rota_deadline_after(60000000000u);
    while (ra_load_acquire(&host->timeline[queue]) < value) {
        if (rota_clock_ns() > deadline)
            fail_msg("queue %u stands at %llu, not %llu", queue,
                     (unsigned long long)ra_load_acquire(&host->timeline[queue]), (unsigned long long)value);
        test_nap_us(20);
    }
}

/* A program under construction: nodes in record order with operands; edges from their hazards. */
enum { KIT_OPERANDS = 4 };

typedef struct kit_program {
    rota_exec_program_desc desc;
    uint32_t node_count, binding_count;
    rota_exec_command *nodes; /* record order; becomes level order in kit_finish */
    rota_exec_operand *operands;
    rota_exec_binding *bindings;
    uint32_t capacity;
    uint8_t memory_kind[256];
    rota_exec_segment segment;
    uint32_t *level;
    uint32_t *first_successor, *successor, *predecessor_count;
    rota_exec_batch *batches;
    uint32_t *command_of; /* of each recorded node: its command */
} kit_program;

static inline kit_program *kit_begin(uint32_t capacity, uint32_t memory_count, uint32_t block_words) {
    kit_program *p = calloc(1, sizeof *p);
    p->capacity = capacity;
    p->nodes = calloc(capacity, sizeof *p->nodes);
    p->operands = calloc((size_t)capacity * KIT_OPERANDS, sizeof *p->operands);
    p->bindings = calloc(capacity, sizeof *p->bindings);
    p->desc.name = "kit";
    p->desc.queue_count = 1;
    p->desc.memory_count = memory_count;
    p->desc.block_words = block_words;
    return p;
}

static inline rota_exec_operand kit_at(uint32_t memory, uint64_t offset, uint64_t size,
                                       rota_access_mode mode) {
    return rota_exec_operand_at(memory, offset, size, mode);
}

static inline rota_exec_command *kit_node(kit_program *p, rota_exec_command_kind kind, uint32_t count,
                                          const rota_exec_operand *operands) {
    assert_true(p->node_count < p->capacity && count <= KIT_OPERANDS);
    rota_exec_command *c = &p->nodes[p->node_count];
    c->node = p->node_count++;
    c->kind = (uint8_t)kind;
    c->operand_count = (uint8_t)count;
    c->first_operand = p->desc.operand_count;
    for (uint32_t i = 0; i < count; i++) p->operands[p->desc.operand_count++] = operands[i];
    return c;
}

static inline rota_exec_command *kit_kernel(kit_program *p, const rota_kernel *kernel, const void *params,
                                            uint32_t count, const rota_exec_operand *operands) {
    rota_exec_command *c = kit_node(p, ROTA_EXEC_COMMAND_KERNEL, count, operands);
    c->u.kernel.kernel = kernel;
    c->u.kernel.params = params;
    return c;
}

typedef struct kit_edge {
    uint32_t from, to;
} kit_edge;

static inline int kit_compare(const void *a, const void *b) {
    const kit_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Edges by hazards, with each memory taken as a whole, and batches by level. */
static inline const rota_exec_program_desc *kit_finish(kit_program *p, uint32_t queue) {
    uint32_t n = p->node_count, edge_count = 0;
    size_t edge_capacity = (size_t)n * 40 + 4096;
    kit_edge *edges = malloc(edge_capacity * sizeof *edges);
    uint32_t memories = p->desc.memory_count;
    uint32_t *writer = malloc(memories * sizeof *writer),
             *reader_count = calloc(memories, sizeof *reader_count);
    uint32_t(*readers)[1024] = malloc(memories * sizeof *readers);
    memset(writer, 0xff, memories * sizeof *writer);
    p->level = calloc(n + 1, sizeof *p->level);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t o = 0; o < p->nodes[i].operand_count; o++) {
            const rota_exec_operand *operand = &p->operands[p->nodes[i].first_operand + o];
            if (operand->is_slot) continue;
            uint32_t m = operand->memory;
            assert_true(edge_count + 1026 < edge_capacity);
            if (operand->mode == ROTA_READ) {
                if (writer[m] != UINT32_MAX && writer[m] != i) edges[edge_count++] = (kit_edge){writer[m], i};
                assert_true(reader_count[m] < 1024);
                readers[m][reader_count[m]++] = i;
            } else {
                if (writer[m] != UINT32_MAX && writer[m] != i) edges[edge_count++] = (kit_edge){writer[m], i};
                for (uint32_t r = 0; r < reader_count[m]; r++) {
                    if (readers[m][r] != i) edges[edge_count++] = (kit_edge){readers[m][r], i};
                }
                reader_count[m] = 0;
                writer[m] = i;
            }
        }
    }
    qsort(edges, edge_count, sizeof *edges, kit_compare);
    uint32_t kept = 0;
    for (uint32_t e = 0; e < edge_count; e++) {
        if (kept && edges[kept - 1].from == edges[e].from && edges[kept - 1].to == edges[e].to) continue;
        edges[kept++] = edges[e];
    }
    edge_count = kept;
    uint32_t levels = n ? 1 : 0;
    for (uint32_t e = 0; e < edge_count;
         e++) { /* sorted by source, and sources precede targets in record order */
        uint32_t at_least = p->level[edges[e].from] + 1;
        if (p->level[edges[e].to] < at_least) p->level[edges[e].to] = at_least;
        if (at_least + 1 > levels) levels = at_least + 1;
    }
    p->batches = calloc(levels + 1, sizeof *p->batches);
    for (uint32_t i = 0; i < n; i++) p->batches[p->level[i]].command_count++;
    for (uint32_t l = 1; l < levels; l++)
        p->batches[l].first_command = p->batches[l - 1].first_command + p->batches[l - 1].command_count;
    uint32_t *next = calloc(levels + 1, sizeof *next);
    rota_exec_command *sorted = calloc(n + 1, sizeof *sorted);
    p->command_of = calloc(n + 1, sizeof *p->command_of);
    for (uint32_t i = 0; i < n; i++) {
        p->command_of[i] = p->batches[p->level[i]].first_command + next[p->level[i]]++;
        sorted[p->command_of[i]] = p->nodes[i];
    }
    free(p->nodes);
    p->nodes = sorted;
    p->first_successor = calloc((size_t)n + 2, sizeof *p->first_successor);
    p->predecessor_count = calloc((size_t)n + 1, sizeof *p->predecessor_count);
    p->successor = calloc((size_t)edge_count + 1, sizeof *p->successor);
    for (uint32_t e = 0; e < edge_count; e++)
        edges[e] = (kit_edge){p->command_of[edges[e].from], p->command_of[edges[e].to]};
    qsort(edges, edge_count, sizeof *edges, kit_compare);
    for (uint32_t e = 0; e < edge_count; e++) {
        p->first_successor[edges[e].from + 1]++;
        p->successor[e] = edges[e].to;
        p->predecessor_count[edges[e].to]++;
    }
    for (uint32_t i = 0; i < n; i++) p->first_successor[i + 1] += p->first_successor[i];
    p->segment = (rota_exec_segment){.queue = queue, .batch_count = levels, .command_count = n};
    p->desc.command_count = n;
    p->desc.batch_count = levels;
    p->desc.segment_count = 1;
    p->desc.binding_count = p->binding_count;
    p->desc.commands = p->nodes;
    p->desc.operands = p->operands;
    p->desc.bindings = p->bindings;
    p->desc.batches = p->batches;
    p->desc.segments = &p->segment;
    p->desc.first_successor = p->first_successor;
    p->desc.successor = p->successor;
    p->desc.predecessor_count = p->predecessor_count;
    p->desc.memory_kind = p->memory_kind;
    p->desc.owner = p;
    free(edges), free(writer), free(reader_count), free(readers), free(next);
    return &p->desc;
}

static inline void kit_free(kit_program *p) {
    free(p->nodes), free(p->operands), free(p->bindings), free(p->level), free(p->batches),
        free(p->command_of);
    free(p->first_successor), free(p->successor), free(p->predecessor_count), free(p);
}

static inline void kit_submit(rota_exec_device *device, rota_exec_instance *instance, uint32_t queue,
                              uint64_t value, const uint64_t *block, uint32_t wait_count,
                              const rota_exec_wait *waits) {
    rota_exec_work work = {.instance = instance,
                           .queue = queue,
                           .signal_value = value,
                           .waits = waits,
                           .wait_count = wait_count,
                           .block = block};
    assert_ok(device->vtable->submit(device, &work, 1));
}

/* ---- Kernels ---- */

static inline uint64_t mix(uint64_t a, uint64_t b) {
    return (a ^ (b >> 7)) * 0x9e3779b97f4a7c15u + b;
}

/* operand 0 (READWRITE) is mixed word by word with the others (READ) and a constant. */
static inline rota_status mix_run(const rota_kernel_call *call) {
    uint64_t *to = call->operands[0];
    uint32_t salt;
    memcpy(&salt, call->params, sizeof salt);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint64_t value = mix(to[i], salt);
        for (uint32_t o = 1; o < call->operand_count; o++)
            value = mix(value, ((const uint64_t *)call->operands[o])[i]);
        to[i] = value;
    }
    return ROTA_OK;
}

static inline void mix_items(const void *params, const uint64_t *bytes, uint64_t *out_items,
                             uint64_t *out_grain) {
    (void)params;
    *out_items = bytes[0] / 8;
    *out_grain = 512;
}

static inline rota_status mix_whole_run(const rota_kernel_call *call) {
    rota_kernel_call all = *call;
    all.begin = 0;
    all.end = call->operand_bytes[0] / 8;
    return mix_run(&all);
}

static const rota_kernel_bindable salt_bindable = {.name = "salt", .size_bytes = 4};
static const rota_kernel mix_split = {.name = "mix_split",
                                      .param_bytes = 4,
                                      .bindables = &salt_bindable,
                                      .bindable_count = 1,
                                      .cpu = {mix_run, mix_items}};
static const rota_kernel mix_whole = {.name = "mix_whole",
                                      .param_bytes = 4,
                                      .bindables = &salt_bindable,
                                      .bindable_count = 1,
                                      .cpu = {mix_whole_run, NULL}};

/* Counts its runs in operand 0, atomically. */
static inline rota_status count_run(const rota_kernel_call *call) {
    ra_fetch_add_relaxed((_Atomic uint32_t *)call->operands[0], 1);
    return ROTA_OK;
}
static const rota_kernel count_kernel = {.name = "count", .cpu = {.fn = count_run}};

#endif
