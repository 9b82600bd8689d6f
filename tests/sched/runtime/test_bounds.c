/* Nothing is read or written beyond the end of a block, nor of one that was freed: each block of the heap and
 * of an arena ends where a page begins that nobody may touch, and so it is once freed. Linked with --wrap for
 * the heap's and the arenas' calls. */
#include "tests/exec/vk/exec_vk_kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

/* ---- Blocks ---- */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);
void *__real_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment);
void *__wrap_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment);
void *__real_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment);
void *__wrap_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment);

/* Addresses are used once. Those of an arena's blocks are never given back. */
#define AREA_BYTES ((size_t)4 << 30)

static uint8_t *area; /* NULL: blocks come from where they always do */
/* Of aligned blocks: it stays, as the library keeps some of them for what comes later. */
static uint8_t *lasting;
static size_t page;
static _Atomic uint64_t used_bytes, lasting_bytes, blocks;

typedef struct block_head {
    size_t bytes, pages; /* pages: with that of the head, without the one behind it */
} block_head;

static void *block_in(uint8_t *from, _Atomic uint64_t *used, size_t bytes, size_t alignment) {
    if (bytes > AREA_BYTES / 2) return NULL;
    const size_t pages = (sizeof(block_head) + bytes + alignment + page - 1) / page;
    const uint64_t offset = ra_fetch_add_relaxed(used, (pages + 1) * page);
    if (offset + (pages + 1) * page > AREA_BYTES) return NULL;
    if (mprotect(from + offset, pages * page, PROT_READ | PROT_WRITE) != 0) return NULL;
    uint8_t *block = from + offset + pages * page - bytes;
    block -= (uintptr_t)block % alignment;
    memcpy(block - sizeof(block_head), &(block_head){bytes, pages}, sizeof(block_head));
    ra_fetch_add_relaxed(&blocks, 1);
    return block;
}

static void *new_block(size_t bytes, size_t alignment) {
    return block_in(area, &used_bytes, bytes, alignment);
}

static bool is_in(const uint8_t *from, const void *block) {
    return from && (const uint8_t *)block > from && (const uint8_t *)block <= from + AREA_BYTES;
}

static bool is_ours(const void *block) {
    return is_in(area, block) || is_in(lasting, block);
}

static block_head head_of(const void *block) {
    block_head head;
    memcpy(&head, (const uint8_t *)block - sizeof head, sizeof head);
    return head;
}

/* Of the heap's blocks a type of at most 8 bytes' alignment ends exactly at the page, any other one within 8
 * bytes of it. */
static size_t alignment_of(size_t bytes) {
    return bytes % 16 ? 8 : 16;
}

void *__wrap_malloc(size_t bytes) {
    return area ? new_block(bytes, alignment_of(bytes)) : __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
    if (!area || (bytes && count > SIZE_MAX / bytes)) return __real_calloc(count, bytes);
    return new_block(count * bytes, alignment_of(count * bytes)); /* fresh pages are 0 */
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    if (!area || alignment > page) return __real_aligned_alloc(alignment, bytes);
    return block_in(lasting, &lasting_bytes, bytes, alignment);
}
void __wrap_free(void *block) {
    if (!is_ours(block)) {
        __real_free(block);
        return;
    }
    const size_t bytes = head_of(block).pages * page;
    uint8_t *begin = (uint8_t *)(((uintptr_t)block + head_of(block).bytes + page - 1) / page * page) - bytes;
    (void)madvise(begin, bytes, MADV_DONTNEED);
    (void)mprotect(begin, bytes, PROT_NONE);
}
void *__wrap_realloc(void *block, size_t bytes) {
    if (!area || (block && !is_ours(block))) return __real_realloc(block, bytes);
    void *grown = new_block(bytes, alignment_of(bytes));
    if (!grown || !block) return grown;
    memcpy(grown, block, head_of(block).bytes < bytes ? head_of(block).bytes : bytes);
    __wrap_free(block);
    return grown;
}
void *__wrap_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment) {
    return area ? new_block(size, alignment) : __real_rota_arena_alloc(arena, size, alignment);
}
void *__wrap_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment) {
    return area ? new_block(size, alignment) : __real_rota_arena_calloc(arena, size, alignment);
}

