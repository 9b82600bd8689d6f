/* Programs: every command checked against the device and given the form in which it becomes a graph node,
 * kernels with their function and launch. */
#include "exec/cuda/cuda_program.h"
#include "base/hash.h"
#include "exec/common/checks.h"
#include "graph/kernel_calls.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_library.h"
#include "exec/cuda/cuda_steady.h"
#include "cuda/exec_decide.h"
#include "cuda/exec_helpers.h"
#include <stdlib.h>
#include <string.h>

#define COPY_THREADS 256u
#define COPY_THREAD_BYTES 64u
#define COPY_GROUPS_MAX 2048u
/* A copy to or from pinned memory of up to so many bytes is a kernel: a copy engine's node costs 2.8 us of
 * CPU at each launch and 6 us of device time (measured on an H200; a kernel of one block of threads no CPU,
 * and 1.2 us down or 2.5 us up for 4 KiB, 2 us down or 7 us up for 32 KiB). */
#define HOST_COPY_KERNEL_MAX (64u * 1024u)

static void copy_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    uint64_t size_bytes;
    memcpy(&size_bytes, params, sizeof size_bytes); /* first in both parameter structs */
    uint64_t per_group = (uint64_t)COPY_THREADS * COPY_THREAD_BYTES;
    uint64_t groups = size_bytes / per_group + (size_bytes % per_group != 0);
    out_groups[0] = (uint32_t)(groups < COPY_GROUPS_MAX ? groups : COPY_GROUPS_MAX);
    out_groups[1] = out_groups[2] = 1;
}

/* In a build without a compiler for them there is none: devices are listed as without kernels, and only the
 * stand-in that tests put in the driver's place gets to see an image. */
#if ROTA_CUDA_HAVE_exec_helpers
#define HELPERS ROTA_CUDA_IMAGE_exec_helpers
#else
#define HELPERS .image = "", .size_bytes = 1
#endif
#if ROTA_CUDA_HAVE_exec_decide
#define DECIDES ROTA_CUDA_IMAGE_exec_decide
#else
#define DECIDES .image = "", .size_bytes = 1
#endif

/* So that a copy's size may be a count's. */
static const rota_kernel_bindable copy_size = {
    .name = "size_bytes", .offset_bytes = offsetof(rota_cuda_copy_params, size_bytes), .size_bytes = 8};

const rota_kernel rota_cuda_copy_kernel = {
    .name = "copy",
    .operand_count = 2,
    .param_bytes = sizeof(rota_cuda_copy_params),
    .bindables = &copy_size,
    .bindable_count = 1,
    .cuda = {HELPERS, .entry = "rota_copy", .grid = copy_grid, .block = {COPY_THREADS, 1, 1}},
};
const rota_kernel rota_cuda_fill_kernel = {
    .name = "fill",
    .operand_count = 1,
    .param_bytes = sizeof(rota_cuda_fill_params),
    .cuda = {HELPERS, .entry = "rota_fill", .grid = copy_grid, .block = {COPY_THREADS, 1, 1}},
};
const rota_kernel rota_cuda_decide_kernel = {
    .name = "decide",
    .operand_count = 2,
    .param_bytes = sizeof(rota_decide_params),
    .cuda = {DECIDES, .entry = "rota_decide", .block = {1, 1, 1}},
};

bool rota_cuda_has_kernels(void) {
    return ROTA_CUDA_HAVE_exec_helpers || rota_cuda_api_is_replaced();
}

/* Functions found for the program so far, so that a kernel used a thousand times is looked up in the device
 * once: hashing an image a node would cost more than the rest. */
typedef struct known_function {
    const rota_kernel *kernel;
    CUfunction function;
    int threads_max;
    uint32_t shared_bytes; /* allowed so far */
    uint32_t cluster;
    bool starts_early;
} known_function;

#define KNOWN_MAX 64u

typedef struct maker {
    rota_cuda_device *device;
    const rota_exec_program_desc *desc;
    rota_cuda_program *program;
    const rota_cuda_decision *outer; /* whose body it is; NULL: none's */
    known_function known[KNOWN_MAX]; /* a direct-mapped cache */
} maker;

/* A function with other parameters than rota_args of the kernel's would take operands for parameters, or what
 * lies behind them. A driver that does not tell is not asked. */
