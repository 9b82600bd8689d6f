/* What a matrix product runs by on a CUDA device, and why: for rota_plan_explain_kernel. */
#include <stdlib.h>
#include "ops/cuda/libraries.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/cuda/matmul_tiles.h"

static void say_product(rota_text_out *out, const rota_matmul_params *p, rota_dtype dtype) {
    rota_text_say(out,
                  "product: %u x %u x %u (m, n, k) of %s, results %s, sums f32; leading dimensions %u, %u, "
                  "%u%s%s%s%s%s",
                  p->m, p->n, p->k, rota_dtype_name(dtype), rota_dtype_name((rota_dtype)p->c_dtype), p->lda,
                  p->ldb, p->ldc, p->flags & ROTA_MATMUL_TRANSPOSE_A ? ", a transposed" : "",
                  p->flags & ROTA_MATMUL_TRANSPOSE_B ? ", b transposed" : "",
                  p->flags & ROTA_MATMUL_ACCUMULATE ? ", added to what is there" : "",
                  p->flags & ROTA_MATMUL_OTHER_F8 ? ", b of the other 8-bit format" : "",
                  p->flags & ROTA_MATMUL_SCALED_BY_ROWS ? ", scaled by rows"
                  : p->flags & ROTA_MATMUL_SCALED       ? ", scaled"
                                                        : "");
    if (p->batch[0] * p->batch[1] * p->batch[2] != 1)
        rota_text_say(out, ", batches %u x %u x %u", p->batch[0], p->batch[1], p->batch[2]);
    rota_text_say(out, "\n");
}

/* ---- Ways ---- */

static const char *epilogue_of(const rota_matmul_params *p) {
    const uint32_t flags = p->flags & ROTA_LINEAR_EPILOGUE;
    if (!flags) return "none";
    if (flags & (ROTA_LINEAR_SUMS_A | ROTA_LINEAR_SUMS_B)) return "sums of an operand (a bias' gradient)";
    if (flags & ROTA_LINEAR_GELU) return flags & ROTA_LINEAR_BIAS ? "bias, then GELU" : "GELU";
    return flags & ROTA_LINEAR_BIAS ? "bias, and what follows it" : "what follows the product";
}

static void say_tile(rota_text_out *out, const rota_matmul_sm90_tile *t) {
    rota_text_say(
        out,
        "rota's Hopper kernel, tile %ux%u, %u warpgroups, %u stages of 64, cluster %ux%u, %u KiB shared, "
        "%u rows of tiles together; the sum is not divided",
        t->rows, t->columns, t->warpgroups, t->stages, t->cluster_m, t->cluster_n,
        (t->shared_bytes + 1023) / 1024, t->group);
}

/* What that kernel does beside. */
static void say_uneven(rota_text_out *out, const rota_matmul_params *p) {
    static const char *const moved[] = {"", "a", "b", "a and b"};
    rota_matmul_evened e;
    rota_matmul_evened_of(p, &e);
    if (e.workspace_bytes)
        rota_text_say(out, "; %s moved to even rows first, %llu KiB",
                      moved[(e.moved[0].rows ? 1 : 0) + (e.moved[1].rows ? 2 : 0)],
                      (unsigned long long)((e.workspace_bytes + 1023) / 1024));
    if (e.by_threads) rota_text_say(out, "; c stored by the threads, as it lies");
}

static void say_way(rota_text_out *out, const rota_matmul_params *p, const rota_matmul_choice *choice) {
    char text[256];
    if (choice->way == ROTA_MATMUL_SEPARATELY) {
        rota_text_say(out, "the product by itself, and rota's kernels after it");
    } else if (choice->way != ROTA_MATMUL_BY_CUBLASLT && p->flags & ROTA_LINEAR_EPILOGUE) {
        rota_text_say(out,
                      "rota's Hopper kernel with the epilogue, tile %ux%u, %u stages of 64, cluster %ux1",
                      ROTA_LINEAR_SM90_ROWS, ROTA_LINEAR_SM90_COLUMNS, ROTA_LINEAR_SM90_STAGES,
                      ROTA_LINEAR_SM90_CLUSTER);
        if (choice->way == ROTA_MATMUL_BY_EVENED) say_uneven(out, p);
    } else if (choice->way == ROTA_MATMUL_BY_SM90) {
        say_tile(out, &rota_matmul_sm90_tiles[choice->tile]);
    } else if (choice->way == ROTA_MATMUL_BY_EVENED) {
        say_tile(out, &rota_matmul_sm90_tiles[choice->tile]);
        say_uneven(out, p);
    } else {
        rota_cublaslt_describe(&choice->algorithm, text, sizeof text);
        rota_text_say(out, "cuBLASLt, %s", text);
    }
}

