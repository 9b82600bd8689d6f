#include "tests/random/hosts_later.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kit/nap.h"
#include "tests/kit/random.h"

typedef struct later_run {
    struct later_run *next;
    rota_host_run *run;
    uint32_t user, operand_count;
    void *operands[MIRROR_ACCESSES_MAX];
    uint64_t operand_bytes[MIRROR_ACCESSES_MAX];
} later_run;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    later_run *newest; /* under the mutex, as is the next */
    bool stops;
    uint64_t ended; /* the thread's */
} ender = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static rota_status begin(void *user, void *const *operands, const uint64_t *operand_bytes,
                         uint32_t operand_count, rota_host_run *run) {
    later_run *made = malloc(sizeof *made);
    if (!made) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a run that ends later");
    *made = (later_run){.run = run, .operand_count = operand_count};
    memcpy(&made->user, user, sizeof made->user);
    memcpy(made->operands, operands, operand_count * sizeof *operands);
    memcpy(made->operand_bytes, operand_bytes, operand_count * sizeof *operand_bytes);
    pthread_mutex_lock(&ender.mutex);
    made->next = ender.newest;
    ender.newest = made;
    pthread_cond_signal(&ender.changed);
    pthread_mutex_unlock(&ender.mutex);
    return ROTA_OK;
}
const rota_host_later hosts_later = {begin, NULL};

/* Any of the four newest; NULL: there will be none. */
static later_run *take(uint64_t *random) {
    pthread_mutex_lock(&ender.mutex);
    while (!ender.newest && !ender.stops) pthread_cond_wait(&ender.changed, &ender.mutex);
    later_run **link = &ender.newest;
    for (uint32_t skips = test_below(random, 4); skips && *link && (*link)->next; skips--)
        link = &(*link)->next;
    later_run *taken = *link;
    if (taken) *link = taken->next;
    pthread_mutex_unlock(&ender.mutex);
    return taken;
}

static void *end_all(void *user) {
    uint64_t random = 1;
    later_run *taken;
    (void)user;
    while ((taken = take(&random))) {
        if (test_below(&random, 8) == 0) test_nap_us(test_below(&random, 200));
        rota_host_end(taken->run, test_host_function(&taken->user, taken->operands, taken->operand_bytes,
                                                     taken->operand_count));
        free(taken);
        ender.ended++;
    }
    return NULL;
}

void hosts_later_start(void) {
    if (pthread_create(&ender.thread, NULL, end_all, NULL) != 0) abort();
}

uint64_t hosts_later_stop(void) {
    pthread_mutex_lock(&ender.mutex);
    ender.stops = true;
    pthread_cond_signal(&ender.changed);
    pthread_mutex_unlock(&ender.mutex);
    (void)pthread_join(ender.thread, NULL);
    return ender.ended;
}

void hosts_later_draw(mirror_case *mirror, uint64_t *random) {
    for (uint32_t g = 0; g < mirror->graph_count; g++)
        for (uint32_t n = 0; n < mirror->graphs[g].node_count; n++) {
            mirror_node *node = &mirror->graphs[g].nodes[n];
            node->ends_later = node->kind == MIRROR_HOST && !node->group && test_below(random, 2);
        }
}
