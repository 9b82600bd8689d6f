/* Transient memory, TIGHT: offsets in the arena from lifetimes in record order. The order that makes sharing
 * safe is added as memory edges by edges.c, so the packer need not know what is ordered; it only promises
 * that two physicals whose lifetimes overlap in record order do not share a byte, except in place.
 *
 * One pass packs everything best fit; pack_search.c then looks for something smaller. */
#include "sched/plan/pack.h"
#include "sched/plan/pack_search.h"

#include <stdlib.h>
#include <string.h>
#include "base/assert.h"
#include "base/prefetch.h"

enum { PHASE_UNBORN, PHASE_LIVE, PHASE_DEAD, CLASSES = 64 * 4, SCAN_MAX = 32 };

/* ---- Lifetimes and the lower bound ---- */

/* The kernel last: its record is seldom at hand, and few pairs get so far. */
static bool may_take_over(const rota_compiler *c, const rota_operation *operation, uint32_t n, uint32_t out,
                          uint32_t in) {
    const rota_exec_operand *accesses = ROTA_ACCESSES(c) + operation->first_access;
    const uint32_t *physical = ROTA_ACCESS_PHYSICAL(c) + operation->first_access;
    if (physical[in] == ROTA_NONE || physical[out] == physical[in]) return false;
    const rota_physical *to = &ROTA_PHYSICALS(c)[physical[out]], *from = &ROTA_PHYSICALS(c)[physical[in]];
    if (from->last_operation != n || from->first_operation == n || !from->packed ||
        from->size_bytes != to->size_bytes || accesses[in].size_bytes != from->size_bytes)
        return false;
    const rota_kernel *kernel = operation->record->u.kernel.kernel;
    if (!(kernel->inplace_outputs >> out & 1)) return false;
    /* Whatever else reads that memory here reads it item by item too. */
    for (uint32_t i = 0; i < operation->access_count; i++)
        if (physical[i] == physical[in] &&
            (!(kernel->inplace_inputs >> i & 1) || accesses[i].size_bytes != from->size_bytes))
            return false;
    return true;
}

/* Whether the access begins its physical's life by writing all of it. */
static bool is_born_whole(const rota_compiler *c, const rota_operation *operation, uint32_t n, uint32_t out) {
    const rota_exec_operand *access = ROTA_ACCESSES(c) + operation->first_access + out;
    const uint32_t physical = ROTA_ACCESS_PHYSICAL(c)[operation->first_access + out];
    if (access->mode != ROTA_WRITE || physical == ROTA_NONE) return false;
    const rota_physical *it = &ROTA_PHYSICALS(c)[physical];
    return it->packed && it->first_operation == n && access->size_bytes == it->size_bytes;
}

/* Pairs each output that starts here with an input that ends here, where the kernel works in place. */
static void pair_inplace(rota_compiler *c, const rota_operation *operation, uint32_t n) {
    if (!operation->works_in_place) return;
    const uint32_t *physical = ROTA_ACCESS_PHYSICAL(c) + operation->first_access;
    uint32_t taken = 0;
    for (uint32_t out = 0; out < operation->access_count; out++) {
        if (!is_born_whole(c, operation, n, out)) continue;
        for (uint32_t in = 0; in < operation->access_count; in++) {
            if (taken >> in & 1 || !may_take_over(c, operation, n, out, in)) continue;
            ROTA_PHYSICALS(c)[physical[out]].inplace_of = physical[in];
            for (uint32_t other = 0; other < operation->access_count; other++)
                if (physical[other] == physical[in]) taken |= 1u << other;
            break;
        }
    }
}

/* Asks for what operation n reads of others' memory, some operations early. */
static void prefetch_ahead(const rota_compiler *c, uint32_t n) {
    const rota_operation *operation = &ROTA_OPERATIONS(c)[n], *later = operation + ROTA_OPERATIONS_AHEAD;
    for (uint32_t i = 0; i < operation->access_count; i++)
        rota_compile_prefetch(c, ROTA_PHYSICALS(c), sizeof(rota_physical), operation->first_access + i);
    if (n + ROTA_OPERATIONS_AHEAD >= c->operations.count || !later->works_in_place) return;
    rota_prefetch(&later->record->u);
    rota_prefetch(&ROTA_ACCESSES(c)[later->first_access]);
}

