/* What the files of the CUDA stand-in share: its state, and how its functions begin and end. */
#ifndef ROTA_TESTS_CUDA_STUB_INTERNAL_H
#define ROTA_TESTS_CUDA_STUB_INTERNAL_H

#include <pthread.h>
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/exec/cuda/cuda_stub_kernels.h"

#define KERNELS_MAX 512
#define STREAMS_MAX 256
#define STUB_PRIORITY -5 /* the greatest */
#define DEVICES_MAX 4
#define MAPPINGS_MAX 4096

enum {
#define STUB_ID(name, version, parameters) ID_##name,
    ROTA_CUDA_FUNCTIONS(STUB_ID) ROTA_CUDA_NEWER_FUNCTIONS(STUB_ID)
#undef STUB_ID
        ID_COUNT
};

enum {
    CONTEXT,
    STREAM,
    EVENT,
    GRAPH,
    EXEC,
    MODULE,
    MEMORY,
    HOST_MEMORY,
    HANDLE,
    RESERVED,
    MAPPED,
    EXTERNAL,
    SEMAPHORE,
    KIND_COUNT
};

typedef struct record {
    CUstream stream;
    uint64_t number; /* of the operations before it */
    bool done;
    uint32_t references;
} record;

struct CUevent_st {
    record *last;
    CUcontext context;
};

typedef enum node_kind { NODE_KERNEL, NODE_MEMCPY, NODE_EMPTY, NODE_CHILD, NODE_CONDITIONAL } node_kind;

/* Of a conditional node: shared by a graph and the executable ones made of it, which run one at a time. */
typedef struct stub_handle {
    uint32_t references, value, first; /* first: what it is set to by a launch, where has_first */
    CUgraph graph;
    bool has_first, has_node, is_set;
} stub_handle;

/* Of a kernel node whose grid kernels set: shared by a graph and the executable one made of it. */
typedef struct stub_device_node {
    uint32_t references, groups; /* along x */
    bool is_made, is_set;        /* executable; since its launch */
} stub_device_node;

struct CUgraphNode_st {
    CUgraph graph;
    node_kind kind;
    uint32_t index, before_count, early_count, cluster;
    bool disabled;    /* of an executable graph's: it does nothing */
    uint32_t *before; /* indices */
    stub_launch launch;
    CUDA_MEMCPY3D copy;
    CUgraph child;
    /* Conditional: */
    stub_handle *handle;
    CUgraph *bodies;
    uint32_t body_count;
    int type;
    stub_device_node *device; /* NULL: its grid is its own */
    uint32_t threads;         /* of a group */
};

struct CUgraph_st {
    CUgraphNode *nodes;
    uint32_t count;
    bool is_body; /* a conditional node's, which goes with it */
    stub_handle **handles;
    uint32_t handle_count;
};

struct CUgraphExec_st {
    CUgraph graph; /* a copy */
    uint32_t in_flight;
    bool runs;       /* now: its loops let others run in between */
    uint64_t upload; /* of the operations of its stream; 0: not uploaded */
    CUstream uploaded_on;
};

/* An imported timeline: a word in a file in memory. */
typedef struct stub_semaphore {
    int fd;
    uint32_t in_flight;
    _Atomic uint64_t *word;
} stub_semaphore;

typedef struct operation {
    struct operation *next;
    enum {
        LAUNCH,
        UPLOAD,
        KERNEL,
        COPY,
        RECORD,
        WAIT,
        SEMAPHORE_WAIT,
        SEMAPHORE_SIGNAL,
        WORD_WAIT,
        WORD_WRITE,
        CALL,
        HELD
    } kind;
    CUgraphExec exec;
    stub_launch launch;
    CUdeviceptr to, from;
    size_t bytes;
    record *recorded;
    stub_semaphore *semaphore;
    uint64_t value;
    CUstreamCallback fn; /* NULL: called */
    bool (*is_over)(void *user);
    void *user;
} operation;

struct CUstream_st {
    operation *first, *last;
    CUgraph capturing;
    CUcontext context;
    CUgraphNode captured; /* the last */
    bool runs;            /* its first operation does now */
    bool uploads, works;  /* what was put on it: uploads of graphs; launches and waits for events */
    uint64_t put, seen;   /* operations put on it; up to where the host was told that they are done */
    pthread_t waiter;     /* who put a wait on it that nothing has come behind */
    bool waits;
};

