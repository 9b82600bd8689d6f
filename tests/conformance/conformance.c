/* conformance: the scenarios of SCENARIOS.md and the promises of the public calls, on one device. */
#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <unistd.h>

static const conf_case *const groups[] = {conf_cases_s1, conf_cases_s2, conf_cases_s3,
                                          conf_cases_s4, conf_cases_s5, conf_cases_contract};

static const char usage[] =
    "conformance [--device cpu|adversary|vk:0|...] [--full | --repeats N] [--seed S] "
    "[--case NAME[,NAME...]] [--part K/N]\n"
    "            [--validation] [--patience SECONDS] [--list]\n"
    "NAME: a case's, or what several begin with. K/N: of N processes that share the cases' "
    "repetitions and S3's ops, this is the K-th\n";

static bool is_case(const char *name, size_t length) {
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const conf_case *one = groups[g]; one->name; one++)
            if (strlen(one->name) == length && strncmp(one->name, name, length) == 0) return true;
    return false;
}

/* Whether one of the names separated by commas is this one, or is no case's and what this one begins with. */
static bool chosen(const char *names, const char *name) {
    for (; names; names = strchr(names, ',')) {
        names += *names == ',';
        const size_t length = strcspn(names, ",");
        if (length == 0 || strncmp(name, names, length) != 0) continue;
        if (name[length] == 0 || !is_case(names, length)) return true;
    }
    return false;
}

/* "K/N", K from 1 to N. */
static bool parse_part(const char *text, conf *c) {
    unsigned part, parts;
    int end = 0;
    if (sscanf(text, "%u/%u%n", &part, &parts, &end) != 2 || text[end] || part < 1 || part > parts)
        return false;
    c->part = part - 1;
    c->parts = parts;
    return true;
}

/* 0 usable, 77 not there (ctest's skip), 1 neither: it is there and is refused, or does not close. */
static int probe(conf *c) {
    rota_runtime *runtime = NULL;
    rota_device *device = NULL;
    c->expect_errors = true;
    bool good = conf_open(c, NULL, &runtime, &device);
    c->expect_errors = false;
    if (good) return conf_close(c, runtime) ? 0 : 1;
    printf("%s: %s\n", c->is_absent ? "skipped, every case" : "FAILED, every case", c->why);
    return c->is_absent ? 77 : 1;
}

static int run_all(int argc, char **argv) {
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
        else if (strcmp(argv[i], "--repeats") == 0 && has_value)
            c.repeats = (uint32_t)strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--part") == 0 && has_value && parse_part(argv[i + 1], &c))
            i++;
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
            if (only && !chosen(only, one->name)) continue;
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
    if (only && passed + failed + skipped == 0 && !list) {
        fprintf(stderr, "conformance: no case's name begins with one of '%s'\n", only);
        return 1;
    }
    if (!list)
        printf("%s, seed %llu: %u passed, %u failed, %u skipped\n", c.device, (unsigned long long)c.seed,
               passed, failed, skipped);
    return failed ? 2 : 0;
}

/* Not by the drivers' exit handlers where a device was given up. */
int main(int argc, char **argv) {
    int code = run_all(argc, argv);
    if (rota_devices_abandoned() == 0) return code;
    (void)fflush(NULL);
    _exit(code ? code : 2);
}
