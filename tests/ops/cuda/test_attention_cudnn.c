/* Attention by cuDNN without a device: stand-ins for cuDNN and the driver take their places, and compute on
 * host memory what is described to them. */
#include "ops/cuda/attention_cudnn_backward.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/graph.h"
#include "ops/attention.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/cudnn_attention.h"
#include "ops/kernel_objects.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/standins.h"

static const rota_cuda_target h200 = {
    .compute_capability = 90, .multiprocessors = 132, .name = "a Hopper GPU"};
/* Any address that is not NULL. */
static char some_stream, some_workspace;

static standins standin;

static int open_standins(void **state) {
    (void)state;
    if (!standins_open(&standin)) return -1;
    *standin.workspace_bytes = 4096;
    return 0;
}

static uint64_t address(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* ---- One attention's memory, and what it should be ---- */

typedef enum layout { BY_HEAD, BY_ROW, PACKED } layout;

typedef struct tensors {
    rota_attention_backward_params p;
    uint32_t v_stride[3];
    uint16_t *q, *k, *v, *out, *dout, *dq, *dk, *dv;
    float *lse, *stats;
} tensors;

static void strides(uint32_t heads, uint32_t rows, uint32_t dim, layout how, uint32_t out[3]) {
    const uint32_t row = heads * dim * (how == PACKED ? 3 : 1);
    out[0] = how == BY_HEAD ? heads * rows * dim : rows * row;
    out[1] = how == BY_HEAD ? rows * dim : dim;
    out[2] = how == BY_HEAD ? dim : row;
}

static float to_float(rota_dtype dtype, uint16_t x) {
    return dtype == ROTA_F16 ? rota_from_f16(x) : rota_from_bf16(x);
}

static uint16_t *fill(rota_dtype dtype, uint64_t count, uint64_t *seed) {
    uint16_t *x = aligned_alloc(64, (count * 2 + 63) / 64 * 64);
    assert_non_null(x);
    for (uint64_t i = 0; seed && i < count; i++) {
        float f = (float)test_below(seed, 2001) / 1000.0f - 1.0f;
        x[i] = dtype == ROTA_F16 ? rota_to_f16(f) : (uint16_t)(rota_f32_bits(f) >> 16);
    }
    if (!seed) memset(x, 0x77, count * 2);
    return x;
}

static tensors make(rota_dtype dtype, bool causal, uint32_t batch, uint32_t heads, uint32_t queries,
                    uint32_t keys, uint32_t dim, layout how) {
    uint64_t seed = 11;
    tensors t = {.p = {.batch = batch,
                       .heads = heads,
                       .queries = queries,
                       .keys = keys,
                       .dim = dim,
                       .scale = 1.0f / sqrtf((float)dim),
                       .flags = (causal ? ROTA_ATTENTION_CAUSAL : 0u) | ROTA_ATTENTION_ALIGNED_16 |
                                (uint32_t)dtype << ROTA_ATTENTION_DTYPE_SHIFT}};
    strides(heads, queries, dim, how, t.p.q_stride);
    strides(heads, keys, dim, how, t.p.kv_stride);
    strides(heads, queries, dim, how == PACKED ? BY_ROW : how, t.p.out_stride);
    const uint64_t most = (uint64_t)batch * heads * (queries > keys ? queries : keys) * dim * 3;
    uint16_t **in[] = {&t.q, &t.k, &t.v, &t.dout}, **out[] = {&t.out, &t.dq, &t.dk, &t.dv};
    for (int i = 0; i < 4; i++) *in[i] = fill(dtype, most, &seed);
    for (int i = 0; i < 4; i++) *out[i] = fill(dtype, most, NULL);
    const size_t bytes = ((size_t)batch * heads * queries * 4 + 63) / 64 * 64;
    t.lse = aligned_alloc(64, bytes);
    t.stats = aligned_alloc(64, bytes);
    assert_non_null(t.lse);
    assert_non_null(t.stats);
    return t;
}

static void drop(tensors *t) {
    uint16_t *all[] = {t->q, t->k, t->v, t->out, t->dout, t->dq, t->dk, t->dv};
    for (int i = 0; i < 8; i++) free(all[i]);
    free(t->lse);
    free(t->stats);
}

static double element(const tensors *t, const uint16_t *x, const uint32_t stride[3], uint32_t b, uint32_t h,
                      uint32_t row, uint32_t column) {
    const uint64_t first = (uint64_t)b * stride[0] + (uint64_t)h * stride[1] + (uint64_t)row * stride[2];
    return (double)to_float((rota_dtype)(t->p.flags >> ROTA_ATTENTION_DTYPE_SHIFT), x[first + column]);
}

static void close_to(const tensors *t, double got, double expected, const char *what) {
    const double unit = t->p.flags >> ROTA_ATTENTION_DTYPE_SHIFT == ROTA_F16 ? 1.0 / 1024 : 1.0 / 128;
    if (!(fabs(got - expected) <= unit * (0.05 + fabs(expected))))
        fail_msg("%s is %g, expected %g", what, got, expected);
}

/* One head, by the formulas of kernel_params.h. */
static void check_head(const tensors *t, uint32_t b, uint32_t h) {
    const rota_attention_backward_params *p = &t->p;
    double *s = calloc(p->keys, sizeof *s), *dk = calloc((size_t)p->keys * p->dim, sizeof *dk),
           *dv = calloc((size_t)p->keys * p->dim, sizeof *dv), *dq = calloc(p->dim, sizeof *dq);
    assert_true(s && dk && dv && dq);
#define QUERY(x, i, c) element(t, t->x, p->q_stride, b, h, i, c)
#define KEY(x, j, c) element(t, t->x, p->kv_stride, b, h, j, c)
#define OUT(x, i, c) element(t, t->x, p->out_stride, b, h, i, c)
    for (uint32_t i = 0; i < p->queries; i++) {
        const uint32_t seen = p->flags & ROTA_ATTENTION_CAUSAL ? i + p->keys - p->queries + 1 : p->keys;
        double sum = 0, delta = 0;
        for (uint32_t j = 0; j < seen; j++) {
            s[j] = 0;
            for (uint32_t c = 0; c < p->dim; c++) s[j] += QUERY(q, i, c) * KEY(k, j, c);
            s[j] = exp(s[j] * (double)p->scale);
            sum += s[j];
        }
        assert_true(fabs((double)t->lse[((uint64_t)b * p->heads + h) * p->queries + i] - log(sum)) < 1e-5);
        for (uint32_t c = 0; c < p->dim; c++) {
            double y = 0;
            for (uint32_t j = 0; j < seen; j++) y += s[j] / sum * KEY(v, j, c);
            close_to(t, OUT(out, i, c), y, "out");
            delta += OUT(out, i, c) * OUT(dout, i, c);
        }
        memset(dq, 0, p->dim * sizeof *dq);
        for (uint32_t j = 0; j < seen; j++) {
            double dp = 0;
            for (uint32_t c = 0; c < p->dim; c++) {
                dp += OUT(dout, i, c) * KEY(v, j, c);
                dv[j * p->dim + c] += s[j] / sum * OUT(dout, i, c);
            }
            const double ds = (double)p->scale * s[j] / sum * (dp - delta);
            for (uint32_t c = 0; c < p->dim; c++) {
                dq[c] += ds * KEY(k, j, c);
                dk[j * p->dim + c] += ds * QUERY(q, i, c);
            }
        }
        for (uint32_t c = 0; c < p->dim; c++) close_to(t, QUERY(dq, i, c), dq[c], "dq");
    }
    for (uint32_t j = 0; j < p->keys; j++)
        for (uint32_t c = 0; c < p->dim; c++) {
            close_to(t, KEY(dk, j, c), dk[j * p->dim + c], "dk");
            close_to(t, KEY(dv, j, c), dv[j * p->dim + c], "dv");
        }
    free(s), free(dk), free(dv), free(dq);
}

static rota_attention_params forward_of(const tensors *t) {
    rota_attention_params f = {.batch = t->p.batch,
                               .heads = t->p.heads,
                               .queries = t->p.queries,
                               .keys = t->p.keys,
                               .dim = t->p.dim,
                               .flags = t->p.flags,
                               .scale = t->p.scale};
    memcpy(f.q_stride, t->p.q_stride, sizeof f.q_stride);
    memcpy(f.k_stride, t->p.kv_stride, sizeof f.k_stride);
    memcpy(f.v_stride, t->p.kv_stride, sizeof f.v_stride);
    memcpy(f.out_stride, t->p.out_stride, sizeof f.out_stride);
    return f;
}

/* Both nodes as the executor calls them, with the workspace that they ask for last. */
static void run_both(tensors *t) {
    const rota_attention_params f = forward_of(t);
    const rota_kernel *kernel = rota_cuda_attention_by_cudnn(&f, 0, &h200);
    assert_non_null(kernel);
    assert_true(rota_cuda_attention_backward_by_cudnn(&t->p, 0, &h200));
    const uint64_t scratch = address(&some_workspace);
    const uint64_t operands[] = {address(t->q),   address(t->k),   address(t->v),
                                 address(t->out), address(t->lse), scratch};
    uint64_t bytes[11] = {0};
    bytes[5] = kernel->cuda.workspace(&f, bytes, &h200);
    assert_int_equal(bytes[5], 4096);
    rota_cuda_call call = {.target = &h200,
                           .stream = &some_stream,
                           .operands = operands,
                           .operand_bytes = bytes,
                           .operand_count = 6,
                           .params = &f};
    assert_ok(kernel->cuda.call(&call));
    assert_ptr_equal(*standin.stream, &some_stream);
    const uint64_t backward[] = {
        address(t->q),     address(t->k),  address(t->v),  address(t->out), address(t->dout), address(t->lse),
        address(t->stats), address(t->dq), address(t->dk), address(t->dv),  scratch};
    memset(bytes, 0, sizeof bytes);
    bytes[10] = rota_kernel_attention_backward.cuda.workspace(&t->p, bytes, &h200);
    call.operands = backward;
    call.operand_count = 11;
    call.params = &t->p;
    assert_ok(rota_kernel_attention_backward.cuda.call(&call));
    bytes[10]--;
    assert_status(rota_kernel_attention_backward.cuda.call(&call), ROTA_INTERNAL);
    assert_int_equal(*standin.pushed, 0);
    assert_int_equal(*standin.retained, 0);
}

static void test_results(void **state) {
    (void)state;
    static const struct {
        rota_dtype dtype;
        bool causal;
        uint32_t batch, heads, queries, keys, dim;
        layout how;
    } cases[] = {
        {ROTA_BF16, true, 2, 8, 128, 128, 64, BY_ROW},
        {ROTA_F16, false, 2, 8, 70, 260, 64, BY_HEAD},
        {ROTA_BF16, true, 3, 8, 100, 150, 64, PACKED},
        {ROTA_F16, true, 1, 64, 80, 80, 48, BY_HEAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensors t = make(cases[i].dtype, cases[i].causal, cases[i].batch, cases[i].heads, cases[i].queries,
                         cases[i].keys, cases[i].dim, cases[i].how);
        run_both(&t);
        check_head(&t, 0, 0);
        check_head(&t, t.p.batch - 1, t.p.heads - 1);
        drop(&t);
    }
}

/* More scores than fit the bound of the workspace: the same results, piece by piece, of some batches or of
 * some heads. */
static void test_pieces(void **state) {
    (void)state;
    static const struct { uint32_t batch, heads, pieces; } cases[] = {{24, 2048, 2}, {1, 43689, 3}};
    for (size_t i = 0; i < 2; i++) {
        tensors t = make(ROTA_F16, true, cases[i].batch, cases[i].heads, 4, 8, 64, BY_ROW);
        const uint32_t before = *standin.runs;
        run_both(&t);
        assert_int_equal(*standin.runs - before, 1 + cases[i].pieces);
        for (uint32_t b = 0; b < t.p.batch; b++)
            for (uint32_t h = 0; h < t.p.heads; h += 331) check_head(&t, b, h);
        check_head(&t, t.p.batch - 1, t.p.heads - 1);
        drop(&t);
    }
}

/* A plan is made once, however often it is asked for. */
static void test_plans_are_kept(void **state) {
    (void)state;
    tensors t = make(ROTA_BF16, false, 1, 16, 128, 128, 64, BY_ROW);
    const rota_attention_params f = forward_of(&t);
    const uint32_t before = *standin.plans;
    for (int i = 0; i < 3; i++) {
        assert_non_null(rota_cuda_attention_by_cudnn(&f, 0, &h200));
        assert_true(rota_cuda_attention_backward_by_cudnn(&t.p, 0, &h200));
    }
    assert_int_equal(*standin.plans - before, 2);
    drop(&t);
}

/* What cuDNN is not asked for, or refuses, is rota's own kernels'. */
static void test_refusals(void **state) {
    (void)state;
    tensors t = make(ROTA_BF16, true, 2, 8, 128, 128, 64, BY_ROW);
    const rota_attention_params good = forward_of(&t);
    assert_non_null(rota_cuda_attention_by_cudnn(&good, 0, &h200));
    assert_null(rota_cuda_attention_by_cudnn(&good, 1u << 3, &h200)); /* an operand from a slot */
    rota_attention_params other = good;
    other.flags &= ~ROTA_ATTENTION_ALIGNED_16;
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    other = good;
    other.flags = ROTA_ATTENTION_ALIGNED_16 | (uint32_t)ROTA_F32 << ROTA_ATTENTION_DTYPE_SHIFT;
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    other = good;
    other.queries = other.keys = 16; /* too little work */
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    other = good;
    other.q_stride[2] += 4; /* rows between multiples of 16 bytes */
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    other = good;
    other.k_stride[1] = 0; /* heads that share keys */
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    other = good;
    other.dim = 60;
    assert_null(rota_cuda_attention_by_cudnn(&other, 0, &h200));
    const rota_cuda_target blackwell = {.compute_capability = 100, .name = "a Blackwell GPU"};
    rota_attention_backward_params backward = t.p;
    backward.scale = 0.5f; /* not asked for yet */
    assert_false(rota_cuda_attention_backward_by_cudnn(&backward, 0, &blackwell));
    char why[ROTA_ERROR_MESSAGE_MAX];
    rota_cudnn_attention about;
    memset(&about, 0, sizeof about);
    about.dtype = ROTA_F16, about.batch = about.heads = 1, about.queries = about.keys = 64, about.dim = 64;
    *standin.refuses = true;
    assert_false(rota_cudnn_attention_takes(&about, &h200, why));
    assert_non_null(strstr(why, "rows at multiples of 16 bytes")); /* heads of one row each */
    for (int i = 0; i < 4; i++) about.stride[i][2] = 64;
    assert_false(rota_cudnn_attention_takes(&about, &h200, why));
    assert_non_null(strstr(why, "no engine"));
    *standin.refuses = false;
    assert_false(rota_cudnn_attention_takes(&about, &h200, why)); /* it was asked once */
    drop(&t);
}

/* ---- The choice between cuDNN and rota's own kernels ---- */

static uint32_t lines, choices; /* warnings, and choices of rota's own kernels */
static char last_line[512];
static void listen(void *user, rota_log_level level, const char *message) {
    (void)user;
    if (level == ROTA_LOG_INFO) {
        assert_non_null(strstr(message, "rota's own kernels are faster than cuDNN's"));
        choices++;
        return;
    }
    assert_int_equal(level, ROTA_LOG_WARNING);
    lines++;
    snprintf(last_line, sizeof last_line, "%s", message);
}

/* A node of each kind, its operands, and a device that listens. */
typedef struct fixture {
    rota_log log;
    rota_cuda_target target;
    tensors t;
    rota_attention_params forward;
    uint64_t operands[11], bytes[11];
    rota_cuda_call call;
    const rota_kernel *kernel;
    int launches; /* of rota's kernels, for all of it */
} fixture;

static void node_open(fixture *n, bool backward, uint32_t batch, uint32_t dim) {
    memset(n, 0, sizeof *n);
    n->log = (rota_log){.fn = listen, .level = ROTA_LOG_DEBUG};
    n->target = h200;
    n->target.driver = "580", n->target.shared_bytes_max = 232448, n->target.log = &n->log;
    n->t = make(ROTA_BF16, true, batch, 4, 256, 256, dim, BY_ROW);
    n->forward = forward_of(&n->t);
    const uint64_t all = (uint64_t)batch * 4 * 256 * dim * 2, row = (uint64_t)batch * 4 * 256 * 4;
    const tensors *t = &n->t;
    const uint64_t scratch = address(aligned_alloc(64, 4096));
    const uint64_t f[] = {address(t->q),   address(t->k),   address(t->v),
                          address(t->out), address(t->lse), scratch};
    const uint64_t b[] = {
        address(t->q),     address(t->k),  address(t->v),  address(t->out), address(t->dout), address(t->lse),
        address(t->stats), address(t->dq), address(t->dk), address(t->dv),  scratch};
    const uint32_t count = backward ? 11 : 6;
    memcpy(n->operands, backward ? b : f, count * sizeof *f);
    for (uint32_t i = 0; i + 1 < count; i++)
        n->bytes[i] = n->operands[i] == address(t->lse) || n->operands[i] == address(t->stats) ? row : all;
    n->bytes[count - 1] = 4096;
    n->call = (rota_cuda_call){.target = &n->target,
                               .stream = &some_stream,
                               .operands = n->operands,
                               .operand_bytes = n->bytes,
                               .operand_count = count,
                               .params = backward ? (const void *)&n->t.p : &n->forward};
    n->kernel =
        backward ? &rota_kernel_attention_backward : rota_cuda_attention_by_cudnn(&n->forward, 0, &n->target);
    n->launches = backward ? 3 : 1;
    assert_non_null(n->kernel);
    assert_true(!backward || rota_cuda_attention_backward_by_cudnn(&n->t.p, 0, &n->target));
    lines = choices = 0;
    *standin.idle = true;
    *standin.run_ms = *standin.launch_ms = 1;
}

static void node_close(fixture *n) {
    *standin.idle = *standin.fails = *standin.unsteady = false;
    free((void *)(uintptr_t)n->operands[n->call.operand_count - 1]);
    drop(&n->t);
}

/* Who does the node's work when its graph is made. */
static void expect(fixture *n, bool by_cudnn) {
    const uint32_t runs = *standin.runs;
    const int launches = *standin.launches;
    assert_ok(n->kernel->cuda.call(&n->call));
    assert_int_equal(*standin.runs - runs, by_cudnn ? 1 : 0);
    assert_int_equal(*standin.launches - launches, by_cudnn ? 0 : n->launches);
}

static void need_images(void) {
    if (!rota_kernels_have_cuda_images()) skip();
}

/* Whichever is measured to be the faster takes it; what is measured stays. */
static void test_choice(void **state) {
    (void)state;
    need_images();
    for (uint32_t i = 0; i < 8; i++) {
        const bool backward = i & 1, slow = i & 2, hopeless = i & 4;
        fixture n;
        node_open(&n, backward, 2 + i, 64);
        *standin.run_ms = !slow ? 0.9 * n.launches : hopeless ? 9.0 : 1.1 * n.launches;
        const uint32_t runs = *standin.runs;
        assert_ok(n.kernel->cuda.tune(&n.call));
        assert_true(*standin.runs - runs < 100);
        assert_int_equal(choices, slow);
        expect(&n, !slow);
        *standin.run_ms = slow ? 0.1 : 10;
        const int launches = *standin.launches;
        assert_ok(n.kernel->cuda.tune(&n.call)); /* again: only to load cuDNN's code */
        assert_int_equal(*standin.launches, launches);
        expect(&n, !slow);
        assert_int_equal(choices, slow);
        assert_int_equal(lines, 0);
        node_close(&n);
    }
}

/* Not measured, for want of memory, say: cuDNN takes it, and goes on doing so. */
static void test_choice_unmeasured(void **state) {
    (void)state;
    fixture n;
    node_open(&n, true, 2, 48);
    expect(&n, true);
    *standin.run_ms = 100;
    assert_ok(n.kernel->cuda.tune(&n.call));
    expect(&n, true);
    node_close(&n);
}

/* A gradient that two runs don't agree on is not taken, fast as it is. */
static void test_unsteady(void **state) {
    (void)state;
    need_images();
    fixture n;
    node_open(&n, true, 2, 56);
    *standin.unsteady = true;
    *standin.run_ms = 0.1;
    assert_ok(n.kernel->cuda.tune(&n.call));
    expect(&n, false);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "same bits"));
    node_close(&n);
}

