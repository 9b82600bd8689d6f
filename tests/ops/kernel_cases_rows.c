/* The cases of kernels that go by rows: embeddings, softmax, norms, rotary embeddings and losses. */
#include <math.h>
#include "tests/ops/kernel_case.h"

static const uint32_t embedding_shapes[][3] = {
    {1, 1, 1},          {70, 33, 9},   {300, 130, 65},   {129, 1300, 4},    {5000, 40, 3000},
    {2100, 300, 10000}, {9000, 24, 5}, {20001, 16, 700}, {1100, 24, 17000}, {9000, 264, 600}};
enum {
    EMBEDDING_SHAPES = sizeof embedding_shapes / sizeof *embedding_shapes,
    EMBEDDING_SMALL = 4 /* the first ones */
};

static void embedding_case(const uint32_t *shape, rota_dtype type) {
    rota_embedding_params p = {shape[0], shape[1], shape[2], 0, type, 0, 0};
    const uint64_t rows = (uint64_t)p.rows * p.dim, table = (uint64_t)p.classes * p.dim;
    /* A sum of many rows, rounded again each 5632 of them; some thousand elements add up to some
     * hundred. In f32, the order of so many rows is worth 2e-5, by which the CPU's is off the sum in
     * f64; a GPU's may be another. */
    const double sums =
        rounded(type, p.rows / p.classes > 1000 ? 4e-5 : 1e-5) * (type == ROTA_F32 ? 1 : 1 + p.rows / 5632);
    /* Where a sum is rounded to the dtype on its way its terms are of one sign, so that no part of it is larger than
     * the whole, of which the bound is. */
    const double low = type == ROTA_F32 || p.rows < 5632 ? -2 : 0;
    CHECK(embedding, &p, 0, IN_AS(type, table, -2, 2), INDEX(p.rows, p.classes), OUT_AS(type, rows));
    CHECK(embedding_backward, &p, sums, IN_AS(type, rows, low, 2), INDEX(p.rows, p.classes),
          OUT_AS(type, table));
    p.accumulate = 1;
    CHECK(embedding_backward, &p, sums, IN_AS(type, rows, low, 2), INDEX(p.rows, p.classes),
          INOUT_AS(type, table));
    const uint32_t few = 1 + p.classes / 100; /* of which each has some hundred rows, or thousands */
    /* Elements are up to 2: partial sums of n of them stray to about sqrt(n), and each rounding of them is worth 2^-25
     * of that: n 3.5e-8 at one deviation in a difference of two such sums, five of which none of 10^5 exceeds. */
    const double strayed = fmin(3e-4, 1.75e-7 * (p.rows / few));
    CHECK(embedding_backward, &p, fmax(sums, strayed), IN_AS(type, rows, low, 2), INDEX(p.rows, few),
          INOUT_AS(type, table));
    /* The table is a part of one with more classes, of which the index has all. */
    p.accumulate = 0;
    p.first = 1 + p.classes / 3;
    p.all = 2 * p.classes + 5;
    CHECK(embedding, &p, 0, IN_AS(type, table, -2, 2), INDEX(p.rows, p.all), OUT_AS(type, rows));
    CHECK(embedding_backward, &p, sums, IN_AS(type, rows, low, 2), INDEX(p.rows, p.all), OUT_AS(type, table));
}

void test_embedding(void **state) {
    (void)state;
    for (uint32_t i = 0; i < EMBEDDING_SHAPES; i++) {
        FOR_REAL(type)
        if (i < EMBEDDING_SMALL || type == ROTA_F32) embedding_case(embedding_shapes[i], type);
        const uint32_t *s = embedding_shapes[i];
        const rota_index_add_params add = {s[0], s[2], 3};
        CHECK(index_add, &add, 0, INDEX(add.rows, add.size),
              {ROTA_I32, ROTA_ACCUMULATE, add.size, 0, 100, 0});
    }
}

/* The large shapes in the other dtypes: what takes a software device a minute. */
void test_embedding_more(void **state) {
    (void)state;
    for (uint32_t i = EMBEDDING_SMALL; i < EMBEDDING_SHAPES; i++) FOR_REAL(type)
    if (type != ROTA_F32) embedding_case(embedding_shapes[i], type);
}

void test_softmax(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{1, 1, 1},     {12, 5, 4},   {33, 64, 33},
                                  {40, 130, 20}, {6, 1111, 3}, {9, 3000, 9}};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t form = 0; form < 3; form++) FOR_REAL(type) {
                const uint32_t causal = form == 1, logarithm = form == 2;
                const rota_softmax_params p = {shapes[i][0], shapes[i][1], causal, shapes[i][2],
                                               0.7f,         logarithm,    type};
                const uint64_t n = (uint64_t)p.rows * p.n;
                const double forward = rounded(type, 2e-6),
                             backward = rounded(type, 2e-5) * (logarithm ? 4 : 1);
                const double low = logarithm ? -6 : 0, high = logarithm ? -1 : 1;
                CHECK(softmax, &p, forward, IN_AS(type, n, -20, 20), OUT_AS(type, n));
                CHECK(softmax, &p, forward, IN_AS(type, n, -20, 20), OUT_AS_ON(type, n, 0));
                CHECK(softmax_backward, &p, backward, IN_AS(type, n, low, high), IN_AS(type, n, -2, 2),
                      OUT_AS(type, n));
                CHECK(softmax_backward, &p, backward, IN_AS(type, n, low, high), IN_AS(type, n, -2, 2),
                      OUT_AS_ON(type, n, 1));
                if (logarithm) continue;
                const rota_causal_mask_params mask = {p.rows, p.n, p.queries, -INFINITY, type};
                CHECK(causal_mask, &mask, 0, IN_AS(type, n, -2, 2), OUT_AS(type, n));
                CHECK(causal_mask, &mask, 0, IN_AS(type, n, -2, 2), OUT_AS_ON(type, n, 0));
            }
}

