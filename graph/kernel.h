/* A kernel as data: what an op, or a user, brings for each executor, and what the graph must know about it.
 *
 * A rota_kernel is immutable and is compared by address: make one `static const` object per kernel and keep
 * it alive as long as any graph or plan that names it. */
#ifndef ROTA_GRAPH_KERNEL_H
#define ROTA_GRAPH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../base/log.h"
#include "../base/status.h"

/* Limits of one kernel. A device may hold less: Vulkan guarantees 128 bytes of push constants, of which the
 * block address takes 8, each operand 8, and the rest are parameters; rota_compile names both numbers if it
 * is less. */
#define ROTA_KERNEL_OPERANDS_MAX 24
#define ROTA_KERNEL_PARAM_BYTES_MAX 256
#define ROTA_KERNEL_BINDABLE_MAX 16
#define ROTA_KERNEL_SPEC_MAX 16

/* Which executor a per-executor property is asked for. */
typedef enum rota_exec_kind {
    ROTA_EXEC_CPU,
    ROTA_EXEC_VK,
    ROTA_EXEC_CUDA,
    ROTA_EXEC_KIND_COUNT
} rota_exec_kind;

/* What a CPU kernel function gets. It runs items [begin, end) of `items`; the executor splits the range at
 * multiples of the kernel's grain, in any order and on any threads, so results must not depend on the split.
 */
typedef struct rota_kernel_call {
    void *const *operands; /* address of each access's first byte, in access order */
    const void *params;    /* the node's parameters, slots already filled in */
    uint64_t begin, end, items;
    uint32_t operand_count;
    const uint64_t *operand_bytes; /* size of each access */
    void *user;                    /* the kernel's */
} rota_kernel_call;

/* Returns ROTA_OK, or the result of rota_fail with a sentence: the node fails, and what depends on it. */
typedef rota_status (*rota_cpu_fn)(const rota_kernel_call *call);

/* How many items there are, at most 2^60 (more are refused: by compile, or, where a slot says so, the node
 * fails), and the smallest piece worth a task of its own. */
typedef void (*rota_cpu_items_fn)(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                  uint64_t *out_grain);
/* The same, with the kernel's `user`. */
typedef void (*rota_cpu_items_with_fn)(void *user, const void *params, const uint64_t *operand_bytes,
                                       uint64_t *out_items, uint64_t *out_grain);

/* Workgroup counts of a GPU dispatch, from the parameters. */
typedef void (*rota_grid_fn)(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]);
/* The same, with the kernel's `user`. */
typedef void (*rota_grid_with_fn)(void *user, const void *params, const uint64_t *operand_bytes,
                                  uint32_t out_groups[3]);

/* A CUDA device, for what depends on it. Strings live as long as the device is open. */
typedef struct rota_cuda_target {
    uint32_t compute_capability; /* 10 * major + minor */
    uint32_t multiprocessors;
    uint64_t l2_bytes;
    uint32_t shared_bytes_max; /* dynamic shared memory of a block, opted in */
    int32_t ordinal;           /* for cuDeviceGet */
    const char *name, *driver;
    const char *cache_dir; /* where choices found by measuring may be kept; NULL: nowhere */
    const rota_log *log;   /* the runtime's; NULL: nobody listens */
    bool by_table;         /* of a plan that is deterministic: no way is chosen by measuring */
} rota_cuda_target;

typedef struct rota_cuda_launch {
    uint32_t groups[3], block[3], cluster[3]; /* 0 counts as 1 */
    uint32_t shared_bytes;
} rota_cuda_launch;

typedef void (*rota_cuda_launch_fn)(const void *params, const uint64_t *operand_bytes,
                                    const rota_cuda_target *target, rota_cuda_launch *out_launch);

/* What a library node's functions get. The executor's context is current, `stream` (a CUstream) is not the
 * default stream and nobody else uses it. In `call` it is being captured, relaxed: whatever is put on it
 * becomes part of the plan's graph, and nothing may wait for it. A call that fails is made once more, with a
 * new capture: a library's failure may have ended the first, and what has another way then takes it. In
 * `tune` it is not captured, operand addresses are scratch memory of the right sizes whose contents may be
 * overwritten, and the function may wait. */
typedef struct rota_cuda_call {
    const rota_cuda_target *target;
    void *stream;
    const uint64_t *operands; /* device addresses, the workspace last where the kernel asks for one */
    const uint64_t *operand_bytes;
    uint32_t operand_count;
    const void *params; /* bindables in slots: the values of this submission */
    bool again;         /* in `call`: the first time failed */
    void *user;         /* the kernel's */
} rota_cuda_call;

