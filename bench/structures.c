/* rota-bench structures: what structures for threads cost, Concurrency Kit's beside the same in C11, in
 * turns. Which of the two rota uses is decided by this: Concurrency Kit's where it takes at most 1.05 of the
 * other's time. */
#include "bench/structures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/report.h"

static const char program[] = "rota-bench structures";

static const structure_pair pairs[] = {
    {"stack: push 64, take all", STRUCTURE_ENTRIES, 1, structure_stack_kit, structure_stack_own},
    {"ring: push 64, take 64", STRUCTURE_ENTRIES, 1, structure_ring_kit, structure_ring_own},
    {"ring: from thread to thread", STRUCTURE_ENTRIES, 1, structure_hand_off_kit, structure_hand_off_own},
    {"set of 1 000 names: get", STRUCTURE_OBJECTS, 1, structure_names_kit, structure_names_own},
    {"set of 1 000 pointers: get", STRUCTURE_OBJECTS, 1, structure_pointers_kit, structure_pointers_own},
    {"the same by ck_ht", STRUCTURE_OBJECTS, 1, structure_keys_kit, structure_pointers_own},
    {"wake of who is awake", STRUCTURE_ENTRIES, 1, structure_wake_kit, structure_wake_own},
    {"the same by two threads", STRUCTURE_ENTRIES, 2, structure_wake_kit, structure_wake_own},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

typedef struct one_thread {
    structure_fn *fn;
    void *memory;
    uint64_t rounds;
    bool right;
} one_thread;

static void *run_thread(void *user) {
    one_thread *t = user;
    t->right = t->fn(t->memory, t->rounds);
    return NULL;
}

/* ns an operation of each thread; negative: wrong. */
static double time_of(structure_fn *fn, const structure_pair *pair, void *memory, uint64_t rounds) {
    one_thread own = {fn, memory, rounds, false}, other = own;
    pthread_t thread;
    const bool two = pair->threads == 2;
    const uint64_t begin = rota_clock_ns();
    if (two && pthread_create(&thread, NULL, run_thread, &other) != 0) return -1;
    (void)run_thread(&own);
    if (two) (void)pthread_join(thread, NULL);
    if (!own.right || (two && !other.right)) return -1;
    return (double)(rota_clock_ns() - begin) / (double)(rounds * pair->operations);
}

static progress_bar bar;
static uint64_t measured;

static bool measure(const structure_pair *pair, uint64_t rounds, uint64_t repeats, double *samples,
                    void *memory, cJSON *list) {
    double *kit = samples, *own = samples + repeats, *ratio = samples + 2 * repeats;
    for (uint64_t i = 0; i < repeats; i++) {
        kit[i] = time_of(pair->kit, pair, memory, rounds);
        own[i] = time_of(pair->own, pair, memory, rounds);
        if (kit[i] < 0 || own[i] < 0) {
            fprintf(stderr, "%s: '%s' gives something else than was put in\n", program, pair->name);
            return false;
        }
        ratio[i] = kit[i] / own[i];
        progress_at(&bar, ++measured);
    }
    const sample_stats k = samples_describe(kit, repeats), o = samples_describe(own, repeats),
                       r = samples_describe(ratio, repeats);
    progress_clear(&bar);
    printf("%-32s %8.2f ns %8.2f ns   %.3f (%.3f to %.3f)\n", pair->name, k.median, o.median, r.median,
           r.least, r.most);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "structure", pair->name);
    cJSON_AddNumberToObject(row, "kit_ns", k.median);
    cJSON_AddNumberToObject(row, "own_ns", o.median);
    cJSON_AddNumberToObject(row, "ratio", r.median);
    cJSON_AddItemToArray(list, row);
    return true;
}

int bench_structures(int argc, char **argv) {
    uint64_t rounds = 20000, repeats = 11;
    const char *json = NULL;
    const option options[] = {
        {"--rounds", OPTION_COUNT, &rounds, "N", 1, 1e9, false,
         "times that a structure is filled and emptied in one measurement"},
        {"--repeat", OPTION_COUNT, &repeats, "N", 1, 1e6, false, "how often that is done"},
        {"--json", OPTION_OUTPUT, &json, "FILE", 0, 0, false, "write the result there as JSON"},
    };
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench structures --rounds 3K --repeat 61",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;

    double *samples = calloc(3 * repeats, sizeof *samples);
    void *memory = structures_memory();
    cJSON *result = report_new();
    cJSON *list = cJSON_AddArrayToObject(result, "structures");
    int code = EXIT_GOOD;
    if (!samples || !memory) {
        fprintf(stderr, "%s: no host memory\n", program);
        code = EXIT_BAD_ARGUMENT;
    }
    if (code == EXIT_GOOD)
        printf("%-32s %11s %11s   kit's over C11's (least to most of %llu)\n", "an operation of", "kit's",
               "C11's", (unsigned long long)repeats);
    progress_begin(&bar, "measuring", NULL, PAIRS * repeats);
    for (size_t i = 0; code == EXIT_GOOD && i < PAIRS; i++) {
        const uint64_t here = rounds * STRUCTURE_ENTRIES / pairs[i].operations;
        if (!measure(&pairs[i], here ? here : 1, repeats, samples, memory, list)) code = EXIT_CHECK_FAILED;
    }
    progress_end(&bar);
    structures_free(memory);
    free(samples);
    return report_write(result, json, code);
}