static rota_status check_parameters(const rota_cuda_device *device, const rota_kernel *kernel,
                                    CUfunction function) {
    size_t offset = 0, size = 0;
    if (!device->cu->FuncGetParamInfo ||
        device->cu->FuncGetParamInfo(function, 0, &offset, &size) != CUDA_SUCCESS)
        return ROTA_OK;
    const size_t expected = (16 + 8 * (size_t)kernel->operand_count + kernel->param_bytes + 7) / 8 * 8;
    if (size == expected) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "kernel '%s': entry '%s' of its CUDA image has arguments of %zu bytes, and the kernel's "
                     "have %zu: 16, "
                     "8 for each of %u operands, and %u of parameters; expected ROTA_KERNEL(%s, %u, ...)",
                     kernel->name, kernel->cuda.entry, size, expected, kernel->operand_count,
                     kernel->param_bytes, kernel->cuda.entry, kernel->operand_count);
}

static rota_status find_function(maker *m, const rota_kernel *kernel, known_function **out_known) {
    known_function *known = &m->known[rota_hash_pointer(kernel) >> 26];
    *out_known = known;
    if (known->kernel == kernel) return ROTA_OK;
    *known = (known_function){0};
    ROTA_TRY(rota_cuda_function_get(m->device, kernel, &known->function, &known->starts_early));
    ROTA_TRY(check_parameters(m->device, kernel, known->function));
    ROTA_TRY(rota_cuda_check(m->device,
                             m->device->cu->FuncGetAttribute(&known->threads_max,
                                                             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                                             known->function),
                             "cuFuncGetAttribute"));
    known->kernel = kernel;
    return ROTA_OK;
}

/* What the function must be allowed before a node may ask for it. Attributes belong to the function, which
 * other programs share: they only grow. */
static rota_status allow(maker *m, known_function *known, const rota_cuda_launch *launch) {
    uint32_t cluster = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    if (launch->shared_bytes > 48u * 1024u && launch->shared_bytes > known->shared_bytes) {
        int has = 0;
        pthread_mutex_lock(&m->device->modules.lock);
        CUresult result = m->device->cu->FuncGetAttribute(
            &has, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, known->function);
        if (result == CUDA_SUCCESS && (uint32_t)has < launch->shared_bytes)
            result = m->device->cu->FuncSetAttribute(
                known->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)launch->shared_bytes);
        pthread_mutex_unlock(&m->device->modules.lock);
        if (result == CUDA_ERROR_INVALID_VALUE)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "kernel '%s' asks for %u bytes of dynamic shared memory; %s (%s) has %u for a block, "
                "less what the kernel declares",
                known->kernel->name, launch->shared_bytes, m->device->base.info.id, m->device->base.info.name,
                m->device->targets.measured.shared_bytes_max);
        ROTA_TRY(rota_cuda_check(m->device, result, "cuFuncSetAttribute"));
        known->shared_bytes = launch->shared_bytes;
    }
    if (cluster > 8 && cluster > known->cluster) { /* more than every device with clusters takes */
        ROTA_TRY(rota_cuda_check(m->device,
                                 m->device->cu->FuncSetAttribute(
                                     known->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                                 "cuFuncSetAttribute"));
        known->cluster = cluster;
    }
    return ROTA_OK;
}

static rota_status check_launch(const maker *m, const known_function *known, const rota_cuda_launch *launch) {
    const rota_device_info *info = &m->device->base.info;
    const char *name = known->kernel->name;
    static const uint32_t most[3] = {INT32_MAX, 65535, 65535};
    ROTA_TRY(rota_check_groups(known->kernel, launch->groups, most, "blocks", "CUDA"));
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (threads > (uint64_t)known->threads_max)
        return rota_fail(ROTA_UNSUPPORTED,
                         "kernel '%s' asks for blocks of %llu threads; on %s (%s) it can have at most %d",
                         name, (unsigned long long)threads, info->id, info->name, known->threads_max);
    if (launch->shared_bytes > m->device->targets.measured.shared_bytes_max)
        return rota_fail(ROTA_UNSUPPORTED,
                         "kernel '%s' asks for %u bytes of dynamic shared memory; %s (%s) has %u for a block",
                         name, launch->shared_bytes, info->id, info->name,
                         m->device->targets.measured.shared_bytes_max);
    bool clusters = launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1;
    if (clusters && m->device->targets.measured.compute_capability < 90)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' asks for clusters of blocks; %s (%s, compute capability %u.%u) has none", name,
            info->id, info->name, m->device->targets.measured.compute_capability / 10,
            m->device->targets.measured.compute_capability % 10);
    for (uint32_t i = 0; i < 3; i++)
        if (launch->groups[i] % launch->cluster[i])
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "kernel '%s' asks for %u blocks along %c, no multiple of its cluster of %u",
                             name, launch->groups[i], "xyz"[i], launch -> cluster[i]);
    return ROTA_OK;
}

