/* See external_kit.h. */
#include "tests/sched/runtime/external_kit.h"

#include <stdlib.h>

scene *open_scene(bool on_other, uint64_t timeout_ns) {
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->options.seed = 3;
    assert_ok(
        adversary_runtime_open(&s->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns), &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cpu", &s->cpu));
    assert_ok(rota_device_open(s->runtime, "adversary", &s->other));
    s->device = on_other ? s->other : s->cpu;
    assert_ok(rota_external_timeline_create(s->runtime, "frames", &s->timeline));
    return s;
}

void close_scene(scene *s) {
    rota_external_timeline_release(s->timeline);
    assert_ok(rota_runtime_close(s->runtime, 0));
    assert_int_equal(s->options.violations, 0);
    free(s);
}

rota_ticket submit_after(rota_plan *plan, rota_external_timeline *timeline, uint64_t value) {
    const rota_external_point point = {timeline, value};
    rota_ticket ticket;
    assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &ticket));
    return ticket;
}

rota_ticket submit(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    return ticket;
}

void both(void (*fn)(bool on_other)) {
    fn(false);
    fn(true);
}