/* What cuDNN fails to run rota's own kernels do, with one line for a shape; so does a call whose capture was
 * spoilt though cuDNN said nothing. More columns than its kernels keep in 48 KiB of shared memory. */
static void test_failure(void **state) {
    (void)state;
    need_images();
    for (uint32_t i = 0; i < 4; i++) {
        const bool backward = i & 1, tuned = i & 2;
        fixture n;
        node_open(&n, backward, 1 + i, 128);
        *standin.fails = true;
        if (tuned) assert_ok(n.kernel->cuda.tune(&n.call));
        expect(&n, false);
        expect(&n, false);
        *standin.fails = false;
        expect(&n, false);
        assert_int_equal(lines, 1);
        assert_non_null(strstr(last_line, "told to fail"));
        node_close(&n);
        node_open(&n, backward, 6 + i, 128);
        expect(&n, true);
        n.call.again = true;
        expect(&n, false);
        assert_int_equal(lines, 0);
        node_close(&n);
    }
}

/* Views of buffers may begin where cuDNN's kernels would fault. */
static void test_odd_address(void **state) {
    (void)state;
    need_images();
    for (uint32_t i = 0; i < 11; i++) {
        fixture n;
        node_open(&n, i > 4, 12, 64);
        assert_ok(n.kernel->cuda.tune(&n.call));
        n.operands[i > 4 ? i - 1 : i] += 8;
        expect(&n, false);
        n.operands[i > 4 ? i - 1 : i] -= 8;
        expect(&n, true);
        assert_int_equal(lines, 0);
        node_close(&n);
    }
}