static bool is_empty(const rota_cuda_launch *launch) {
    return launch->groups[0] == 0 || launch->groups[1] == 0 || launch->groups[2] == 0;
}

/* As many as the most that are counted need, in whole clusters: which of them run is the kernel's to say. */
static uint32_t counted_groups(const rota_exec_command *command, const rota_cuda_launch *launch) {
    const uint64_t cluster = launch->cluster[0], each = command->u.kernel.items_per_group;
    const uint64_t groups = ((uint64_t)command->u.kernel.count_max - 1) / each + 1;
    const uint64_t whole = (groups + cluster - 1) / cluster * cluster;
    return whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
}

static rota_status make_launch(maker *m, const rota_exec_command *command, const rota_kernel *kernel,
                               const void *params, const uint64_t *operand_bytes,
                               const uint32_t *given_groups, rota_cuda_dispatch *out) {
    rota_cuda_launch *launch = &out->launch;
    if (rota_kernel_cuda_launch(kernel, params, operand_bytes, rota_cuda_target_of(m->device, m->desc),
                                launch)) {
        for (uint32_t i = 0; i < 3; i++)
            if (launch->groups[i] == 0) launch->groups[i] = 1;
    } else {
        rota_kernel_groups(kernel, kernel->cuda.grid, kernel->cuda.grid_with, params, operand_bytes,
                           given_groups, launch->groups);
        memcpy(launch->block, kernel->cuda.block, sizeof launch->block);
        launch->shared_bytes = kernel->cuda.shared_bytes;
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (launch->block[i] == 0) launch->block[i] = 1;
        if (launch->cluster[i] == 0) launch->cluster[i] = 1;
    }
    if (command->is_counted && command->kind == ROTA_EXEC_COMMAND_KERNEL)
        launch->groups[0] = counted_groups(command, launch);
    known_function *known;
    ROTA_TRY(find_function(m, kernel, &known));
    ROTA_TRY(check_launch(m, known, launch));
    ROTA_TRY(allow(m, known, launch));
    out->function = known->function;
    out->starts_early = known->starts_early;
    out->form = is_empty(launch) ? ROTA_CUDA_NOTHING : ROTA_CUDA_KERNEL;
    return ROTA_OK;
}

static rota_status check_kernel(const maker *m, const rota_exec_command *command, const rota_kernel *kernel,
                                uint32_t slot_mask) {
    const rota_device_info *info = &m->device->base.info;
    if (!kernel->cuda.image && !kernel->cuda.call)
        return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' has no CUDA image; it does not run on %s",
                         kernel->name, info->id);
    ROTA_TRY(rota_kernel_check_functions(kernel));
    if (command->operand_count == 0 || command->operand_count > ROTA_CUDA_OPERANDS_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "kernel '%s' has %u operands; CUDA kernels have 1 to %u",
                         kernel->name, command->operand_count, ROTA_CUDA_OPERANDS_MAX);
    if (kernel->param_bytes > ROTA_KERNEL_PARAM_BYTES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "kernel '%s' has %u bytes of parameters; at most %u are possible", kernel->name,
                         kernel->param_bytes, ROTA_KERNEL_PARAM_BYTES_MAX);
    if (kernel->cuda.prepared_bytes > ROTA_CUDA_PREPARED_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "kernel '%s' has %u prepared bytes; at most %u are possible",
                         kernel->name, kernel->cuda.prepared_bytes, ROTA_CUDA_PREPARED_MAX);
    if (kernel->cuda.prepared_bytes && slot_mask)
        return rota_fail(ROTA_UNSUPPORTED,
                         "kernel '%s' is prepared for fixed addresses, and takes an operand from a slot",
                         kernel->name);
    return ROTA_OK;
}

