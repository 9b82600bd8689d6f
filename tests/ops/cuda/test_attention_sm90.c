/* Hopper's gradient of attention without a device: what it takes, what it works with, and that it is measured beside
 * cuDNN's and rota's other kernels. Stand-ins for cuDNN and the driver take their places, and count. What it computes:
 * test_attention_device.c. */
#include "ops/cuda/attention_cudnn_backward.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <stdlib.h>
#include <string.h>
#include "ops/attention.h"
#include "ops/cuda/attention_sm90.h"
#include "ops/kernel_objects.h"
#include "ops/tensor.h"
#include "tests/ops/cuda/hopper.h"
#include "tests/ops/cuda/standins.h"

static struct {
    bool *refuses;
    double *run_ms, *launch_ms;
    uint32_t *runs;
    int *launches;
} standin;
static char some_stream;
enum { CUDNN_WORKSPACE = 16 << 20 }; /* much more than Hopper's way takes here */

static int open_standins(void **state) {
    (void)state;
    standins s;
    if (!standins_open(&s)) return -1;
    standin.refuses = standin_symbol(s.cudnn, "standin_refuses");
    standin.run_ms = standin_symbol(s.cudnn, "standin_run_ms");
    standin.runs = standin_symbol(s.cudnn, "standin_runs");
    standin.launches = standin_symbol(s.cuda, "standin_launches");
    standin.launch_ms = standin_symbol(s.cuda, "standin_launch_ms");
    *(bool *)standin_symbol(s.cudnn, "standin_idle") = true;
    *(int64_t *)standin_symbol(s.cudnn, "standin_workspace_bytes") = CUDNN_WORKSPACE;
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
    p = params_of(64, 64, 2048, 2048, 64); /* 2 GiB of sums */
    assert_false(rota_attention_sm90_takes(&p, &hopper));
    rota_cuda_target other = hopper;
    other.compute_capability = 100;
    assert_false(rota_attention_sm90_takes(&good, &other));
    other = hopper, other.shared_bytes_max = 100 << 10;
    assert_false(rota_attention_sm90_takes(&good, &other));
}

/* Shares are as many as keep the device busy, and no more than there are key blocks. */
static void test_splits(void **state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 4, 11, 16, 32, 100, 4000},
                          lengths[] = {1, 100, 128, 129, 500, 1024, 4096};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const rota_attention_backward_params p = params_of(batches[b], 12, lengths[i], lengths[i], 64);
            const uint64_t tiles = (lengths[i] + 127) / 128, all = tiles * batches[b] * 12;
            if (!rota_attention_sm90_takes(&p, &hopper)) {
                assert_int_equal(rota_attention_sm90_workspace(&p, &hopper), 0);
                continue;
            }
            const uint32_t splits = rota_attention_sm90_splits(&p, &hopper);
            assert_in_range(splits, 1, tiles);
            if (batches[b] * 12 >= 132 * 8 || tiles == 1) assert_int_equal(splits, 1);
            assert_int_equal(rota_attention_sm90_workspace(&p, &hopper),
                             all * (splits * 128u * 64 * 4 + 2 * 128 * 4));
        }
    const rota_attention_backward_params few = params_of(1, 12, 1024, 1024, 64);
    assert_true(rota_attention_sm90_splits(&few, &hopper) >= 4);
}

/* ---- The choice ---- */

typedef struct node {
    rota_attention_backward_params p;
    uint64_t operands[ROTA_ATTENTION_BACKWARD_OPERANDS + 1], bytes[ROTA_ATTENTION_BACKWARD_OPERANDS + 1];
    rota_cuda_call call;
} node;

/* One block of keys, and so one share: two launches, where rota's other kernels are three. */
static void node_open(node *n, uint32_t batch) {
    *n = (node){.p = params_of(batch, 8, 128, 128, 64)};
    const uint64_t all = (uint64_t)batch * 8 * 128 * 64 * 2, row = (uint64_t)batch * 8 * 128 * 4;
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
    assert_int_equal(rota_attention_sm90_splits(&n->p, &hopper), 1);
    *standin.launch_ms = 1;
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
        cmocka_unit_test(test_takes),    cmocka_unit_test(test_splits),        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_odd_call), cmocka_unit_test(test_without_cudnn),
    };
    if (!rota_kernels_have_cuda_images()) return 77;
    return cmocka_run_group_tests(tests, open_standins, NULL);
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