/* Pieces of one batch or one head begin where whole ones' strides lead to: at multiples of 16 bytes only. */
static void test_odd_pieces(void **state) {
    (void)state;
    rota_attention_backward_params p = {.batch = 2,
                                        .heads = 8192,
                                        .queries = 4,
                                        .keys = 8,
                                        .dim = 64,
                                        .scale = 1,
                                        .flags = ROTA_ATTENTION_ALIGNED_16 |
                                                 (uint32_t)ROTA_BF16 << ROTA_ATTENTION_DTYPE_SHIFT};
    strides(p.heads, p.queries, p.dim, BY_ROW, p.q_stride);
    strides(p.heads, p.keys, p.dim, BY_ROW, p.kv_stride);
    strides(p.heads, p.queries, p.dim, BY_ROW, p.out_stride);
    assert_true(rota_cuda_attention_backward_by_cudnn(&p, 0, &h200));
    rota_attention_backward_params other = p;
    other.q_stride[0] += 4;
    assert_false(rota_cuda_attention_backward_by_cudnn(&other, 0, &h200));
    other = p;
    other.kv_stride[0] = 0;
    assert_false(rota_cuda_attention_backward_by_cudnn(&other, 0, &h200));
}

/* Without a library the node is three kernels, which read and write what it does. */
static void test_parts(void **state) {
    (void)state;
    tensors t = make(ROTA_BF16, true, 2, 8, 128, 128, 64, BY_ROW);
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    t.p.flags |= ROTA_ATTENTION_DQ_GAPS | ROTA_ATTENTION_DV_GAPS;
    const rota_kernel *node = &rota_kernel_attention_backward;
    assert_int_equal(node->parts(ROTA_EXEC_CUDA, &t.p, NULL, 0, &h200, parts), 0);
    assert_int_equal(node->parts(ROTA_EXEC_VK, &t.p, NULL, 0, NULL, parts), 3);
    assert_int_equal(node->parts(ROTA_EXEC_CUDA, &t.p, NULL, 1, &h200, parts), 3);
    const rota_kernel *const kernels[] = {&rota_kernel_attention_backward_prepare,
                                          &rota_kernel_attention_backward_query,
                                          &rota_kernel_attention_backward_key_value};
    bool written[ROTA_ATTENTION_BACKWARD_OPERANDS] = {false};
    for (uint32_t i = 0; i < 3; i++) {
        const rota_attention_backward_params *p = (const void *)parts[i].params;
        assert_ptr_equal(parts[i].kernel, kernels[i]);
        assert_int_equal(parts[i].operand_count, kernels[i]->operand_count);
        assert_int_equal(p->flags & 0xFFu, ROTA_ATTENTION_CAUSAL);
        for (uint32_t o = 0; o < parts[i].operand_count; o++) {
            const uint32_t operand = parts[i].operand[o];
            if (parts[i].mode[o] == ROTA_READ) {
                assert_true(operand < ROTA_ATTENTION_BACKWARD_STATS || written[operand]);
                continue;
            }
            const bool gaps = operand == ROTA_ATTENTION_BACKWARD_DQ || operand == ROTA_ATTENTION_BACKWARD_DV;
            assert_int_equal(parts[i].mode[o], gaps ? ROTA_READWRITE : ROTA_WRITE);
            written[operand] = true;
        }
    }
    for (uint32_t o = ROTA_ATTENTION_BACKWARD_STATS; o < ROTA_ATTENTION_BACKWARD_OPERANDS; o++)
        assert_true(written[o]);
    drop(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_plans_are_kept), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_choice),         cmocka_unit_test(test_choice_unmeasured),
        cmocka_unit_test(test_unsteady),       cmocka_unit_test(test_failure),
        cmocka_unit_test(test_odd_address),    cmocka_unit_test(test_odd_pieces),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, open_standins, NULL);
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
