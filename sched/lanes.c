/* Lanes: one per (thread, runtime), a ring of records with one producer. Publishing is one store. */
#include <string.h>
#include <sys/mman.h>

#include "sched/runtime_internal.h"

#define CACHED_LANES 8

typedef struct cached_lane {
    rota_runtime *runtime;
    uint32_t generation, lane, token;
} cached_lane;

static _Thread_local cached_lane cache[CACHED_LANES];
static _Thread_local uint32_t next_evicted;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_made;
static _Atomic uint32_t next_token = 1;

/* A lane is given back only by whoever holds it: the token tells its claim from later ones. */
static void give_back(cached_lane *entry) {
    if (!entry->runtime) return;
    uint32_t token = entry->token;
    /* Releases the producer's plain fields to the next claimer's acquire. */
    (void)ra_cas_acq_rel(&entry->runtime->lane_claimed[entry->lane], &token, 0);
    entry->runtime = NULL;
}

static void thread_exits(void *unused) {
    (void)unused;
    for (int i = 0; i < CACHED_LANES; i++) give_back(&cache[i]);
}

static void make_exit_key(void) {
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
}

rota_status rota_lanes_create(rota_runtime *runtime) {
    (void)pthread_once(&exit_once, make_exit_key);
    if (!exit_key_made) return rota_fail(ROTA_SYSTEM, "no thread-specific key left for the runtime's lanes");
    /* Pages come as they are touched: a lane costs memory once a thread uses it. */
    void *memory = mmap(NULL, sizeof(rota_lane) * ROTA_LANES_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no address space for %d submission lanes", ROTA_LANES_MAX);
    runtime->lanes = memory;
    return ROTA_OK;
}

void rota_lanes_destroy(rota_runtime *runtime) {
    uint32_t high = ra_load_relaxed(&runtime->lane_high);
    for (uint32_t i = 0; i < high; i++)
        if (runtime->lanes[i].sequence > runtime->sequence_base)
            runtime->sequence_base = runtime->lanes[i].sequence;
    (void)munmap(runtime->lanes, sizeof(rota_lane) * ROTA_LANES_MAX);
    runtime->lanes = NULL;
    ra_store_relaxed(&runtime->lane_high, 0);
    for (uint32_t i = 0; i < ROTA_LANES_MAX; i++) ra_store_relaxed(&runtime->lane_claimed[i], 0);
}

static rota_lane *claim(rota_runtime *runtime, uint32_t *out_index) {
    uint32_t token;
    do token = ra_fetch_add_relaxed(&next_token, 1);
    while (token == 0); /* after 2^32 claims: 0 is nobody's */
    for (uint32_t i = 0; i < ROTA_LANES_MAX; i++) {
        uint32_t nobody = 0;
        if (ra_load_relaxed(&runtime->lane_claimed[i]) != 0) continue;
        /* Acquires what the lane's last holder left, released in give_back. */
        if (!ra_cas_acq_rel(&runtime->lane_claimed[i], &nobody, token)) continue;
        uint32_t high = ra_load_relaxed(&runtime->lane_high);
        while (high < i + 1 && !ra_cas_seq_cst(&runtime->lane_high, &high, i + 1)) {
        }
        rota_lane *lane = &runtime->lanes[i];
        if (lane->sequence == 0) lane->sequence = runtime->sequence_base;
        cached_lane *entry = &cache[0];
        for (int k = 0; k < CACHED_LANES; k++)
            if (!cache[k].runtime) entry = &cache[k];
        if (entry->runtime) entry = &cache[next_evicted++ % CACHED_LANES];
        give_back(entry);
        *entry = (cached_lane){runtime, ra_load_relaxed(&runtime->generation), i, token};
        (void)pthread_setspecific(exit_key, cache);
        *out_index = i;
        return lane;
    }
    return NULL;
}

rota_lane *rota_lane_of_thread(rota_runtime *runtime, uint32_t *out_index) {
    uint32_t generation = ra_load_relaxed(&runtime->generation);
    for (int i = 0; i < CACHED_LANES; i++)
        if (cache[i].runtime == runtime) {
            if (cache[i].generation == generation) {
                *out_index = cache[i].lane;
                return &runtime->lanes[cache[i].lane];
            }
            cache[i].runtime = NULL; /* a claim of an earlier open: nothing to give back */
        }
    return claim(runtime, out_index);
}

/* A cell may be used again once its ticket has ended: what it says is then in the failure table or is
 * success. */
static bool cell_is_free(rota_runtime *runtime, rota_cell *cell) {
    if (ra_load_relaxed(&cell->sequence) == 0) return true;
    uint64_t point = ra_load_acquire(&cell->point); /* with the sequencer's release */
    if (point == ROTA_POINT_NONE || !rota_point_passed(runtime, point)) return false;
    uint64_t number = ra_load_acquire(&cell->number);
    uint32_t state = ra_load_acquire(&cell->state);
    if ((state & ROTA_CELL_HOSTED) && !(state & ROTA_CELL_DONE)) return false;
    return (state & ROTA_CELL_TAKEN) || !rota_device_fills(runtime, number);
}

rota_status rota_lane_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_args *args,
                              const uint64_t *payload, uint32_t payload_words, rota_ticket *out_ticket) {
    uint32_t index;
    rota_lane *lane = rota_lane_of_thread(runtime, &index);
    if (!lane)
        return rota_fail(ROTA_BUSY, "all %d submission lanes are in use by other threads", ROTA_LANES_MAX);
    uint64_t tail = ra_load_relaxed(&lane->tail);
    if (tail - lane->head_seen >= ROTA_LANE_RECORDS) {
        lane->head_seen =
            ra_load_acquire(&lane->head); /* with the sequencer's release: the record was read */
        if (tail - lane->head_seen >= ROTA_LANE_RECORDS)
            return rota_fail(ROTA_BUSY, "%d submissions of this thread wait for their turn",
                             ROTA_LANE_RECORDS);
    }
    uint64_t begin = lane->words_tail;
    if (payload_words && begin % ROTA_LANE_WORDS + payload_words > ROTA_LANE_WORDS)
        begin += ROTA_LANE_WORDS - begin % ROTA_LANE_WORDS;
    uint64_t words_end = begin + payload_words;
    if (words_end - lane->words_head_seen > ROTA_LANE_WORDS) {
        lane->words_head_seen = ra_load_acquire(&lane->words_head); /* likewise */
        if (words_end - lane->words_head_seen > ROTA_LANE_WORDS)
            return rota_fail(ROTA_BUSY,
                             "the argument words of this thread's waiting submissions fill its ring");
    }
    uint64_t sequence = lane->sequence + 1;
    rota_cell *cell = &lane->cells[sequence % ROTA_TICKET_HISTORY];
    if (!cell_is_free(runtime, cell))
        return rota_fail(ROTA_BUSY, "%d submissions of this thread are unfinished", ROTA_TICKET_HISTORY);

    ra_store_relaxed(&cell->sequence, sequence);
    /* Release: who reads one of these resets with acquire sees the new sequence. */
    ra_store_release(&cell->number, 0);
    ra_store_release(&cell->state, 0);
    ra_store_release(&cell->point, ROTA_POINT_NONE);
    if (payload_words)
        memcpy(&lane->words[begin % ROTA_LANE_WORDS], payload, payload_words * sizeof *payload);
    lane->words_tail = words_end;
    lane->sequence = sequence;
    rota_record *record = &lane->records[tail % ROTA_LANE_RECORDS];
    record->sequence = sequence;
    record->object = object;
    record->args = args;
    record->kind = kind;
    record->payload_words = payload_words;
    record->payload_begin = begin;
    record->words_end = words_end;
    record->submitted_ns = runtime->options.diagnostics ? rota_clock_ns() : 0;
    /* seq_cst: a submit that returned before this call was made has the lower stamp. */
    record->stamp = ra_fetch_add_seq_cst(&runtime->stamp, 1) + 1;
    if (out_ticket) *out_ticket = (rota_ticket){runtime, sequence * ROTA_LANES_MAX + index};
    /* Publishes the record; seq_cst so that either the sequencer sees it or this thread sees the sequencer
     * asleep. */
    ra_store_seq_cst(&lane->tail, tail + 1);
    rota_sleeper_wake(&runtime->sequencer_sleeper);
    return ROTA_OK;
}
