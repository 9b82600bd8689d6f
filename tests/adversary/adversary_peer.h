/* Inside of the adversarial executor: adversary_peer.c. */
#ifndef ROTA_TESTS_ADVERSARY_PEER_H
#define ROTA_TESTS_ADVERSARY_PEER_H

#include "tests/adversary/adversary_internal.h"

/* The contract's calls for peers; whether the device may read the memory, its own or another's. */
extern const rota_exec_peers adversary_peers;
bool adversary_may_read(const adversary_device *device, const rota_exec_memory *memory);
rota_status adversary_timeline_open(rota_exec_device *device, rota_exec_timeline **out_timeline);
rota_status adversary_timeline_meet(rota_exec_device *device, const rota_exec_timeline *other,
                                    rota_exec_timeline **out_timeline);

#endif