/* Live bytes by part while operations go by. */
typedef struct live_bytes {
    uint64_t now[UINT8_MAX + 1], peak[UINT8_MAX + 1];
} live_bytes;

/* Also gives the accesses whose physical starts or ends its life in the operation, a bit each, once a
 * physical. */
static void count_operation(rota_compiler *c, live_bytes *live, uint32_t n, uint64_t *out_births,
                            uint64_t *out_deaths) {
    rota_physical *physicals = ROTA_PHYSICALS(c);
    const rota_operation *operation = &ROTA_OPERATIONS(c)[n];
    const uint32_t *physical = ROTA_ACCESS_PHYSICAL(c) + operation->first_access;
    uint64_t births = 0, deaths = 0;
    prefetch_ahead(c, n);
    pair_inplace(c, operation, n);
    /* A physical may stand in several accesses: its phase says what was counted. */
    for (uint32_t i = 0; i < operation->access_count; i++) {
        if (physical[i] == ROTA_NONE) continue;
        rota_physical *it = &physicals[physical[i]];
        if (!it->packed) continue;
        if (it->first_operation == n && it->phase == PHASE_UNBORN) {
            it->phase = PHASE_LIVE;
            births |= rota_packed_bit(i);
            if (it->inplace_of == ROTA_NONE)
                live->now[it->part] += it->size_bytes;
            else
                physicals[it->inplace_of].handed_on = true;
        }
        if (it->last_operation == n && it->phase == PHASE_LIVE) {
            it->phase = PHASE_DEAD;
            deaths |= rota_packed_bit(i);
        }
    }
    if (live->now[operation->part] > live->peak[operation->part]) {
        live->peak[operation->part] = live->now[operation->part];
        if (live->peak[operation->part] > live->peak[ROTA_OPERATIONS(c)[c->peak_operation].part] ||
            ROTA_OPERATIONS(c)[c->peak_operation].part == operation->part)
            c->peak_operation = n;
    }
    for (uint64_t left = deaths; left; left &= left - 1) {
        const rota_physical *it = &physicals[physical[rota_packed_access(operation, left)]];
        if (!it->handed_on) live->now[it->part] -= it->size_bytes;
    }
    *out_births = births;
    *out_deaths = deaths;
}

static void sum_peaks(rota_compiler *c, const live_bytes *live) {
    c->plan->stats.arena_lower_bound_bytes = 0;
    for (uint32_t i = 0; i < c->partitions.count; i++)
        c->plan->stats.arena_lower_bound_bytes += live->peak[i];
}

void rota_compile_lifetimes(rota_compiler *c) {
    live_bytes live = {0};
    uint64_t births, deaths;
    for (uint32_t n = 0; n < c->operations.count; n++) count_operation(c, &live, n, &births, &deaths);
    sum_peaks(c, &live);
}

/* ---- Best fit in one pass ---- */

typedef struct block {
    uint64_t offset, size;
    uint32_t previous, next;           /* by address, in the piece; 0: none */
    uint32_t free_previous, free_next; /* in its class */
    uint32_t piece;
    uint32_t uses;                        /* CONCURRENT: list of the last tenant's last uses */
    uint32_t first_granule, last_granule; /* TIGHT, while free: who had it last, in address order */
    bool is_free;
} block;

/* Bytes of a free block with one last tenant. Free blocks are joined; their granules are not. */
typedef struct granule {
    uint64_t size;
    uint32_t tenant; /* physical */
    uint32_t next;   /* 0: end */
} granule;

typedef struct space {
    rota_compiler *c;
    rota_vector blocks; /* index 0 unused */
    uint32_t class_head[CLASSES];
    uint64_t class_bits[CLASSES / 64];
    uint32_t last_block; /* of the newest piece */
    uint32_t spare;      /* unused block structs, by next */
    uint64_t piece_limit;
    rota_vector piece_bytes; /* uint64_t */
    rota_vector granules;    /* index 0 unused */
    uint32_t spare_granule;  /* unused ones, by next */
} space;

