/* Measuring ways of doing the same work, by the clock of a stand-in for the CUDA driver. */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && defined(ROTA_STANDINS)

#include <dlfcn.h>
#include <string.h>
#include "exec/cuda/cuda_api.h"
#include "ops/cuda/image.h"
#include "ops/cuda/measure.h"

/* A device whose clock settles under load: until it has worked for `cold_ms`, work takes four times as long.
 */
typedef struct device {
    double *clock_ms, worked_ms, cold_ms;
    const double *takes_ms;        /* by candidate; 0: it can't */
    const double *first_launch_ms; /* NULL: none; by candidate, what its graph's first launch takes more */
    const double *calls_ms; /* NULL: none; by candidate, what its call takes where it is not captured */
    uint32_t not_captured;  /* from 1: the candidate that can't be */
    uint32_t breaks; /* from 1: the candidate that breaks a capture, and has an error of its own then */
    uint32_t runs, held_up; /* run, from 1, that takes 10 ms more */
} device;

static double *standin_clock_ms, *standin_first_launch_ms;
static int *standin_captures, *standin_refuses_capture, *standin_breaks_capture;
static char some_stream;

static rota_status run(void *user, uint32_t candidate) {
    device *d = user;
    double ms = d->takes_ms[candidate];
    if (ms == 0 || (*standin_captures && candidate + 1 == d->not_captured)) return ROTA_UNSUPPORTED;
    if (*standin_captures && candidate + 1 == d->breaks) {
        *standin_breaks_capture = 1;
        return rota_fail(ROTA_INTERNAL, "not while it is captured");
    }
    *standin_first_launch_ms = d->first_launch_ms ? d->first_launch_ms[candidate] : 0;
    if (d->worked_ms < d->cold_ms) ms *= 4;
    if (d->runs + 1 == d->held_up) *d->clock_ms += 10;
    if (d->calls_ms && !*standin_captures && ms < d->calls_ms[candidate]) ms = d->calls_ms[candidate];
    d->worked_ms += ms;
    *d->clock_ms += ms;
    d->runs++;
    return ROTA_OK;
}

