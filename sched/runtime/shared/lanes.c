/* Lanes: one per (thread, runtime), a ring of records with one producer. Publishing is one store.
 *
 * Callers allocate nothing: the sequencer makes lanes before they are needed, and gives each the chunk for
 * its next tickets when it takes the first of a chunk. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"

#define CACHED_LANES 8
/* Lanes that the sequencer keeps ready: so many threads may come at once. */
#define SPARE_LANES 1024

typedef struct cached_lane {
    rota_runtime *runtime;
    uint32_t generation, lane;
    uint64_t opened; /* of lanes_free */
} cached_lane;

static _Thread_local cached_lane cache[CACHED_LANES];
static _Thread_local uint32_t next_evicted;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_made;

/* ---- Lanes that were given back ----
 *
 * A stack of indices. Its head holds the open of the runtime that it is of, so that a thread that ends gives
 * nothing back to a later one; a count of changes, so that a thread that was stopped between looking at the
 * head and replacing it finds it changed; and the index on top, plus 1. Both are cut: a thread would have to
 * be stopped just there for 2^16 opens, or for 2^30 changes, each of which is a thread's beginning or end,
 * and find the same lane on top at the very one. */

#define TOP_BITS (ROTA_LANE_BITS + 1)
#define CHANGE_BITS 30
#define TOP_MASK (((uint64_t)1 << TOP_BITS) - 1)
#define OPEN_MASK (~(uint64_t)0 << (TOP_BITS + CHANGE_BITS))

static uint64_t replaced(uint64_t head, uint64_t top) {
    const uint64_t changes = ((head >> TOP_BITS) + 1) & (((uint64_t)1 << CHANGE_BITS) - 1);
    return (head & OPEN_MASK) | changes << TOP_BITS | top;
}

static uint32_t block_of(uint32_t index) {
    return index < ROTA_LANES_FIRST ? 0 : 22u - (uint32_t)__builtin_clz(index);
}
static uint32_t block_begin(uint32_t block) {
    return block ? (uint32_t)(ROTA_LANES_FIRST / 2) << block : 0;
}
static uint32_t block_lanes(uint32_t block) {
    return block ? (uint32_t)(ROTA_LANES_FIRST / 2) << block : ROTA_LANES_FIRST;
}

static _Atomic uint32_t *next_of(rota_runtime *runtime, uint32_t index) {
    const uint32_t block = block_of(index);
    return &ra_load_relaxed(&runtime->handle.lane_next[block])[index - block_begin(block)];
}

static void give_back(cached_lane *entry) {
    rota_runtime *runtime = entry->runtime;
    if (!runtime) return;
    entry->runtime = NULL;
    /* Here all of it counts; the head, which a close changes, has the lower bits. */
    if (entry->generation != ra_load_relaxed(&runtime->handle.generation)) return;
    uint64_t head = ra_load_acquire(&runtime->handle.lanes_free);
    do {
        if ((head & OPEN_MASK) != entry->opened) return; /* of a runtime that was closed */
        ra_store_relaxed(next_of(runtime, entry->lane), (uint32_t)(head & TOP_MASK));
        /* Releases the producer's plain fields to the next claimer's acquire in take_back. */
    } while (!ra_cas_acq_rel(&runtime->handle.lanes_free, &head, replaced(head, entry->lane + 1u)));
}

static bool take_back(rota_runtime *runtime, uint32_t *out_index) {
    uint64_t head = ra_load_acquire(&runtime->handle.lanes_free); /* with give_back, as is the exchange */
    uint64_t next;
    do {
        if ((head & TOP_MASK) == 0) return false;
        *out_index = (uint32_t)(head & TOP_MASK) - 1;
        next = ra_load_relaxed(next_of(runtime, *out_index));
    } while (!ra_cas_acq_rel(&runtime->handle.lanes_free, &head, replaced(head, next)));
    return true;
}

static void thread_exits(void *unused) {
    (void)unused;
    for (int i = 0; i < CACHED_LANES; i++) give_back(&cache[i]);
}

static void make_exit_key(void) {
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
}

/* ---- Memory ---- */

typedef struct rota_chunk_slab {
    struct rota_chunk_slab *next;
    uint32_t used;
    rota_cell_chunk chunks[31]; /* their pages come as they are touched */
} chunk_slab;