static void norm_case(const rota_norm_params *given, rota_dtype type) {
    const rota_norm_params p = *given;
    const uint64_t n = (uint64_t)p.rows * p.dim, chunks = (p.rows + p.chunk - 1) / p.chunk;
    const double forward = rounded(type, 1e-5), backward = rounded(type, 3e-5);
    const kernel_array x = IN_AS(type, n, -2, 2), w = IN_AS(type, p.dim, -2, 2), y = OUT_AS(type, n);
    const kernel_array stats = OUT(2ull * p.rows), given_stats = IN_RANGE(2ull * p.rows, 0.1, 1);
    CHECK(layernorm, &p, forward, x, w, w, y, stats);
    /* where the sum rounds differently by one, so does y; the two add in the same order here */
    CHECK(residual_layernorm, &p, forward, x, x, w, w, y, y, stats);
    CHECK(residual_layernorm, &p, forward, x, x, w, w, OUT_AS_ON(type, n, 0), y, stats);
    CHECK(layernorm_backward, &p, backward, x, w, given_stats, x, y);
    CHECK(layernorm_backward, &p, backward, x, w, given_stats, x, OUT_AS_ON(type, n, 3));
    CHECK(layernorm_backward_weight, &p, 1e-5, x, given_stats, x, OUT(2 * chunks * p.dim));
    rota_norm_params add = p;
    add.flags |= ROTA_NORM_ACCUMULATE;
    CHECK(layernorm_backward, &add, backward, x, w, given_stats, x, INOUT_AS(type, n));
    if (kernel_case_is_one(&rota_kernel_layernorm_gradient, &p)) {
        const kernel_array partial = OUT(2 * chunks * p.dim);
        CHECK(layernorm_gradient, &p, backward, x, w, given_stats, x, y, partial);
        CHECK(layernorm_gradient, &p, backward, x, w, given_stats, x, OUT_AS_ON(type, n, 3), partial);
        CHECK(layernorm_gradient, &add, backward, x, w, given_stats, x, INOUT_AS(type, n), partial);
    }
    if (p.flags & ROTA_NORM_BIAS) return;
    const kernel_array rms = OUT(p.rows), given_rms = IN_RANGE(p.rows, 0.1, 1);
    CHECK(rmsnorm, &p, forward, x, w, y, rms);
    CHECK(rmsnorm_backward, &p, backward, x, w, given_rms, x, y);
    CHECK(rmsnorm_backward, &p, backward, x, w, given_rms, x, OUT_AS_ON(type, n, 3));
    CHECK(rmsnorm_backward, &add, backward, x, w, given_rms, x, INOUT_AS(type, n));
    CHECK(rmsnorm_backward_weight, &p, 1e-5, x, given_rms, x, OUT(chunks * p.dim));
    if (!kernel_case_is_one(&rota_kernel_rmsnorm_gradient, &p)) return;
    CHECK(rmsnorm_gradient, &p, backward, x, w, given_rms, x, y, OUT(chunks * p.dim));
    CHECK(rmsnorm_gradient, &add, backward, x, w, given_rms, x, INOUT_AS(type, n), OUT(chunks * p.dim));
}

void test_norm(void **state) {
    (void)state;
    /* among them rows that end within a warp's last vectors, and more rows than warps */
    const uint32_t shapes[][3] = {{1, 1, 1},    {7, 33, 3},   {130, 128, 32}, {5, 1031, 2},
                                  {9, 2052, 4}, {3, 9000, 2}, {1, 768, 8},    {18, 776, 8},
                                  {9, 1024, 4}, {16, 520, 8}, {19, 264, 64},  {8200, 8, 32}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t flags = 0; flags < 4; flags++) FOR_REAL(type) {
                const rota_norm_params p = {shapes[i][0], shapes[i][1], flags, 1e-2f, shapes[i][2], type};
                norm_case(&p, type);
            }
}

