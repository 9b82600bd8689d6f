/* Conjugate gradient (Hestenes and Stiefel, 1952) as a graph:
 *
 *     begin:      x = 0, r = p = b                      --> r.r --> more
 *     while more: q = A p --> p.q --> step = r.r / p.q  --> x += step p
 *                                                       --> r -= step q --> r.r --> mix, more --> p = r + mix p
 *
 * Sums are made of blocks of rows that don't depend on how many threads there are, so the result is the same to the
 * bit; the product, the sums and the updates are split over all of them. */
#include "examples/cg/solve.h"

#include <math.h>
#include "base/clock.h"
#include "examples/cg/kernels.h"
#include "examples/common/plans.h"

#define COUNT(list) (uint32_t)(sizeof(list) / sizeof *(list))

/* ---- Nodes ---- */

/* What nodes are recorded with: buffers are the solver's or transients. */
typedef struct cg_recording {
    const cg_solver *solver;
    rota_recorder *recorder;
    rota_buffer *r, *p, *q, *parts;
} cg_recording;

#define STATE(solver, field, mode)                                                                           \
    { (solver)->state, offsetof(cg_state, field), sizeof((cg_state *)0)->field, mode }
/* `more` and `iterations` together. */
#define STATE_COUNTS(solver, mode)                                                                           \
    { (solver)->state, offsetof(cg_state, more), 8, mode }

static rota_status record(const cg_recording *c, const rota_kernel *kernel, const char *name,
                          const rota_access *accesses, uint32_t count, double factor) {
    const cg_solver *s = c->solver;
    cg_params params = {.rows = s->rows, .grain = CG_GRAIN_ROWS, .factor = factor};
    if (kernel == &cg_kernel_product) params.grain = 1 + CG_GRAIN_ENTRIES * s->rows / s->entries;
    return rota_record_kernel(c->recorder,
                              &ROTA_KERNEL_NODE(.kernel = kernel, .name = name, .accesses = accesses,
                                                .access_count = count, .params = &params),
                              NULL);
}

static rota_status record_dot(const cg_recording *c, const char *name, rota_buffer *a, rota_buffer *b) {
    const rota_access accesses[] = {
        {a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_READ}, {c->parts, 0, ROTA_WHOLE, ROTA_WRITE}};
    return record(c, &cg_kernel_dot, name, accesses, COUNT(accesses), 0);
}

static rota_status record_begin(const cg_recording *c) {
    const cg_solver *s = c->solver;
    const uint64_t bytes = s->rows * sizeof(double);
    ROTA_TRY(rota_record_fill(c->recorder, s->x, 0, bytes, 0, NULL));
    ROTA_TRY(rota_record_copy(c->recorder, c->r, 0, s->b, 0, bytes, NULL));
    ROTA_TRY(rota_record_copy(c->recorder, c->p, 0, s->b, 0, bytes, NULL));
    /* What only iterations write is written, too, where there are none. */
    ROTA_TRY(rota_record_fill(c->recorder, s->state, offsetof(cg_state, step), 2 * sizeof(double), 0, NULL));
    ROTA_TRY(record_dot(c, "r.r", c->r, c->r));
    const rota_access accesses[] = {{c->parts, 0, ROTA_WHOLE, ROTA_READ},
                                    STATE(s, square, ROTA_WRITE),
                                    STATE(s, enough, ROTA_WRITE),
                                    STATE_COUNTS(s, ROTA_WRITE)};
    return record(c, &cg_kernel_begin, NULL, accesses, COUNT(accesses), s->tolerance);
}