static void *map(size_t bytes) {
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One more block; the sequencer's, or of who opens the runtime. */
static bool add_block(rota_runtime *runtime) {
    const uint32_t ready = ra_load_relaxed(&runtime->lanes.ready), block = block_of(ready);
    const size_t lanes = block_lanes(block);
    if (!ra_load_relaxed(&runtime->handle.lane_next[block])) {
        /* Kept with the handle, since threads that end after it was closed look at it. */
        _Atomic uint32_t *next = calloc(lanes, sizeof *next);
        if (!next) return false;
        ra_store_relaxed(&runtime->handle.lane_next[block], next);
    }
    unsigned char *memory = map(lanes * (sizeof(rota_lane) + sizeof(rota_lane_store)));
    if (!memory) return false;
    runtime->lanes.blocks[block] = (rota_lane_block){
        (rota_lane *)(void *)memory, (rota_lane_store *)(void *)(memory + lanes * sizeof(rota_lane))};
    ra_store_release(&runtime->lanes.ready, ready + (uint32_t)lanes); /* with claim and rota_ticket_view */
    return true;
}

/* Tickets begin at the first place of a chunk, at another sequence in every runtime and in every later open
 * of one, so that a ticket is of no runtime but its own. */
static void choose_sequences(rota_runtime *runtime) {
    uint64_t chunk = runtime->handle.sequence_base / ROTA_CHUNK_CELLS + 1;
    if (runtime->handle.sequence_first == 0) {
        const uint64_t mixed =
            rota_hash_mix(rota_clock_ns() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)runtime << 16);
        chunk = (mixed >> 29) + 1; /* 2^35 chunks: 2^44 of the 2^47 sequences */
        runtime->handle.sequence_first = chunk * ROTA_CHUNK_CELLS - 1;
    }
    runtime->handle.sequence_base = chunk * ROTA_CHUNK_CELLS - 1;
}

rota_status rota_lanes_create(rota_runtime *runtime) {
    (void)pthread_once(&exit_once, make_exit_key);
    if (!exit_key_made) return rota_fail(ROTA_SYSTEM, "no thread-specific key left for the runtime's lanes");
    choose_sequences(runtime);
    if (!add_block(runtime))
        return rota_fail(ROTA_OUT_OF_MEMORY, "no address space for %d submission lanes", ROTA_LANES_FIRST);
    return ROTA_OK;
}

void rota_lanes_destroy(rota_runtime *runtime) {
    const uint32_t high = ra_load_relaxed(&runtime->lanes.high);
    for (uint32_t i = 0; i < high; i++) {
        const uint64_t newest = ra_load_relaxed(&rota_lane_at(&runtime->lanes, i)->sequence);
        if (newest > runtime->handle.sequence_base) runtime->handle.sequence_base = newest;
    }
    /* Release: with give_back, which drops what is of the runtime that ends here. */
    ra_store_release(&runtime->handle.lanes_free,
                     ((ra_load_relaxed(&runtime->handle.lanes_free) & OPEN_MASK) + (~OPEN_MASK + 1)) &
                         OPEN_MASK);
    for (uint32_t block = 0; block < ROTA_LANE_BLOCKS && runtime->lanes.blocks[block].lanes; block++) {
        (void)munmap(runtime->lanes.blocks[block].lanes,
                     block_lanes(block) * (sizeof(rota_lane) + sizeof(rota_lane_store)));
        runtime->lanes.blocks[block] = (rota_lane_block){NULL, NULL};
    }
    for (chunk_slab *slab = runtime->lanes.chunks.slabs; slab;) {
        chunk_slab *next = slab->next;
        (void)munmap(slab, sizeof *slab);
        slab = next;
    }
    runtime->lanes.chunks.slabs = NULL;
    runtime->lanes.chunks.free_chunks = NULL;
    ra_store_relaxed(&runtime->lanes.high, 0);
    ra_store_relaxed(&runtime->lanes.ready, 0);
}

/* ---- Chunks of tickets ---- */

static _Atomic(rota_cell_chunk *) *chunk_entry(const rota_lane *lane, uint64_t number) {
    return &lane->store->chunks[number % ROTA_LANE_CHUNKS];
}

