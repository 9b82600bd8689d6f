/* Which placements memory has room for, as far as that is known before anything is packed: what lives at once on each
 * device, in record order. Packing takes that or a little more, and copies on their way mapped memory beside it. */
#include "sched/plan/placing_memory.h"

#include <string.h>

bool rota_placing_memory_init(rota_placing_memory *memory, const rota_placing *placing, rota_arena *arena) {
    bool limited = placing->transient_limit_bytes != 0;
    for (uint32_t d = 0; d < placing->device_count && placing->memory_bytes; d++)
        limited |= placing->memory_bytes[d] != 0;
    *memory = (rota_placing_memory){.placing = limited && placing->buffers ? placing : NULL};
    if (!memory->placing) return true;
    memory->on = rota_arena_alloc(arena, sizeof *memory->on * ((size_t)placing->buffer_count + 1), 8);
    return memory->on != NULL;
}

void rota_placing_memory_reset(rota_placing_memory *memory) {
    if (!memory->placing) return;
    const size_t devices = sizeof(uint64_t) * ROTA_PLACING_DEVICES_MAX;
    memset(memory->on, 0, sizeof *memory->on * memory->placing->buffer_count);
    memset(memory->kept, 0, devices);
    memset(memory->live, 0, devices);
    memset(memory->peak, 0, devices);
    memory->peaks = 0;
}

/* What a device gets with a node. */
static void find_more(const rota_placing_memory *memory, uint32_t n, uint32_t device, uint64_t *out_kept,
                      uint64_t *out_live) {
    const rota_placing *p = memory->placing;
    const rota_placing_node *node = &p->nodes[n];
    *out_kept = *out_live = 0;
    for (uint32_t t = node->first_touch; t < node->first_touch + node->touch_count; t++) {
        const uint32_t buffer = p->touches[t];
        if (memory->on[buffer] >> device & 1) continue;
        *(p->buffers[buffer].last == UINT32_MAX ? out_kept : out_live) += p->buffers[buffer].bytes;
    }
}

static uint64_t peak_with(const rota_placing_memory *memory, uint32_t device, uint64_t more) {
    const uint64_t live = memory->live[device] + more;
    return live > memory->peak[device] ? live : memory->peak[device];
}

bool rota_placing_memory_fits(const rota_placing_memory *memory, uint32_t n, uint32_t device) {
    const rota_placing *p = memory->placing;
    uint64_t kept, live;
    if (!p) return true;
    find_more(memory, n, device, &kept, &live);
    const uint64_t peak = peak_with(memory, device, live);
    const uint64_t of_device = p->memory_bytes ? p->memory_bytes[device] : 0;
    if (of_device && memory->kept[device] + kept + peak > of_device) return false;
    /* What is over the limit already is no worse by a node that adds nothing. */
    return !p->transient_limit_bytes || peak == memory->peak[device] ||
           memory->peaks - memory->peak[device] + peak <= p->transient_limit_bytes;
}

void rota_placing_memory_begin(rota_placing_memory *memory, uint32_t n, uint32_t device) {
    const rota_placing *p = memory->placing;
    uint64_t kept, live;
    if (!p) return;
    find_more(memory, n, device, &kept, &live);
    const uint64_t peak = peak_with(memory, device, live);
    memory->peaks += peak - memory->peak[device];
    memory->peak[device] = peak;
    memory->kept[device] += kept;
    memory->live[device] += live;
    const rota_placing_node *node = &p->nodes[n];
    for (uint32_t t = node->first_touch; t < node->first_touch + node->touch_count; t++) {
        const rota_placing_buffer *buffer = &p->buffers[p->touches[t]];
        memory->on[p->touches[t]] |= 1u << device;
        if (buffer->last != n) continue;
        for (uint32_t left = memory->on[p->touches[t]]; left; left &= left - 1)
            memory->live[__builtin_ctz(left)] -= buffer->bytes;
    }
}

bool rota_placing_memory_fits_all(const rota_placing *placing, const uint8_t *devices) {
    rota_arena arena = ROTA_ARENA_INIT;
    rota_placing_memory memory;
    bool fits = rota_placing_memory_init(&memory, placing, &arena);
    if (fits && memory.placing) {
        rota_placing_memory_reset(&memory);
        for (uint32_t n = 0; n < placing->node_count && fits; n++) {
            fits = rota_placing_memory_fits(&memory, n, devices[n]);
            rota_placing_memory_begin(&memory, n, devices[n]);
        }
    }
    rota_arena_free(&arena);
    return fits;
}
