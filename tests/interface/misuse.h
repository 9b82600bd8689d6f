/* What the probes that tests/interface/misuse.py writes are made of: objects to call with, and what is expected of each
 * call. */
#ifndef ROTA_TESTS_MISUSE_H
#define ROTA_TESTS_MISUSE_H

#include <math.h>
#include "rota.h"

enum {
    MISUSE_BUFFER_BYTES = 64 << 10,
    MISUSE_TENSOR_BYTES = 1 << 10, /* of the buffer, for each tensor */
};

/* Objects to call with. Those above the line live as long as the process, the others as long as a probe. */
typedef struct misuse_world {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *buffer, *other; /* persistent, written */
    rota_buffer *loose;          /* persistent, of no runtime */
    rota_graph *planned;
    rota_buffer *input, *output, *slot_buffer; /* of `planned` */
    rota_slot f32_slot, u32_slot, u64_slot;    /* of `planned` */
    rota_node planned_node;
    rota_plan *plan; /* of `planned`, replayed */
    rota_ticket ticket;
    rota_external_timeline *timeline;
    rota_communicator *communicators[2]; /* two ranks, the first on the runtime */
    rota_communicator *alone;            /* made when it is asked for */
    uint64_t commands;                   /* of the plan */
    rota_graph_file *file;               /* prepared */
    char file_path[64];
    /* ---- */
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_node earlier, later; /* kernel nodes */
    rota_slot slot;           /* f32, of `graph` */
    rota_tensor loss;         /* recorded by the tape, of tensor 0 */
    rota_args *args;
    rota_rewriter *rewriter; /* inside of a rewrite */
    rota_op_use use;
    /* What calls write to, or are given by address. */
    rota_tensor tensor, tensors[4], out_tensor, out_tensors[4], grads[4];
    rota_access accesses[1];
    rota_device_info infos[4];
    rota_plan_command plan_commands[64];
    rota_plan_time times[64];
    rota_gradient_write write;
    uint64_t shape[ROTA_RANK_MAX], out_shape[ROTA_RANK_MAX], out_u64, out_u64_b;
    uint32_t order[ROTA_RANK_MAX], out_u32, params[4];
    rota_param_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    bool out_bool;
    int out_int;
    rota_dtype out_dtype;
    float data[64];
    char text[512];
    rota_slot out_slot;
    rota_node out_node;
    rota_ticket out_ticket;
    void *out_object;
} misuse_world;
extern misuse_world w;

extern const rota_kernel misuse_kernel; /* of one operand and 4 bytes of parameters */
rota_status misuse_host(void *user, void *const *operands, const uint64_t *operand_bytes,
                        uint32_t operand_count);
rota_status misuse_rewrite(void *user, rota_rewriter *rewriter);
void misuse_ended(void *user, rota_status status, const char *message);
/* A dense tensor, by its number in the buffer. */
rota_tensor misuse_tensor(uint32_t number, rota_dtype dtype, uint32_t rank, const uint64_t *shape);
/* The same, wrong: what it says in its dtype, rank, or offset. */
rota_tensor misuse_tensor_dtype(rota_tensor tensor);
rota_tensor misuse_tensor_rank(rota_tensor tensor);
rota_tensor misuse_tensor_offset(rota_tensor tensor);
/* New ones, for calls that end them, and the world's, which it has no more then. */
rota_runtime *misuse_new_runtime(void);
rota_buffer *misuse_new_buffer(void);
rota_graph *misuse_new_graph(void);
rota_graph *misuse_new_body(void);     /* of the world's graph, given to whoever takes it */
rota_graph *misuse_closed_graph(void); /* the world's, its recorder closed */
rota_plan *misuse_new_plan(void);
rota_args *misuse_new_args(void);
rota_recorder *misuse_take_recorder(void);
rota_device *misuse_new_device(void);
rota_tape *misuse_device_tape(void);
rota_tape *misuse_take_tape(void);
rota_external_timeline *misuse_new_timeline(void);
rota_communicator *misuse_alone(void); /* the one of one rank; when it was ended, another */
rota_communicator *misuse_new_communicator(void);
rota_sharding *misuse_sharding(void); /* of what the world's tape was told */
rota_sharding *misuse_take_sharding(void);
rota_sharding *misuse_group(void); /* of one tensor of 16 elements, whose shard misuse_shard() may be */
rota_tensor misuse_shard(void);
rota_graph_file *misuse_new_file(void);
extern char misuse_folder[32]; /* there while the tests run */
void *misuse_managed(void);    /* DLPack's unversioned struct, which nobody ends */
int misuse_eventfd(void);
extern uint8_t misuse_pages[64];
/* What rota_gradient_begin gave. */
const rota_gradient_write *misuse_begun(void);

/* Where a call is made. */
typedef enum misuse_context { MISUSE_PLAIN, MISUSE_REWRITE, MISUSE_GRADIENT } misuse_context;
/* What was ended before. */
typedef enum misuse_end { MISUSE_NOTHING, MISUSE_RECORDER, MISUSE_RUNTIME } misuse_end;

typedef enum misuse_expected {
    MISUSE_RIGHT,    /* ROTA_OK: the call that the others differ from by one argument */
    MISUSE_NULL,     /* INVALID_ARGUMENT, by a sentence that says NULL */
    MISUSE_REFUSED,  /* an error with a sentence */
    MISUSE_ALLOWED,  /* ROTA_OK, or an error with a sentence */
    MISUSE_NO_STATUS /* it returns */
} misuse_expected;

typedef struct misuse_probe {
    const char *function, *what;
    misuse_context context;
    misuse_end end;
    misuse_expected expected;
    rota_status (*call)(void);
} misuse_probe;
extern const misuse_probe misuse_probes[];
extern const uint32_t misuse_probe_count;

#endif
