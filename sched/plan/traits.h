/* What a plan knows of a device: values, made by the runtime before it compiles. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_TRAITS_H
#define ROTA_SCHED_PLAN_TRAITS_H

#include "exec/exec.h"

typedef struct rota_device_traits {
    rota_device
        *device; /* for those who run the plan; it and what is pointed to below outlive every plan for it */
    const char *id;
    const char *driver;
    rota_exec_kind kind;
    uint32_t features;             /* rota_device_feature bits */
    uint32_t domain;               /* equal where buffers have the same memory */
    uint32_t index;                /* among the runtime's devices */
    uint64_t peers;                /* of those, as bits: GPUs whose memory its copies read */
    uint32_t lent_flags;           /* rota_exec_memory_flags of memory of its that others read or share */
    uint32_t transfer_queue;       /* ROTA_EXEC_QUEUES_MAX: none */
    uint64_t memory_bytes;         /* 0: not known */
    uint64_t max_allocation_bytes; /* 0: no limit is known */
    bool unified_host;             /* addresses are host pointers */
    bool runs_host_nodes, runs_conditionals, hosts_decisions, runs_counted;
    const rota_cuda_target *cuda; /* of a CUDA device, else NULL */
    rota_device_class device_class;
    uint32_t compute_units;       /* 0: unknown */
    struct rota_history *history; /* of what nodes took on it (placing_history.h); NULL: not to be asked */
} rota_device_traits;

/* The devices that a plan is for. None: it is only analysed. */
typedef struct rota_plan_devices {
    const rota_device_traits *all; /* as rota_compile_options.devices */
    uint32_t count;
    /* The host's device, where the first is not it and some node or copy needs it (rota_plan_needs_host). */
    const rota_device_traits *cpu;
    uint32_t index;  /* of a body's: what its only device is among those of the plan that its node is in */
    uint32_t queues; /* logical queues of a device, the transfer queue among them */
    bool automatic;  /* some node's device is to be chosen (placing.h) */
    bool teaches;    /* rota_plan_learn may be called: its runtime measures */
    uint32_t only_plus_1; /* 1 + a device that then gets all it can run; 0: chosen by what nodes cost */
    uint32_t
        outer_queues; /* of a body's: those that nodes around it may name; its own name them, and are on one */
} rota_plan_devices;

#endif
