/* Library nodes: work that a function puts on a stream (a vendor's library, say), captured alone into a
 * graph, and kernels that measure themselves before a plan is built.
 *
 * The capture is relaxed and on a stream that nothing else uses, so that neither other threads' captures nor
 * their calls can disturb it. The kernel parameters of what was captured are fixed: where an operand or a
 * parameter comes from a slot, the segment's graph holds for these values only, and the instance keeps
 * ROTA_CUDA_VARIANTS graphs, the least recently used one making room. A submission with values that have a
 * graph costs a comparison; with new ones, the capture (5 to 9 us) and the whole segment's graph anew (about
 * 5 us a node; docs/measurements.md). */
#include "exec/cuda/cuda_library.h"
#include "exec/common/names.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_device.h"
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

static const char *node_name(const rota_cuda_device *device, const rota_exec_program_desc *desc,
                             uint32_t command) {
    return rota_node_name_of(&device->host, desc->owner, desc->commands[command].node);
}

static rota_status capture(rota_cuda_device *device, const rota_kernel *kernel, const rota_cuda_call *call,
                           CUgraph *out_graph) {
    const rota_cuda_api *cu = device->cu;
    CUresult result = cu->StreamBeginCapture(call->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result != CUDA_SUCCESS) return rota_cuda_check(device, result, "cuStreamBeginCapture");
    rota_status status = kernel->cuda.call(call);
    CUgraph graph = NULL;
    result = cu->StreamEndCapture(call->stream, &graph); /* also after a failure: it ends the capture */
    if (status == ROTA_OK && result != CUDA_SUCCESS)
        status = rota_fail_context(rota_cuda_check(device, result, "cuStreamEndCapture"),
                                   "what kernel '%s' put on its stream cannot be captured: ", kernel->name);
    if (status != ROTA_OK) {
        if (result == CUDA_SUCCESS && graph) (void)cu->GraphDestroy(graph);
        return status;
    }
    *out_graph = graph;
    return ROTA_OK;
}

rota_status rota_cuda_library_capture(rota_cuda_device *device, const rota_cuda_program *program,
                                      uint32_t index, rota_exec_memory *const *memories,
                                      const uint64_t *block, CUgraph *out_graph) {
    const rota_exec_program_desc *desc = program->desc;
    const rota_exec_command *command = &desc->commands[index];
    const rota_kernel *kernel = program->dispatches[index].kernel;
    const rota_exec_operand *operands = desc->operands + command->first_operand;
    const rota_exec_binding *bindings = desc->bindings + command->first_binding;
    uint64_t addresses[ROTA_CUDA_OPERANDS_MAX], bytes[ROTA_CUDA_OPERANDS_MAX];
    uint64_t params[(ROTA_KERNEL_PARAM_BYTES_MAX + 7) / 8] = {0};
    for (uint32_t i = 0; i < command->operand_count; i++) {
        uint64_t base =
            operands[i].is_slot ? block[operands[i].memory] : memories[operands[i].memory]->address;
        addresses[i] = base + operands[i].offset_bytes;
        bytes[i] = operands[i].size_bytes;
    }
    if (kernel->param_bytes) memcpy(params, command->u.kernel.params, kernel->param_bytes);
    for (uint32_t i = 0; i < command->binding_count; i++) {
        const rota_kernel_bindable *to = &kernel->bindables[bindings[i].bindable];
        memcpy((uint8_t *)params + to->offset_bytes, &block[bindings[i].word], to->size_bytes);
    }
    rota_cuda_call call = {
        .target = rota_cuda_target_of(device, desc),
        .stream = block ? device->submit_stream : device->own.stream,
        .operands = addresses,
        .operand_bytes = bytes,
        .operand_count = command->operand_count,
        .params = params,
        .user = kernel->user,
    };
    /* Where another thread measures on the private stream, on one of its own: the submit thread may be here.
     */
    const bool locked = !block && pthread_mutex_trylock(&device->own.lock) == 0;
    CUstream own = NULL;
    if (!block && !locked) {
        ROTA_TRY(rota_cuda_stream_create(device, &own));
        call.stream = own;
    }
    rota_status status = capture(device, kernel, &call, out_graph);
    if (status != ROTA_OK && !ra_load_acquire(&device->lost)) { /* pairs with rota_cuda_lose */
        rota_log_write(&device->host.log, ROTA_LOG_WARNING, "node '%s' is captured once more: %s",
                       node_name(device, desc, index), rota_last_error());
        call.again = true;
        status = capture(device, kernel, &call, out_graph);
    }
    if (locked) pthread_mutex_unlock(&device->own.lock);
    if (own) (void)device->cu->StreamDestroy(own);
    return status;
}

/* ---- Tuning ---- */

/* Nodes alike in kernel, parameters and sizes are tuned once: a hash set of commands. */
typedef struct tuned_set {
    const rota_exec_program_desc *desc;
    const rota_cuda_program *program;
    uint32_t *table; /* command + 1; 0: free */
    uint32_t size;   /* a power of two */
} tuned_set;

static uint64_t hash_node(const tuned_set *set, uint32_t index) {
    const rota_exec_command *command = &set->desc->commands[index];
    const rota_kernel *kernel = set->program->dispatches[index].kernel;
    uint64_t hash = rota_hash_bytes((uintptr_t)kernel, command->u.kernel.params, kernel->param_bytes);
    for (uint32_t i = 0; i < command->operand_count; i++)
        hash = (hash ^ set->desc->operands[command->first_operand + i].size_bytes) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 32;
}