/* Of imported memory. */
typedef struct stub_mapping {
    CUdeviceptr address;
    size_t bytes;
    uint32_t reaches; /* of what was mapped: the devices that may touch it, as bits */
    int fd;           /* likewise: its memory */
} stub_mapping;

typedef struct stub_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running, paused, captures_elsewhere, starts_early;
    uint64_t seed;
    bool are_apart;              /* the devices */
    bool out_of_reach;           /* each other's memory */
    uint32_t peers[DEVICES_MAX]; /* whose memory a context reaches, as bits */
    int version;                 /* of CUDA, that the driver is for */
    int devices, retained[DEVICES_MAX];
    CUresult sticky;
    uint32_t lost; /* devices whose contexts have failed by themselves, as bits */
    CUstream streams[STREAMS_MAX];
    stub_kernel kernels[KERNELS_MAX];
    uint32_t kernel_count;
    stub_mapping mappings[MAPPINGS_MAX];
    stub_mapping allocated[MAPPINGS_MAX]; /* by cuMemAlloc */
    stub_mapping mapped[MAPPINGS_MAX];    /* by cuMemMap */
    uint32_t alive[KIND_COUNT];
    uint64_t calls[ID_COUNT];
    int fail_id;
    uint64_t fail_at;
    CUresult fail_with;
    CUresult (*watch)(const char *name);
    const char *hang, *fault;
    uint32_t hang_after;
    uint32_t captured_cluster; /* of kernels put on a captured stream; 0: 1 */
    CUdevice_attribute lacking;
    int compute_mode;
    uint32_t violations;
    char violation[256];
    cuda_stub_graph last;
} stub_state;
extern stub_state stub;
extern _Thread_local bool stub_inside; /* this thread is in a function of the stand-in */
extern _Thread_local bool stub_calls;  /* this thread is in a function that was put on a stream */
CUcontext stub_current(void);          /* NULL: none */

/* Something that no correct program does. */
void stub_violate(const char *what);
CUresult stub_enter(int id, bool in_context);
CUresult stub_leave(CUresult result);
/* Starts a call that can fail; ENTER_END: one that ends an object's life, which it does even so. */
#define ENTER(name)                                                                                          \
    CUresult result_ = stub_enter(ID_##name, true);                                                          \
    if (result_ != CUDA_SUCCESS) return stub_leave(result_)
#define ENTER_FREE(name)                                                                                     \
    CUresult result_ = stub_enter(ID_##name, false);                                                         \
    if (result_ != CUDA_SUCCESS) return stub_leave(result_)
#define ENTER_END(name) CUresult result_ = stub_enter(ID_##name, true)

/* What a context has failed with, by itself or with all. */
CUresult stub_failed(CUcontext context);

/* An object that is alive from now on; its end. */
void *stub_take(int kind, size_t bytes);
void stub_give(int kind);
void stub_check_stream(CUstream stream);
/* What is mapped at the address; NULL: nothing. */
stub_mapping *stub_mapped_at(CUdeviceptr address);

/* Whether the current context's device reaches what is there. */
void stub_check_reach(CUdeviceptr address);

#define STUB_DECLARE(name, version, parameters) CUresult CUDAAPI stub_##name parameters;
ROTA_CUDA_FUNCTIONS(STUB_DECLARE)
ROTA_CUDA_NEWER_FUNCTIONS(STUB_DECLARE)
#undef STUB_DECLARE

/* Graphs' nodes, and their running, with conditional ones: of cuda_stub_graphs.c and cuda_stub_conditional.c. */
CUgraphNode stub_node_new(CUgraph graph, node_kind kind, const CUgraphNode *before, size_t count);
void stub_run_graph(CUgraph graph);
void stub_run_conditional(CUgraphNode node);
/* Between two iterations: others get a word, and what is on other streams and ends may run. */
void stub_run_others(void);
bool stub_graph_decides(CUgraph graph);
void stub_handles_copy(CUgraph to, CUgraph from);
void stub_handles_free(CUgraph graph);
/* Whether each is some node's; before a launch. */
bool stub_handles_have_nodes(CUgraph graph);
void stub_handles_begin(CUgraph graph);
/* Likewise of kernel nodes whose grids the device sets. */
CUresult stub_updatable_make(CUgraphNode node, CUlaunchAttributeValue *value);
stub_device_node *stub_updatable_copy(stub_device_node *device);
void stub_updatable_free(stub_device_node *device);
/* How many threads its kernel has. */
uint64_t stub_updatable_threads(const struct CUgraphNode_st *node);

/* The thread that runs what is on the streams. */
void *stub_run_main(void *unused);

#endif