void test_batch_norm(void **state) {
    (void)state;
    const uint32_t shapes[][4] = {/* outer, channels, inner, chunk */
                                  {2, 1, 1, 1},
                                  {301, 16, 1, 128},
                                  {3, 5, 42, 50},
                                  {1, 3, 700, 128},
                                  {40, 33, 7, 9}};
    for (uint32_t i = 0; i < 5; i++) FOR_REAL(type) {
            const uint32_t *s = shapes[i], flags = i % 4;
            rota_batch_norm_params p = {s[0], s[1], s[2], 0, s[3], 1e-2f, 0.1f, type};
            const uint64_t n = (uint64_t)s[0] * s[2], count = n * s[1], chunks = (n + s[3] - 1) / s[3];
            const kernel_array x = IN_AS(type, count, -2, 2), mean = IN(s[1]),
                               spread = IN_RANGE(s[1], 0.5, 2);
            const kernel_array w = IN_AS(type, s[1], -2, 2), y = OUT_AS(type, count);
            const kernel_array moments = IN_RANGE(2 * chunks * s[1], 0.5, 2);
            CHECK(batch_norm_moments, &p, 2e-5, x, OUT(2 * chunks * s[1]));
            CHECK(batch_norm_finish, &p, 2e-5, moments, INOUT(s[1]), INOUT(s[1]), OUT(2 * s[1]));
            for (uint32_t evaluate = 0; evaluate < 2; evaluate++) {
                const uint32_t variance = evaluate ? ROTA_BATCH_NORM_VARIANCE : 0;
                p.flags = variance;
                CHECK(batch_norm_sums, &p, 5e-5, x, mean, spread, x, OUT(2 * chunks * s[1]));
                p.flags = flags | variance;
                CHECK(batch_norm, &p, rounded(type, 1e-5), x, mean, spread, w, w, y);
                CHECK(batch_norm, &p, rounded(type, 1e-5), x, mean, spread, w, w, OUT_AS_ON(type, count, 0));
                CHECK(batch_norm_backward, &p, rounded(type, 2e-5), x, mean, spread, w, x, IN(2 * s[1]), y);
                CHECK(batch_norm_backward, &p, rounded(type, 2e-5), x, mean, spread, w, x, IN(2 * s[1]),
                      OUT_AS_ON(type, count, 4));
            }
        }
}

void test_rope(void **state) {
    (void)state;
    const uint32_t shapes[][4] = {
        /* rows, sequence, dim, rotary */ {1, 1, 2, 2}, {21, 7, 8, 8}, {300, 100, 65, 32}};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t flags = 0; flags < 4; flags++) FOR_REAL(type) {
                const uint32_t *s = shapes[i];
                const rota_rope_params p = {s[0], s[1], s[2], s[3], flags, 10000.0f, 5 * flags, type};
                const uint64_t n = (uint64_t)s[0] * s[2];
                /* angles of up to 115 in f32 */
                CHECK(rope, &p, rounded(type, 5e-5), IN_AS(type, n, -2, 2), OUT_AS(type, n));
                CHECK(rope, &p, rounded(type, 5e-5), IN_AS(type, n, -2, 2), OUT_AS_ON(type, n, 0));
            }
}

void test_cross_entropy(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{1, 1, 1},       {9, 3, 8},       {130, 65, 65},
                                  {7, 3001, 3008}, {5, 4104, 4104}, {3, 20000, 20001}};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t smooth = 0; smooth < 2; smooth++) FOR_REAL(type) {
                rota_cross_entropy_params p = {.rows = shapes[i][0],
                                               .classes = shapes[i][1],
                                               .ignored = smooth ? 1 : -100,
                                               .smoothing = smooth ? 0.125f : 0,
                                               .dtype = type,
                                               .pitch = shapes[i][2]};
                const uint64_t n = (uint64_t)p.rows * p.pitch;
                const double backward = rounded(type, 1e-5);
                CHECK(cross_entropy, &p, 3e-6, IN_AS(type, n, -9, 9), INDEX(p.rows, p.classes), OUT(p.rows),
                      OUT(p.rows));
                CHECK(cross_entropy_backward, &p, backward, IN_AS(type, n, -2, 2), INDEX(p.rows, p.classes),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_AS(type, n));
                CHECK(cross_entropy_backward, &p, backward, IN_AS(type, n, -2, 2), INDEX(p.rows, p.classes),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_AS_ON(type, n, 0));
                /* Some of twice as many classes, of which the labels have all. */
                p.first = 1 + p.classes / 3;
                p.all = 2 * p.classes + 1;
                CHECK(cross_entropy, &p, 3e-6, IN_AS(type, n, -9, 9), INDEX(p.rows, p.all), OUT(p.rows),
                      OUT(p.rows));
                CHECK(cross_entropy_backward, &p, backward, IN_AS(type, n, -2, 2), INDEX(p.rows, p.all),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_AS(type, n));
                const rota_cross_entropy_join_params join = {p.rows, 1 + 2 * i, 1};
                CHECK(cross_entropy_join, &join, 3e-6, IN_RANGE(2 * join.ranks * join.rows, -9, 9),
                      INDEX(p.rows, p.classes), OUT(p.rows), OUT(p.rows));
                const rota_cross_entropy_params mean = {4099, 1000, 7, 0, ROTA_F32, 1000, 0, 0};
                CHECK(cross_entropy_mean, &mean, 1e-5, IN(4099), INDEX(4099, 1000), OUT(1), OUT(1));
            }
}