static rota_status record_iteration(const cg_recording *c) {
    const cg_solver *s = c->solver;
    const rota_access of_product[] = {{s->starts, 0, ROTA_WHOLE, ROTA_READ},
                                      {s->columns, 0, ROTA_WHOLE, ROTA_READ},
                                      {s->values, 0, ROTA_WHOLE, ROTA_READ},
                                      {c->p, 0, ROTA_WHOLE, ROTA_READ},
                                      {c->q, 0, ROTA_WHOLE, ROTA_WRITE}};
    ROTA_TRY(record(c, &cg_kernel_product, "q = A p", of_product, COUNT(of_product), 0));
    ROTA_TRY(record_dot(c, "p.q", c->p, c->q));
    const rota_access of_step[] = {
        {c->parts, 0, ROTA_WHOLE, ROTA_READ}, STATE(s, square, ROTA_READ), STATE(s, step, ROTA_WRITE)};
    ROTA_TRY(record(c, &cg_kernel_choose_step, NULL, of_step, COUNT(of_step), 0));
    const rota_access of_r[] = {
        {c->q, 0, ROTA_WHOLE, ROTA_READ}, STATE(s, step, ROTA_READ), {c->r, 0, ROTA_WHOLE, ROTA_READWRITE}};
    ROTA_TRY(record(c, &cg_kernel_update, "r -= step q", of_r, COUNT(of_r), -1));
    const rota_access of_x[] = {
        {c->p, 0, ROTA_WHOLE, ROTA_READ}, STATE(s, step, ROTA_READ), {s->x, 0, ROTA_WHOLE, ROTA_READWRITE}};
    ROTA_TRY(record(c, &cg_kernel_update, "x += step p", of_x, COUNT(of_x), 1));
    ROTA_TRY(record_dot(c, "r.r", c->r, c->r));
    const rota_access of_mix[] = {{c->parts, 0, ROTA_WHOLE, ROTA_READ},
                                  STATE(s, square, ROTA_READWRITE),
                                  STATE(s, enough, ROTA_READ),
                                  STATE(s, mix, ROTA_WRITE),
                                  STATE_COUNTS(s, ROTA_READWRITE)};
    ROTA_TRY(record(c, &cg_kernel_choose_mix, NULL, of_mix, COUNT(of_mix), 0));
    const rota_access of_turn[] = {
        {c->r, 0, ROTA_WHOLE, ROTA_READ}, STATE(s, mix, ROTA_READ), {c->p, 0, ROTA_WHOLE, ROTA_READWRITE}};
    return record(c, &cg_kernel_turn, "p = r + mix p", of_turn, COUNT(of_turn), 0);
}

/* ---- Graphs ---- */

static rota_status transient(const cg_recording *c, const char *name, uint64_t count, rota_buffer **out) {
    return rota_recorder_buffer(c->recorder, ROTA_BUFFER_TRANSIENT, name, count * sizeof(double), out);
}

static rota_status record_body(cg_recording c, rota_graph *body) {
    rota_status status = rota_recorder_open(body, 0, NULL, &c.recorder);
    if (status == ROTA_OK) status = transient(&c, "q", c.solver->rows, &c.q);
    if (status == ROTA_OK) status = transient(&c, "parts", cg_blocks(c.solver->rows), &c.parts);
    if (status == ROTA_OK) status = record_iteration(&c);
    rota_recorder_close(c.recorder);
    return status;
}

/* All of it: the iterations are the body of a while node. */
static rota_status record_solve(const void *user, rota_graph *graph, rota_recorder *recorder) {
    const cg_solver *s = user;
    cg_recording c = {.solver = s, .recorder = recorder};
    rota_graph *body = NULL;
    ROTA_TRY(transient(&c, "r", s->rows, &c.r));
    ROTA_TRY(transient(&c, "p", s->rows, &c.p));
    ROTA_TRY(transient(&c, "parts", cg_blocks(s->rows), &c.parts));
    ROTA_TRY(record_begin(&c));
    ROTA_TRY(rota_graph_create_body(graph, "iteration", &body));
    rota_status status = record_body(c, body);
    if (status == ROTA_OK)
        status = rota_record_while(recorder,
                                   &ROTA_WHILE_NODE(.name = "solve", .condition = s->state,
                                                    .condition_offset_bytes = offsetof(cg_state, more),
                                                    .body = body, .iterations_max = s->iterations_max),
                                   NULL);
    if (status != ROTA_OK) rota_graph_release(body);
    return status;
}

/* Of the loop on the host, with buffers that stay from one submission to the next. */
static rota_status record_host_begin(const void *user, rota_graph *graph, rota_recorder *recorder) {
    const cg_solver *s = user;
    (void)graph;
    return record_begin(&(cg_recording){s, recorder, s->r, s->p, s->q, s->parts});
}

static rota_status record_host_iteration(const void *user, rota_graph *graph, rota_recorder *recorder) {
    const cg_solver *s = user;
    (void)graph;
    return record_iteration(&(cg_recording){s, recorder, s->r, s->p, s->q, s->parts});
}

/* ---- The solver ---- */

static rota_status make_buffer(const cg_solver *s, const char *name, uint64_t bytes, const void *data,
                               rota_buffer **out) {
    return plans_buffer(s->runtime, s->device, name, bytes, data, out);
}