static rota_status make_kernel(maker *m, const rota_exec_command *command, const rota_kernel *kernel,
                               const void *params, const uint32_t *given_groups, rota_cuda_dispatch *out) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    uint64_t operand_bytes[ROTA_CUDA_OPERANDS_MAX] = {0};
    ROTA_TRY(rota_check_slots(command, operands, kernel));
    for (uint32_t i = 0; i < command->operand_count && i < ROTA_CUDA_OPERANDS_MAX; i++)
        operand_bytes[i] = operands[i].size_bytes;
    out->slot_mask = rota_slot_mask(command, operands);
    out->bind_mask = rota_bind_mask(command, m->desc->bindings + command->first_binding);
    kernel = rota_exec_cuda_kernel(kernel, params, operand_bytes, out->slot_mask,
                                   rota_cuda_target_of(m->device, m->desc));
    ROTA_TRY(check_kernel(m, command, kernel, out->slot_mask));
    out->kernel = kernel;
    out->form = ROTA_CUDA_LIBRARY;
    if (kernel->cuda.call) return ROTA_OK;
    return make_launch(m, command, kernel, params, operand_bytes, given_groups, out);
}

const void *rota_cuda_command_params(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                     rota_cuda_fill_params *out_own) {
    if (command->kind == ROTA_EXEC_COMMAND_KERNEL) return command->u.kernel.params;
    *out_own = (rota_cuda_fill_params){.size_bytes = desc->operands[command->first_operand].size_bytes};
    if (command->kind == ROTA_EXEC_COMMAND_FILL) out_own->pattern = command->u.fill.pattern;
    return out_own;
}

static bool is_pinned(const maker *m, const rota_exec_operand *operand) {
    return !operand->is_slot && m->desc->memory_kind &&
           m->desc->memory_kind[operand->memory] == ROTA_EXEC_BASE_STAGING;
}

static rota_status make_transfer(maker *m, const rota_exec_command *command, rota_cuda_dispatch *out) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    const uint32_t none[3] = {0};
    rota_cuda_fill_params own;
    const void *params = rota_cuda_command_params(m->desc, command, &own);
    out->form = ROTA_CUDA_NOTHING;
    if (operands[0].size_bytes == 0) return ROTA_OK;
    if (command->kind == ROTA_EXEC_COMMAND_FILL) {
        if ((operands[0].size_bytes | operands[0].offset_bytes) % 4)
            return rota_fail(
                ROTA_MISALIGNED, "a fill of %llu bytes at offset %llu: both must be multiples of 4",
                (unsigned long long)operands[0].size_bytes, (unsigned long long)operands[0].offset_bytes);
        return make_kernel(m, command, &rota_cuda_fill_kernel, params, none, out);
    }
    bool host = is_pinned(m, &operands[0]) || is_pinned(m, &operands[1]);
    out->form = ROTA_CUDA_MEMCPY;
    if (operands[0].is_slot || operands[1].is_slot ||
        (host && operands[0].size_bytes <= (uint64_t)HOST_COPY_KERNEL_MAX))
        return make_kernel(m, command, &rota_cuda_copy_kernel, params, none, out);
    return ROTA_OK;
}

/* ---- Counted commands ---- */

/* Its groups are those of the most that there may be, so that the kernel must be told how many there are. */
static rota_status check_counted_kernel(const maker *m, const rota_exec_command *command) {
    const rota_kernel *kernel = command->u.kernel.kernel;
    const char *id = m->device->base.info.id;
    if (command->u.kernel.count_bindable_plus_1 == 0)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' is counted, and none of its parameters gets the count "
            "(rota_count.bindable_plus_1), which it needs on %s: its groups are those of the most there are",
            kernel->name, id);
    if (rota_kernel_has_cuda_select(kernel))
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' is counted, and another may take its place on %s (rota_kernel.cuda.select), "
            "whose items in a group nobody has said",
            kernel->name, id);
    if (kernel->cuda.call)
        return rota_fail(ROTA_UNSUPPORTED,
                         "kernel '%s' is counted, and on %s it is a function (rota_kernel.cuda.call), which "
                         "puts on a stream what no count can size",
                         kernel->name, id);
    return ROTA_OK;
}

/* Whether the device is to set how many groups there are: not in whole clusters, nor in bodies, for which no driver
 * promises it. */
static bool has_own_grid(const maker *m, const rota_cuda_dispatch *dispatch) {
    const rota_cuda_launch *launch = &dispatch->launch;
    return m->device->helpers.count_grid && !m->outer && dispatch->form == ROTA_CUDA_KERNEL &&
           launch->groups[0] >= m->device->bounds.grid_min &&
           launch->cluster[0] * launch->cluster[1] * launch->cluster[2] == 1;
}

