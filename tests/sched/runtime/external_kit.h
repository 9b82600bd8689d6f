/* What tests of points of the application's have in common. */
#ifndef ROTA_TESTS_EXTERNAL_KIT_H
#define ROTA_TESTS_EXTERNAL_KIT_H

#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

enum { WORDS = 512, BYTES = 4 * WORDS };
#define PATIENCE_NS 20000000000u
#define MOMENT_NS 20000000u

/* A runtime with the CPU and an adversary, on one of which the plans are. */
typedef struct scene {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *cpu, *other, *device;
    rota_external_timeline *timeline;
} scene;

scene *open_scene(bool on_other, uint64_t timeout_ns);
void close_scene(scene *s);
rota_ticket submit_after(rota_plan *plan, rota_external_timeline *timeline, uint64_t value);
rota_ticket submit(rota_plan *plan);
void both(void (*fn)(bool on_other));

#endif