rota_status cg_solver_create(rota_runtime *runtime, rota_device *device, const sparse_matrix *m,
                             const double *b, double tolerance, uint64_t iterations_max, bool is_host_loop,
                             cg_solver *out) {
    *out = (cg_solver){.runtime = runtime,
                       .device = device,
                       .rows = m->rows,
                       .entries = m->entries,
                       .iterations_max = iterations_max,
                       .tolerance = tolerance};
    const uint64_t bytes = m->rows * sizeof(double);
    ROTA_TRY(make_buffer(out, "starts", (m->rows + 1) * sizeof *m->starts, m->starts, &out->starts));
    ROTA_TRY(make_buffer(out, "columns", m->entries * sizeof *m->columns, m->columns, &out->columns));
    ROTA_TRY(make_buffer(out, "values", m->entries * sizeof *m->values, m->values, &out->values));
    ROTA_TRY(make_buffer(out, "b", bytes, b, &out->b));
    ROTA_TRY(make_buffer(out, "x", bytes, NULL, &out->x));
    ROTA_TRY(make_buffer(out, "state", sizeof(cg_state), NULL, &out->state));
    if (!is_host_loop)
        return plans_compile(runtime, device, "conjugate gradient", record_solve, out, &out->plan);
    ROTA_TRY(make_buffer(out, "r", bytes, NULL, &out->r));
    ROTA_TRY(make_buffer(out, "p", bytes, NULL, &out->p));
    ROTA_TRY(make_buffer(out, "q", bytes, NULL, &out->q));
    ROTA_TRY(make_buffer(out, "parts", cg_blocks(m->rows) * sizeof(double), NULL, &out->parts));
    ROTA_TRY(plans_compile(runtime, device, "conjugate gradient begins", record_host_begin, out, &out->plan));
    return plans_compile(runtime, device, "iteration of conjugate gradient", record_host_iteration, out,
                         &out->step);
}

void cg_solver_free(cg_solver *s) {
    rota_plan_release(s->plan);
    rota_plan_release(s->step);
    rota_buffer *const buffers[] = {s->starts, s->columns, s->values, s->b, s->x,
                                    s->state,  s->r,       s->p,      s->q, s->parts};
    for (size_t i = 0; i < COUNT(buffers); i++) rota_buffer_release(buffers[i]);
    *s = (cg_solver){0};
}

static rota_status read_state(const cg_solver *s, cg_state *out) {
    return rota_buffer_read(s->state, 0, out, sizeof *out);
}

/* A submission an iteration; what the device decides comes to the host each time. */
static rota_status loop_on_host(const cg_solver *s, cg_state *out) {
    ROTA_TRY(plans_replay(s->plan));
    ROTA_TRY(read_state(s, out));
    while (out->more) {
        if (out->iterations == s->iterations_max)
            return rota_fail(
                ROTA_NODE_FAILED,
                "the residual is %g of the right-hand side after %llu iterations, the most it may "
                "have",
                sqrt(out->square / out->enough) * s->tolerance, (unsigned long long)s->iterations_max);
        ROTA_TRY(plans_replay(s->step));
        ROTA_TRY(read_state(s, out));
    }
    return ROTA_OK;
}

rota_status cg_solve(const cg_solver *s, cg_result *out) {
    cg_state state;
    const uint64_t begin_ns = rota_clock_ns();
    if (s->step)
        ROTA_TRY(loop_on_host(s, &state));
    else
        ROTA_TRY(plans_replay(s->plan));
    const uint64_t end_ns = rota_clock_ns();
    if (!s->step) ROTA_TRY(read_state(s, &state));
    if (!isfinite(state.square)) /* of a GPU's kernels, which have no errors of their own */
        return state.iterations
                   ? rota_fail(ROTA_NODE_FAILED,
                               "p.Ap is not more than 0 in iteration %u: the matrix is not positive definite",
                               state.iterations - 1)
                   : rota_fail(ROTA_NODE_FAILED, "the right-hand side's norm is too large: its square is %g",
                               state.square);
    *out = (cg_result){.iterations = state.iterations,
                       .residual = state.enough > 0 ? sqrt(state.square / state.enough) * s->tolerance : 0,
                       .seconds = (double)(end_ns - begin_ns) / 1e9};
    return ROTA_OK;
}

rota_status cg_read(const cg_solver *s, double *x) {
    return rota_buffer_read(s->x, 0, x, s->rows * sizeof *x);
}
