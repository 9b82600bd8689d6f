/* Slices of a trace on as few tracks as there are of them at once. */
#include "sched/runtime/plans/trace_tracks.h"

#include <stdlib.h>

static int compare_slices(const void *a, const void *b) {
    const rota_trace_slice *one = a, *other = b;
    if (one->begin_ns != other->begin_ns) return one->begin_ns < other->begin_ns ? -1 : 1;
    if (one->end_ns != other->end_ns) return one->end_ns < other->end_ns ? -1 : 1;
    return one->index < other->index ? -1 : one->index > other->index;
}

/* Of a heap of tracks, by when they become free. */
typedef struct track_end {
    uint64_t end_ns;
    uint32_t track;
} track_end;

/* Of two that are free, the lower one. */
static bool is_before(const track_end *a, const track_end *b) {
    return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : a->track < b->track;
}

static void sift_down(track_end *heap, uint32_t count) {
    uint32_t i = 0;
    for (;;) {
        uint32_t least = i;
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
            if (is_before(&heap[child], &heap[least])) least = child;
        if (least == i) return;
        const track_end other = heap[i];
        heap[i] = heap[least];
        heap[least] = other;
        i = least;
    }
}

static void sift_up(track_end *heap, uint32_t i) {
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2) {
        const track_end other = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = other;
    }
}

bool rota_trace_spread(rota_arena *arena, rota_trace_slice *slices, uint32_t count, uint32_t *out_tracks) {
    track_end *heap = rota_arena_alloc(arena, ((size_t)count + 1) * sizeof *heap, 8);
    *out_tracks = 0;
    if (!heap) return false;
    if (count > 1) qsort(slices, count, sizeof *slices, compare_slices);
    for (uint32_t i = 0; i < count; i++) {
        if (*out_tracks && heap[0].end_ns <= slices[i].begin_ns) {
            slices[i].track = heap[0].track;
            heap[0].end_ns = slices[i].end_ns;
            sift_down(heap, *out_tracks);
        } else {
            slices[i].track = *out_tracks;
            heap[*out_tracks] = (track_end){slices[i].end_ns, *out_tracks};
            sift_up(heap, (*out_tracks)++);
        }
    }
    return true;
}