/* ROTA_OK, or the result of rota_fail with a sentence. */
typedef rota_status (*rota_cuda_call_fn)(const rota_cuda_call *call);
typedef rota_status (*rota_cuda_prepare_fn)(const rota_cuda_call *call, void *out_prepared);

/* What a kernel takes the bytes of a parameter for. */
typedef enum rota_value_type {
    ROTA_VALUE_ANY, /* not said: whatever has the size */
    ROTA_VALUE_F32,
    ROTA_VALUE_U32,
    ROTA_VALUE_U64
} rota_value_type;

/* A parameter that may be taken from an argument slot at each replay. 4 or 8 bytes, aligned to its size. */
typedef struct rota_kernel_bindable {
    const char *name;
    uint16_t offset_bytes;
    uint16_t size_bytes;
    /* Set for what changes from step to step (learning rate, step, seed): recording a plain value for it is
     * an error unless the node says ROTA_SLOT_CONSTANT for it. */
    bool varies_by_step;
    /* rota_value_type. Nodes that take one slot for different types are refused when recorded, and so is a
     * value of another type when the slot is set. */
    uint8_t type;
} rota_kernel_bindable;

typedef struct rota_kernel rota_kernel;
typedef struct rota_kernel_functions rota_kernel_functions; /* kernel_functions.h */

/* One of the kernels that together do a node's work (rota_kernel.parts). */
#define ROTA_KERNEL_PARTS_MAX 4
typedef struct rota_kernel_part {
    const rota_kernel *kernel; /* without bindables, whose grid is its own */
    uint32_t operand_count;
    uint8_t operand[ROTA_KERNEL_OPERANDS_MAX]; /* which of the node's operands each of its own is */
    uint8_t mode[ROTA_KERNEL_OPERANDS_MAX];    /* rota_access_mode (graph.h) */
    uint64_t params[ROTA_KERNEL_PARAM_BYTES_MAX / 8];
} rota_kernel_part;

typedef enum rota_kernel_flags {
    ROTA_KERNEL_PURE = 1u << 0,               /* result depends on operands and parameters only */
    ROTA_KERNEL_ATOMIC_ACCUMULATE = 1u << 1,  /* its integer ACCUMULATEs are atomic: may overlap in time */
    ROTA_KERNEL_INTEGER_ACCUMULATE = 1u << 2, /* its ACCUMULATEs are integer sums: may be reordered */
    /* Operands that it writes may overlap one another: the elements of one lie between another's. Each range
     * is written whole by all of them together, where it is WRITE. */
    ROTA_KERNEL_INTERLEAVED = 1u << 3,
    ROTA_KERNEL_HAS_FUNCTIONS = 1u << 4 /* its `functions` are there, and are not NULL */
} rota_kernel_flags;

/* What runs it on CPU devices. */
typedef struct rota_kernel_cpu {
    rota_cpu_fn fn;                    /* NULL: not on this executor */
    rota_cpu_items_fn items;           /* NULL: one item */
    rota_cpu_items_with_fn items_with; /* NULL, or in the place of `items` */
} rota_kernel_cpu;

/* On Vulkan devices. */
typedef struct rota_kernel_vk {
    const uint32_t *words; /* SPIR-V, ABI of exec/vk/rota_kernel.glsl; NULL: not on this executor */
    size_t size_bytes;
    const char *entry; /* NULL: "main" */
    rota_grid_fn grid; /* NULL: the node's own groups */
    /* Further specialization constants from the node's parameters: constant id 2 + i; ids 0 and 1 are the
     * masks of operands and of bindables in slots. At most ROTA_KERNEL_SPEC_MAX. */
    uint32_t spec_count;
    void (*spec)(const void *params, uint32_t *out_values);
    uint32_t required_features; /* rota_device_feature bits */
    uint32_t subgroup_size;     /* 0: any; else the required size (VK_EXT_subgroup_size_control) */
    /* NULL, or: gives the kernel whose vk part stands in for this one's on a device with these features
     * (rota_device_feature bits), for a node with these parameters: a kernel of the same operands,
     * parameters and bindables. Asked once per node when a program is made; the answer's own select is
     * not asked. */
    const rota_kernel *(*select)(const void *params, const uint64_t *operand_bytes, uint32_t features);
    /* NULL, or: on a device with ROTA_FEATURE_CUDA_IMAGES, gives the kernel whose cuda part (an image) is
     * launched in place of SPIR-V for a node with these parameters, or NULL for SPIR-V. Bit i of
     * slot_mask: operand i comes from a slot. Such an image gets no workspace, nothing prepared, no
     * clusters, and no more dynamic shared memory than target->shared_bytes_max. */
    const rota_kernel *(*select_image)(const void *params, const uint64_t *operand_bytes, uint32_t slot_mask,
                                       const rota_cuda_target *target);
    /* NULL, or: how many turns the loops of one invocation take at the most, together, for a node with
     * these parameters; of the kernel that `select` gave, if that has one, else of this. Drivers may end
     * loops after so many without saying so, as llvmpipe does after 65 535: a node that would take more
     * there is UNSUPPORTED. Without this function nothing looks after that. */
    uint64_t (*turns)(const void *params);
    rota_grid_with_fn grid_with; /* NULL, or in the place of `grid` */
} rota_kernel_vk;