#define BLOCKS(s) ((block *)(s)->blocks.data)
#define GRANULES(s) ((granule *)(s)->granules.data)

/* Four classes a power of two; of sizes that rota_aligned_size gives. */
static uint32_t class_of(uint64_t size) {
    rota_assert(size >= ROTA_BUFFER_ALIGNMENT);
    uint32_t log = 63u - (uint32_t)__builtin_clzll(size);
    return log * 4 + ((uint32_t)(size >> (log - 2)) & 3);
}

static void class_remove(space *s, uint32_t index) {
    block *b = &BLOCKS(s)[index];
    uint32_t class = class_of(b->size);
    if (b->free_previous) BLOCKS(s)[b->free_previous].free_next = b->free_next;
    if (b->free_next) BLOCKS(s)[b->free_next].free_previous = b->free_previous;
    if (s->class_head[class] == index) s->class_head[class] = b->free_next;
    if (!s->class_head[class]) s->class_bits[class / 64] &= ~((uint64_t)1 << class % 64);
    b->is_free = false;
}

static void class_insert(space *s, uint32_t index) {
    block *b = &BLOCKS(s)[index];
    uint32_t class = class_of(b->size);
    b->free_previous = 0;
    b->free_next = s->class_head[class];
    if (b->free_next) BLOCKS(s)[b->free_next].free_previous = index;
    s->class_head[class] = index;
    s->class_bits[class / 64] |= (uint64_t)1 << class % 64;
    b->is_free = true;
}

static uint32_t new_block(space *s, uint64_t offset, uint64_t size, uint32_t piece) {
    uint32_t index = s->spare;
    if (index) {
        s->spare = BLOCKS(s)[index].next;
    } else {
        if (!rota_vector_reserve(&s->blocks, sizeof(block), 1)) return 0;
        index = (uint32_t)s->blocks.count++;
    }
    BLOCKS(s)[index] = (block){.offset = offset, .size = size, .piece = piece};
    return index;
}

static void drop_block(space *s, uint32_t index) {
    BLOCKS(s)[index].next = s->spare;
    s->spare = index;
}

