/* Hopper's gradient of attention without a device: what it takes, what it works with, and that it is measured beside
 * cuDNN's and rota's other kernels. Stand-ins for cuDNN and the driver take their places, and count. What it computes:
 * test_attention_device.c. */
#include "ops/cuda/attention_cudnn_backward.h"
#include "tests/kit/random.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <stdlib.h>
#include <string.h>
#include "ops/attention.h"
#include "ops/cuda/attention_sm90.h"
#include "ops/cuda/attention_sm90_shares.h"
#include "ops/kernel_objects.h"
#include "ops/tensor.h"
#include "tests/ops/cuda/hopper.h"
#include "tests/ops/cuda/standins.h"

static standins standin;
static char some_stream;
enum { CUDNN_WORKSPACE = 16 << 20 }; /* much more than Hopper's way takes here */

static int open_standins(void **state) {
    (void)state;
    if (!standins_open(&standin)) return -1;
    *standin.idle = true;
    *standin.workspace_bytes = CUDNN_WORKSPACE;
    return 0;
}

/* Rows of heads side by side. */
static rota_attention_backward_params params_of(uint32_t batch, uint32_t heads, uint32_t queries,
                                                uint32_t keys, uint32_t dim) {
    const uint32_t row = heads * dim;
    return (rota_attention_backward_params){
        .batch = batch,
        .heads = heads,
        .queries = queries,
        .keys = keys,
        .dim = dim,
        .flags = ROTA_ATTENTION_CAUSAL | ROTA_ATTENTION_ALIGNED_16 |
                 (uint32_t)ROTA_BF16 << ROTA_ATTENTION_DTYPE_SHIFT,
        .scale = 0.125f,
        .q_stride = {queries * row, dim, row},
        .kv_stride = {keys * row, dim, row},
        .out_stride = {queries * row, dim, row},
    };
}

static void test_takes(void **state) {
    (void)state;
    const rota_attention_backward_params good = params_of(2, 8, 200, 300, 64);
    assert_true(rota_attention_sm90_takes(&good, &hopper));
    rota_attention_backward_params p = good;
    p.flags = ROTA_ATTENTION_ALIGNED_16 | (uint32_t)ROTA_F16 << ROTA_ATTENTION_DTYPE_SHIFT;
    assert_true(rota_attention_sm90_takes(&p, &hopper));
    p.flags = ROTA_ATTENTION_ALIGNED_16 | (uint32_t)ROTA_F32 << ROTA_ATTENTION_DTYPE_SHIFT;
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    p = good, p.flags &= ~ROTA_ATTENTION_ALIGNED_16;
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    p = params_of(2, 8, 200, 300, 48);
    assert_true(rota_attention_sm90_takes(&p, &hopper));
    p = params_of(2, 8, 200, 300, 60);
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    p = params_of(2, 8, 200, 300, 72);
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    p = params_of(2, 8, 300, 200, 64); /* the first queries see no key */
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    p.flags &= ~ROTA_ATTENTION_CAUSAL;
    assert_true(rota_attention_sm90_takes(&p, &hopper));
    for (int tensor = 0; tensor < 3; tensor++)
        for (int axis = 0; axis < 3; axis++) {
            p = good;
            uint32_t *stride = (tensor == 0 ? p.q_stride : tensor == 1 ? p.kv_stride : p.out_stride) + axis;
            *stride += 4; /* rows between multiples of 16 bytes */
            assert_false(rota_attention_sm90_takes(&p, &hopper));
            *stride = 0; /* rows that repeat */
            assert_false(rota_attention_sm90_takes(&p, &hopper));
            p.batch = p.heads = 1;
            assert_int_equal(rota_attention_sm90_takes(&p, &hopper), axis < 2);
        }
    p = params_of(8, 8, 65536, 65536, 64); /* 1 GiB of sums */
    assert_true(rota_attention_sm90_takes(&p, &hopper));
    p = params_of(9, 8, 65536, 65536, 64);
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    rota_cuda_target other = hopper;
    other.compute_capability = 100;
    assert_false(rota_attention_sm90_takes(&good, &other));
    other = hopper, other.shared_bytes_max = 100 << 10;
    assert_false(rota_attention_sm90_takes(&good, &other));
}

/* ---- Shares ---- */

/* Blocks of threads that work off their shares, as attention_walk of the kernels does. */
typedef struct worker {
    uint32_t entry, end, group, tile;
} worker;
typedef struct work {
    const rota_attention_backward_params *p;
    rota_attention_sm90_shares shares;
    uint32_t blocks, tiles, workers;
    uint8_t *taken;  /* of each pair's blocks of keys */
    uint32_t *turns; /* of each pair's tiles: additions so far */
    worker *of;
} work;