/* The kernel that stands for a copy, or the command's own, without the operand that is its count. */
static rota_status make_counted(maker *m, const rota_exec_command *command, rota_cuda_dispatch *out) {
    const rota_exec_operand *operands = m->desc->operands + command->first_operand;
    const bool is_copy = command->kind == ROTA_EXEC_COMMAND_COPY;
    static const uint32_t one_each[3] = {1, 1, 1};
    rota_cuda_fill_params own;
    rota_exec_command plain = *command;
    ROTA_TRY(rota_check_count(command, operands));
    if (!is_copy) ROTA_TRY(check_counted_kernel(m, command));
    const rota_kernel *kernel = is_copy ? &rota_cuda_copy_kernel : command->u.kernel.kernel;
    const uint32_t bindable = is_copy ? 0 : command->u.kernel.count_bindable_plus_1 - 1;
    ROTA_TRY(rota_check_slots(command, operands, kernel));
    ROTA_TRY(rota_cuda_count_create(m->desc, command, m->outer, kernel->bindables[bindable].offset_bytes,
                                    &out->count));
    plain.operand_count--;
    ROTA_TRY(make_kernel(m, &plain, kernel, rota_cuda_command_params(m->desc, command, &own), one_each, out));
    out->bind_mask |= 1u << bindable;
    if (!is_copy && has_own_grid(m, out)) out->count->items_per_group = command->u.kernel.items_per_group;
    return ROTA_OK;
}

/* ---- Commands that decide ---- */

static rota_status make_commands(maker *m);

/* A body, with the maker's functions. */
static rota_status make_body(maker *m, const rota_cuda_decision *decision, const rota_exec_program_desc *desc,
                             rota_cuda_program **out_program) {
    rota_cuda_program *program = calloc(1, sizeof *program);
    if (!program) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for body '%s'", desc->name);
    program->desc = desc;
    *out_program = program; /* freed with its decision from now on */
    const rota_exec_program_desc *outer_desc = m->desc;
    rota_cuda_program *outer_program = m->program;
    const rota_cuda_decision *outer = m->outer;
    m->desc = desc;
    m->program = program;
    m->outer = decision;
    const rota_status status = make_commands(m);
    m->desc = outer_desc;
    m->program = outer_program;
    m->outer = outer;
    return status;
}

static rota_status make_decision(maker *m, const rota_exec_command *command, rota_cuda_dispatch *out) {
    if (!m->device->base.caps.runs_conditionals) return rota_fail_kind(&m->device->base, command);
    ROTA_TRY(rota_cuda_decision_create(m->desc, command, m->outer, &out->decision));
    out->form = ROTA_CUDA_DECISION;
    out->slot_mask = rota_cuda_decision_slots(m->desc, command);
    for (uint32_t i = 0; i < command->operand_count; i++) {
        const rota_exec_operand *operand = &m->desc->operands[command->first_operand + i];
        if (operand->is_slot && operand->memory > UINT16_MAX)
            return rota_fail(ROTA_UNSUPPORTED, "argument word %u of operand %u; the highest possible is %u",
                             operand->memory, i, UINT16_MAX);
    }
    const rota_exec_conditional *conditional = command->u.conditional;
    for (uint32_t i = 0; i < conditional->body_count; i++)
        if (conditional->bodies[i])
            ROTA_TRY(make_body(m, out->decision, conditional->bodies[i], &out->decision->bodies[i]));
    return ROTA_OK;
}

static rota_status make_command(maker *m, uint32_t index) {
    const rota_exec_command *command = &m->desc->commands[index];
    rota_cuda_dispatch *dispatch = &m->program->dispatches[index];
    if (command->is_counted) return make_counted(m, command, dispatch);
    switch (command->kind) {
    case ROTA_EXEC_COMMAND_KERNEL:
        return make_kernel(m, command, command->u.kernel.kernel, command->u.kernel.params,
                           command->u.kernel.groups, dispatch);
    case ROTA_EXEC_COMMAND_COPY:
    case ROTA_EXEC_COMMAND_FILL:
        return make_transfer(m, command, dispatch);
    case ROTA_EXEC_COMMAND_CONDITIONAL:
        return make_decision(m, command, dispatch);
    default:
        return rota_fail_kind(&m->device->base, command);
    }
}