static uint32_t next_class(const space *s, uint32_t class) {
    for (uint32_t word = class / 64; word < CLASSES / 64; word++) {
        uint64_t bits = s->class_bits[word];
        if (word == class / 64) bits &= ~(uint64_t)0 << class % 64;
        if (bits) return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return CLASSES;
}

/* The smallest free block that fits, among the first SCAN_MAX of each class from the size's own. */
static uint32_t find_fit(const space *s, uint64_t size) {
    for (uint32_t class = next_class(s, class_of(size)); class < CLASSES; class = next_class(s, class + 1)) {
        uint32_t best = 0, scanned = 0;
        for (uint32_t i = s->class_head[class]; i && scanned < SCAN_MAX;
             i = BLOCKS(s)[i].free_next, scanned++)
            if (BLOCKS(s)[i].size >= size && (!best || BLOCKS(s)[i].size < BLOCKS(s)[best].size)) best = i;
        if (best) return best;
    }
    return 0;
}

/* Cuts `index` to `size`; the rest stays free behind it. */
static bool split_block(space *s, uint32_t index, uint64_t size) {
    if (BLOCKS(s)[index].size == size) return true;
    uint32_t rest =
        new_block(s, BLOCKS(s)[index].offset + size, BLOCKS(s)[index].size - size, BLOCKS(s)[index].piece);
    if (!rest) return false;
    block *b = &BLOCKS(s)[index], *r = &BLOCKS(s)[rest];
    b->size = size;
    r->first_granule = b->first_granule; /* what take_granules left */
    r->last_granule = b->last_granule;
    r->previous = index;
    r->next = b->next;
    if (r->next) BLOCKS(s)[r->next].previous = rest;
    b->next = rest;
    if (s->last_block == index) s->last_block = rest;
    class_insert(s, rest);
    return true;
}

/* Room at the end of the newest piece, or a new piece. With may_grow a free block at the end becomes part of
 * it. */
static uint32_t extend(space *s, uint64_t size, bool may_grow) {
    uint64_t *bytes = s->piece_bytes.data;
    if (s->last_block) {
        block *last = &BLOCKS(s)[s->last_block];
        uint64_t start = last->is_free && may_grow ? last->offset : last->offset + last->size;
        if (start + size <= s->piece_limit) {
            bytes[s->piece_bytes.count - 1] = start + size;
            if (last->is_free && may_grow) {
                class_remove(s, s->last_block);
                last->size = size;
                return s->last_block;
            }
            uint32_t index = new_block(s, start, size, (uint32_t)s->piece_bytes.count - 1);
            if (!index) return 0;
            BLOCKS(s)[index].previous = s->last_block;
            BLOCKS(s)[s->last_block].next = index;
            return s->last_block = index;
        }
    }
    if (!rota_vector_reserve(&s->piece_bytes, sizeof(uint64_t), 1)) return 0;
    uint32_t index = new_block(s, 0, size, (uint32_t)s->piece_bytes.count);
    if (!index) return 0;
    ((uint64_t *)s->piece_bytes.data)[s->piece_bytes.count++] = size;
    return s->last_block = index;
}

static uint32_t new_granule(space *s, uint32_t tenant, uint64_t size) {
    uint32_t index = s->spare_granule;
    if (index) {
        s->spare_granule = GRANULES(s)[index].next;
    } else {
        if (!rota_vector_reserve(&s->granules, sizeof(granule), 1)) return 0;
        index = (uint32_t)s->granules.count++;
    }
    GRANULES(s)[index] = (granule){size, tenant, 0};
    return index;
}

/* The physical takes the first `size` bytes of a block: notes whose memory they were. The rest stays in the
 * block's list. */
static bool take_granules(space *s, uint32_t index, uint64_t size, uint32_t physical) {
    rota_compiler *c = s->c;
    block *b = &BLOCKS(s)[index];
    while (b->first_granule && size) {
        uint32_t first = b->first_granule;
        granule *g = &GRANULES(s)[first];
        uint32_t *newest = &ROTA_PHYSICALS(c)[physical].tenants, last = *newest ? 0 : ROTA_TENANT_OLDEST;
        if (!rota_vector_reserve(&c->pieces.tenants, sizeof(uint32_t), 1)) return false;
        ((uint32_t *)c->pieces.tenants.data)[c->pieces.tenants.count] = g->tenant | last;
        *newest = (uint32_t)c->pieces.tenants.count++;
        if (g->size > size) {
            g->size -= size;
            return true;
        }
        size -= g->size;
        b->first_granule = g->next;
        g->next = s->spare_granule;
        s->spare_granule = first;
    }
    if (!b->first_granule) b->last_granule = 0;
    return true;
}

static uint32_t take_block(space *s, uint64_t size, uint32_t physical) {
    uint32_t index = find_fit(s, size);
    bool extended = !index;
    if (extended) {
        index = extend(s, size, true);
        if (!index) return 0;
    } else {
        class_remove(s, index);
    }
    if (!take_granules(s, index, size, physical)) return 0;
    return extended || split_block(s, index, size) ? index : 0;
}

static void join_granules(space *s, uint32_t first, uint32_t second) {
    block *a = &BLOCKS(s)[first];
    const block *b = &BLOCKS(s)[second];
    if (!b->first_granule) return;
    if (a->last_granule)
        GRANULES(s)[a->last_granule].next = b->first_granule;
    else
        a->first_granule = b->first_granule;
    a->last_granule = b->last_granule;
}

static bool give_block(space *s, uint32_t index, uint32_t tenant) {
    uint32_t own = new_granule(s, tenant, BLOCKS(s)[index].size);
    if (!own) return false;
    BLOCKS(s)[index].first_granule = BLOCKS(s)[index].last_granule = own;
    uint32_t before = BLOCKS(s)[index].previous, after = BLOCKS(s)[index].next;
    if (before && BLOCKS(s)[before].is_free) {
        class_remove(s, before);
        join_granules(s, before, index);
        BLOCKS(s)[before].size += BLOCKS(s)[index].size;
        BLOCKS(s)[before].next = after;
        if (after) BLOCKS(s)[after].previous = before;
        if (s->last_block == index) s->last_block = before;
        drop_block(s, index);
        index = before;
    }
    if (after && BLOCKS(s)[after].is_free) {
        class_remove(s, after);
        join_granules(s, index, after);
        uint32_t beyond = BLOCKS(s)[after].next;
        BLOCKS(s)[index].size += BLOCKS(s)[after].size;
        BLOCKS(s)[index].next = beyond;
        if (beyond) BLOCKS(s)[beyond].previous = index;
        if (s->last_block == after) s->last_block = index;
        drop_block(s, after);
    }
    class_insert(s, index);
    return true;
}

static __attribute__((cold)) rota_status refuse_size(const rota_compiler *c, const rota_physical *physical) {
    const rota_buffer *root = ((rota_plan_buffer *)c->buffers.data)[physical->buffer].buffer;
    return rota_fail(ROTA_OUT_OF_MEMORY,
                     "compile of graph '%s': %s buffer '%s' of %llu bytes; the device allocates at most %llu",
                     c->graph->name, rota_buffer_kind_name((rota_buffer_kind)physical->kind), root->name,
                     (unsigned long long)physical->size_bytes,
                     (unsigned long long)rota_piece_limit(c, physical->part));
}

static inline rota_status check_size(const space *s, const rota_physical *physical) {
    return physical->size_bytes <= s->piece_limit ? ROTA_OK : refuse_size(s->c, physical);
}

static rota_status space_init(space *s, rota_compiler *c, uint32_t part) {
    memset(s, 0, sizeof *s);
    s->c = c;
    s->piece_limit = rota_piece_limit(c, part);
    s->blocks.count = s->granules.count = 1; /* index 0 is none */
    return rota_vector_reserve(&s->blocks, sizeof(block), 64) &&
                   rota_vector_reserve(&s->granules, sizeof(granule), 64)
               ? ROTA_OK
               : rota_compile_no_memory(c);
}

static rota_status space_finish(space *s, uint32_t part) {
    rota_compiler *c = s->c;
    c->pieces.count[part] = (uint32_t)s->piece_bytes.count;
    c->pieces.bytes[part] =
        rota_arena_alloc(&c->scratch, sizeof(uint64_t) * ((size_t)s->piece_bytes.count + 1), 8);
    if (!c->pieces.bytes[part]) return rota_compile_no_memory(c);
    if (s->piece_bytes.count)
        memcpy(c->pieces.bytes[part], s->piece_bytes.data, sizeof(uint64_t) * (size_t)s->piece_bytes.count);
    return ROTA_OK;
}

static void space_free(space *s) {
    rota_vector_free(&s->blocks);
    rota_vector_free(&s->granules);
    rota_vector_free(&s->piece_bytes);
}

/* Packs what starts in an operation and frees what ends there, as count_operation gave it. block_of is
 * indexed by physical. */
static rota_status best_fit_operation(space *spaces, rota_compiler *c, const rota_operation *operation,
                                      uint64_t births, uint64_t deaths, uint32_t *block_of) {
    const uint32_t *physical = ROTA_ACCESS_PHYSICAL(c) + operation->first_access;
    for (; births; births &= births - 1) {
        uint32_t number = physical[rota_packed_access(operation, births)];
        rota_physical *it = &ROTA_PHYSICALS(c)[number];
        space *s = &spaces[it->part];
        ROTA_TRY(check_size(s, it));
        uint32_t index = it->inplace_of != ROTA_NONE
                             ? block_of[it->inplace_of]
                             : take_block(s, rota_aligned_size(it->size_bytes), number);
        if (!index) return rota_compile_no_memory(c);
        block_of[number] = index;
        it->piece = BLOCKS(s)[index].piece;
        it->offset_bytes = BLOCKS(s)[index].offset;
    }
    for (; deaths; deaths &= deaths - 1) {
        uint32_t number = physical[rota_packed_access(operation, deaths)];
        const rota_physical *it = &ROTA_PHYSICALS(c)[number];
        if (!it->handed_on && !give_block(&spaces[it->part], block_of[number], number))
            return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}

static void sum_arenas(rota_compiler *c) {
    uint64_t total = 0;
    for (uint32_t part = 0; part < c->partitions.count; part++)
        for (uint32_t i = 0; i < c->pieces.count[part]; i++) total += c->pieces.bytes[part][i];
    c->plan->stats.arena_bytes = total;
}

/* Whether much runs side by side on the part's device that memory would put into an order; where there is none, as if
 * it did. */
static bool overlaps(const rota_compiler *c, uint32_t part) {
    const rota_device_traits *device = c->partitions.device[part];
    return !device || device->kind != ROTA_EXEC_CPU;
}

/* What space_init made is freed in any case. */
static rota_status pack_best_fit(rota_compiler *c, space *spaces, uint32_t *block_of) {
    rota_status status = ROTA_OK;
    uint32_t ready = 0;
    for (; ready < c->partitions.count && status == ROTA_OK; ready++)
        status = space_init(&spaces[ready], c, ready);
    live_bytes live = {0};
    for (uint32_t n = 0; n < c->operations.count && status == ROTA_OK; n++) {
        uint64_t births, deaths;
        count_operation(c, &live, n, &births, &deaths);
        status = best_fit_operation(spaces, c, &ROTA_OPERATIONS(c)[n], births, deaths, block_of);
    }
    sum_peaks(c, &live);
    for (uint32_t part = 0; part < ready; part++) {
        if (status == ROTA_OK) status = space_finish(&spaces[part], part);
        space_free(&spaces[part]);
    }
    return status;
}

rota_status rota_compile_pack_tight(rota_compiler *c) {
    size_t usable, bytes_of_blocks = sizeof(uint32_t) * ((size_t)c->physicals.count + 1);
    space *spaces = rota_arena_alloc(&c->scratch, sizeof *spaces * c->partitions.count, 16);
    c->pieces.tenants.count = 1; /* index 0 ends lists */
    if (!spaces ||
        !rota_vector_reserve(&c->pieces.tenants, sizeof(uint32_t), (uint64_t)c->physicals.count * 4))
        return rota_compile_no_memory(c);
    uint32_t *block_of = rota_chunk_alloc(bytes_of_blocks, &usable);
    if (!block_of) return rota_compile_no_memory(c);
    memset(block_of, 0, bytes_of_blocks);
    const rota_status status = pack_best_fit(c, spaces, block_of);
    rota_chunk_free(block_of, usable);
    ROTA_TRY(status);
    for (uint32_t part = 0; part < c->partitions.count; part++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < c->pieces.count[part]; i++) bytes += c->pieces.bytes[part][i];
        /* Within half a percent of the bound there is nothing to search for. */
        if (bytes <= c->plan->stats.arena_lower_bound_bytes + c->plan->stats.arena_lower_bound_bytes / 200)
            continue;
        ROTA_TRY(rota_compile_pack_search(c, part, bytes));
    }
    for (uint32_t part = 0; part < c->partitions.count; part++)
        if (overlaps(c, part) && c->pieces.count[part] == 1)
            ROTA_TRY(rota_compile_pack_apart(c, part, c->pieces.bytes[part][0]));
    sum_arenas(c);
    return ROTA_OK;
}

/* ---- CONCURRENT ---- */

/* A freed block keeps its last tenant's last uses, and is only given to a physical whose first operation
 * comes after all of them by edges that exist anyway. Blocks are cut, never joined: joining would join what
 * has to be waited for. */
struct rota_packer {
    rota_compiler *c;
    space *spaces;      /* by part */
    uint32_t *block_of; /* by physical */
};

rota_status rota_packer_create(rota_compiler *c, rota_packer **out_packer) {
    rota_packer *packer = rota_arena_calloc(&c->scratch, sizeof *packer, 16);
    *out_packer = NULL;
    if (!packer) return rota_compile_no_memory(c);
    packer->c = c;
    packer->block_of = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * ((size_t)c->physicals.count + 1), 8);
    packer->spaces = rota_arena_calloc(&c->scratch, sizeof *packer->spaces * c->partitions.count, 16);
    if (!packer->block_of || !packer->spaces) return rota_compile_no_memory(c);
    *out_packer = packer; /* also where a space fails: the others are freed with it */
    for (uint32_t part = 0; part < c->partitions.count; part++)
        ROTA_TRY(space_init(&packer->spaces[part], c, part));
    return ROTA_OK;
}