enum { NO_TILE = -1 };

static uint32_t first_tile(const rota_attention_backward_params *p, uint32_t block) {
    const uint32_t behind = p->keys - p->queries;
    return p->flags & ROTA_ATTENTION_CAUSAL && block * 128 > behind ? (block * 128 - behind) / 128 : 0;
}

static void work_open(work *w, const rota_attention_backward_params *p, uint32_t at_once) {
    rota_cuda_target target = hopper;
    target.multiprocessors = at_once;
    if (p->queries % 2) target.l2_bytes = 0; /* two at a pair wherever it can be */
    *w = (work){.p = p, .blocks = (p->keys + 127) / 128, .tiles = (p->queries + 127) / 128};
    rota_attention_sm90_share(p, &target, &w->shares);
    const rota_attention_sm90_shares *s = &w->shares;
    const uint32_t launched = rota_attention_sm90_share_blocks(p, &target, s);
    w->workers = (s->divided + s->group_pairs - 1) / s->group_pairs * s->group_blocks;
    assert_in_range(launched, w->workers, at_once); /* they wait for one another */
    w->taken = test_calloc(s->divided * w->blocks + 1u, 1);
    w->turns = test_calloc(s->divided * w->tiles + 1u, sizeof *w->turns);
    w->of = test_calloc(w->workers + 1u, sizeof *w->of);
    for (uint32_t i = 0; i < w->workers; i++)
        w->of[i] = (worker){.entry = s->begin[i % s->group_blocks],
                            .end = s->begin[i % s->group_blocks + 1],
                            .group = i / s->group_blocks,
                            .tile = (uint32_t)NO_TILE};
}

static void work_close(work *w) {
    test_free(w->taken), test_free(w->turns), test_free(w->of);
}

/* Additions to the tile that come before the block's. */
static uint32_t rank_of(const work *w, uint32_t number, uint32_t tile) {
    const uint16_t *order = w->shares.order + (size_t)(number / w->blocks) * w->blocks;
    uint32_t rank = 0;
    for (uint32_t other = 0; other < w->blocks; other++)
        rank += first_tile(w->p, other) <= tile && order[other] < w->shares.order[number];
    return rank;
}

/* As far as the turns let it. False: it went nowhere. */
static bool go_on(work *w, worker *one) {
    bool moved = false;
    for (; one->entry < one->end; one->entry++) {
        const uint32_t number = w->shares.entry[one->entry], block = number % w->blocks,
                       pair = one->group * w->shares.group_pairs + number / w->blocks;
        if (pair >= w->shares.divided) continue;
        if (one->tile == (uint32_t)NO_TILE) {
            one->tile = first_tile(w->p, block);
            assert_int_equal(w->taken[pair * w->blocks + block]++, 0);
        }
        for (; one->tile < w->tiles; one->tile++) {
            uint32_t *turn = &w->turns[pair * w->tiles + one->tile];
            if (*turn != rank_of(w, number, one->tile)) return moved;
            ++*turn;
            moved = true;
        }
        one->tile = (uint32_t)NO_TILE;
    }
    return moved;
}

/* Each block of keys is somebody's, and whoever waits for a turn gets it. */
static void expect_shares(const rota_attention_backward_params *p, uint32_t at_once) {
    work w;
    work_open(&w, p, at_once);
    const uint64_t pairs = (uint64_t)p->batch * p->heads;
    assert_in_range(w.shares.each, 1, 2);
    assert_true(w.shares.divided == 0 || w.shares.divided == pairs % (at_once / w.shares.each));
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < w.workers; i++) moved = go_on(&w, &w.of[i]) || moved;
    }
    for (uint32_t i = 0; i < w.workers; i++) assert_int_equal(w.of[i].entry, w.of[i].end);
    for (uint32_t i = 0; i < w.shares.divided * w.blocks; i++) assert_int_equal(w.taken[i], 1);
    work_close(&w);
}

static void test_shares(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 300; i++) {
        const uint32_t queries = 1 + (uint32_t)test_below(&seed, 2000),
                       keys = queries + (i % 2 ? 0 : (uint32_t)test_below(&seed, 2000)),
                       at_once = i % 3 ? 132 : 1 + (uint32_t)test_below(&seed, 132);
        rota_attention_backward_params p = params_of(1 + (uint32_t)test_below(&seed, 40),
                                                     1 + (uint32_t)test_below(&seed, 12), queries, keys, 64);
        if (i % 5 == 0) p.flags &= ~ROTA_ATTENTION_CAUSAL;
        expect_shares(&p, at_once);
    }
    const rota_attention_backward_params longest = params_of(1, 2, 65536, 65536, 64),
                                         too_long = params_of(1, 2, 65537, 65537, 64);
    expect_shares(&longest, 132);
    expect_shares(&too_long, 132);
}

