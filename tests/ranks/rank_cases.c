/* The cases: each rank's part, with what is expected computed apart from rota in the order that is promised. */
#include "tests/ranks/rank_cases.h"

#include <math.h>
#include <string.h>

#include "sched/rewrite.h"
#include "tests/kit/nap.h"
#include "tests/ranks/rank_graph.h"

/* Element i of rank r: a number that makes sums round, so that their order shows. */
static float element(uint32_t r, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)r * 40503u + 12345u);
    return ((float)(mixed >> 8) / 16777216.0f - 0.5f) * (r % 2 ? 1e3f : 1e-1f);
}

static float *elements(uint32_t r, uint64_t count) {
    float *x = malloc(count * sizeof *x);
    for (uint64_t i = 0; i < count; i++) x[i] = element(r, i);
    return x;
}

static const float ten[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

/* ---- Cases ---- */

static float combined(rota_collective_reduction reduction, uint32_t size, uint64_t i) {
    float sum = element(0, i);
    for (uint32_t r = 1; r < size; r++) {
        const float x = element(r, i);
        switch (reduction) {
        case ROTA_COLLECTIVE_MAX:
            sum = x > sum ? x : sum;
            break;
        case ROTA_COLLECTIVE_MIN:
            sum = x < sum ? x : sum;
            break;
        case ROTA_COLLECTIVE_PRODUCT:
            sum *= x;
            break;
        default:
            sum += x;
        }
    }
    return reduction == ROTA_COLLECTIVE_MEAN ? sum / (float)size : sum;
}

/* Sizes around pieces and parts; each replayed, and the same bit for bit. */
static void all_reduce(rota_runtime *runtime, rota_communicator *communicator) {
    static const uint64_t counts[] = {1, 3, 1000, 65536, 300001};
    for (uint32_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        for (uint32_t reduction = 0; reduction < ROTA_COLLECTIVE_REDUCTION_COUNT; reduction++) {
            if (n > 2 && reduction != ROTA_COLLECTIVE_SUM) continue;
            rank_graph g;
            begin(&g, runtime, communicator, false);
            float *own = elements(g.rank, counts[n]), *got = malloc(counts[n] * sizeof *got);
            const rota_tensor x = made(&g, ROTA_F32, counts[n], own), y = made(&g, ROTA_F32, counts[n], NULL);
            rank_ok(
                rota_op_all_reduce_into(g.tape, communicator, x, (rota_collective_reduction)reduction, y));
            compile(&g);
            for (uint32_t replay = 0; replay < 3; replay++) {
                rank_ok(run(&g));
                get(y, got);
                for (uint64_t i = 0; i < counts[n]; i++) {
                    const float wanted = combined((rota_collective_reduction)reduction, g.size, i);
                    rank_want(memcmp(&got[i], &wanted, sizeof wanted) == 0,
                              "element %llu of %llu is %g, not %g", (unsigned long long)i,
                              (unsigned long long)counts[n], (double)got[i], (double)wanted);
                }
            }
            end(&g);
            drop(x);
            drop(y);
            free(own);
            free(got);
        }
    }
}

static rota_status count_nodes(void *user, rota_rewriter *rewriter) {
    *(uint64_t *)user = rota_rewriter_node_count(rewriter);
    return ROTA_OK;
}

/* x += 1 by a node before and one after, in place, again and again without waiting: hazards alone order it. */
static void in_place_replays(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const float start[2] = {(float)g.rank, 1};
    const rota_tensor x = made(&g, ROTA_F32, 2, start);
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_MAX, x));
    rank_ok(rota_op_affine_into(g.tape, x, ROTA_PLAIN(1), ROTA_PLAIN(1), x));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_MEAN, x));
    compile(&g);
    rota_ticket ticket;
    for (uint32_t i = 0; i < 200; i++) rank_ok(rota_submit(g.plan, NULL, &ticket));
    rank_ok(rota_wait(ticket, 0));
    float got[2];
    get(x, got);
    rank_want(got[0] == (float)(g.size - 1) + 200 && got[1] == 201, "%g %g", (double)got[0], (double)got[1]);
    end(&g);
    drop(x);
}

/* A sum of which each rank makes its part, doubles it and gathers all, in one transient: the parts where they lie, by
 * one node each, which touches the part and what is before and after it, and none of it twice. */
