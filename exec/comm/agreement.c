/* Agreement: what each rank is about to do, as a message, and where two of them differ. Every rank gets those of all
 * others and compares them in ascending order with the lowest rank's, so all come to the same sentence. */
#include "exec/comm/agreement.h"

#include <stdio.h>
#include <string.h>

static bool has_peer(uint32_t kind) {
    return kind == ROTA_COLLECTIVE_BROADCAST || rota_collective_is_of_two((rota_collective_kind)kind);
}

static void announce_itself(const rota_collective *collective, uint64_t number, rota_announcement *out) {
    memset(out, 0, sizeof *out); /* padding, too: it is sent */
    out->kind = collective->kind;
    out->number = number;
    (void)snprintf(out->name, sizeof out->name, "%s", collective->name ? collective->name : "");
    if (has_peer(out->kind)) out->peer = collective->peer;
    out->on_device = collective->on_device;
    if (collective->kind == ROTA_COLLECTIVE_BARRIER) return;
    out->type = collective->type;
    out->count = collective->count;
    if (rota_collective_reduces(collective->kind)) out->reduction = collective->reduction;
}

static void announce_position(const rota_collective_position *position, rota_announcement *out) {
    (void)snprintf(out->graph, sizeof out->graph, "%s", position->graph ? position->graph : "");
    (void)snprintf(out->lane, sizeof out->lane, "%s", position->lane ? position->lane : "");
    out->index = position->index;
    out->list_count = position->list_count;
    out->rest = position->rest;
    out->rest_count = position->rest_count;
}

void rota_announce(const rota_collective *collective, uint64_t number, rota_announcement *out) {
    announce_itself(collective, number, out);
    /* What two ranks say to each other they may record anywhere. */
    if (!rota_collective_is_of_two(collective->kind)) announce_position(&collective->position, out);
    out->order_count = collective->order_count;
    if (out->order_count) memcpy(out->orders, collective->orders, out->order_count * sizeof *out->orders);
}

void rota_announce_end(const char *graph, uint64_t number, rota_announcement *out) {
    memset(out, 0, sizeof *out);
    out->is_end = 1;
    out->number = number;
    (void)snprintf(out->graph, sizeof out->graph, "%s", graph ? graph : "");
}

void rota_announcement_clear(rota_announcement *a) {
    for (uint32_t i = 0; i < ROTA_COLLECTIVE_ORDERS; i++)
        a->orders[i].communicator = 0; /* no one's identity */
}

/* What of it is out of what there is, the value, and how many there are; NULL: nothing. */
static const char *find_wrong(const rota_announcement *a, uint32_t size, uint32_t *out_found,
                              uint32_t *out_most) {
    const struct {
        const char *what;
        uint32_t found, count;
    } fields[] = {{"kind", a->kind, ROTA_COLLECTIVE_KIND_COUNT},
                  {"type", a->type, ROTA_COLLECTIVE_TYPE_COUNT},
                  {"reduction", a->reduction, ROTA_COLLECTIVE_REDUCTION_COUNT},
                  {"peer", a->peer, size},
                  {"device flag", a->on_device, 2},
                  {"end flag", a->is_end, 2},
                  {"number of other communicators", a->order_count, ROTA_COLLECTIVE_ORDERS + 1}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].found < fields[i].count) continue;
        *out_found = fields[i].found;
        *out_most = fields[i].count - 1;
        return fields[i].what;
    }
    return NULL;
}

bool rota_announcement_check(const rota_announcement *a, uint32_t size, const char *communicator,
                             uint32_t rank, char *out_cause, size_t capacity) {
    uint32_t found, most, sent = 0;
    const char *what = find_wrong(a, size, &found, &most);
    if (!what) {
        while (sent < a->order_count && a->orders[sent].communicator) sent++;
        if (sent == a->order_count) return true;
        what = "number of other communicators";
        found = a->order_count;
        most = sent;
    }
    (void)snprintf(
        out_cause, capacity,
        "communicator '%s': what rank %u says of its collective makes no sense: its %s is %u, expected "
        "%u at the most; that rank's memory is damaged, its rota is of another build, or it is no rank",
        communicator, rank, what, found, most);
    return false;
}

