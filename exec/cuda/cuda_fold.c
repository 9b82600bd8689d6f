/* Laying a segment's commands onto lanes: see cuda_fold.h. */
#include "exec/cuda/cuda_fold.h"
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct lane {
    uint32_t tail, length;
} lane;

typedef struct folding {
    const rota_exec_program_desc *desc;
    const rota_exec_segment *segment;
    uint32_t count, lane_count;
    uint32_t *first_predecessor, *predecessor; /* ascending */
    /* clock[i * lane_count + k]: how many commands of lane k are done when i is, i included. */
    uint32_t *clock, *lane_of;
    uint32_t *depth; /* length of the longest path to it, as laid out */
    lane *lanes;
    uint32_t *merged; /* a clock: of all predecessors of the command at hand */
    rota_cuda_fold *out;
} folding;

static bool allocate(folding *f) {
    size_t n = f->count, lanes = f->lane_count;
    uint32_t first = f->segment->first_command;
    size_t edges = f->desc->first_successor[first + n] - f->desc->first_successor[first];
    f->first_predecessor = calloc(n + 2, sizeof(uint32_t));
    f->predecessor = malloc((edges + 1) * sizeof(uint32_t));
    f->clock = calloc(n * lanes + 1, sizeof(uint32_t));
    f->lane_of = malloc((n + 1) * sizeof(uint32_t));
    f->depth = calloc(n + 1, sizeof(uint32_t));
    f->lanes = calloc(lanes, sizeof *f->lanes);
    f->merged = calloc(lanes, sizeof(uint32_t));
    f->out->first = calloc(n + 1, sizeof(uint32_t));
    f->out->before = malloc((edges + n + 1) * sizeof(uint32_t));
    return f->first_predecessor && f->predecessor && f->clock && f->lane_of && f->depth && f->lanes &&
           f->merged && f->out->first && f->out->before;
}

/* The edges the other way round. */
static void turn_edges(folding *f) {
    const uint32_t *successors = f->desc->first_successor + f->segment->first_command;
    uint32_t base = f->segment->first_command;
    for (uint32_t e = successors[0]; e < successors[f->count]; e++)
        f->first_predecessor[f->desc->successor[e] - base + 2]++;
    for (uint32_t i = 2; i <= f->count; i++) f->first_predecessor[i] += f->first_predecessor[i - 1];
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t e = successors[i]; e < successors[i + 1]; e++)
            f->predecessor[f->first_predecessor[f->desc->successor[e] - base + 1]++] = i;
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
static uint32_t choose_lane(const folding *f, uint32_t command) {
    for (uint32_t e = f->first_predecessor[command + 1]; e > f->first_predecessor[command]; e--) {
        uint32_t before = f->predecessor[e - 1], k = f->lane_of[before];
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

static void lay(folding *f, uint32_t command) {
    uint32_t begin = f->first_predecessor[command], end = f->first_predecessor[command + 1];
    uint32_t *clock = f->clock + (size_t)command * f->lane_count;
    memset(f->merged, 0, f->lane_count * sizeof *f->merged);
    for (uint32_t e = begin; e < end; e++) merge(f->merged, clock_of(f, f->predecessor[e]), f->lane_count);
    uint32_t k = choose_lane(f, command);
    lane *own = &f->lanes[k];
    uint32_t *before = f->out->before + f->out->first[command], count = 0;
    if (own->length && f->merged[k] < own->length) { /* an order that nothing asked for */
        before[count++] = own->tail;
        memcpy(clock, clock_of(f, own->tail), f->lane_count * sizeof *clock);
    }
    /* Later ones first: they may imply earlier ones. */
    for (uint32_t e = end; e > begin; e--) {
        uint32_t p = f->predecessor[e - 1], on = f->lane_of[p];
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
}

rota_status rota_cuda_fold_create(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                                  uint32_t lanes, rota_cuda_fold *out_fold) {
    *out_fold = (rota_cuda_fold){.count = segment->command_count, .most = 1};
    folding f = {.desc = desc,
                 .segment = segment,
                 .count = segment->command_count,
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
