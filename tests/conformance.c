/* conformance: the scenarios of SCENARIOS.md and the promises of the public calls, on one device. */
#include "tests/conformance.h"

#include <stdlib.h>

static const conf_case *const groups[] = {conf_cases_s1, conf_cases_s2, conf_cases_s3,
                                          conf_cases_s4, conf_cases_s5, conf_cases_contract};

static const char usage[] = "conformance [--device cpu|adversary|vk:0|...] [--full] [--seed S] [--case NAME] "
                            "[--validation] [--patience SECONDS] [--list]\n";

/* 0 usable, 77 not (ctest's skip), 1 neither. */
static int probe(conf *c) {
    rota_runtime *runtime = NULL;
    rota_device *device = NULL;
    c->expect_errors = true;
    bool good = conf_open(c, NULL, &runtime, &device);
    c->expect_errors = false;
    if (good) return conf_close(c, runtime) ? 0 : 1;
    printf("skipped, every case: %s\n", c->why);
    return 77;
}

int main(int argc, char **argv) {
    static conf c = {.device = "cpu", .seed = 1};
    const char *only = NULL;
    bool list = false;
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--device") == 0 && has_value)
            c.device = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && has_value)
            c.seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--case") == 0 && has_value)
            only = argv[++i];
        else if (strcmp(argv[i], "--patience") == 0 && has_value)
            conf_patience_ns = strtoull(argv[++i], NULL, 0) * 1000000000u;
        else if (strcmp(argv[i], "--full") == 0)
            c.full = true;
        else if (strcmp(argv[i], "--validation") == 0)
            c.validation = true;
        else if (strcmp(argv[i], "--list") == 0)
            list = true;
        else {
            fputs(usage, stderr);
            return 1;
        }
    }
    int usable = list ? 0 : probe(&c);
    if (usable) return usable;
    uint32_t passed = 0, failed = 0, skipped = 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const conf_case *one = groups[g]; one->name; one++) {
            if (only && strncmp(one->name, only, strlen(only)) != 0) continue;
            if (list) {
                printf("%s\n", one->name);
                continue;
            }
            /* A case of its own memory: what a failed one left in flight may still use it. */
            conf *mine = malloc(sizeof *mine);
            if (!mine) return 1;
            memcpy(mine, &c, sizeof c);
            pthread_mutex_init(&mine->lock, NULL);
            uint64_t begin = rota_clock_ns();
            bool good = conf_run(mine, one);
            printf("%-7s %-28s %6.2f s%s%s\n",
                   !good           ? "FAILED"
                   : mine->skipped ? "skipped"
                                   : "ok",
                   one->name, (double)(rota_clock_ns() - begin) * 1e-9, mine->why[0] ? "  " : "", mine->why);
            if (good && mine->digest) printf("        digest %016llx\n", (unsigned long long)mine->digest);
            fflush(stdout);
            passed += good && !mine->skipped;
            skipped += good && mine->skipped;
            failed += !good;
            if (good) free(mine);
        }
    if (!list)
        printf("%s, seed %llu: %u passed, %u failed, %u skipped\n", c.device, (unsigned long long)c.seed,
               passed, failed, skipped);
    return failed ? 2 : 0;
}