static uint8_t *reserve(void) {
    uint8_t *reserved = mmap(NULL, AREA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(reserved != MAP_FAILED);
    return reserved;
}

/* Blocks of what a test makes from now on; all of it but what is aligned ends before blocks_end. */
static void blocks_begin(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (!lasting) lasting = reserve();
    uint8_t *reserved = reserve();
    ra_store_relaxed(&used_bytes, 0);
    ra_store_relaxed(&blocks, 0);
    area = reserved;
}

/* At least so many were made. */
static void blocks_end(uint64_t least) {
    uint8_t *reserved = area;
    area = NULL;
    assert_int_equal(munmap(reserved, AREA_BYTES), 0);
    print_message("%llu blocks\n", (unsigned long long)ra_load_relaxed(&blocks));
    assert_true(ra_load_relaxed(&blocks) >= least);
}

/* ---- What must stay inside ---- */

/* Many readers of one range, so that the certificate proves them together, then writers of it; beside it
 * ranges, transients that hand their memory on, and accumulates; and of what outlives the plan, `kept`, a
 * part that is read, one that is written beside it, and a read of both. */
static rota_graph *record(rota_buffer *kept) {
    enum { READERS = 80 };
    static const rota_kernel read = {.name = "read", .operand_count = 2};
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *x, *out, *t;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "x", BYTES, &x));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", BYTES, &out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, out, 0, BYTES, 0, NULL));
    for (uint32_t round = 0; round < 3; round++) {
        assert_ok(rota_record_fill(recorder, x, 0, BYTES / 2, round, NULL));
        assert_ok(rota_record_fill(recorder, x, BYTES / 2, BYTES / 2, round, NULL));
        for (uint32_t i = 0; i < READERS; i++) {
            const rota_access accesses[] = {
                {x, 0, BYTES, ROTA_READ},
                {out, (uint64_t)i * 4, 4, round == 2 ? ROTA_ACCUMULATE : ROTA_WRITE}};
            assert_ok(rota_record_kernel(
                recorder, &ROTA_KERNEL_NODE(.kernel = &read, .accesses = accesses, .access_count = 2), NULL));
        }
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", BYTES, &t));
        assert_ok(rota_record_copy(recorder, t, 0, x, 0, BYTES, NULL));
        assert_ok(rota_record_copy(recorder, x, 0, t, 0, BYTES / 4, NULL));
    }
    const rota_access beside[] = {{kept, 0, BYTES / 2, ROTA_READ}, {kept, BYTES / 2, BYTES / 2, ROTA_WRITE}};
    const rota_access both[] = {{kept, 0, BYTES, ROTA_READ}, {out, 0, 4, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &read, .accesses = beside, .access_count = 2), NULL));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &read, .accesses = both, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    return graph;
}

static void of_a_compile(void **state) {
    (void)state;
    for (uint32_t queues = 1; queues <= 3; queues++)
        for (int tight = 0; tight < 2; tight++) {
            rota_plan *plan;
            blocks_begin();
            rota_buffer *kept;
            assert_ok(rota_buffer_create("kept", BYTES, &kept));
            rota_graph *graph = record(kept);
            const rota_compile_options options =
                ROTA_COMPILE_OPTIONS(.queues = queues,
                                     .packing = tight ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT,
                                     .certify = true);
            assert_ok(rota_compile(NULL, graph, &options, &plan));
            rota_plan_release(plan);
            rota_graph_release(graph);
            rota_buffer_release(kept);
            blocks_end(100);
        }
}

/* More touches than one pool of descriptors has sets for. */
static void of_an_instance_in_touch_mode(void **state) {
    (void)state;
    enum { LENGTH = 300 };
    static const contract_step_params params = {COUNT, 1, 0};
    blocks_begin();
    fixture *f = open_as(&(rota_exec_open_options){.touch = true}, false);
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    for (uint32_t i = 0; i < 2 * COUNT; i++) ((uint32_t *)memories[0]->host)[i] = 5;
    test_program *p = chain_program(LENGTH, &params);
    loaded l = load(f, p, memories);
    for (uint32_t i = 0; i < 2; i++) {
        const rota_exec_work one = work(f, l, 0, 0, NULL, 0, NULL);
        submit(f, &one, 1);
        wait_for(f, 0);
    }
    for (uint32_t i = 0; i < 2 * COUNT; i++) /* it touches, and computes nothing */
        assert_int_equal(((const uint32_t *)memories[0]->host)[i], 5);
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    close_quiet(f, false);
    blocks_end(10);
}