/* ---- What was measured ---- */

/* Measured to the end first, the fastest first; what can't run last. */
static int by_time(const void *a, const void *b) {
    const rota_measured *x = &((const rota_matmul_candidate *)a)->measured,
                        *y = &((const rota_matmul_candidate *)b)->measured;
    if ((x->median_ms > 0) != (y->median_ms > 0)) return x->median_ms > 0 ? -1 : 1;
    if (x->median_ms > 0) return (x->median_ms > y->median_ms) - (x->median_ms < y->median_ms);
    if ((x->look_ms > 0) != (y->look_ms > 0)) return x->look_ms > 0 ? -1 : 1;
    return (x->look_ms > y->look_ms) - (x->look_ms < y->look_ms);
}

static void say_report(rota_text_out *out, const rota_matmul_params *p, rota_matmul_report *report) {
    qsort(report->candidates, report->count, sizeof *report->candidates, by_time);
    rota_text_say(out, "measured: %u ways, in turns, on random numbers\n", report->count);
    for (uint32_t i = 0; i < report->count; i++) {
        const rota_matmul_candidate *c = &report->candidates[i];
        const double ms = (double)c->measured.median_ms;
        if (ms > 0)
            rota_text_say(out, "  %9.4f ms  %7.1f TFLOP/s  ", ms,
                          2e-9 * p->m * p->n * p->k * p->batch[0] * p->batch[1] * p->batch[2] / ms);
        else if (c->measured.look_ms > 0)
            rota_text_say(out, "  %9.4f ms  at a look only   ", (double)c->measured.look_ms);
        else
            rota_text_say(out, "  can't run                  ");
        say_way(out, p, &c->choice);
        rota_text_say(out, "\n");
    }
    rota_text_say(out,
                  "  (at a look only: %.1f times the fastest there or more, or nothing to compare with)\n",
                  ROTA_MEASURE_HOPELESS);
}

/* ---- What was left out ---- */

static void say_left_out(rota_text_out *out, const rota_matmul_params *p, rota_dtype dtype,
                         const rota_cuda_target *target) {
    if (!rota_cublaslt_present())
        rota_text_say(out, "left out: cuBLASLt, which is not there (%s)\n",
                      rota_cuda_library_get(ROTA_CUDA_LIBRARY_CUBLASLT)->reason);
    if (p->flags & ROTA_LINEAR_EPILOGUE) {
        if (!rota_linear_sm90_takes(p, dtype, target) && !rota_linear_evened_takes(p, dtype, target))
            rota_text_say(
                out,
                "left out: rota's Hopper kernel with an epilogue, which takes a bias and GELU whose input "
                "is kept, of what the kernels without one take\n");
        return;
    }
    const char *refuses = rota_matmul_sm90_refuses(p, dtype, target),
               *evened = rota_matmul_evened_refuses(p, dtype, target);
    if (refuses) rota_text_say(out, "left out: rota's Hopper kernels: %s\n", refuses);
    if (refuses && evened) rota_text_say(out, "left out: those of uneven rows: %s\n", evened);
    if (refuses && evened) return;
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++) {
        const double cost = rota_matmul_sm90_cost(p, target, t);
        if (cost <= ROTA_MATMUL_COST_MAX) continue;
        rota_text_say(out, "left out: ");
        say_tile(out, &rota_matmul_sm90_tiles[t]);
        rota_text_say(out,
                      ": with idle multiprocessors counted it costs %.2f of the best tile's (at most %.1f)\n",
                      cost, ROTA_MATMUL_COST_MAX);
    }
}

