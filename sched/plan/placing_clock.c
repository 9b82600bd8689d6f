/* A plan's replay in the model that automatic placement judges by.
 *
 *     device 0:  [ a ][ b ]------[ e ]        a device begins its nodes in record order; one that needs a copy holds
 *                  \ copy of a        ^       back those behind it (a segment waits at its start),
 *     device 1:     --->[ c ][ d ]---/        and a copy leaves once all before it on its device has ended
 *
 * Whatever needs a value on a device after the first that did finds it there. Copies to a device go one after the
 * other. */
#include "sched/plan/placing_clock.h"

#include <string.h>

/* What a copy costs the device that it leaves, and the one that waits for it, beside its bytes: a segment ends there
 * and another begins. As a share of the latency. */
#define SHARE_OF_LATENCY 0.125

bool rota_placing_clock_init(rota_placing_clock *clock, const rota_placing *placing, rota_arena *arena) {
    const size_t nodes = placing->node_count, arrivals = (size_t)placing->value_count * placing->device_count;
    clock->placing = placing;
    clock->ended = rota_arena_alloc(arena, sizeof(double) * (nodes + 1), 8);
    clock->sent = rota_arena_alloc(arena, sizeof(double) * (nodes + 1), 8);
    clock->arrived = rota_arena_alloc(arena, sizeof(double) * (arrivals + 1), 8);
    clock->device = rota_arena_alloc(arena, nodes + 1, 1);
    return clock->ended && clock->sent && clock->arrived && clock->device;
}

void rota_placing_clock_reset(rota_placing_clock *clock) {
    const rota_placing *p = clock->placing;
    const size_t arrivals = (size_t)p->value_count * p->device_count;
    for (size_t i = 0; i < arrivals; i++) clock->arrived[i] = -1;
    clock->all_ended = 0;
    for (uint32_t d = 0; d < ROTA_PLACING_DEVICES_MAX; d++)
        clock->high[d] = clock->floor[d] = clock->link[d] = clock->free[d] = 0;
}

/* When the bytes of an edge are on `device`; *link is moved on by a copy that is not under way yet. */
static double arrival(const rota_placing_clock *clock, const rota_placing_edge *edge, uint32_t device,
                      double *link) {
    const rota_placing *p = clock->placing;
    const double arrived = clock->arrived[(size_t)edge->value * p->device_count + device];
    if (arrived >= 0) return arrived;
    const bool outside = edge->from == ROTA_PLACING_OUTSIDE;
    const uint32_t from = outside ? 0 : clock->device[edge->from];
    const double sent = outside ? 0 : clock->sent[edge->from];
    if (*link < sent) *link = sent;
    *link += rota_placing_link_ns(p, edge, from, device);
    return *link + rota_placing_latency_ns(p, edge, from, device);
}

static bool is_here(const rota_placing_clock *clock, const rota_placing_edge *edge, uint32_t device) {
    return edge->from != ROTA_PLACING_OUTSIDE && clock->device[edge->from] == device;
}

/* What the host gives a device goes through its memory, and is copied there by one of its threads. */
static void take_host(rota_placing_clock *clock, const rota_placing_edge *edge, uint32_t device) {
    const rota_placing *p = clock->placing;
    if (edge->from == ROTA_PLACING_OUTSIDE && p->host_plus_1 && p->host_taken_ns)
        clock->free[p->hardware[p->host_plus_1 - 1]] += p->host_taken_ns[device] * (double)edge->bytes;
}

double rota_placing_clock_try(const rota_placing_clock *clock, uint32_t n, uint32_t device) {
    const rota_placing *p = clock->placing;
    const rota_placing_node *node = &p->nodes[n];
    double begin = clock->free[p->hardware[device]], link = clock->link[device];
    if (begin < clock->floor[device]) begin = clock->floor[device];
    for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
        const rota_placing_edge *edge = &p->edges[e];
        const double ready = is_here(clock, edge, device) ? clock->ended[edge->from]
                             : edge->bytes                ? arrival(clock, edge, device, &link)
                                                          : clock->ended[edge->from];
        if (begin < ready) begin = ready;
    }
    return begin + rota_placing_cost_of(p, n, device)->span_ns;
}

void rota_placing_clock_begin(rota_placing_clock *clock, uint32_t n, uint32_t device) {
    const rota_placing *p = clock->placing;
    const rota_placing_node *node = &p->nodes[n];
    const rota_placing_cost *cost = rota_placing_cost_of(p, n, device);
    double *free = &clock->free[p->hardware[device]];
    double begin = *free, ready = 0;
    for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
        const rota_placing_edge *edge = &p->edges[e];
        if (is_here(clock, edge, device) || !edge->bytes) {
            if (ready < clock->ended[edge->from]) ready = clock->ended[edge->from];
            continue;
        }
        double *arrived = &clock->arrived[(size_t)edge->value * p->device_count + device];
        if (*arrived < 0) {
            *arrived = arrival(clock, edge, device, &clock->link[device]);
            take_host(clock, edge, device);
            if (edge->from != ROTA_PLACING_OUTSIDE) {
                const uint32_t from = clock->device[edge->from];
                const double share = SHARE_OF_LATENCY * rota_placing_latency_ns(p, edge, from, device);
                clock->free[p->hardware[from]] += share;
                *free += share;
                begin = *free;
            }
        }
        if (clock->floor[device] < *arrived) clock->floor[device] = *arrived;
    }
    if (begin < clock->floor[device]) begin = clock->floor[device];
    if (begin < ready) begin = ready;
    *free = begin + cost->busy_ns;
    const double end = begin + cost->span_ns;
    clock->device[n] = (uint8_t)device;
    clock->ended[n] = end;
    if (clock->high[device] < end) clock->high[device] = end;
    clock->sent[n] = clock->high[device];
    const double read_back =
        node->read_back_bytes
            ? end + p->host_latency_ns[device] + p->host_byte_ns[device] * (double)node->read_back_bytes
            : end;
    if (clock->all_ended < read_back) clock->all_ended = read_back;
}

double rota_placing_clock_run(rota_placing_clock *clock, const uint8_t *devices) {
    rota_placing_clock_reset(clock);
    for (uint32_t n = 0; n < clock->placing->node_count; n++) rota_placing_clock_begin(clock, n, devices[n]);
    return clock->all_ended;
}
