/* What nodes and copies took on a device, by what they depend on: kept for the life of the process and, where there is
 * a folder, in a file for each device. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_HISTORY_H
#define ROTA_SCHED_PLAN_PLACING_HISTORY_H

#include "graph/graph_internal.h"

typedef struct rota_history rota_history;

/* That of a device, by a text that says what its times depend on; read from `folder` (NULL: none) where this process
 * has not seen it yet. A file that is damaged, cut short, of another version or device, or that another user may have
 * written, counts as none. It lives as long as the process. NULL: no memory. Any thread; may block. */
rota_history *rota_history_open(const char *folder, const char *device);

/* NULL: no. */
bool rota_history_has_any(rota_history *history);
/* The mean of what was added under a key. False: nothing was. Any thread; may block behind others here. */
bool rota_history_find(rota_history *history, uint64_t key, double *out_ns);
/* Of more than some tens the latest count more. What can't be kept for want of memory is not. */
void rota_history_add(rota_history *history, uint64_t key, double ns);
/* Another estimate under a key, of times that something disturbed now and then: it goes half of the way to a lower
 * time, and an eighth to a higher one. `anew`: what was noted before no longer counts. */
void rota_history_note(rota_history *history, uint64_t key, double ns, bool anew);
/* Keeps bytes under a key of their own kind, for what was there before. What was kept longest ago goes where there is
 * too much, and more than ROTA_HISTORY_KEPT_MAX are not. Any thread. */
void rota_history_keep(rota_history *history, uint64_t key, const void *data, size_t bytes);
enum { ROTA_HISTORY_KEPT_MAX = 1 << 20 };
/* How many are under a key, of which as many as there is room for are copied; 0: none. Any thread. */
size_t rota_history_kept(rota_history *history, uint64_t key, void *out, size_t capacity);
/* Writes what was added since. What can't be written is no error: it is measured again. */
void rota_history_save(rota_history *history);

/* Forgets all that is in memory; no plan may be compiled meanwhile. For tests. */
void rota_history_forget(void);

/* Of a kernel's, copy's or fill's node: its kernel's name, its parameters but for those that may come with a replay,
 * and how many bytes each access has. 0: its time depends on something else. */
uint64_t rota_history_key(const rota_node_record *record);
/* Of a graph's replays on one device: all its nodes, in record order, mixed into one another from ROTA_HISTORY_GRAPH
 * on. Of each what its own key is of, and whatever that leaves out: names of host nodes, counts, bodies, and which of
 * the graph's buffers it touches where. */
uint64_t rota_history_mix_node(uint64_t key, const rota_node_record *record);
#define ROTA_HISTORY_GRAPH UINT64_C(0x726570617973)
/* Of a device alone: how long a plan's nodes took from the first one's begin to the last one's end, in thousandths of
 * what they took one by one: little where many run side by side. */
#define ROTA_HISTORY_SHARE 3u
uint64_t rota_history_mix(uint64_t key, uint64_t word);
/* Of a copy's half, from a device or to it, in ns a MiB; of large ones. */
#define ROTA_HISTORY_COPY 1u
enum { ROTA_HISTORY_COPY_LEAST = 1 << 16 };
/* Of a copy to a device: from the end of its first half to the begin of its second one, where that is least. */
#define ROTA_HISTORY_LATENCY 2u
/* Of a copy out of a peer's memory to the device, in ns a MiB; of large ones. */
#define ROTA_HISTORY_PEER 4u

#endif