static void parts_in_place(rota_runtime *runtime, rota_communicator *communicator) {
    enum { M = 40001 };
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const uint32_t n = g.size;
    const uint64_t all = (uint64_t)n * M;
    float *wide = elements(g.rank, all), *got = malloc(all * sizeof *got);
    const rota_tensor x = made(&g, ROTA_F32, all, wide), y = made(&g, ROTA_F32, all, NULL);
    rota_tensor sums, gathered, part, own;
    const uint64_t before = (uint64_t)g.rank * M;
    rank_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_TRANSIENT, "sums", ROTA_F32, 1, &all, &sums));
    rank_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_TRANSIENT, "gathered", ROTA_F32, 1, &all, &gathered));
    rank_ok(rota_op_copy_into(g.tape, x, sums));
    rank_ok(rota_tensor_slice(&sums, 0, before, M, &part));
    rank_ok(rota_tensor_slice(&gathered, 0, before, M, &own));
    rank_ok(rota_op_reduce_scatter_into(g.tape, communicator, sums, ROTA_COLLECTIVE_SUM, part));
    rank_ok(rota_op_affine_into(g.tape, part, ROTA_PLAIN(2), ROTA_PLAIN(0), own));
    rank_ok(rota_op_all_gather_into(g.tape, communicator, own, gathered));
    rank_ok(rota_op_copy_into(g.tape, gathered, y));
    uint64_t nodes = 0;
    rank_ok(rota_graph_add_rewrite(g.graph, count_nodes, &nodes));
    compile(&g);
    rank_want(nodes == 5, "%llu nodes: something is copied around", (unsigned long long)nodes);
    for (uint32_t replay = 0; replay < 3; replay++) {
        rank_ok(run(&g));
        get(y, got);
        for (uint64_t i = 0; i < all; i++) {
            const float wanted = 2 * combined(ROTA_COLLECTIVE_SUM, n, i);
            rank_want(memcmp(&got[i], &wanted, sizeof wanted) == 0, "element %llu is %g, not %g",
                      (unsigned long long)i, (double)got[i], (double)wanted);
        }
    }
    end(&g);
    drop(x);
    drop(y);
    free(wide);
    free(got);
}

/* What overlaps otherwise goes through a copy: another rank's part. */
static void other_parts(rota_runtime *runtime, rota_communicator *communicator) {
    enum { M = 1000 };
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const uint32_t n = g.size, other = (g.rank + 1) % n;
    const uint64_t all = (uint64_t)n * M;
    float *wide = elements(g.rank, all), *got = malloc(all * sizeof *got);
    const rota_tensor x = made(&g, ROTA_F32, all, wide), z = made(&g, ROTA_F32, all, wide);
    rota_tensor part, theirs;
    rank_ok(rota_tensor_slice(&x, 0, (uint64_t)other * M, M, &part));
    rank_ok(rota_tensor_slice(&z, 0, (uint64_t)other * M, M, &theirs));
    rank_ok(rota_op_reduce_scatter_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, part));
    rank_ok(rota_op_all_gather_into(g.tape, communicator, theirs, z));
    compile(&g);
    rank_ok(run(&g));
    get(x, got);
    for (uint64_t i = 0; i < all; i++) {
        const float sum = combined(ROTA_COLLECTIVE_SUM, n, (uint64_t)g.rank * M + i % M);
        rank_want(got[i] == (i / M == other ? sum : wide[i]), "reduce_scatter: element %llu",
                  (unsigned long long)i);
    }
    get(z, got);
    for (uint64_t i = 0; i < all; i++) {
        const uint32_t from = (uint32_t)(i / M);
        rank_want(got[i] == element(from, (uint64_t)((from + 1) % n) * M + i % M), "all_gather: element %llu",
                  (unsigned long long)i);
    }
    end(&g);
    drop(x);
    drop(z);
    free(wide);
    free(got);
}