rota_cell_chunk *rota_lane_cells(const rota_lane *lane, uint64_t sequence) {
    return ra_load_acquire(chunk_entry(lane, sequence / ROTA_CHUNK_CELLS)); /* with provide and claim */
}

rota_cell *rota_lane_cell(const rota_lane *lane, uint64_t sequence) {
    rota_cell_chunk *chunk = rota_lane_cells(lane, sequence);
    return chunk ? &chunk->cells[sequence % ROTA_CHUNK_CELLS] : NULL;
}

/* The word of a cell is never reset: an id is one ticket's for good, so that what a late canceller leaves there is
 * nothing to the cell's next ticket. It is not to lose what was asked of that one meanwhile, so it exchanges what was
 * there before it looked whose the cell is. No value comes twice: each is written in exchange for one that was there
 * from before its ticket's look on, and by then later tickets' values come after it. So whoever fails here found that
 * another caller asked the same, or that the cell has gone on. */
bool rota_lane_ask_cancel(rota_runtime *runtime, rota_lane *lane, uint64_t ticket_id) {
    const uint64_t sequence = rota_ticket_sequence(ticket_id);
    rota_cell_chunk *chunk = rota_lane_cells(lane, sequence); /* once: a second look may find another one */
    if (!chunk) return false;
    const rota_cell *cell = &chunk->cells[sequence % ROTA_CHUNK_CELLS];
    _Atomic uint64_t *word = &chunk->cancels[sequence % ROTA_CHUNK_CELLS];
    uint64_t before = ra_load_acquire(word); /* before the look at id */
    do {
        if (ra_load_acquire(&cell->id) != ticket_id) return false;
    } while (before != ticket_id && !ra_cas_seq_cst(word, &before, ticket_id));
    /* Also where another one asked first: it may be stopped here. Both seq_cst: with tell_lanes in sequencer.c. */
    (void)ra_fetch_add_seq_cst(&runtime->lanes.cancels_asked, 1);
    (void)ra_load_seq_cst(&lane->head);
    return true;
}

bool rota_cell_is_to_cancel(const rota_cell_chunk *chunk, uint64_t sequence) {
    const uint64_t index = sequence % ROTA_CHUNK_CELLS;
    /* Relaxed: nothing else is read by it; by when it is seen says tell_lanes in sequencer.c. */
    return ra_load_relaxed(&chunk->cancels[index]) == ra_load_relaxed(&chunk->cells[index].id);
}

static void begin_chunk(rota_lane *lane, uint64_t number, rota_cell_chunk *chunk) {
    chunk->unsequenced = ROTA_CHUNK_CELLS;
    chunk->unfinished = 0;
    ra_store_release(chunk_entry(lane, number), chunk);
    ra_store_release(&lane->chunk_end, number + 1); /* with next_chunk */
}

/* Takes away what has ended and is old enough. */
static void collect(rota_runtime *runtime, rota_lane *lane) {
    for (uint64_t n = lane->first_chunk; (n + 1) * ROTA_CHUNK_CELLS + ROTA_TICKET_HISTORY <= lane->taken + 1;
         n++) {
        rota_cell_chunk *chunk = ra_load_relaxed(chunk_entry(lane, n));
        if (chunk && chunk->unsequenced == 0 && chunk->unfinished == 0) {
            ra_store_relaxed(chunk_entry(lane, n), NULL);
            chunk->next_free = runtime->lanes.chunks.free_chunks;
            runtime->lanes.chunks.free_chunks = chunk;
            chunk = NULL;
        }
        if (!chunk && n == lane->first_chunk) lane->first_chunk++;
    }
}

static rota_cell_chunk *free_chunk(rota_runtime *runtime) {
    rota_cell_chunk *chunk = runtime->lanes.chunks.free_chunks;
    if (chunk) {
        runtime->lanes.chunks.free_chunks = chunk->next_free;
        return chunk;
    }
    chunk_slab *slab = runtime->lanes.chunks.slabs;
    if (!slab || slab->used == sizeof slab->chunks / sizeof *slab->chunks) {
        slab = map(sizeof *slab);
        if (!slab) return NULL;
        slab->next = runtime->lanes.chunks.slabs;
        runtime->lanes.chunks.slabs = slab;
    }
    return &slab->chunks[slab->used++];
}

