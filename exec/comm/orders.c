/* Whether ranks that are of several communicators have submitted their collectives in one order: each says of a
 * collective how many of each other communicator went before it, and of a communicator that two of them name they must
 * say the same. All look at what all said in one order, and so come to the same two. */
#include "exec/comm/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

/* What the first rank that named a communicator said of it. */
typedef struct known {
    const rota_collective_order *order; /* NULL: empty */
    uint32_t rank;
} known;

static bool are_same(const rota_announcement *a, const rota_announcement *b) {
    return a->order_count == b->order_count &&
           memcmp(a->orders, b->orders, a->order_count * sizeof *a->orders) == 0;
}

static known *find(known *table, uint64_t mask, uint64_t communicator) {
    uint64_t i = rota_hash_word(communicator) & mask;
    while (table[i].order && table[i].order->communicator != communicator) i = (i + 1) & mask;
    return &table[i];
}

void rota_crossing_describe(const rota_crossing *crossing, char *out_cause, size_t capacity) {
    char what[192];
    rota_announcement_describe(crossing->announced, what, sizeof what);
    (void)snprintf(
        out_cause, capacity,
        "communicator '%s': the ranks' orders of collectives differ: at %s rank %u has submitted %llu of "
        "communicator '%s', rank %u %llu%s; ranks that share communicators submit the collectives of all "
        "of them in one order",
        crossing->communicator, what, crossing->ranks[0], (unsigned long long)crossing->before[0],
        crossing->other, crossing->ranks[1], (unsigned long long)crossing->before[1], crossing->more);
}

static void say(const char *communicator, const rota_announcement *announced, const known *first,
                uint32_t rank, const rota_collective_order *order, char *out_cause, size_t capacity) {
    char other[ROTA_COLLECTIVE_ORDER_NAME];
    (void)snprintf(other, sizeof other, "%.*s", ROTA_COLLECTIVE_ORDER_NAME - 1, order->name);
    rota_crossing_describe(&(rota_crossing){communicator,
                                            other,
                                            &announced[first->rank],
                                            {first->rank, rank},
                                            {first->order->before, order->before},
                                            ""},
                           out_cause, capacity);
}

rota_status rota_orders_agree(const char *communicator, const rota_announcement *announced,
                              const uint32_t *ranks, uint32_t count, uint64_t *out_other, char *out_cause,
                              size_t capacity) {
    uint64_t total = 0, size = 4;
    bool are_all_same = true;
    *out_other = 0;
    for (uint32_t i = 0; i < count; i++) {
        const rota_announcement *a = &announced[ranks[i]];
        total += a->order_count;
        are_all_same = are_all_same && are_same(a, &announced[ranks[0]]);
    }
    if (are_all_same) return ROTA_OK;
    while (size < 2 * total) size *= 2;
    known *table = calloc(size, sizeof *table);
    if (!table)
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%s': no host memory for the orders of %u ranks",
                         communicator, count);
    for (uint32_t i = 0; i < count && !*out_other; i++) {
        const rota_announcement *a = &announced[ranks[i]];
        for (uint32_t k = 0; k < a->order_count && !*out_other; k++) {
            known *first = find(table, size - 1, a->orders[k].communicator);
            if (!first->order) {
                *first = (known){&a->orders[k], ranks[i]};
            } else if (first->order->before != a->orders[k].before) {
                *out_other = a->orders[k].communicator;
                say(communicator, announced, first, ranks[i], &a->orders[k], out_cause, capacity);
            }
        }
    }
    free(table);
    return ROTA_OK;
}