static void other_kinds(rota_runtime *runtime, rota_communicator *communicator) {
    enum { M = 70001 }; /* more than a piece of a slot */
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const uint32_t n = g.size;
    float *wide = elements(g.rank, (uint64_t)n * M), *own = elements(g.rank, M);
    const rota_tensor x = made(&g, ROTA_F32, (uint64_t)n * M, wide), small = made(&g, ROTA_F32, M, own);
    const rota_tensor scattered = made(&g, ROTA_F32, M, NULL),
                      gathered = made(&g, ROTA_F32, (uint64_t)n * M, NULL);
    const rota_tensor turned = made(&g, ROTA_F32, (uint64_t)n * M, NULL), cast = made(&g, ROTA_F32, M, NULL);
    rank_ok(rota_op_reduce_scatter_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, scattered));
    rank_ok(rota_op_barrier(g.tape, communicator));
    rank_ok(rota_op_all_gather_into(g.tape, communicator, small, gathered));
    rank_ok(rota_op_all_to_all_into(g.tape, communicator, x, turned));
    rank_ok(rota_op_broadcast_from_into(g.tape, communicator, n - 1, small, cast));
    compile(&g);
    rank_ok(run(&g));
    float *got = malloc((size_t)n * M * sizeof *got);
    get(scattered, got);
    for (uint64_t i = 0; i < M; i++) {
        const float wanted = combined(ROTA_COLLECTIVE_SUM, n, (uint64_t)g.rank * M + i);
        rank_want(got[i] == wanted, "reduce_scatter: element %llu", (unsigned long long)i);
    }
    get(gathered, got);
    for (uint64_t i = 0; i < (uint64_t)n * M; i++)
        rank_want(got[i] == element((uint32_t)(i / M), i % M), "all_gather: element %llu",
                  (unsigned long long)i);
    get(turned, got);
    for (uint64_t i = 0; i < (uint64_t)n * M; i++)
        rank_want(got[i] == element((uint32_t)(i / M), (uint64_t)g.rank * M + i % M),
                  "all_to_all: element %llu", (unsigned long long)i);
    get(cast, got);
    for (uint64_t i = 0; i < M; i++)
        rank_want(got[i] == element(n - 1, i), "broadcast: element %llu", (unsigned long long)i);
    end(&g);
    const rota_tensor all[] = {x, small, scattered, gathered, turned, cast};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
    free(wide);
    free(own);
    free(got);
}

/* What rank 0 sends goes round, and comes back to it. */
static void send_round(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const uint32_t next = (g.rank + 1) % g.size, before = (g.rank + g.size - 1) % g.size;
    const int32_t start[3] = {100, 200, 300};
    const rota_tensor x = made(&g, ROTA_I32, 3, start);
    if (g.rank) rank_ok(rota_op_receive_into(g.tape, communicator, before, x));
    const rota_tensor one = made(&g, ROTA_I32, 3, NULL);
    rank_ok(rota_op_send(g.tape, communicator, next, x));
    if (!g.rank) rank_ok(rota_op_receive_into(g.tape, communicator, before, one));
    compile(&g);
    for (uint32_t i = 0; i < 20; i++) rank_ok(run(&g));
    int32_t got[3];
    get(g.rank ? x : one, got);
    rank_want(got[0] == 100 && got[1] == 200 && got[2] == 300, "%d %d %d", got[0], got[1], got[2]);
    end(&g);
    drop(x);
    drop(one);
}

static void dtypes(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    /* 1.0, 2.0, 65504 and a subnormal of f16; of bf16 1.0 and 256. */
    const uint16_t f16[4] = {0x3C00, 0x4000, 0x7BFF, 0x0001}, bf16[2] = {0x3F80, 0x4380};
    const int32_t i32[2] = {INT32_MAX, (int32_t)g.rank - 5};
    const uint32_t u32[1] = {0x80000000u};
    const rota_tensor a = made(&g, ROTA_F16, 4, f16), b = made(&g, ROTA_BF16, 2, bf16),
                      c = made(&g, ROTA_I32, 2, i32), d = made(&g, ROTA_U32, 1, u32),
                      e = made(&g, ROTA_I32, 2, i32);
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, a, ROTA_COLLECTIVE_SUM, a));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, b, ROTA_COLLECTIVE_SUM, b));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, c, ROTA_COLLECTIVE_SUM, c));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, d, ROTA_COLLECTIVE_PRODUCT, d));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, e, ROTA_COLLECTIVE_MIN, e));
    rota_tensor y;
    rank_want(rota_op_all_reduce(g.tape, communicator, c, ROTA_COLLECTIVE_MEAN, &y) == ROTA_INVALID_ARGUMENT,
              "a mean of integers");
    compile(&g);
    rank_ok(run(&g));
    const uint32_t n = g.size;
    uint16_t got[4];
    int32_t integers[2];
    uint32_t unsigned_one;
    get(a, got);
    rank_want(got[2] == (n > 1 ? 0x7C00 : 0x7BFF) && got[3] == n, "f16: %x %x", got[2], got[3]);
    if (n == 2) rank_want(got[0] == 0x4000 && got[1] == 0x4400, "f16: %x %x", got[0], got[1]);
    get(b, got);
    if (n == 2) rank_want(got[0] == 0x4000 && got[1] == 0x4400, "bf16: %x %x", got[0], got[1]);
    get(c, integers);
    rank_want(integers[0] == (int32_t)((uint32_t)INT32_MAX * n), "i32: %d", integers[0]);
    get(d, &unsigned_one);
    rank_want(unsigned_one == (n > 1 ? 0 : 0x80000000u), "u32: %x", unsigned_one);
    get(e, integers);
    rank_want(integers[1] == -5, "i32 min: %d", integers[1]);
    end(&g);
    const rota_tensor all[] = {a, b, c, d, e};
    for (uint32_t i = 0; i < 5; i++) drop(all[i]);
}