static bool alike(const tuned_set *set, uint32_t a, uint32_t b) {
    const rota_exec_command *x = &set->desc->commands[a], *y = &set->desc->commands[b];
    const rota_kernel *kernel = set->program->dispatches[a].kernel;
    if (kernel != set->program->dispatches[b].kernel || x->operand_count != y->operand_count) return false;
    for (uint32_t i = 0; i < x->operand_count; i++)
        if (set->desc->operands[x->first_operand + i].size_bytes !=
            set->desc->operands[y->first_operand + i].size_bytes)
            return false;
    return kernel->param_bytes == 0 ||
           memcmp(x->u.kernel.params, y->u.kernel.params, kernel->param_bytes) == 0;
}

/* Whether a node like it was there before; if not, it is now. */
static bool seen(tuned_set *set, uint32_t command) {
    uint32_t entry = (uint32_t)hash_node(set, command) & (set->size - 1);
    for (; set->table[entry]; entry = (entry + 1) & (set->size - 1))
        if (alike(set, set->table[entry] - 1, command)) return true;
    set->table[entry] = command + 1;
    return false;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + 255) & ~(uint64_t)255;
}

static rota_status tune(rota_cuda_device *device, const rota_cuda_program *program, uint32_t index) {
    const rota_exec_program_desc *desc = program->desc;
    const rota_exec_command *command = &desc->commands[index];
    const rota_kernel *kernel = program->dispatches[index].kernel;
    uint64_t addresses[ROTA_CUDA_OPERANDS_MAX], bytes[ROTA_CUDA_OPERANDS_MAX], total = 0;
    for (uint32_t i = 0; i < command->operand_count; i++) {
        bytes[i] = desc->operands[command->first_operand + i].size_bytes;
        addresses[i] = total;
        total += aligned(bytes[i]);
    }
    CUdeviceptr scratch = 0;
    CUresult result = device->cu->MemAlloc(&scratch, total ? total : 1);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        /* Without measuring, the kernel takes what it takes for the best. */
        rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                       "node '%s' (kernel '%s') is not tuned: no %llu bytes of scratch memory are free",
                       node_name(device, desc, index), kernel->name, (unsigned long long)total);
        return ROTA_OK;
    }
    if (result != CUDA_SUCCESS) return rota_cuda_check(device, result, "cuMemAlloc");
    for (uint32_t i = 0; i < command->operand_count; i++) addresses[i] += scratch;
    rota_cuda_call call = {
        .target = rota_cuda_target_of(device, desc),
        .stream = device->own.stream,
        .operands = addresses,
        .operand_bytes = bytes,
        .operand_count = command->operand_count,
        .params = command->u.kernel.params,
        .user = kernel->user,
    };
    pthread_mutex_lock(&device->own.lock);
    rota_status status = kernel->cuda.tune(&call);
    /* Not cuStreamSynchronize: what an application's allocator has put there may never end. */
    result = rota_cuda_settle(device, device->own.stream, device->bounds.stall_ns);
    pthread_mutex_unlock(&device->own.lock);
    if (result == CUDA_ERROR_NOT_READY && status != ROTA_OK)
        return rota_fail_context(status,
                                 "tuning node '%s', whose %llu bytes of scratch memory are still used: ",
                                 node_name(device, desc, index), (unsigned long long)total);
    if (result == CUDA_ERROR_NOT_READY) /* whose memory stays: to free it would wait, too */
        return rota_fail(
            ROTA_TIMEOUT,
            "tuning node '%s': what is on rota's stream does not end within %.3f s; %llu bytes of scratch "
            "memory stay with it",
            node_name(device, desc, index), (double)device->bounds.stall_ns * 1e-9,
            (unsigned long long)total);
    if (status == ROTA_OK) status = rota_cuda_check(device, result, "cuStreamQuery");
    result = device->cu->MemFree(scratch);
    if (status == ROTA_OK) status = rota_cuda_check(device, result, "cuMemFree");
    if (status != ROTA_OK)
        return rota_fail_context(status, "tuning node '%s': ", node_name(device, desc, index));
    return ROTA_OK;
}

static rota_status tune_program(rota_cuda_device *device, const rota_cuda_program *program) {
    const rota_exec_program_desc *desc = program->desc;
    tuned_set set = {.desc = desc, .program = program, .size = 16};
    uint32_t wanted = 0;
    if (desc->by_table) return ROTA_OK;
    for (uint32_t c = 0; c < desc->command_count; c++)
        wanted += program->dispatches[c].kernel && program->dispatches[c].kernel->cuda.tune;
    if (wanted == 0) return ROTA_OK;
    while (set.size < 2 * wanted) set.size *= 2;
    set.table = calloc(set.size, sizeof *set.table);
    if (!set.table) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for tuning %u nodes", wanted);
    rota_status status = ROTA_OK;
    for (uint32_t c = 0; c < desc->command_count && status == ROTA_OK; c++) {
        const rota_kernel *kernel = program->dispatches[c].kernel;
        if (kernel && kernel->cuda.tune && !seen(&set, c)) status = tune(device, program, c);
    }
    free(set.table);
    return status;
}

rota_status rota_cuda_library_tune(rota_cuda_device *device, const rota_cuda_program *program) {
    ROTA_TRY(tune_program(device, program));
    for (uint32_t c = 0; c < program->desc->command_count; c++) {
        const rota_cuda_decision *decision = program->dispatches[c].decision;
        for (uint32_t b = 0; decision && b < decision->desc->body_count; b++)
            if (decision->bodies[b]) ROTA_TRY(rota_cuda_library_tune(device, decision->bodies[b]));
    }
    return ROTA_OK;
}