void rota_cuda_why_product(rota_text_out *out, const rota_matmul_params *p, rota_dtype dtype,
                           const rota_cuda_target *target) {
    static const char no_times[] = "an edition of rota that kept no times measured it";
    rota_matmul_choice choice;
    rota_matmul_report report = {0};
    say_product(out, p, dtype);
    if (!rota_matmul_choice_find(p, dtype, target, &choice)) {
        const bool evened =
            target->by_table && rota_matmul_evened_by_table(p) && rota_matmul_evened_takes(p, dtype, target);
        rota_text_say(out, "runs: %s\nwhy: %s\n",
                      evened ? "rota's Hopper kernel of uneven rows, of the tile that leaves the fewest "
                               "multiprocessors idle"
                      : rota_cublaslt_present() ? "the first of cuBLASLt's heuristics that takes the operands"
                                                : "rota's Hopper kernel of the tile that leaves the fewest "
                                                  "multiprocessors idle",
                      target->by_table
                          ? "the plan is deterministic: nothing is measured"
                          : "nothing was measured (no memory for it was free, or none of the ways runs)");
        say_left_out(out, p, dtype, target);
        return;
    }
    const rota_matmul_origin origin = rota_matmul_choice_report(p, dtype, target, &report);
    rota_text_say(out, "runs: ");
    say_way(out, p, &choice);
    rota_text_say(out, "; epilogue: %s\nwhy: %s\n", epilogue_of(p),
                  origin.is_read && !origin.is_known ? no_times
                  : origin.is_read ? "the fastest when an earlier process measured it, from the cache folder"
                  : origin.is_known
                      ? "the fastest as this process measured it"
                      : "the first of cuBLASLt's heuristics that took the operands: nothing was measured");
    if (origin.is_known) say_report(out, p, &report);
    say_left_out(out, p, dtype, target);
}

/* ---- Products alone ---- */

static const rota_kernel *tile_of(const rota_matmul_params *p, rota_dtype dtype,
                                  const rota_cuda_target *target) {
    if (dtype == ROTA_F16) return rota_cuda_tile_matmul_f16(p, target);
    return dtype == ROTA_BF16 ? rota_cuda_tile_matmul_bf16(p, target) : rota_cuda_tile_matmul(p, target);
}

/* The kernel that a product keeps where no other tile suits it better. */
static const char *own_of(rota_dtype dtype) {
    return dtype == ROTA_F16 ? "matmul_f16" : dtype == ROTA_BF16 ? "matmul_bf16" : "matmul";
}

void rota_cuda_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype) {
    const rota_matmul_params *p = use->params;
    const rota_cuda_product_way way = rota_cuda_judge_product(p, dtype, use->slot_mask, use->target);
    if (way == ROTA_CUDA_PRODUCT_BY_LIBRARY) {
        rota_cuda_why_product(out, p, dtype, use->target);
        return;
    }
    const rota_kernel *tile = tile_of(p, dtype, use->target);
    const uint64_t batches = (uint64_t)p->batch[0] * p->batch[1] * p->batch[2];
    say_product(out, p, dtype);
    rota_text_say(out, "runs: rota's portable CUDA kernel '%s'\nwhy: ", tile ? tile->name : own_of(dtype));
    if (way == ROTA_CUDA_PRODUCT_SMALL)
        rota_text_say(
            out,
            "its %llu multiplications are fewer than %llu, from which on a library's kernel is worth its "
            "capture\n",
            (unsigned long long)((uint64_t)p->m * p->n * p->k * batches),
            (unsigned long long)ROTA_CUDA_SMALL_MULTIPLICATIONS);
    else if (way == ROTA_CUDA_PRODUCT_MANY)
        rota_text_say(out,
                      "cuBLASLt would take its batches in several small launches, one after the other\n");
    else
        rota_text_say(out, "nothing faster takes it%s\n",
                      use->slot_mask ? "; operands come from slots, and may lie uneven" : "");
    rota_text_say(
        out,
        "tiles: by table, not measured: 128x128 where those fill three quarters of %u multiprocessors, "
        "32x32 (f32) where 64x64 fill less than half and k is at least 256, else 64x64\n",
        use->target->multiprocessors);
    if (way == ROTA_CUDA_PRODUCT_NO_ONE) say_left_out(out, p, dtype, use->target);
}