/* GPT-2's: nobody has much more than the others. */
static void test_even_shares(void **state) {
    (void)state;
    static const uint32_t batches[] = {4, 8, 16, 32}, of_36_tiles[] = {14, 27, 17, 16};
    for (int i = 0; i < 4; i++) {
        const rota_attention_backward_params p = params_of(batches[i], 12, 1024, 1024, 64);
        rota_attention_sm90_shares s;
        rota_attention_sm90_share(&p, &hopper, &s);
        for (uint32_t share = 0; share < s.group_blocks; share++) {
            uint32_t tiles = 0;
            for (uint32_t entry = s.begin[share]; entry < s.begin[share + 1]; entry++)
                tiles += 8 - s.entry[entry] % 8u;
            assert_in_range(tiles, 1, of_36_tiles[i]);
        }
    }
}

static void test_workspace(void **state) {
    (void)state;
    const uint64_t tile = 1032, sums = 32768; /* bytes: of stats and turns; of f32 */
    const rota_attention_backward_params few = params_of(4, 12, 1024, 1024, 64),
                                         two_at_each = params_of(32, 12, 1024, 1024, 64),
                                         one_at_each = params_of(64, 6, 256, 256, 64),
                                         too_many_for_two = params_of(128, 12, 1024, 1024, 64);
    assert_int_equal(rota_attention_sm90_workspace(&few, &hopper), UINT64_C(384) * (tile + sums));
    assert_int_equal(rota_attention_sm90_workspace(&two_at_each, &hopper), UINT64_C(3072) * (tile + sums));
    assert_int_equal(rota_attention_sm90_workspace(&one_at_each, &hopper),
                     UINT64_C(768) * tile + UINT64_C(264) * sums);
    assert_int_equal(rota_attention_sm90_workspace(&too_many_for_two, &hopper),
                     UINT64_C(12288) * tile + UINT64_C(1728) * sums);
    rota_cuda_target says_nothing = hopper;
    says_nothing.multiprocessors = 0;
    assert_int_equal(rota_attention_sm90_workspace(&few, &says_nothing), UINT64_C(384) * tile + 8 * sums);
    const rota_attention_backward_params none = params_of(4, 12, 1024, 1024, 72);
    assert_int_equal(rota_attention_sm90_workspace(&none, &hopper), 0);
}

/* ---- The choice ---- */

typedef struct node {
    rota_attention_backward_params p;
    uint64_t operands[ROTA_ATTENTION_BACKWARD_OPERANDS + 1], bytes[ROTA_ATTENTION_BACKWARD_OPERANDS + 1];
    rota_cuda_call call;
} node;

/* Two launches, where rota's other kernels are three. */
static void node_open_of(node *n, uint32_t batch, uint32_t rows) {
    *n = (node){.p = params_of(batch, 8, rows, rows, 64)};
    const uint64_t all = (uint64_t)batch * 8 * rows * 64 * 2, row = (uint64_t)batch * 8 * rows * 4;
    for (uint32_t i = 0; i < ROTA_ATTENTION_BACKWARD_OPERANDS; i++)
        n->bytes[i] = i == ROTA_ATTENTION_BACKWARD_LSE     ? row
                      : i == ROTA_ATTENTION_BACKWARD_STATS ? 2 * row
                                                           : all;
    n->bytes[ROTA_ATTENTION_BACKWARD_OPERANDS] =
        rota_kernel_attention_backward.cuda.workspace(&n->p, n->bytes, &hopper);
    for (uint32_t i = 0; i <= ROTA_ATTENTION_BACKWARD_OPERANDS; i++) {
        void *memory = aligned_alloc(64, (n->bytes[i] + 127) / 64 * 64);
        assert_non_null(memory);
        n->operands[i] = (uint64_t)(uintptr_t)memory;
    }
    n->call = (rota_cuda_call){.target = &hopper,
                               .stream = &some_stream,
                               .operands = n->operands,
                               .operand_bytes = n->bytes,
                               .operand_count = ROTA_ATTENTION_BACKWARD_OPERANDS + 1,
                               .params = &n->p};
    *standin.launch_ms = 1;
}

static void node_open(node *n, uint32_t batch) {
    node_open_of(n, batch, 128);
}