static rota_status make_commands(maker *m) {
    const rota_exec_program_desc *desc = m->desc;
    m->program->dispatches = calloc(desc->command_count + (size_t)1, sizeof *m->program->dispatches);
    if (!m->program->dispatches)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a program of %u commands",
                         desc->command_count);
    for (uint32_t i = 0; i < desc->command_count; i++) {
        const rota_status status = make_command(m, i);
        if (status != ROTA_OK) return rota_fail_at_node(status, &m->device->host, desc, i);
    }
    return ROTA_OK;
}

/* Whether the dispatch takes something from the argument block. */
static bool takes_words(const rota_exec_program_desc *desc, const rota_exec_command *command,
                        const rota_cuda_dispatch *dispatch) {
    if (!dispatch->count) return dispatch->slot_mask | dispatch->bind_mask;
    return dispatch->slot_mask || command->binding_count ||
           desc->operands[command->first_operand + command->operand_count - 1].is_slot;
}

/* What commands take from the argument block, those of bodies among them. */
static void describe_commands(const rota_cuda_program *program, uint32_t first, uint32_t count,
                              rota_cuda_segment *out) {
    for (uint32_t c = first; c < first + count; c++) {
        const rota_cuda_dispatch *dispatch = &program->dispatches[c];
        const rota_cuda_decision *decision = dispatch->decision;
        for (uint32_t b = 0; decision && b < decision->desc->body_count; b++)
            if (decision->bodies[b])
                describe_commands(decision->bodies[b], 0, decision->bodies[b]->desc->command_count, out);
        if (!takes_words(program->desc, &program->desc->commands[c], dispatch)) continue;
        /* A counted one's step reads its count there, though the kernel has no groups. */
        if (dispatch->form == ROTA_CUDA_KERNEL || decision || dispatch->count) out->uses_block = true;
        if (dispatch->form == ROTA_CUDA_LIBRARY) out->has_variant = true;
    }
}

static void describe_segments(maker *m) {
    const rota_exec_program_desc *desc = m->desc;
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        rota_cuda_segment *out = &m->program->segments[s];
        describe_commands(m->program, segment->first_command, segment->command_count, out);
        if (out->uses_block || out->count_words) m->program->block_segments++;
    }
}

static rota_status make_program(maker *m) {
    const rota_exec_program_desc *desc = m->desc;
    m->program->segments = calloc(desc->segment_count + 1, sizeof *m->program->segments);
    if (!m->program->segments)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a program of %u commands",
                         desc->command_count);
    ROTA_TRY(make_commands(m));
    ROTA_TRY(rota_check_queues(&m->device->base, desc, m->device->options.queue_count));
    ROTA_TRY(rota_cuda_roots_create(m->program));
    describe_segments(m);
    ROTA_TRY(rota_cuda_readers_create(m->program));
    return rota_cuda_library_tune(m->device, m->program);
}

rota_status rota_cuda_program_create(rota_exec_device *base, const rota_exec_program_desc *desc,
                                     rota_exec_program **out_program) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    maker *m = calloc(1, sizeof *m);
    rota_cuda_program *program = calloc(1, sizeof *program);
    rota_status status = ROTA_OK;
    if (!m || !program) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for program '%s'", desc->name);
    } else {
        *m = (maker){.device = device, .desc = desc, .program = program};
        program->desc = desc;
        status = rota_cuda_enter(device);
        if (status == ROTA_OK) {
            status = make_program(m);
            rota_cuda_leave(device);
        }
    }
    free(m);
    if (status != ROTA_OK) {
        if (program) rota_cuda_program_destroy(base, (rota_exec_program *)program);
        return status;
    }
    *out_program = (rota_exec_program *)program;
    return ROTA_OK;
}

static void free_decision(rota_cuda_decision *decision) {
    if (!decision) return;
    for (uint32_t i = 0; i < decision->desc->body_count; i++)
        rota_cuda_program_destroy(NULL, (rota_exec_program *)decision->bodies[i]);
    free(decision->bodies);
    free(decision);
}

void rota_cuda_program_destroy(rota_exec_device *base, rota_exec_program *program_base) {
    (void)base;
    rota_cuda_program *program = (rota_cuda_program *)program_base;
    if (!program) return;
    rota_cuda_readers_free(program);
    rota_cuda_roots_free(program);
    for (uint32_t i = 0; program->dispatches && i < program->desc->command_count; i++) {
        free_decision(program->dispatches[i].decision);
        free(program->dispatches[i].count);
    }
    free(program->dispatches);
    free(program->segments);
    free(program);
}
