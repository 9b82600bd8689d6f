/* See vk_support.h. */
#include "tests/exec/vk_support.h"
#include "base/clock.h"
#include "graph/graph.h"
#include <sched.h>
#include <stdlib.h>

test_program *test_program_new(uint32_t queue_count, uint32_t memory_count, uint32_t block_words) {
    test_program *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->desc = (rota_exec_program_desc){
        .name = "test",
        .queue_count = queue_count,
        .memory_count = memory_count,
        .block_words = block_words,
        .commands = p->commands,
        .operands = p->operands,
        .bindings = p->bindings,
        .batches = p->batches,
        .segments = p->segments,
        .first_successor = p->no_edges,
        .successor = p->no_edges,
        .predecessor_count = p->no_edges,
    };
    return p;
}

void test_program_segment(test_program *p, uint32_t queue) {
    p->segments[p->desc.segment_count++] = (rota_exec_segment){
        .queue = queue, .first_batch = p->desc.batch_count, .first_command = p->desc.command_count};
}

void test_program_batch(test_program *p) {
    p->segments[p->desc.segment_count - 1].batch_count++;
    p->batches[p->desc.batch_count++] = (rota_exec_batch){.first_command = p->desc.command_count};
}

static rota_exec_command *command(test_program *p, uint8_t kind) {
    if (p->desc.command_count == PROGRAM_MAX) abort();
    rota_exec_command *c = &p->commands[p->desc.command_count];
    *c = (rota_exec_command){.node = p->desc.command_count,
                             .kind = kind,
                             .first_operand = p->desc.operand_count,
                             .first_binding = p->desc.binding_count};
    p->desc.command_count++;
    p->segments[p->desc.segment_count - 1].command_count++;
    p->batches[p->desc.batch_count - 1].command_count++;
    return c;
}

rota_exec_command *test_program_kernel(test_program *p, const rota_kernel *kernel, const void *params) {
    rota_exec_command *c = command(p, ROTA_EXEC_COMMAND_KERNEL);
    c->u.kernel.kernel = kernel;
    c->u.kernel.params = params;
    c->u.kernel.groups[0] = c->u.kernel.groups[1] = c->u.kernel.groups[2] = 1;
    return c;
}

rota_exec_command *test_program_copy(test_program *p) {
    return command(p, ROTA_EXEC_COMMAND_COPY);
}

rota_exec_command *test_program_fill(test_program *p, uint32_t pattern) {
    rota_exec_command *c = command(p, ROTA_EXEC_COMMAND_FILL);
    c->u.fill.pattern = pattern;
    return c;
}

void test_program_operand(test_program *p, uint32_t memory, bool is_slot, uint64_t offset, uint64_t size,
                          uint8_t mode) {
    p->commands[p->desc.command_count - 1].operand_count++;
    rota_exec_operand *operand = &p->operands[p->desc.operand_count++];
    *operand = rota_exec_operand_at(memory, offset, size, (rota_access_mode)mode);
    operand->is_slot = is_slot;
}

void test_program_binding(test_program *p, uint32_t bindable, uint32_t word) {
    p->commands[p->desc.command_count - 1].binding_count++;
    p->bindings[p->desc.binding_count++] = (rota_exec_binding){.bindable = bindable, .word = word};
}

static void on_advanced(void *user, uint32_t queue, uint64_t value) {
    test_host *host = user;
    if (atomic_load(&host->reached[queue]) >= value) atomic_fetch_add(&host->descending, 1);
    atomic_store(&host->reached[queue], value);
    atomic_fetch_add(&host->calls, 1);
}

static void on_lost(void *user, rota_status status, const char *message) {
    (void)status;
    (void)message;
    atomic_fetch_add(&((test_host *)user)->lost, 1);
}

rota_exec_open_options test_vk_options(test_host *host, uint32_t queue_count) {
    return (rota_exec_open_options){
        .host = {.user = host, .advanced = on_advanced, .lost = on_lost},
        .queue_count = queue_count,
        .transfer_queue = queue_count > 1 ? queue_count - 1 : UINT32_MAX,
        .cache_dir = "",
        .validation = true,
    };
}

bool test_host_wait(test_host *host, uint32_t queue, uint64_t value) {
    uint64_t deadline = rota_deadline_after(10000000000ull);
    while (atomic_load(&host->reached[queue]) < value) {
        if (rota_clock_ns() > deadline) return false;
        sched_yield();
    }
    return true;
}