void rota_announcement_describe(const rota_announcement *a, char *out_text, size_t capacity) {
    if (a->is_end) {
        (void)snprintf(out_text, capacity, "the end of graph '%.*s', without a collective %llu",
                       ROTA_ANNOUNCED_GRAPH - 1, a->graph, (unsigned long long)a->number);
        return;
    }
    (void)snprintf(out_text, capacity, "%s '%.*s' (%s %llu)",
                   rota_collective_kind_text((rota_collective_kind)a->kind), ROTA_ANNOUNCED_NAME - 1, a->name,
                   rota_collective_is_of_two((rota_collective_kind)a->kind) ? "message" : "collective",
                   (unsigned long long)a->number);
}

/* With all that is compared. */
static void describe_whole(const rota_announcement *a, char *out_text, size_t capacity) {
    char name[160], what[64] = "", whom[32] = "", where[160] = "";
    const char *by = a->on_device ? ", on a device" : "";
    rota_announcement_describe(a, name, sizeof name);
    const bool reduces = rota_collective_reduces((rota_collective_kind)a->kind);
    if (a->is_end) {
        (void)snprintf(out_text, capacity, "%s", name);
        return;
    }
    if (a->kind != ROTA_COLLECTIVE_BARRIER)
        (void)snprintf(what, sizeof what, " of %llu %s%s%s", (unsigned long long)a->count,
                       rota_collective_type_text((rota_collective_type)a->type), reduces ? ", by " : "",
                       reduces ? rota_collective_reduction_text((rota_collective_reduction)a->reduction)
                               : "");
    if (has_peer(a->kind))
        (void)snprintf(whom, sizeof whom, a->kind == ROTA_COLLECTIVE_SEND ? " to rank %u" : " from rank %u",
                       a->peer);
    if (a->index)
        (void)snprintf(where, sizeof where, ", number %u of %u in lane '%.*s' of graph '%.*s'", a->index,
                       a->list_count, ROTA_ANNOUNCED_LANE - 1, a->lane, ROTA_ANNOUNCED_GRAPH - 1, a->graph);
    (void)snprintf(out_text, capacity, "%s%s%s%s%s", name, what, whom, by, where);
}

/* A lane that has more than the other one's is found at the last one that both have: all before are compared by
 * themselves, so that the first which differs is named. */
static bool are_alike(const rota_announcement *a, const rota_announcement *b) {
    const bool are_before_the_end = a->index < a->list_count && b->index < b->list_count;
    return memcmp(a, b, offsetof(rota_announcement, list_count)) == 0 &&
           (are_before_the_end || a->list_count == b->list_count) && a->on_device == b->on_device &&
           a->is_end == b->is_end;
}

/* A send and the receive that it is for; their nodes have names of their own. */
static bool is_pair(uint32_t rank_a, const rota_announcement *a, uint32_t rank_b,
                    const rota_announcement *b) {
    if (!rota_collective_is_of_two((rota_collective_kind)a->kind) ||
        !rota_collective_is_of_two((rota_collective_kind)b->kind))
        return false;
    return a->kind != b->kind && a->peer == rank_b && b->peer == rank_a && a->type == b->type &&
           a->count == b->count && a->number == b->number && a->on_device == b->on_device;
}

bool rota_announcements_agree(const char *communicator, uint32_t rank_a, const rota_announcement *a,
                              uint32_t rank_b, const rota_announcement *b, char *out_cause, size_t capacity) {
    const bool is_of_two = rota_collective_is_of_two((rota_collective_kind)a->kind);
    if (is_of_two ? is_pair(rank_a, a, rank_b, b) : are_alike(a, b)) return true;
    char text_a[400], text_b[400];
    describe_whole(a, text_a, sizeof text_a);
    describe_whole(b, text_b, sizeof text_b);
    (void)snprintf(out_cause, capacity,
                   "communicator '%s': the ranks' collectives differ: rank %u is at %s, rank %u at %s",
                   communicator, rank_a, text_a, rank_b, text_b);
    return false;
}
