/* The kernels of a graph that is saved: each once for what its functions say of nodes. Internal; not installed. */
#ifndef ROTA_FILE_SAVE_KERNELS_H
#define ROTA_FILE_SAVE_KERNELS_H

#include <stdio.h>
#include "base/arena.h"
#include "base/set.h"
#include "base/status.h"
#include "base/vector.h"
#include "graph/graph_internal.h"

/* Zeroed, padding too, before it is filled in: two are the same if their bytes are. */
typedef struct rota_saved_kernel_key {
    const rota_kernel *kernel;
    uint64_t vk_turns;
    uint32_t vk_groups[3], cuda_groups[3]; /* where functions give them */
    uint32_t vk_spec[ROTA_KERNEL_SPEC_MAX];
    uint8_t is_builtin, has_vk, has_cuda, has_vk_groups, has_cuda_groups, has_vk_turns;
} rota_saved_kernel_key;

typedef struct rota_saved_kernel {
    rota_saved_kernel_key key;
    uint32_t index;
} rota_saved_kernel;

typedef struct rota_saved_kernels {
    rota_arena arena;
    rota_set kernels, images;
    const rota_kernel *recent[64]; /* by their hash; the next says whether they are built in */
    bool recent_is_builtin[64];
    rota_vector list, image_list; /* of pointers to rota_saved_kernel, rota_saved_image */
} rota_saved_kernels;

void rota_saved_kernels_begin(rota_saved_kernels *kernels);
void rota_saved_kernels_end(rota_saved_kernels *kernels);

/* The kernel of a node; asks its functions. OUT_OF_MEMORY. */
rota_status rota_saved_kernels_add(rota_saved_kernels *kernels, const rota_node_record *node);
/* Its number, of a node that was added. */
uint32_t rota_saved_kernels_index(rota_saved_kernels *kernels, const rota_node_record *node);

/* Two keys of the file's map: "images" and "kernels". */
void rota_saved_kernels_write(rota_saved_kernels *kernels, FILE *file);

#endif
