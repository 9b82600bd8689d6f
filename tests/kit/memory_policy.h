/* How the system places a thread's new pages, as it tells. */
#ifndef ROTA_TESTS_MEMORY_POLICY_H
#define ROTA_TESTS_MEMORY_POLICY_H

#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of this thread, or of the memory at `address`, and whether on node 0 alone, which is there on every machine; -1: it
 * does not tell. */
static inline int test_policy(void *address, bool *out_node_0) {
    int policy = -1;
    unsigned long nodes[16] = {0};
    if (syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, address,
                (unsigned long)(address ? MPOL_F_ADDR : 0)) != 0)
        return -1;
    bool others = false;
    for (size_t i = 1; i < sizeof nodes / sizeof nodes[0]; i++) others = others || nodes[i];
    *out_node_0 = nodes[0] == 1 && !others;
    return policy;
}

/* This thread's, on node 0; false: it may not. */
static inline bool test_policy_set(int policy) {
    unsigned long nodes[16] = {1};
    return syscall(SYS_set_mempolicy, policy, policy == MPOL_DEFAULT ? NULL : nodes,
                   policy == MPOL_DEFAULT ? 0 : 8 * sizeof nodes) == 0;
}

#endif