static int open_standin(void **state) {
    (void)state;
    void *cuda = dlopen(ROTA_STANDINS "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    standin_clock_ms = cuda ? dlsym(cuda, "standin_clock_ms") : NULL;
    standin_first_launch_ms = cuda ? dlsym(cuda, "standin_first_launch_ms") : NULL;
    standin_captures = cuda ? dlsym(cuda, "standin_captures") : NULL;
    standin_refuses_capture = cuda ? dlsym(cuda, "standin_refuses_capture") : NULL;
    standin_breaks_capture = cuda ? dlsym(cuda, "standin_breaks_capture") : NULL;
    return standin_clock_ms && standin_first_launch_ms && standin_captures && standin_refuses_capture &&
                   standin_breaks_capture
               ? 0
               : -1;
}

/* The driver's functions are looked up by version, and what it says of that is believed, whatever address
 * comes with it. */
static void what_the_driver_has(void **state) {
    (void)state;
    rota_cuda_api api;
    assert_ok(rota_cuda_api_load(ROTA_STANDINS "/libcuda.so.1", &api));
    assert_non_null(api.LaunchKernel);
    const char **newer = dlsym(dlopen(ROTA_STANDINS "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "standin_newer");
    assert_non_null(newer);
    *newer = "cuLaunchKernel";
    assert_status(rota_cuda_api_load(ROTA_STANDINS "/libcuda.so.1", &api), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "has no cuLaunchKernel"));
    *newer = NULL;
}

static rota_status measure_all(device *d, uint32_t count, uint32_t *out_best) {
    rota_measure *measure;
    uint32_t candidate;
    d->clock_ms = standin_clock_ms;
    assert_ok(rota_measure_begin((CUstream)(void *)&some_stream, count, &measure));
    while (rota_measure_next(measure, &candidate)) {
        assert_in_range(candidate, 0, count - 1);
        rota_measure_ran(measure, run(d, candidate));
    }
    assert_false(rota_measure_next(measure, &candidate));
    return rota_measure_end(measure, out_best);
}

static uint32_t fastest(device *d, uint32_t count) {
    uint32_t best = UINT32_MAX;
    assert_ok(measure_all(d, count, &best));
    return best;
}

/* The fastest is found wherever it stands in the list, though the device is cold when the first are looked
 * at.
 */
static void cold_device(void **state) {
    (void)state;
    enum { COUNT = 20 };
    for (uint32_t best = 0; best < COUNT; best++)
        for (uint32_t k = 0; k < 3; k++) {
            const double scale = (double[]){0.02, 0.2, 2}[k];
            double takes_ms[COUNT];
            for (uint32_t i = 0; i < COUNT; i++) takes_ms[i] = scale * (1.3 + 0.01 * (i * 7 % COUNT));
            takes_ms[best] = scale;
            device d = {.cold_ms = 15, .takes_ms = takes_ms};
            assert_int_equal(fastest(&d, COUNT), best);
        }
}

/* What can't is left out, first in the list or not; what is hopeless costs little. */
static void left_out(void **state) {
    (void)state;
    device d = {.takes_ms = (double[]){0, 3, 1, 0, 100}};
    assert_int_equal(fastest(&d, 5), 2);
    assert_true(d.worked_ms < 4 * 100 + 200);
    d = (device){.takes_ms = (double[]){0, 0}};
    uint32_t best;
    assert_status(measure_all(&d, 2, &best), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "none of 2 ways"));
}

/* None at all; and one that fails ends it, with its status, at whichever of its runs. */
static void fails(void **state) {
    (void)state;
    rota_measure *measure;
    uint32_t best, candidate;
    assert_ok(rota_measure_begin((CUstream)(void *)&some_stream, 0, &measure));
    assert_false(rota_measure_next(measure, &candidate));
    assert_status(rota_measure_end(measure, &best), ROTA_UNSUPPORTED);
    device whole = {.takes_ms = (double[]){1, 1.2, 3}};
    assert_int_equal(fastest(&whole, 3), 0);
    for (uint32_t failing = 1; failing <= whole.runs; failing++) {
        device d = {.takes_ms = whole.takes_ms, .clock_ms = standin_clock_ms};
        assert_ok(rota_measure_begin((CUstream)(void *)&some_stream, 3, &measure));
        uint32_t runs = 0;
        while (rota_measure_next(measure, &candidate)) {
            assert_true(runs < failing);
            rota_measure_ran(measure, ++runs == failing ? ROTA_INTERNAL : run(&d, candidate));
        }
        assert_int_equal(runs, failing);
        assert_status(rota_measure_end(measure, &best), ROTA_INTERNAL);
    }
}

/* The fastest isn't lost, though something else holds it up for a moment, whenever that is. */
static void held_up(void **state) {
    (void)state;
    for (uint32_t best = 0; best < 2; best++)
        for (uint32_t run = 1; run < 200; run++) {
            device d = {.takes_ms = (double[]){best ? 1.45 : 0.8, best ? 0.8 : 1.45}, .held_up = run};
            assert_int_equal(fastest(&d, 2), best);
        }
}

/* A plan's graph is what is measured: the shorter kernel is the faster, whose call takes the longer. Where nothing can
 * be captured the calls are. What can't be captured is left out, though it would be the fastest. */
static void calls_that_take_longer(void **state) {
    (void)state;
    device d = {.takes_ms = (double[]){0.0035, 0.0047, 0.003},
                .calls_ms = (double[]){0.008, 0.002, 0},
                .not_captured = 3};
    assert_int_equal(fastest(&d, 3), 0);
    d.not_captured = 0;
    d.breaks = 3;
    assert_int_equal(fastest(&d, 3), 0);
    *standin_refuses_capture = 1;
    d.worked_ms = 0;
    assert_int_equal(fastest(&d, 2), 1);
    *standin_refuses_capture = 0;
}

/* Nor is the first launch of a graph, of which there is one for each look: whose own takes longer is the faster. */
static void first_launches_that_take_longer(void **state) {
    (void)state;
    device d = {.takes_ms = (double[]){0.0047, 0.0032}, .first_launch_ms = (double[]){0.011, 0.03}};
    assert_int_equal(fastest(&d, 2), 1);
    d = (device){.takes_ms = (double[]){0.0032, 0.0047}, .first_launch_ms = (double[]){0.03, 0.011}};
    assert_int_equal(fastest(&d, 2), 0);
}

/* A clock that doesn't move (work too short for it) ends, too. */
static void no_time_at_all(void **state) {
    (void)state;
    device d = {.takes_ms = (double[]){1e-9, 1e-9, 1e-9}};
    assert_in_range(fastest(&d, 3), 0, 2);
    assert_true(d.runs < 10000);
}

/* A kernel that needs more than the driver allows a block is one that can't be run here: no device is lost. */
static void more_shared_memory_than_there_is(void **state) {
    (void)state;
    CUfunction function;
    assert_ok(rota_cuda_image_function(&some_stream, "wide", 227 * 1024, &function));
    assert_int_equal(rota_cuda_image_function(&some_stream, "wide", 227 * 1024 + 16, &function),
                     ROTA_UNSUPPORTED);
    assert_string_equal(rota_last_error(),
                        "kernel 'wide' needs 232464 bytes of shared memory a block, and the "
                        "driver allows it less (cuFuncSetAttribute)");
    assert_int_equal(rota_cuda_image_function(&some_stream, "", 0, &function), ROTA_DEVICE_LOST);
    assert_non_null(strstr(rota_last_error(), "cuLibraryGetKernel of kernel ''"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cold_device),
                                       cmocka_unit_test(left_out),
                                       cmocka_unit_test(fails),
                                       cmocka_unit_test(held_up),
                                       cmocka_unit_test(no_time_at_all),
                                       cmocka_unit_test(calls_that_take_longer),
                                       cmocka_unit_test(first_launches_that_take_longer),
                                       cmocka_unit_test(more_shared_memory_than_there_is),
                                       cmocka_unit_test(what_the_driver_has)};
    return cmocka_run_group_tests(tests, open_standin, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers, or cuDNN's, which the stand-ins are made with */
}

#endif
