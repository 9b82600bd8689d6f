/* Conjugate gradient as a graph: each iteration decides on the device whether there is one more. */
#ifndef ROTA_EXAMPLES_CG_SOLVE_H
#define ROTA_EXAMPLES_CG_SOLVE_H

#include "examples/cg/matrix.h"
#include "rota.h"

/* What the iterations know of how far they are, in a buffer: each field is a range of its own to the graph. */
typedef struct cg_state {
    double square;    /* r.r, of the residual r */
    double enough;    /* where r.r is no more than this, it is done */
    double step, mix; /* x += step p; p = r + mix p */
    uint32_t more;    /* whether another iteration is due: what the while node reads */
    uint32_t iterations;
} cg_state;

typedef struct cg_solver {
    rota_runtime *runtime;
    rota_device *device;
    uint64_t rows, entries, iterations_max;
    double tolerance;
    rota_buffer *starts, *columns, *values, *b, *x, *state;
    /* Of the loop on the host, whose submissions hand them on; else transients. */
    rota_buffer *r, *p, *q, *parts;
    rota_plan *plan; /* all of it; with the loop on the host: what comes before the first iteration */
    rota_plan *step; /* an iteration, of the loop on the host */
} cg_solver;

typedef struct cg_result {
    uint64_t iterations;
    double residual; /* its norm over that of b, as the iterations know it */
    double seconds;  /* from submit to the end, as the host sees it */
} cg_result;

/* Writes `m` and b to the device and compiles. The solver is zeroed, and freed by cg_solver_free either way; it borrows
 * runtime and device, not m and b. `is_host_loop`: with a submission an iteration. */
rota_status cg_solver_create(rota_runtime *runtime, rota_device *device, const sparse_matrix *m,
                             const double *b, double tolerance, uint64_t iterations_max, bool is_host_loop,
                             cg_solver *out);
void cg_solver_free(cg_solver *solver);

/* From x = 0 until |r| <= tolerance |b|. As often as one likes. NODE_FAILED: more iterations than iterations_max, or a
 * matrix that is not positive definite. */
rota_status cg_solve(const cg_solver *solver, cg_result *out);

/* `x` has as many numbers as the matrix has rows. */
rota_status cg_read(const cg_solver *solver, double *x);

#endif