/* d(sum over ranks of sum(w_rank * f(x)))/dx by the ops' gradients, against what they are by hand. */
static void gradients(rota_runtime *runtime, rota_communicator *communicator) {
    enum { M = 3 };
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const uint32_t n = g.size;
    float x_bytes[M], w_bytes[8 * M], wide[8 * M];
    for (uint32_t i = 0; i < M; i++) x_bytes[i] = (float)(g.rank + i);
    for (uint32_t i = 0; i < n * M; i++) w_bytes[i] = (float)(1 + g.rank * 10 + i);
    for (uint32_t i = 0; i < n * M; i++) wide[i] = 1;
    const uint64_t all_rows = (uint64_t)n * M;
    const rota_tensor x = made(&g, ROTA_F32, M, x_bytes), w = made(&g, ROTA_F32, all_rows, w_bytes),
                      v = made(&g, ROTA_F32, all_rows, wide);
    rota_tensor gathered, product, loss,
        grads[2] = {made(&g, ROTA_F32, M, NULL), made(&g, ROTA_F32, all_rows, NULL)};
    rota_tensor scattered, reduced, small;
    rank_ok(rota_op_all_gather(g.tape, communicator, x, &gathered)); /* [n * M] */
    rank_ok(rota_op_mul(g.tape, gathered, w, &product));
    rank_ok(rota_op_mul(g.tape, product, v, &product));
    rank_ok(rota_op_reduce_scatter(g.tape, communicator, product, ROTA_COLLECTIVE_SUM, &scattered)); /* [M] */
    rank_ok(rota_op_all_reduce(g.tape, communicator, scattered, ROTA_COLLECTIVE_MEAN, &reduced));
    rank_ok(rota_op_broadcast_from(g.tape, communicator, 0, reduced, &small));
    rank_ok(rota_op_sum(g.tape, small, 0, false, &loss));
    const rota_tensor params[2] = {x, v};
    rank_ok(rota_backward(g.tape, loss, params, 2, grads, NULL));
    compile(&g);
    rank_ok(run(&g));
    /* The loss of each rank is the mean over parts k of sum over ranks r of x[k][i] w[r][k * M + i] v[r][k * M + i],
     * and there are n such losses. */
    float dx[M], dv[8 * M];
    get(grads[0], dx);
    get(grads[1], dv);
    for (uint32_t i = 0; i < M; i++) {
        float wanted = 0;
        for (uint32_t r = 0; r < n; r++) wanted += (float)(1 + r * 10 + g.rank * M + i);
        rank_want(fabsf(dx[i] - wanted) < 1e-3f * fabsf(wanted), "dx[%u] is %g, not %g", i, (double)dx[i],
                  (double)wanted);
    }
    for (uint32_t i = 0; i < n * M; i++) {
        const uint32_t part = i / M, row = i % M;
        const float wanted = (float)(part + row) * w_bytes[i];
        rank_want(fabsf(dv[i] - wanted) <= 1e-3f * fabsf(wanted), "dv[%u] is %g, not %g", i, (double)dv[i],
                  (double)wanted);
    }
    end(&g);
    const rota_tensor all[] = {x, w, v, grads[0], grads[1]};
    for (uint32_t i = 0; i < 5; i++) drop(all[i]);
}

/* What comes back goes the way that it came: d(sum over ranks of sum(w_rank * all_to_all(x)))/dx of rank r's part k is
 * part r of rank k's w. */
