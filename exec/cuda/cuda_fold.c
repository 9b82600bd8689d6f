/* Laying a segment's commands onto lanes: see cuda_fold.h. */
#include "exec/cuda/cuda_fold.h"
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct lane {
    uint32_t tail, length;
} lane;

/* Commands and joins are numbered in the segment, joins from `count` on. */
typedef struct folding {
    const rota_exec_program_desc *desc;
    const rota_exec_segment *segment;
    uint32_t count, join_count, lane_count;
    uint32_t *first_predecessor, *predecessor; /* of commands; ascending */
    /* latest[j * lane_count + k]: the last command of lane k that join j waits for; NONE: none. A join is no
     * node of the graph: what comes after it waits for these. */
    uint32_t *latest, *left, *passed;
    uint32_t *wanted; /* what the command at hand waits for, ascending */
    /* clock[i * lane_count + k]: how many commands of lane k are done when i is, i included. */
    uint32_t *clock, *lane_of;
    uint32_t *depth; /* length of the longest path to it, as laid out */
    lane *lanes;
    uint32_t *merged; /* a clock: of all predecessors of the command at hand */
    rota_cuda_fold *out;
} folding;

/* The number in the description of a command or join of the segment, and back. */
static uint32_t outer(const folding *f, uint32_t node) {
    return node < f->count ? f->segment->first_command + node
                           : f->desc->command_count + f->segment->first_join + node - f->count;
}

static uint32_t inner(const folding *f, uint32_t node) {
    return node < f->desc->command_count ? node - f->segment->first_command
                                         : node - f->desc->command_count - f->segment->first_join + f->count;
}

static bool allocate(folding *f) {
    size_t n = f->count, lanes = f->lane_count, joins = f->join_count, edges = 0, waits = n;
    for (uint32_t i = 0; i < n + joins; i++) {
        size_t out = f->desc->first_successor[outer(f, i) + 1] - f->desc->first_successor[outer(f, i)];
        edges += out;
        waits += i < n ? out : out * lanes;
    }
    f->latest = malloc((joins * lanes + 1) * sizeof(uint32_t));
    f->left = malloc((joins + 1) * sizeof(uint32_t));
    f->passed = malloc((joins + 1) * sizeof(uint32_t));
    f->wanted = malloc((waits + 1) * sizeof(uint32_t)); /* of one command no more than of all */
    f->first_predecessor = calloc(n + 2, sizeof(uint32_t));
    f->predecessor = malloc((edges + 1) * sizeof(uint32_t));
    f->clock = calloc(n * lanes + 1, sizeof(uint32_t));
    f->lane_of = malloc((n + 1) * sizeof(uint32_t));
    f->depth = calloc(n + 1, sizeof(uint32_t));
    f->lanes = calloc(lanes, sizeof *f->lanes);
    f->merged = calloc(lanes, sizeof(uint32_t));
    f->out->first = calloc(n + 1, sizeof(uint32_t));
    f->out->before = malloc((waits + 1) * sizeof(uint32_t));
    if (f->latest) memset(f->latest, 0xff, joins * lanes * sizeof(uint32_t));
    for (uint32_t j = 0; f->left && j < joins; j++)
        f->left[j] = f->desc->predecessor_count[outer(f, f->count + j)];
    return f->latest && f->left && f->passed && f->wanted && f->first_predecessor && f->predecessor &&
           f->clock && f->lane_of && f->depth && f->lanes && f->merged && f->out->first && f->out->before;
}

/* The edges into commands the other way round. */
static void turn_edges(folding *f) {
    const uint32_t *successor = f->desc->successor;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->count + f->join_count; i++) {
            const uint32_t *successors = f->desc->first_successor + outer(f, i);
            for (uint32_t e = successors[0]; e < successors[1]; e++) {
                uint32_t to = inner(f, successor[e]);
                if (to >= f->count) continue;
                if (pass == 0)
                    f->first_predecessor[to + 2]++;
                else
                    f->predecessor[f->first_predecessor[to + 1]++] = i;
            }
        }
        for (uint32_t i = 2; pass == 0 && i <= f->count; i++)
            f->first_predecessor[i] += f->first_predecessor[i - 1];
    }
}

static void merge(uint32_t *clock, const uint32_t *other, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (other[k] > clock[k]) clock[k] = other[k];
}

static const uint32_t *clock_of(const folding *f, uint32_t command) {
    return f->clock + (size_t)command * f->lane_count;
}

/* A lane whose last command the command at hand waits for anyway: best one that is its predecessor, the last
 * of them; else any such; else an empty lane; else the one whose last command ends first. */
static uint32_t choose_lane(const folding *f, uint32_t wanted) {
    for (uint32_t i = wanted; i > 0; i--) {
        uint32_t before = f->wanted[i - 1], k = f->lane_of[before];
        if (f->lanes[k].tail == before) return k;
    }
    uint32_t empty = NONE, soonest = 0;
    for (uint32_t k = 0; k < f->lane_count; k++) {
        if (f->lanes[k].length == 0) {
            if (empty == NONE) empty = k;
        } else if (f->merged[k] == f->lanes[k].length) {
            return k;
        } else if (empty == NONE && f->depth[f->lanes[k].tail] < f->depth[f->lanes[soonest].tail]) {
            soonest = k;
        }
    }
    return empty != NONE ? empty : soonest;
}