/* Gives the lane its next chunk, unless there is no memory or the place is held by a ticket that is that far
 * behind: rota_lanes_provide tries again when the producer gets there. */
static void provide(rota_runtime *runtime, rota_lane *lane) {
    const uint64_t number = ra_load_relaxed(&lane->chunk_end);
    collect(runtime, lane);
    if (ra_load_relaxed(chunk_entry(lane, number))) return;
    rota_cell_chunk *chunk = free_chunk(runtime);
    if (chunk) begin_chunk(lane, number, chunk);
}

/* A producer has at most ROTA_LANE_RECORDS records that were not taken, so when it comes to the end of a
 * chunk the sequencer has taken a record of that one, after which the next was there. */
rota_cell_chunk *rota_lane_take(rota_runtime *runtime, rota_lane *lane, uint64_t sequence) {
    rota_assert_owner(&runtime->sequencing.owner);
    const uint64_t number = sequence / ROTA_CHUNK_CELLS;
    rota_cell_chunk *chunk = ra_load_relaxed(chunk_entry(lane, number));
    rota_assert(sequence > lane->taken && chunk && chunk->unsequenced > 0);
    chunk->unsequenced--;
    chunk->unfinished++;
    lane->taken = sequence;
    if (number + 1 == ra_load_relaxed(&lane->chunk_end)) provide(runtime, lane);
    return chunk;
}

void rota_lanes_provide(rota_runtime *runtime) {
    rota_assert_owner(&runtime->sequencing.owner);
    if (!ra_load_relaxed(&runtime->lanes.provision_wanted)) return;
    (void)ra_exchange_seq_cst(&runtime->lanes.provision_wanted, 0);
    const uint32_t high = ra_load_seq_cst(&runtime->lanes.high);
    const uint32_t ready = ra_load_relaxed(&runtime->lanes.ready);
    if (ready - high < SPARE_LANES && ready < ROTA_LANES_MAX) (void)add_block(runtime);
    for (uint32_t i = 0; i < high; i++) {
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        if (lane->taken && lane->taken / ROTA_CHUNK_CELLS + 1 == ra_load_relaxed(&lane->chunk_end))
            provide(runtime, lane);
    }
}

/* ---- The producer ---- */

static void want_provision(rota_runtime *runtime) {
    ra_store_seq_cst(&runtime->lanes.provision_wanted, 1); /* with the sequencer's look before it sleeps */
    rota_sleeper_wake(&runtime->sequencing.sleeper);
}

static bool claim_new(rota_runtime *runtime, uint32_t *out_index) {
    want_provision(runtime);                                       /* there is one fewer now */
    const uint32_t ready = ra_load_acquire(&runtime->lanes.ready); /* with add_block */
    uint32_t high = ra_load_relaxed(&runtime->lanes.high);
    do {
        if (high == ready) return false;
    } while (!ra_cas_seq_cst(&runtime->lanes.high, &high, high + 1));
    *out_index = high;
    return true;
}

static rota_lane *claim(rota_runtime *runtime, uint32_t *out_index) {
    uint32_t index;
    const uint64_t opened = ra_load_acquire(&runtime->handle.lanes_free) & OPEN_MASK;
    if (!take_back(runtime, &index) && !claim_new(runtime, &index)) return NULL;
    rota_lane *lane = rota_lane_at(&runtime->lanes, index);
    if (!lane->store) {
        const uint32_t block = block_of(index);
        const uint64_t number = (runtime->handle.sequence_base + 1) / ROTA_CHUNK_CELLS;
        lane->store = &runtime->lanes.blocks[block].stores[index - block_begin(block)];
        lane->first_chunk = number;
        begin_chunk(lane, number, &lane->store->first);
        ra_store_release(&lane->sequence, runtime->handle.sequence_base); /* with rota_ticket_view */
    }
    cached_lane *entry = &cache[0]; /* the first that is free: it is found first */
    for (int k = 0; k < CACHED_LANES && entry->runtime; k++) entry = &cache[k];
    if (entry->runtime) entry = &cache[next_evicted++ % CACHED_LANES];
    give_back(entry);
    *entry = (cached_lane){runtime, ra_load_relaxed(&runtime->handle.generation), index, opened};
    (void)pthread_setspecific(exit_key, cache);
    *out_index = index;
    return lane;
}