static void gradient_of_all_to_all(rota_runtime *runtime, rota_communicator *communicator) {
    enum { M = 3 };
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const uint64_t all = (uint64_t)g.size * M;
    float x_bytes[8 * M], w_bytes[8 * M], dx[8 * M];
    for (uint64_t i = 0; i < all; i++) {
        x_bytes[i] = element(g.rank, i);
        w_bytes[i] = (float)(UINT64_C(1000) * g.rank + i);
    }
    const rota_tensor x = made(&g, ROTA_F32, all, x_bytes), w = made(&g, ROTA_F32, all, w_bytes);
    rota_tensor turned, product, loss, grad = made(&g, ROTA_F32, all, NULL);
    rank_ok(rota_op_all_to_all(g.tape, communicator, x, &turned));
    rank_ok(rota_op_mul(g.tape, turned, w, &product));
    rank_ok(rota_op_sum(g.tape, product, 0, false, &loss));
    rank_ok(rota_backward(g.tape, loss, &x, 1, &grad, NULL));
    compile(&g);
    rank_ok(run(&g));
    get(grad, dx);
    for (uint64_t i = 0; i < all; i++) {
        const uint64_t from = i / M;
        const float wanted = (float)(1000 * from + (uint64_t)g.rank * M + i % M);
        rank_want(dx[i] == wanted, "dx[%llu] is %g, not %g", (unsigned long long)i, (double)dx[i],
                  (double)wanted);
    }
    end(&g);
    drop(x), drop(w), drop(grad);
}

/* Even and odd ranks apart, in falling order; both in use at once; and a rank that is in no group. */
static void split(rota_runtime *runtime, rota_communicator *communicator) {
    const uint32_t rank = rota_communicator_rank(communicator), size = rota_communicator_size(communicator);
    rota_communicator *group, *none;
    rank_ok(rota_communicator_open_split(communicator, rank % 2, size - rank, "half", &group));
    const uint32_t members = (size + (rank % 2 == 0)) / 2;
    rank_want(rota_communicator_size(group) == members &&
                  rota_communicator_rank(group) == members - 1 - rank / 2,
              "rank %u of %u", rota_communicator_rank(group), rota_communicator_size(group));
    rank_ok(
        rota_communicator_open_split(communicator, rank ? 7 : ROTA_COMMUNICATOR_NO_COLOR, 0, NULL, &none));
    rank_want((none == NULL) == (rank == 0), "the rank without a colour");
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const float x[1] = {(float)rank};
    const rota_tensor a = made(&g, ROTA_F32, 1, x), b = made(&g, ROTA_F32, 1, x);
    rank_ok(rota_op_all_reduce_into(g.tape, group, a, ROTA_COLLECTIVE_SUM, a));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, b, ROTA_COLLECTIVE_SUM, b));
    compile(&g);
    for (uint32_t i = 0; i < 1; i++) rank_ok(run(&g));
    float got, wanted = 0;
    get(a, &got);
    for (uint32_t r = rank % 2; r < size; r += 2) wanted += (float)r;
    rank_want(got == wanted, "%g, not %g", (double)got, (double)wanted);
    get(b, &got);
    rank_want(2 * got == (float)(size * (size - 1)), "%g", (double)got);
    end(&g);
    drop(a);
    drop(b);
    rank_ok(rota_communicator_close(none, 0));
    rank_ok(rota_communicator_close(group, 0));
}

static void expect_failure(rank_graph *g, const char *const *texts) {
    const rota_status status = run(g);
    rank_want(status == ROTA_NODE_FAILED, "%s: %s", rota_status_name(status), rota_last_error());
    for (; *texts; texts++)
        rank_want(strstr(rota_last_error(), *texts), "'%s' is not in: %s", *texts, rota_last_error());
}

/* One rank records another count: all end, and with the name of that node. */
static void mismatch(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const rota_tensor x = made(&g, ROTA_F32, 10, ten);
    rota_tensor part = x;
    if (g.rank == g.size - 1) part.shape[0] = 9;
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    rank_ok(rota_tape_name(g.tape, "second"));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, part, ROTA_COLLECTIVE_SUM, part));
    compile(&g);
    char last[64];
    (void)snprintf(last, sizeof last, "rank %u at all_reduce 'second' (collective 2) of 9 f32", g.size - 1);
    expect_failure(&g, (const char *const[]){"differ", "all_reduce 'second' (collective 2) of 10 f32, by sum",
                                             last, NULL});
    /* It stays so, and is said again. */
    expect_failure(&g, (const char *const[]){"differ", NULL});
    end(&g);
    drop(x);
}