static int compare_numbers(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The commands that one waits for, a join's as those that it comes to on each lane. Ascending. */
static uint32_t find_wanted(folding *f, uint32_t command) {
    uint32_t count = 0;
    bool joined = false;
    for (uint32_t e = f->first_predecessor[command]; e < f->first_predecessor[command + 1]; e++) {
        uint32_t before = f->predecessor[e];
        if (before < f->count) {
            f->wanted[count++] = before;
            continue;
        }
        joined = true;
        for (uint32_t k = 0; k < f->lane_count; k++) {
            uint32_t latest = f->latest[(size_t)(before - f->count) * f->lane_count + k];
            if (latest != NONE) f->wanted[count++] = latest;
        }
    }
    if (joined) qsort(f->wanted, count, sizeof *f->wanted, compare_numbers);
    return count;
}

/* A command was laid onto a lane: what joins it knows, and passes it on when it knows all. */
static void tell_joins(folding *f, uint32_t command) {
    uint32_t lanes = f->lane_count, depth = 0, node = command;
    for (;;) {
        const uint32_t *successors = f->desc->first_successor + outer(f, node);
        for (uint32_t e = successors[0]; e < successors[1]; e++) {
            uint32_t to = inner(f, f->desc->successor[e]);
            if (to < f->count) continue;
            uint32_t *latest = f->latest + (size_t)(to - f->count) * lanes;
            for (uint32_t k = 0; k < lanes; k++) {
                uint32_t last = node >= f->count        ? f->latest[(size_t)(node - f->count) * lanes + k]
                                : f->lane_of[node] == k ? node
                                                        : NONE;
                if (last != NONE && (latest[k] == NONE || latest[k] < last)) latest[k] = last;
            }
            if (--f->left[to - f->count] == 0) f->passed[depth++] = to;
        }
        if (depth == 0) return;
        node = f->passed[--depth];
    }
}

static void lay(folding *f, uint32_t command) {
    uint32_t wanted = find_wanted(f, command);
    uint32_t *clock = f->clock + (size_t)command * f->lane_count;
    memset(f->merged, 0, f->lane_count * sizeof *f->merged);
    for (uint32_t i = 0; i < wanted; i++) merge(f->merged, clock_of(f, f->wanted[i]), f->lane_count);
    uint32_t k = choose_lane(f, wanted);
    lane *own = &f->lanes[k];
    uint32_t *before = f->out->before + f->out->first[command], count = 0;
    if (own->length && f->merged[k] < own->length) { /* an order that nothing asked for */
        before[count++] = own->tail;
        memcpy(clock, clock_of(f, own->tail), f->lane_count * sizeof *clock);
    }
    /* Later ones first: they may imply earlier ones. */
    for (uint32_t i = wanted; i > 0; i--) {
        uint32_t p = f->wanted[i - 1], on = f->lane_of[p];
        if (clock[on] >= clock_of(f, p)[on]) continue;
        before[count++] = p;
        merge(clock, clock_of(f, p), f->lane_count);
    }
    for (uint32_t i = 0; i < count; i++)
        if (f->depth[before[i]] >= f->depth[command]) f->depth[command] = f->depth[before[i]] + 1;
    f->out->first[command + 1] = f->out->first[command] + count;
    if (count > f->out->most) f->out->most = count;
    f->lane_of[command] = k;
    own->tail = command;
    clock[k] = ++own->length;
    if (f->join_count) tell_joins(f, command);
}

rota_status rota_cuda_fold_create(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                                  uint32_t lanes, rota_cuda_fold *out_fold) {
    *out_fold = (rota_cuda_fold){.count = segment->command_count, .most = 1};
    folding f = {.desc = desc,
                 .segment = segment,
                 .count = segment->command_count,
                 .join_count = segment->join_count,
                 .lane_count = lanes,
                 .out = out_fold};
    rota_status status = ROTA_OK;
    if (!allocate(&f)) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a graph of %u commands", f.count);
    } else {
        turn_edges(&f);
        /* Commands are numbered so that every edge goes to a higher number. */
        for (uint32_t i = 0; i < f.count; i++) lay(&f, i);
    }
    free(f.latest);
    free(f.left);
    free(f.passed);
    free(f.wanted);
    free(f.first_predecessor);
    free(f.predecessor);
    free(f.clock);
    free(f.lane_of);
    free(f.depth);
    free(f.lanes);
    free(f.merged);
    if (status != ROTA_OK) rota_cuda_fold_free(out_fold);
    return status;
}

void rota_cuda_fold_free(rota_cuda_fold *fold) {
    free(fold->first);
    free(fold->before);
    *fold = (rota_cuda_fold){0};
}