/* Every use in the list comes before operation n, or is n itself. */
static bool all_before(const rota_compiler *c, const rota_cons *cons, uint32_t list, uint32_t n) {
    for (; list; list = rota_list_first(cons, list).next) {
        uint32_t use = rota_list_first(cons, list).operation - 1;
        if (use & ROTA_JOIN || (use != n && !rota_clock_before(&c->edges.clocks, use, n))) return false;
    }
    return true;
}

static uint32_t find_proven(const space *s, uint64_t size, uint32_t n, const rota_cons *cons) {
    uint32_t tried = 0;
    for (uint32_t class = next_class(s, class_of(size)); class < CLASSES; class = next_class(s, class + 1))
        for (uint32_t i = s->class_head[class]; i; i = BLOCKS(s)[i].free_next) {
            if (tried++ == SCAN_MAX) return 0;
            if (BLOCKS(s)[i].size >= size && all_before(s->c, cons, BLOCKS(s)[i].uses, n)) return i;
        }
    return 0;
}

rota_status rota_packer_birth(rota_packer *packer, uint32_t physical, uint32_t operation, bool whole,
                              uint32_t inplace_uses, const rota_cons *cons) {
    rota_compiler *c = packer->c;
    rota_physical *it = &ROTA_PHYSICALS(c)[physical];
    space *s = &packer->spaces[it->part];
    if (packer->block_of[physical]) return ROTA_OK;
    ROTA_TRY(check_size(s, it));
    if (it->inplace_of != ROTA_NONE) {
        /* Every use of the input but this one must be proved done. */
        if (all_before(c, cons, inplace_uses, operation)) {
            packer->block_of[physical] = packer->block_of[it->inplace_of];
            it->piece = ROTA_PHYSICALS(c)[it->inplace_of].piece;
            it->offset_bytes = ROTA_PHYSICALS(c)[it->inplace_of].offset_bytes;
            return ROTA_OK;
        }
        ROTA_PHYSICALS(c)[it->inplace_of].handed_on = false;
        it->inplace_of = ROTA_NONE;
    }
    uint64_t size = rota_aligned_size(it->size_bytes);
    uint32_t index = whole ? find_proven(s, size, operation, cons) : 0;
    if (index) {
        uint32_t uses = BLOCKS(s)[index].uses;
        class_remove(s, index);
        if (!split_block(s, index, size)) return rota_compile_no_memory(c);
        uint32_t rest = BLOCKS(s)[index].next;
        if (rest && BLOCKS(s)[rest].is_free && BLOCKS(s)[rest].uses == 0) BLOCKS(s)[rest].uses = uses;
    } else {
        index = extend(s, size, false);
        if (!index) return rota_compile_no_memory(c);
    }
    packer->block_of[physical] = index;
    it->piece = BLOCKS(s)[index].piece;
    it->offset_bytes = BLOCKS(s)[index].offset;
    return ROTA_OK;
}

void rota_packer_death(rota_packer *packer, uint32_t physical, uint32_t uses) {
    space *s = &packer->spaces[ROTA_PHYSICALS(packer->c)[physical].part];
    uint32_t index = packer->block_of[physical];
    if (index == 0 || ROTA_PHYSICALS(packer->c)[physical].handed_on || BLOCKS(s)[index].is_free) return;
    BLOCKS(s)[index].uses = uses;
    class_insert(s, index);
}

rota_status rota_packer_finish(rota_packer *packer) {
    for (uint32_t part = 0; part < packer->c->partitions.count; part++)
        ROTA_TRY(space_finish(&packer->spaces[part], part));
    sum_arenas(packer->c);
    return ROTA_OK;
}

void rota_packer_free(rota_packer *packer) {
    if (!packer) return;
    for (uint32_t part = 0; part < packer->c->partitions.count; part++) space_free(&packer->spaces[part]);
}