/* Another order, with a message between two of them: found by those two, and all end. */
static void mismatch_of_two(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const rota_tensor x = made(&g, ROTA_F32, 10, ten);
    if (g.rank == 0) rank_ok(rota_op_send(g.tape, communicator, 1, x));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    if (g.rank == 1) rank_ok(rota_op_receive_into(g.tape, communicator, 0, x));
    compile(&g);
    expect_failure(&g, (const char *const[]){"differ", "send", "all_reduce", NULL});
    end(&g);
    drop(x);
}

/* A rank that does not come: the others end by their timeout and name it. It comes late, and is told. */
static void late(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const rota_tensor x = made(&g, ROTA_F32, 10, ten);
    rank_ok(rota_tape_name(g.tape, "waited for"));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    compile(&g);
    if (g.rank == 1) test_nap_ms(1500);
    const uint64_t before = rota_clock_ns();
    expect_failure(&g, (const char *const[]){"'waited for'", "for rank", "did not come to it", NULL});
    rank_want(rota_clock_ns() - before < 10000000000u, "it took too long");
    if (g.size == 2 && g.rank == 0)
        rank_want(strstr(rota_last_error(), "for rank 1,"), "%s", rota_last_error());
    end(&g);
    drop(x);
}

/* What a rank's collective reads has failed there: it leaves the collective out, and all are told. */
static rota_status fail_on_one(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)operands, (void)bytes, (void)count;
    return *(const uint32_t *)user == 1 ? rota_fail(ROTA_SYSTEM, "the disk of rank 1 is full") : ROTA_OK;
}

static void left_out(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const rota_tensor x = made(&g, ROTA_F32, 10, ten);
    const rota_access access = {x.buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_host_node host =
        ROTA_HOST_NODE(.fn = fail_on_one, .user = &g.rank, .accesses = &access, .access_count = 1);
    rank_ok(rota_record_host(g.recorder, &host, NULL));
    rank_ok(rota_tape_name(g.tape, "grad"));
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    compile(&g);
    if (g.rank == 1)
        expect_failure(&g, (const char *const[]){"the disk of rank 1 is full", NULL});
    else
        expect_failure(&g, (const char *const[]){"rank 1 left out its node 'grad'", NULL});
    end(&g);
    drop(x);
}

static void abort_by_one(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const rota_tensor x = made(&g, ROTA_F32, 10, ten);
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    compile(&g);
    if (g.rank == 1) rank_ok(rota_communicator_abort(communicator, "it has had enough"));
    expect_failure(&g, (const char *const[]){"rank 1 ended it: it has had enough", NULL});
    rota_communicator *none;
    rank_want(rota_communicator_open_split(communicator, 0, 0, NULL, &none) != ROTA_OK && !none,
              "a split of what has ended");
    end(&g);
    drop(x);
}

/* ---- Loops beside collectives ---- */

static rota_status step(const rota_kernel_call *call) {
    float *to = call->operands[0];
    *to += *(const float *)call->operands[1];
    return ROTA_OK;
}
static const rota_kernel k_step = {.name = "step", .operand_count = 2, .cpu = {.fn = step}};

/* to += from, as often as count says. */
static void repeat(const rank_graph *g, const char *name, rota_tensor count, rota_tensor to,
                   rota_tensor from) {
    rota_graph *body;
    rota_recorder *inner;
    rank_ok(rota_graph_create_body(g->graph, name, &body));
    rank_ok(rota_recorder_open(body, 0, NULL, &inner));
    const rota_access accesses[2] = {{to.buffer, 0, 4, ROTA_READWRITE}, {from.buffer, 0, 4, ROTA_READ}};
    const rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &k_step, .accesses = accesses, .access_count = 2);
    rank_ok(rota_record_kernel(inner, &node, NULL));
    rota_recorder_close(inner);
    const rota_for_node loop =
        ROTA_FOR_NODE(.name = name, .count = count.buffer, .body = body, .iterations_max = 1000000);
    rank_ok(rota_record_for(g->recorder, &loop, NULL));
}

