/* Segments whose commands that decide are run by the host: see cuda_script.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_SCRIPT_H
#define ROTA_EXEC_CUDA_CUDA_SCRIPT_H

#include <stdbool.h>
#include "base/status.h"
#include "exec/cuda/cuda_api.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/cuda/cuda_program.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_queue rota_cuda_queue;
typedef struct rota_cuda_fence rota_cuda_fence;
typedef struct rota_cuda_segment_instance rota_cuda_segment_instance;

typedef enum rota_cuda_line_kind {
    ROTA_CUDA_LINE_LAUNCH, /* a graph */
    ROTA_CUDA_LINE_UNLESS, /* once all before it is complete: goes to `target` unless the answer is `value` */
    ROTA_CUDA_LINE_GO      /* to `target` */
} rota_cuda_line_kind;

typedef struct rota_cuda_line {
    CUgraphExec exec;
    uint32_t answer, value, target;
    uint8_t kind; /* rota_cuda_line_kind */
} rota_cuda_line;

/* Once it is built only the completion thread reads it. */
typedef struct rota_cuda_script {
    rota_cuda_line *lines;
    uint32_t count, capacity;
    uint32_t answer_count;   /* that commands were given so far */
    rota_cuda_piece answers; /* pinned: 4 bytes each */
    const rota_exec_program_desc *desc;
    uint32_t segment;
    rota_cuda_segment_instance *own; /* whose it is, alone or with others for other values */
} rota_cuda_script;

/* What the completion thread knows of the script at a queue's oldest fence. */
typedef struct rota_cuda_script_state {
    bool has_begun;
    bool is_awaited;   /* `event` is behind what was launched last, and has not come */
    bool has_launched; /* something that no event is behind yet */
    uint32_t line;     /* the next */
    uint64_t since_ns; /* when that event was recorded; 0: there is none */
    uint64_t each_ns;  /* what it took from there to the next, of late */
} rota_cuda_script_state;

/* Whether the segment's commands that decide are run by the host. */
bool rota_cuda_segment_is_scripted(const rota_cuda_device *device, const rota_cuda_program *program,
                                   uint32_t segment);

/* ---- While it is built ---- */

/* Without lines, with room for the answers of all commands that decide in the segment. */
rota_status rota_cuda_script_create(rota_cuda_device *device, const rota_cuda_program *program,
                                    uint32_t segment, rota_cuda_segment_instance *own,
                                    rota_cuda_script **out_script);
/* Its graphs go with it; NULL: nothing. The context is current; calls fail on a lost device, which holds nothing any
 * more. */
void rota_cuda_script_free(rota_cuda_device *device, rota_cuda_script *script);
/* Two answers in a row; the number of the first. */
uint32_t rota_cuda_script_take_answers(rota_cuda_script *script);
uint64_t rota_cuda_script_answer_address(const rota_cuda_script *script, uint32_t answer);
/* A further line, a copy; its graph is the script's from now on, after an error the caller's. OUT_OF_MEMORY. */
rota_status rota_cuda_script_add(rota_cuda_script *script, const rota_cuda_line *line);
/* What goes to UINT32_MAX, of the lines from `first` on, goes to the next line that is added. */
void rota_cuda_script_end(rota_cuda_script *script, uint32_t first);

/* ---- The completion thread's ---- */

/* Goes on with the script of a queue's oldest fence as far as it can without a wait; `*out_done`: all of it is
 * complete. After an error the device is to be given up; it may be lost already. `*out_moved`: something was seen
 * complete. */
rota_status rota_cuda_script_advance(rota_cuda_device *device, rota_cuda_queue *queue,
                                     const rota_cuda_fence *fence, bool *out_moved, bool *out_done);

#endif