/* On CUDA devices. */
typedef struct rota_kernel_cuda {
    const void *image; /* fat binary, cubin or PTX, ABI of exec/cuda/rota_kernel.cuh; NULL: see `call` */
    size_t size_bytes;
    const char *entry;          /* the kernel's name in the image */
    rota_grid_fn grid;          /* NULL: the node's own groups */
    uint32_t block[3];          /* threads of a block; 0 counts as 1 */
    uint32_t shared_bytes;      /* dynamic shared memory */
    rota_cuda_launch_fn launch; /* NULL, or: gives the whole launch, instead of the four above */
    /* A second kernel parameter, of prepared_bytes, made once from the operands' addresses when an
     * instance is made: a tensor map, say. Such a kernel takes no operand from a slot (its select gives
     * another). */
    uint32_t prepared_bytes;
    rota_cuda_prepare_fn prepare;
    /* A library node: no image; the function puts its work on the stream that it is given. */
    rota_cuda_call_fn call;
    /* NULL, or: called for each distinct node before the first instance, to measure and remember the
     * fastest way. */
    rota_cuda_call_fn tune;
    /* NULL, or: bytes of scratch memory the node wants on this device. The scheduler adds it to the node
     * as a transient operand after the recorded ones. */
    uint64_t (*workspace)(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target);
    /* NULL, or: as vk.select. Bit i of slot_mask: operand i comes from a slot. */
    const rota_kernel *(*select)(const void *params, const uint64_t *operand_bytes, uint32_t slot_mask,
                                 const rota_cuda_target *target);
    rota_grid_with_fn grid_with; /* NULL, or in the place of `grid` */
} rota_kernel_cuda;

struct rota_kernel {
    const char *name;
    uint32_t operand_count; /* number of accesses of a node of this kernel */
    uint32_t param_bytes;   /* size of its parameter struct, multiple of 4 */
    uint32_t flags;         /* rota_kernel_flags */
    /* An operand in inplace_outputs may be exactly the range of an operand in inplace_inputs (same first byte
     * and size): each item reads its inputs before it writes, and touches no other item's. Any other overlap
     * where one access writes is an error at record. The packer uses the same masks to reuse a dying input's
     * memory. */
    uint32_t inplace_outputs, inplace_inputs;
    const rota_kernel_bindable *bindables;
    uint32_t bindable_count;
    /* Operations of arithmetic of a node, to compare costs by (memory_limit_bytes in graph.h); NULL: moving
     * its bytes is what it costs. */
    double (*work)(const void *params, const uint64_t *operand_bytes);
    /* NULL, or: for a kernel without bindables, the kernels that do its work one after the other on a device
     * of this kind, for a node with these parameters; asked once per node when a plan is compiled. 0: the
     * kernel itself runs. `target` is NULL on other devices than CUDA's. Bit i of slot_mask: operand i comes
     * from a slot. A part of a part is not asked for. */
    uint32_t (*parts)(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                      uint32_t slot_mask, const rota_cuda_target *target,
                      rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]);
    rota_kernel_cpu cpu;
    rota_kernel_vk vk;
    rota_kernel_cuda cuda;
    void *user; /* for cpu.fn, cuda.call, functions `..._with`, and `functions`; borrowed like the kernel */
    /* With ROTA_KERNEL_HAS_FUNCTIONS, else not looked at: functions that get `user`, in the place of those above
     * that don't. */
    const rota_kernel_functions *functions;
};

#endif