/* Loops of another length on each rank before a collective, after it and beside another. */
static void beside_loops(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const float zero = 0, one = 1;
    const uint32_t long_count = 1 + 5000 * g.rank, short_count = 3;
    const rota_tensor longs = made(&g, ROTA_U32, 1, &long_count),
                      shorts = made(&g, ROTA_U32, 1, &short_count);
    const rota_tensor v = made(&g, ROTA_F32, 1, &zero), w = made(&g, ROTA_F32, 1, &zero),
                      u = made(&g, ROTA_F32, 1, &zero), ones = made(&g, ROTA_F32, 1, &one),
                      sum = made(&g, ROTA_F32, 1, &zero), x = made(&g, ROTA_F32, 10, ten);
    repeat(&g, "beside", longs, u, ones);
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_MEAN, x));
    repeat(&g, "before", longs, v, ones);
    rank_ok(rota_op_all_reduce_into(g.tape, communicator, v, ROTA_COLLECTIVE_SUM, sum));
    repeat(&g, "after", shorts, w, sum);
    compile(&g);
    float total = 0, expected = 0;
    for (uint32_t replay = 1; replay <= 3; replay++) {
        rank_ok(run(&g));
        total = 0;
        for (uint32_t r = 0; r < g.size; r++) total += (float)(replay * (1 + 5000 * r));
        expected += 3 * total;
    }
    float got[10];
    get(w, got);
    rank_want(got[0] == expected, "%g, not %g", (double)got[0], (double)expected);
    get(u, got);
    rank_want(got[0] == (float)(3 * long_count), "%g", (double)got[0]);
    get(x, got);
    rank_want(memcmp(got, ten, sizeof got) == 0, "a mean of what is alike");
    end(&g);
    drop(longs), drop(shorts), drop(v), drop(w), drop(u), drop(ones), drop(sum), drop(x);
}

const rank_case rank_cases[] = {
    {"all_reduce", 0, 1, 0, all_reduce},
    {"in_place_replays", 0, 1, 0, in_place_replays},
    {"parts_in_place", 0, 1, 0, parts_in_place},
    {"other_parts", 0, 1, 0, other_parts},
    {"other_kinds", 0, 1, 0, other_kinds},
    {"send_round", 0, 2, 0, send_round},
    {"dtypes", 0, 1, 0, dtypes},
    {"order_of_sums", 0, 1, 0, rank_order_of_sums},
    {"declared", 0, 1, 0, rank_declared},
    {"undeclared", 0, 1, 0, rank_undeclared},
    {"gradients", 8, 1, 0, gradients},
    {"gradient_of_all_to_all", 8, 1, 0, gradient_of_all_to_all},
    {"data_parallel", 0, 1, 0, rank_data_parallel},
    {"last_bucket", 0, 1, 0, rank_last_bucket},
    {"gradients_elsewhere", 0, 2, 0, rank_gradients_elsewhere},
    {"gradients_overlap", 0, 1, 0, rank_gradients_overlap},
    {"many_parameters", 2, 2, 0, rank_many_parameters},
    {"shards", 0, 1, 0, rank_shards},
    {"shards_refused", 3, 1, 0, rank_shards_refused},
    {"unshards", 0, 1, 0, rank_unshards},
    {"unshards_need_less", 0, 1, 0, rank_unshards_need_less},
    {"unshard_kinds", 0, 1, 0, rank_unshard_kinds},
    {"unshard_reduces", 0, 1, 0, rank_unshard_reduces},
    {"unshard_refused", 3, 1, 0, rank_unshard_refused},
    {"parts", 0, 1, 0, rank_parts},
    {"dropout_parts", 0, 1, 0, rank_dropout_parts},
    {"tensor_parallel", 0, 1, 0, rank_tensor_parallel},
    {"tensor_parallel_refused", 0, 1, 0, rank_tensor_parallel_refused},
    {"masked_classes", 0, 2, 0, rank_masked_classes},
    {"labels_outside", 4, 1, 0, rank_labels_outside},
    {"split", 0, 2, 0, split},
    {"mismatch", 0, 2, 0, mismatch},
    {"mismatch_of_two", 0, 2, 0, mismatch_of_two},
    {"late", 0, 2, 500000000, late},
    {"left_out", 0, 2, 0, left_out},
    {"abort_by_one", 0, 2, 0, abort_by_one},
    {"beside_loops", 0, 1, 0, beside_loops},
    {NULL, 0, 0, 0, NULL},
};
