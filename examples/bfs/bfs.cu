// The CUDA form of the kernels in search.c.
#include "rota_kernel.cuh"

enum { GROUP_THREADS = 256, VERTEX_THREADS = 32, UNREACHED = 0xFFFFFFFF };

struct bfs_state {
    uint32_t frontier, next, more, level, widest, reached;
};

struct expand_params {
    uint32_t count; // bindable 0
};

// Some threads a vertex, of whose edges each takes every so many.
ROTA_KERNEL(bfs_expand, 7, expand_params, GROUP_THREADS) {
    const uint64_t i = rota_index() / VERTEX_THREADS;
    if (i >= rota_param_u32(args, 0, args.params.count)) return;
    const uint64_t *starts = rota_operand<const uint64_t>(args, 0);
    const uint32_t *targets = rota_operand<const uint32_t>(args, 1);
    const uint32_t vertex = rota_operand<const uint32_t>(args, 2)[i];
    const uint32_t level = *rota_operand<const uint32_t>(args, 3) + 1;
    uint32_t *levels = rota_operand<uint32_t>(args, 4), *next = rota_operand<uint32_t>(args, 5);
    uint32_t *length = rota_operand<uint32_t>(args, 6);
    const uint64_t end = starts[vertex + 1];
    for (uint64_t edge = starts[vertex] + threadIdx.x % VERTEX_THREADS; edge < end; edge += VERTEX_THREADS) {
        const uint32_t other = targets[edge];
        if (levels[other] == UNREACHED && atomicCAS(&levels[other], UNREACHED, level) == UNREACHED)
            next[atomicAdd(length, 1)] = other;
    }
}

ROTA_KERNEL(bfs_advance, 1, void, 1) {
    bfs_state *s = rota_operand<bfs_state>(args, 0);
    s->frontier = s->next;
    s->next = 0;
    s->more = s->frontier > 0;
    s->level += s->more;
    s->reached += s->frontier;
    if (s->frontier > s->widest) s->widest = s->frontier;
}

ROTA_KERNEL(bfs_begin, 4, void, 1) {
    const uint32_t source = *rota_operand<const uint32_t>(args, 0);
    *rota_operand<bfs_state>(args, 1) = {1, 0, 1, 0, 1, 1};
    *rota_operand<uint32_t>(args, 2) = source;
    rota_operand<uint32_t>(args, 3)[source] = 0;
}