rota_lane *rota_lane_of_thread(rota_runtime *runtime, uint32_t *out_index) {
    uint32_t generation = ra_load_relaxed(&runtime->handle.generation);
    for (int i = 0; i < CACHED_LANES; i++)
        if (cache[i].runtime == runtime) {
            if (cache[i].generation == generation) {
                *out_index = cache[i].lane;
                return rota_lane_at(&runtime->lanes, cache[i].lane);
            }
            cache[i].runtime = NULL; /* a claim of an earlier open: nothing to give back */
        }
    return claim(runtime, out_index);
}

/* The chunk of the lane's next ticket becomes the producer's. */
static rota_status next_chunk(rota_runtime *runtime, rota_lane *lane, uint64_t sequence) {
    const uint64_t number = sequence / ROTA_CHUNK_CELLS;
    const bool is_there = ra_load_acquire(&lane->chunk_end) > number; /* with begin_chunk */
    rota_cell_chunk *chunk = ra_load_acquire(chunk_entry(lane, number));
    if (is_there) {
        lane->chunk = chunk;
        return ROTA_OK;
    }
    want_provision(runtime);
    if (!chunk) return rota_fail(ROTA_BUSY, "there is no host memory for more tickets of this thread");
    return rota_fail(
        ROTA_BUSY,
        "a submission of this thread is unfinished, and it made %d since, which is the most that it "
        "may be ahead",
        (ROTA_LANE_CHUNKS - 1) * ROTA_CHUNK_CELLS);
}

/* What the thread's next submission writes, and the sequencer or a waiter had last. */
static void fetch_next(const rota_lane *lane, uint64_t tail, uint64_t sequence) {
    ra_prefetch(&lane->store->records[tail % ROTA_LANE_RECORDS]);
    ra_prefetch(&lane->chunk->cells[sequence % ROTA_CHUNK_CELLS]);
}

rota_status rota_lane_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_args *args,
                              const uint64_t *payload, uint32_t payload_words, rota_ticket *out_ticket) {
    uint32_t index;
    rota_lane *lane = rota_lane_of_thread(runtime, &index);
    if (!lane)
        return rota_fail(
            ROTA_BUSY,
            "all submission lanes made so far are in use, each by a living thread; at most %u can be",
            ROTA_LANES_MAX);
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
    const uint64_t sequence = ra_load_relaxed(&lane->sequence) + 1;
    if (!lane->chunk || sequence % ROTA_CHUNK_CELLS == 0) ROTA_TRY(next_chunk(runtime, lane, sequence));
    const uint64_t id = rota_ticket_id(sequence, index);
    rota_cell *cell = &lane->chunk->cells[sequence % ROTA_CHUNK_CELLS];
    ra_store_relaxed(&cell->id, id);
    /* Release: who reads one of these resets with acquire sees the new id. */
    ra_store_release(&cell->number, 0);
    ra_store_release(&cell->state, 0);
    ra_store_release(&cell->point, ROTA_POINT_NONE);
    if (payload_words)
        memcpy(&lane->store->words[begin % ROTA_LANE_WORDS], payload, payload_words * sizeof *payload);
    lane->words_tail = words_end;
    ra_store_release(&lane->sequence, sequence); /* the cell is the ticket's: with rota_ticket_view */
    rota_record *record = &lane->store->records[tail % ROTA_LANE_RECORDS];
    record->sequence = sequence;
    record->object = object;
    record->args = args;
    record->kind = kind;
    record->payload_words = payload_words;
    record->payload_begin = begin;
    record->words_end = words_end;
    record->submitted_ns = runtime->options.diagnostics ? rota_clock_ns() : 0;
    /* seq_cst: a submit that returned before this call was made has the lower order number. */
    record->order_number = ra_fetch_add_seq_cst(&runtime->lanes.order_number, 1) + 1;
    if (out_ticket) *out_ticket = (rota_ticket){runtime, id};
    /* Publishes the record; seq_cst so that either the sequencer sees it or this thread sees the sequencer
     * asleep. */
    ra_store_seq_cst(&lane->tail, tail + 1);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    fetch_next(lane, tail + 1, sequence + 1);
    return ROTA_OK;
}
