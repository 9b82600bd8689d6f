/* Executable graphs: see cuda_graph.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_GRAPH_H
#define ROTA_EXEC_CUDA_CUDA_GRAPH_H

#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_fold.h"
#include "exec/cuda/cuda_instance.h"

/* Builds a segment's executable graph (cuda_graph.c), or its script (cuda_script.c). block: as in
 * rota_cuda_library_capture. */
rota_status rota_cuda_graph_build(rota_cuda_device *device, rota_cuda_instance *instance,
                                  rota_exec_memory *const *memories, uint32_t segment, const uint64_t *block,
                                  CUgraphExec *out_exec, rota_cuda_script **out_script);

/* ---- While one is built, its bodies' among them (cuda_bodies.c) ---- */

/* A graph and the commands that become its nodes. */
typedef struct rota_cuda_building {
    rota_cuda_device *device;
    const rota_cuda_program *program; /* the instance's, or a body */
    const rota_exec_program_desc *desc;
    rota_cuda_instance *instance;
    rota_exec_memory *const *memories;
    const uint64_t *block; /* the submission's words, where library nodes take some */
    const rota_exec_segment *segment;
    uint64_t block_address;       /* of the segment's copy of the block */
    rota_cuda_steady *steady;     /* NULL: nothing is rewritten */
    const rota_cuda_roots *roots; /* of the segment; NULL: nothing in it decides or is counted */
    const rota_cuda_loops *loops; /* likewise of the instance; NULL: there are no roots */
    const rota_cuda_root *root;   /* that this is a body in; NULL: none */
    uint32_t next_root;           /* the first root whose command is still to come */
    bool is_body;
    bool keeps_grids;         /* none is set by the device */
    bool sets_grids;          /* some is */
    rota_cuda_script *script; /* gets the graphs, cut where the host decides; NULL: there is one graph */
    CUgraph graph;
    rota_cuda_fold fold;
    CUgraphNode head; /* what everything comes after; NULL: nothing */
    /* Per command of the segment: what later commands wait for; NULL: nothing, as what was launched before is complete
     * to what comes after a cut. */
    CUgraphNode *nodes;
    CUgraphNode *before; /* of the command at hand */
    uint8_t *prepared;
} rota_cuda_building;

rota_status rota_cuda_building_kernel(rota_cuda_building *b, CUfunction function,
                                      const rota_cuda_launch *launch, void **parameters,
                                      const CUgraphNode *before, size_t before_count, CUgraphNode *out_node);
rota_status rota_cuda_building_empty(rota_cuda_building *b, const CUgraphNode *before, size_t before_count,
                                     CUgraphNode *out_node);
/* All commands of b->segment, in b->graph; fold, nodes and before are made, and are the caller's to free. */
rota_status rota_cuda_building_commands(rota_cuda_building *b);
void rota_cuda_building_free(rota_cuda_building *b);
/* What is in b->graph is launched by a line of the script, if it is anything; what is added from now on is in a new
 * graph. */
rota_status rota_cuda_building_cut(rota_cuda_building *b);

/* The nodes of a command that decides, with its bodies. What comes after the command comes after out_node; NULL: what
 * it comes after is in earlier graphs of the script. */
rota_status rota_cuda_bodies_add(rota_cuda_building *b, uint32_t command, const CUgraphNode *before,
                                 size_t before_count, CUgraphNode *out_node);
/* The step before a counted command, which comes after out_node. */
rota_status rota_cuda_bodies_count(rota_cuda_building *b, uint32_t command, const CUgraphNode *before,
                                   size_t before_count, CUgraphNode *out_node);
/* The kernel node behind that step gets its grid from it, where the driver takes that; else it keeps its own. */
rota_status rota_cuda_bodies_set_grid(rota_cuda_building *b, uint32_t command, CUgraphNode step,
                                      CUgraphNode node);
/* What the driver says of a graph with conditional nodes: UNSUPPORTED where it takes none such. */
rota_status rota_cuda_bodies_check(rota_cuda_device *device, CUresult result, const char *what);

#endif