static void node_close(node *n) {
    for (uint32_t i = 0; i <= ROTA_ATTENTION_BACKWARD_OPERANDS; i++)
        free((void *)(uintptr_t)(n->operands[i] & ~UINT64_C(63)));
}

static void tune(node *n) {
    assert_ok(rota_kernel_attention_backward.cuda.tune(&n->call));
}

/* A call is so many runs of cuDNN's and launches of rota's. */
static void expect(node *n, uint32_t runs, int launches) {
    const uint32_t runs_before = *standin.runs;
    const int launches_before = *standin.launches;
    assert_ok(rota_kernel_attention_backward.cuda.call(&n->call));
    assert_int_equal(*standin.runs - runs_before, runs);
    assert_int_equal(*standin.launches - launches_before, launches);
}

enum { SM90_LAUNCHES = 2, ROTA_LAUNCHES = 3 };

static void test_choice(void **state) {
    (void)state;
    for (uint32_t fast = 0; fast < 2; fast++) {
        node n;
        node_open(&n, 4 + fast);
        *standin.run_ms = fast ? 1.9 : 2.1;
        assert_int_equal(n.bytes[ROTA_ATTENTION_BACKWARD_OPERANDS], CUDNN_WORKSPACE);
        tune(&n);
        expect(&n, fast, fast ? 0 : SM90_LAUNCHES);
        assert_int_equal(rota_kernel_attention_backward.cuda.workspace(&n.p, n.bytes, &hopper),
                         fast ? CUDNN_WORKSPACE : rota_attention_sm90_workspace(&n.p, &hopper));
        *standin.run_ms = fast ? 9 : 0.1;
        const int launches = *standin.launches;
        tune(&n); /* what was measured stays */
        assert_int_equal(*standin.launches, launches);
        expect(&n, fast, fast ? 0 : SM90_LAUNCHES);
        n.call.again = true; /* the call failed */
        expect(&n, 0, ROTA_LAUNCHES);
        node_close(&n);
    }
}

/* Blocks of threads that wait for one another are launched so that they run at the same time. */
static void test_together(void **state) {
    (void)state;
    for (uint32_t divided = 0; divided < 2; divided++) {
        node n;
        node_open_of(&n, 9, divided ? 1024 : 128);
        *standin.run_ms = 9;
        tune(&n);
        const int before = *standin.together;
        expect(&n, 0, SM90_LAUNCHES);
        assert_int_equal(*standin.together - before, divided);
        node_close(&n);
    }
}

/* Operands that begin where the copy engine can't, or too little memory: rota's other kernels. */
static void test_odd_call(void **state) {
    (void)state;
    node n;
    node_open(&n, 6);
    *standin.run_ms = 9;
    tune(&n);
    expect(&n, 0, SM90_LAUNCHES);
    for (uint32_t i = 0; i <= ROTA_ATTENTION_BACKWARD_OPERANDS; i++) {
        n.operands[i] += 8;
        expect(&n, 0, ROTA_LAUNCHES);
        n.operands[i] -= 8;
    }
    n.bytes[ROTA_ATTENTION_BACKWARD_OPERANDS] = rota_attention_sm90_workspace(&n.p, &hopper) - 16;
    expect(&n, 0, ROTA_LAUNCHES);
    node_close(&n);
}

/* cuDNN has no engine for it: the node is one call all the same, measured or not. */
static void test_without_cudnn(void **state) {
    (void)state;
    for (uint32_t measured = 0; measured < 2; measured++) {
        node n;
        *standin.refuses = true;
        node_open(&n, 7 + measured);
        assert_false(rota_cuda_attention_backward_by_cudnn(&n.p, 0, &hopper));
        rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
        const rota_kernel *kernel = &rota_kernel_attention_backward;
        assert_int_equal(kernel->parts(ROTA_EXEC_CUDA, &n.p, n.bytes, 0, &hopper, parts), 0);
        assert_int_equal(kernel->parts(ROTA_EXEC_CUDA, &n.p, n.bytes, 1, &hopper, parts),
                         3); /* from a slot */
        if (measured) tune(&n);
        expect(&n, 0, SM90_LAUNCHES);
        *standin.refuses = false;
        expect(&n, 0, SM90_LAUNCHES);
        node_close(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes),       cmocka_unit_test(test_shares),
        cmocka_unit_test(test_even_shares), cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_choice),      cmocka_unit_test(test_odd_call),
        cmocka_unit_test(test_together),    cmocka_unit_test(test_without_cudnn),
    };
    if (!rota_kernels_have_cuda_images()) return 77;
    return cmocka_run_group_tests(tests, open_standins, NULL);
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
