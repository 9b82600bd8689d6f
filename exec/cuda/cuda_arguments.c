/* The arguments of kernel nodes, as kernels take them (rota_kernel.cuh). */
#include "exec/cuda/cuda_arguments.h"
#include <string.h>
#include "exec/cuda/cuda_decide.h"

static uint64_t operand_word(const rota_exec_operand *operand, uint32_t bit,
                             rota_exec_memory *const *memories, const rota_steady *steady,
                             rota_cuda_arguments *out) {
    if (!operand->is_slot) return memories[operand->memory]->address + operand->offset_bytes;
    if (!steady || !rota_steady_is(steady, operand->memory))
        return ((uint64_t)operand->memory << 48) | operand->offset_bytes;
    out->slot_mask &= ~(UINT32_C(1) << bit);
    return steady->values[operand->memory] + operand->offset_bytes;
}

static void bind_param(const rota_exec_binding *binding, const rota_kernel_bindable *bindable,
                       const rota_steady *steady, uint8_t *params, rota_cuda_arguments *out) {
    uint8_t *field = params + bindable->offset_bytes;
    if (!steady || !rota_steady_is(steady, binding->word)) {
        memcpy(field, &binding->word, sizeof binding->word);
        return;
    }
    out->bind_mask &= ~(UINT32_C(1) << binding->bindable);
    memcpy(field, &steady->values[binding->word], bindable->size_bytes);
}

void rota_cuda_arguments_fill(const rota_cuda_program *program, uint32_t index,
                              rota_exec_memory *const *memories, uint64_t block_address,
                              const rota_steady *steady, rota_cuda_arguments *out) {
    const rota_exec_program_desc *desc = program->desc;
    const rota_exec_command *command = &desc->commands[index];
    const rota_cuda_dispatch *dispatch = &program->dispatches[index];
    const rota_exec_operand *operands = desc->operands + command->first_operand;
    const uint32_t given_count = (uint32_t)command->operand_count - command->is_counted;
    memset(out, 0, sizeof *out);
    out->slot_mask = dispatch->slot_mask;
    out->bind_mask = dispatch->bind_mask;
    for (uint32_t i = 0; i < given_count; i++)
        out->words[i] = operand_word(&operands[i], i, memories, steady, out);
    uint8_t *params = (uint8_t *)&out->words[given_count];
    rota_cuda_fill_params own;
    const void *given = rota_cuda_command_params(desc, command, &own);
    if (dispatch->kernel->param_bytes) memcpy(params, given, dispatch->kernel->param_bytes);
    const rota_exec_binding *bindings = desc->bindings + command->first_binding;
    for (uint32_t i = 0; i < command->binding_count; i++)
        bind_param(&bindings[i], &dispatch->kernel->bindables[bindings[i].bindable], steady, params, out);
    if (dispatch->count)
        memcpy(params + dispatch->count->param_offset, &dispatch->count->word, sizeof(uint32_t));
    if (out->slot_mask | out->bind_mask) out->block = block_address;
}

CUDA_KERNEL_NODE_PARAMS rota_cuda_node_params(CUfunction function, const rota_cuda_launch *launch,
                                              void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = function,
        .gridDimX = launch->groups[0],
        .gridDimY = launch->groups[1],
        .gridDimZ = launch->groups[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->shared_bytes,
        .kernelParams = parameters,
    };
}
