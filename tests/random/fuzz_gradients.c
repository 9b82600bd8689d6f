/* rota-fuzz-gradients: random programs of ops, views and calls of rota_backward, on a device and in f64,
 * where gradients are differences. Every program follows from its seed; one that fails is printed, and what
 * is left of it when all is taken away that the failure does not need. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "tests/random/gradient_program.h"

static const char usage[] = "rota-fuzz-gradients [--device cpu|vk:0|cuda:0|...] [--count N] [--seed S] "
                            "[--seconds N] [--validation] [--print] [--no-shrink] [--go-on]\n";

enum { CERTIFIED = 16 }; /* one of so many plans is looked at by the certificate */

static void log_line(void *user, rota_log_level level, const char *message) {
    uint32_t *errors = user;
    if (level < ROTA_LOG_ERROR) return;
    __atomic_fetch_add(errors, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "rota: %s\n", message);
}

int main(int argc, char **argv) {
    const char *id = "cpu";
    uint64_t count = 1000, seed = 1, seconds = 0;
    bool print = false, shrink = true, go_on = false, validation = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(option, "--print") == 0) {
            print = true;
        } else if (strcmp(option, "--no-shrink") == 0) {
            shrink = false;
        } else if (strcmp(option, "--go-on") == 0) {
            go_on = true;
        } else if (strcmp(option, "--validation") == 0) {
            validation = true;
        } else {
            i++;
            if (strcmp(option, "--device") == 0)
                id = value;
            else if (strcmp(option, "--count") == 0)
                count = strtoull(value, NULL, 0);
            else if (strcmp(option, "--seed") == 0)
                seed = strtoull(value, NULL, 0);
            else if (strcmp(option, "--seconds") == 0)
                seconds = strtoull(value, NULL, 0);
            else {
                fputs(usage, stderr);
                return 1;
            }
        }
    }
    uint32_t errors = 0;
    rota_runtime *runtime;
    rota_device *device;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.log = {log_line, &errors, ROTA_LOG_WARNING},
                                                              .worker_threads = 2, .validation = validation);
    rota_status status = rota_runtime_open(&options, &runtime);
    if (status == ROTA_OK) status = rota_device_open(runtime, id, &device);
    if (status == ROTA_NOT_FOUND || status == ROTA_UNSUPPORTED) {
        printf("skipped: %s is not usable: %s\n", id, rota_last_error());
        return 77;
    }
    if (status != ROTA_OK) {
        fprintf(stderr, "rota-fuzz-gradients: %s: %s\n", id, rota_last_error());
        return 2;
    }
    static program p;
    const uint64_t begin = rota_clock_ns();
    uint64_t done = 0, outcomes[PROGRAM_WRONG + 1] = {0}, items = 0, calls = 0;
    for (; done < count && (go_on || outcomes[PROGRAM_WRONG] == 0); done++) {
        char text[512];
        program_source source = {.random = seed + done};
        if (seconds && rota_clock_ns() - begin > seconds * 1000000000u) break;
        program_draw(&p, &source);
        if (print) program_print(&p);
        const program_outcome outcome =
            program_check(&p, runtime, device, (seed + done) % CERTIFIED == 0, text, sizeof text);
        outcomes[outcome]++;
        items += p.item_count;
        calls += p.call_count;
        if (outcome != PROGRAM_WRONG) continue;
        fprintf(stderr,
                "FAILED seed %" PRIu64 ": %s\nrepeat: rota-fuzz-gradients --device %s --seed %" PRIu64
                " --count 1\n",
                seed + done, text, id, seed + done);
        if (shrink) {
            program_shrink(&p, runtime, device);
            (void)program_check(&p, runtime, device, false, text, sizeof text);
            fprintf(stderr, "what is left: %s\n", text);
        }
        program_print(&p);
    }
    status = rota_runtime_close(runtime, 10000000000u);
    if (status != ROTA_OK) fprintf(stderr, "rota-fuzz-gradients: closing: %s\n", rota_last_error());
    printf("%s: %" PRIu64 " programs from seed %" PRIu64 ", %" PRIu64 " steps, %" PRIu64 " calls: %" PRIu64
           " good, %" PRIu64 " refused rightly, %" PRIu64 " too steep, %" PRIu64 " wrong; %.1f s\n",
           id, done, seed, items, calls, outcomes[PROGRAM_GOOD], outcomes[PROGRAM_REFUSED],
           outcomes[PROGRAM_STEEP], outcomes[PROGRAM_WRONG], (double)(rota_clock_ns() - begin) * 1e-9);
    return outcomes[PROGRAM_WRONG] || errors || status != ROTA_OK ? 2 : 0;
}
