/* Pictures of a plan, which several programs write when asked to. */
#ifndef ROTA_BENCH_PICTURES_H
#define ROTA_BENCH_PICTURES_H

#include "bench/options.h"
#include "sched/plan.h"

typedef struct plan_pictures {
    const char *dot, *svg; /* files; NULL: not asked for */
    bool collapse;
} plan_pictures;

#define OPTION_ROWS_PICTURES(pictures)                                                                       \
    {"--dot", OPTION_OUTPUT, &(pictures).dot, "FILE", 0, 0, false, "write the plan there for Graphviz"},     \
        {"--svg", OPTION_OUTPUT, &(pictures).svg, "FILE", 0, 0, false, "write the plan there as a picture"}, \
    {                                                                                                        \
        "--collapse", OPTION_FLAG, &(pictures).collapse, NULL, 0, 0, false,                                  \
            "of --dot and --svg: nodes in a row whose names begin alike, such as 'layer 3', are drawn as "   \
            "one"                                                                                            \
    }

/* False, with a sentence: what is collapsed is not asked for. */
static inline bool plan_pictures_good(const option_table *table, const plan_pictures *pictures) {
    if (!pictures->collapse || pictures->dot || pictures->svg) return true;
    options_bad(table, "--collapse goes with --dot or --svg");
    return false;
}

static inline rota_status plan_pictures_write(const plan_pictures *pictures, const rota_plan *plan) {
    rota_status status = ROTA_OK;
    rota_draw_options options = ROTA_DRAW_OPTIONS(.format = ROTA_DRAW_DOT, .collapse = pictures->collapse);
    if (pictures->dot) status = rota_plan_draw(plan, &options, pictures->dot);
    options.format = ROTA_DRAW_SVG;
    if (pictures->svg && status == ROTA_OK) status = rota_plan_draw(plan, &options, pictures->svg);
    return status;
}

#endif
