/* What ranks say to each other before a collective, and what is wrong where it differs: see agreement.c. Internal. */
#ifndef ROTA_EXEC_COMM_AGREEMENT_H
#define ROTA_EXEC_COMM_AGREEMENT_H

#include <stddef.h>
#include "exec/comm/transport.h"

enum { ROTA_ANNOUNCED_NAME = 96, ROTA_ANNOUNCED_GRAPH = 48, ROTA_ANNOUNCED_LANE = 32 };

/* A message: of ranks of one build. */
typedef struct rota_announcement {
    uint32_t kind, type, reduction, peer; /* those that the kind has, else 0 */
    uint64_t count, number; /* of the collective among those of its kind: all ranks', or with the peer */
    char name[ROTA_ANNOUNCED_NAME]; /* of the node, cut */
    char graph[ROTA_ANNOUNCED_GRAPH],
        lane[ROTA_ANNOUNCED_LANE]; /* of those that are all ranks', cut; as the rest: */
    uint32_t index, list_count;
    uint32_t on_device, reserved;
} rota_announcement;

void rota_announce(const rota_collective *collective, uint64_t number, rota_announcement *out);
/* Whether ranks a and b, which announce these, mean the same. False: `out_cause` says how they differ. */
bool rota_announcements_agree(const char *communicator, uint32_t rank_a, const rota_announcement *a,
                              uint32_t rank_b, const rota_announcement *b, char *out_cause, size_t capacity);
/* "all_reduce 'grad' (collective 12)" and the like. */
void rota_announcement_describe(const rota_announcement *announcement, char *out_text, size_t capacity);

#endif