static void of_replays(const char *id) {
    enum { WORDS = 256, REPLAYS = 3 };
    blocks_begin();
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &runtime));
    const bool opened = rota_device_open(runtime, id, &device) == ROTA_OK;
    if (opened) {
        rota_buffer *x = test_words(device, "x", WORDS, 5), *y = test_words(device, "y", WORDS, 0);
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        for (uint64_t w = 0; w < WORDS; w += 64)
            assert_ok(rota_record_copy(recorder, y, 4 * w, x, 4 * w, 4 * 64, NULL));
        assert_ok(rota_record_fill(recorder, x, 0, 4 * WORDS, 7, NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                               &plan));
        for (uint32_t i = 0; i < REPLAYS; i++) {
            rota_ticket ticket;
            assert_ok(rota_submit(plan, NULL, &ticket));
            assert_ok(rota_wait(ticket, 0));
            test_expect_words(y, WORDS, i ? 7 : 5);
        }
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(x);
        rota_buffer_release(y);
    } else {
        print_message("no %s: %s\n", id, rota_last_error());
        assert_string_not_equal(id, "cpu");
    }
    assert_ok(rota_runtime_close(runtime, 0));
    blocks_end(opened ? 10 : 0);
    if (!opened) skip();
}

static void of_replays_on_the_cpu(void **state) {
    (void)state;
    of_replays("cpu");
}
static void of_replays_on_vulkan(void **state) {
    (void)state;
    of_replays("vk:0");
}

static bool is_watched(const rota_runtime *runtime, const rota_device *device) {
    for (uint32_t q = 0; q < runtime->queue_count; q++)
        if (ra_load_seq_cst(&device->timelines[q].holders)) return true;
    return false;
}

/* A work is held for another device's; its submit thread watches that one's timelines, sleeps, and then
 * watches none. */
static void of_a_held_work(void **state) {
    (void)state;
    enum { WORDS = 64 };
    static adversary_options options;
    blocks_begin();
    rota_runtime *runtime;
    rota_device *devices[2];
    rota_ticket ticket;
    assert_ok(adversary_runtime_open(&options, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    rota_buffer *x = test_words(devices[0], "x", WORDS, 5), *y = test_words(devices[1], "y", WORDS, 0);
    rota_plan *gate = test_plan_1(devices[0], "gate", &test_gate, x, ROTA_READWRITE);
    const test_node node = {
        &test_copy, "copy", {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *copy = test_plan(devices[1], "copy", &node, 1);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    const uint64_t deadline = rota_deadline_after(5000000000u);
    while (!is_watched(runtime, devices[0]) && rota_clock_ns() < deadline) test_nap_us(100);
    assert_true(is_watched(runtime, devices[0]));
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(y, WORDS, 5);
    rota_plan_release(gate);
    rota_plan_release(copy);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, 0));
    blocks_end(10);
}

/* Whether a byte may be read (an address, as its block may have ended): else a pipe does not take it. */
static __attribute__((noinline)) bool is_readable(const int *pipes, uintptr_t address) {
    uint8_t byte;
    const bool taken = write(pipes[1], (const void *)address, 1) == 1;
    if (taken) assert_int_equal(read(pipes[0], &byte, 1), 1);
    return taken;
}

static void ends_are_guarded(void **state) {
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    blocks_begin();
    for (size_t bytes = 1; bytes <= 3 * page; bytes += bytes < 64 ? 1 : 1021) {
        uint8_t *block = malloc(bytes), *of_arena = __wrap_rota_arena_alloc(NULL, bytes, 8);
        assert_non_null(block);
        assert_non_null(of_arena);
        memset(block, 1, bytes);
        memset(of_arena, 2, bytes);
        const uintptr_t old = (uintptr_t)block, end = old + (bytes + 7) / 8 * 8,
                        arena_end = (uintptr_t)of_arena + (bytes + 7) / 8 * 8;
        assert_true(is_readable(pipes, end - 1) && is_readable(pipes, arena_end - 1));
        assert_false(is_readable(pipes, end) || is_readable(pipes, arena_end));
        uint8_t *aligned = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(aligned);
        assert_int_equal((uintptr_t)aligned % 64, 0);
        const uintptr_t aligned_end = (uintptr_t)aligned + (bytes + 63) / 64 * 64;
        assert_true(is_readable(pipes, aligned_end - 1));
        assert_false(is_readable(pipes, aligned_end));
        free(aligned);
        assert_false(is_readable(pipes, aligned_end - 1));
        block = realloc(block, bytes + 8);
        assert_non_null(block);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(block[i], 1);
        assert_false(is_readable(pipes, old) || is_readable(pipes, end - 1));
        free(block);
    }
    blocks_end(64);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_guarded),
        cmocka_unit_test(of_a_compile),
        cmocka_unit_test(of_an_instance_in_touch_mode),
        cmocka_unit_test(of_replays_on_the_cpu),
        cmocka_unit_test(of_replays_on_vulkan),
        cmocka_unit_test(of_a_held_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
