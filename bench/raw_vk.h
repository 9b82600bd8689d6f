/* The same dispatches through Vulkan alone: what rota's replays and submissions are measured against. One
 * command buffer, recorded once for simultaneous use; pointers in push constants; a barrier only where a node
 * touches what an earlier one since the last barrier wrote or, to write it, read. */
#ifndef ROTA_BENCH_RAW_VK_H
#define ROTA_BENCH_RAW_VK_H

#include "bench/graphs.h"

typedef struct raw_vk raw_vk;

/* Opens physical device `index` (the number in "vk:N") and records the graph. On failure prints one sentence
 * and returns NULL. */
raw_vk *raw_vk_create(const bench_graph *graph, uint32_t index);
void raw_vk_destroy(raw_vk *raw);

/* Submits the command buffer once with a timeline signal; after `queued` submissions not waited for. False
 * with a sentence. */
bool raw_vk_submit(raw_vk *raw);
/* `count` submissions in one vkQueueSubmit2 with one signal. */
bool raw_vk_submit_merged(raw_vk *raw, uint32_t count);
/* Waits for all submitted so far, at most 30 s. */
bool raw_vk_wait(raw_vk *raw);
/* Submitted and done. */
uint64_t raw_vk_submitted(const raw_vk *raw);
uint64_t raw_vk_completed(const raw_vk *raw);
uint64_t raw_vk_barriers(const raw_vk *raw);
/* Compares memory with what `replays` runs give. */
bool raw_vk_check(raw_vk *raw, const bench_graph *graph, uint64_t replays);

#endif
