/* A plan as a picture, in a file. */
#include "base/given.h"
#include "base/output.h"
#include "base/sized_copy.h"
#include "sched/plan.h"
#include "sched/plan/dot.h"
#include "sched/plan/drawing.h"
#include "sched/plan/svg.h"

static rota_status write(const rota_drawing *drawing, rota_draw_format format, const char *path) {
    rota_output output;
    ROTA_TRY(rota_output_open(&output, path));
    rota_status status = ROTA_OK;
    if (format == ROTA_DRAW_SVG)
        status = rota_svg_write(output.file, drawing);
    else
        rota_dot_write(output.file, drawing);
    return rota_output_close(&output, status);
}

rota_status rota_plan_draw(const rota_plan *plan, const rota_draw_options *options, const char *path) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(path);
    rota_draw_options room = ROTA_DRAW_OPTIONS();
    if (!options) options = &room;
    options = ROTA_SIZED_IN(rota_draw_options, options, &room);
    if (!options) return ROTA_INVALID_ARGUMENT;
    if ((uint32_t)options->format > ROTA_DRAW_SVG)
        return rota_fail(ROTA_INVALID_ARGUMENT, "rota_plan_draw: there is no rota_draw_format %u",
                         (uint32_t)options->format);
    rota_drawing drawing;
    rota_status status = rota_drawing_make(plan, options->collapse, &drawing);
    if (status == ROTA_OK) status = write(&drawing, options->format, path);
    rota_drawing_free(&drawing);
    return status;
}

rota_status rota_plan_write_dot(const rota_plan *plan, const char *path) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(path);
    return rota_plan_draw(plan, &ROTA_DRAW_OPTIONS(.format = ROTA_DRAW_DOT), path);
}
