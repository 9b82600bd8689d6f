/* The nodes of commands that decide, by CUDA's conditional nodes: see cuda_graph.h. What a conditional node runs is
 * decided by a handle, which a kernel sets (exec_decide.cu); its bodies are graphs of the driver's.
 *
 *     if         step --> IF [then] (or [then, else], or a second one behind it for the else)
 *     switch     step --> SWITCH [0, 1, ...]; without such nodes a step and an IF for each body, all steps before the
 *                first IF, as a body may write what is decided by
 *     while,for  step --> WHILE [ commands of the body --> step ]
 *
 * Without conditional nodes the host launches the same graphs, one after the other (cuda_script.c): the graph at hand
 * is cut behind each step, and where a body begins or ends.
 *
 * Before a command that is counted stands a step, too, which leaves it the count (exec_helpers.cu).
 *
 * A body's nodes are those of any graph but for what bodies do not have, or are not known to: kernels that start early,
 * and timestamps. */
#include <stdlib.h>
#include <string.h>
#include "exec/cuda/cuda_arguments.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_loops.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_graph.h"
#include "graph/conditional_internal.h"

typedef rota_cuda_building building;

/* A command while it is added. */
typedef struct deciding {
    building *b;
    const rota_cuda_decision *decision;
    const rota_exec_command *command;
    uint32_t slots;
    /* What comes next comes after these: what the command does, at first, then its last node. */
    const CUgraphNode *before;
    size_t before_count;
    CUgraphNode last; /* NULL: it has none yet, or it is in an earlier graph */
    bool is_cut;      /* all that it comes after, and what it did, is in earlier graphs */
} deciding;

rota_status rota_cuda_bodies_check(rota_cuda_device *device, CUresult result, const char *what) {
    if (result == CUDA_SUCCESS || rota_cuda_is_fatal(result) || result == CUDA_ERROR_OUT_OF_MEMORY)
        return rota_cuda_check(device, result, what);
    (void)rota_cuda_fail(device->cu, result, what);
    return rota_fail_context(ROTA_UNSUPPORTED,
                             "%s (%s) takes no such graph with conditional nodes: ", device->base.info.id,
                             device->base.info.driver);
}

/* ---- Steps ---- */

static const rota_cuda_launch one = {.groups = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}};

static uint64_t word_address(const building *b, const rota_exec_command *command,
                             const rota_exec_word *word) {
    if (word->operand == UINT32_MAX) return 0;
    const rota_exec_operand *operand = &b->desc->operands[command->first_operand + word->operand];
    const uint64_t offset = operand->offset_bytes + word->offset_bytes;
    if (operand->is_slot) return ((uint64_t)operand->memory << 48) | offset;
    return b->memories[operand->memory]->address + offset;
}

/* A step in graph `b`, whose command may be that of a graph around it: all have one instance's memories. */
static rota_status add_step(const deciding *of, building *b, rota_decide_params *params,
                            const CUgraphNode *before, size_t before_count, CUgraphNode *out_node) {
    const rota_exec_conditional *conditional = of->decision->desc;
    rota_decide_args args = {.slot_mask = of->slots,
                             .block = of->slots ? b->block_address : 0,
                             .operands = {word_address(of->b, of->command, &conditional->condition),
                                          word_address(of->b, of->command, &conditional->index)}};
    params->number = of->decision->number;
    params->iterations_max = conditional->iterations_max;
    if (of->decision->has_state) {
        rota_cuda_loops_describe(b->loops, of->b->root, &params->root);
        params->halt = b->device->stops.halt.address;
        params->progress = rota_cuda_loops_progress_address(b->loops, of->b->root);
    }
    if (!b->device->options.diagnostics || of->decision->outer) params->progress = 0;
    args.params = *params;
    void *parameters[] = {&args};
    const CUfunction function = b->script ? b->device->helpers.answer : b->device->helpers.decide;
    return rota_cuda_building_kernel(b, function, &one, parameters, before, before_count, out_node);
}

/* Whether the device sets the grid of the command's kernel. A graph that may be launched before it was uploaded has no
 * such nodes (a variant, instantiate in cuda_graph.c), nor one that is the host's to run, with a driver that has none.
 * */
static bool sets_grid(const building *b, const rota_cuda_count *count) {
    return count->items_per_group && !b->keeps_grids && !b->block && !b->script;
}

static rota_count_args count_args(const building *b, uint32_t command, const rota_cuda_root *root) {
    const rota_exec_command *about = &b->desc->commands[command];
    const rota_cuda_count *count = b->program->dispatches[command].count;
    const rota_exec_word word = {.operand = (uint32_t)about->operand_count - 1};
    const bool is_slot = b->desc->operands[about->first_operand + word.operand].is_slot;
    rota_count_args args = {.slot_mask = is_slot,
                            .block = is_slot ? b->block_address : 0,
                            .operand = word_address(b, about, &word),
                            .params = {.word = b->block_address + 8 * (uint64_t)count->word,
                                       .unit = count->unit,
                                       .max = count->max,
                                       .number = count->number,
                                       .begins = !count->outer,
                                       .items_per_group = count->items_per_group,
                                       .groups_y = b->program->dispatches[command].launch.groups[1],
                                       .groups_z = b->program->dispatches[command].launch.groups[2]}};
    rota_cuda_loops_describe(b->loops, root, &args.params.root);
    return args;
}

rota_status rota_cuda_bodies_count(building *b, uint32_t command, const CUgraphNode *before,
                                   size_t before_count, CUgraphNode *out_node) {
    const rota_cuda_count *count = b->program->dispatches[command].count;
    const bool has_grid = sets_grid(b, count);
    rota_count_args args = count_args(b, command, count->outer ? b->root : &b->roots->all[b->next_root++]);
    void *parameters[] = {&args};
    return rota_cuda_building_kernel(b, has_grid ? b->device->helpers.count_grid : b->device->helpers.count,
                                     &one, parameters, before, before_count, out_node);
}

/* The node is made after the step, and has a handle then, which the step is told. */
rota_status rota_cuda_bodies_set_grid(building *b, uint32_t command, CUgraphNode step, CUgraphNode node) {
    const rota_cuda_count *count = b->program->dispatches[command].count;
    if (!sets_grid(b, count)) return ROTA_OK;
    rota_cuda_updatable updatable = {.is_updatable = 1};
    CUlaunchAttributeValue value = {0};
    memcpy(&value, &updatable, sizeof updatable);
    CUresult result = b->device->cu->GraphKernelNodeSetAttribute(
        node, (CUlaunchAttributeID)ROTA_CUDA_ATTRIBUTE_UPDATABLE, &value);
    memcpy(&updatable, &value, sizeof updatable);
    if (rota_cuda_is_fatal(result))
        return rota_cuda_check(b->device, result, "cuGraphKernelNodeSetAttribute");
    if (result != CUDA_SUCCESS || !updatable.node) return ROTA_OK;
    b->sets_grids = true;
    rota_count_args args = count_args(b, command, &b->roots->all[b->next_root - 1]);
    args.params.grid_node = updatable.node;
    void *parameters[] = {&args};
    const CUDA_KERNEL_NODE_PARAMS params =
        rota_cuda_node_params(b->device->helpers.count_grid, &one, parameters);
    result = b->device->cu->GraphKernelNodeSetParams(step, &params);
    return rota_cuda_check(b->device, result, "cuGraphKernelNodeSetParams");
}

static void move_on(deciding *of, CUgraphNode node) {
    of->last = node;
    of->before = &of->last;
    of->before_count = 1;
}

/* The first of a root's begins a launch. */
static rota_status add_first_step(deciding *of, rota_decide_params *params) {
    CUgraphNode node = NULL;
    params->begins = of->decision->has_state && !of->decision->outer && !of->last;
    ROTA_TRY(add_step(of, of->b, params, of->before, of->before_count, &node));
    move_on(of, node);
    return ROTA_OK;
}

static rota_status add_handle(const deciding *of, uint64_t *out_handle) {
    const rota_cuda_device *device = of->b->device;
    unsigned long long handle = 0;
    ROTA_TRY(rota_cuda_bodies_check(
        of->b->device, device->cu->GraphConditionalHandleCreate(&handle, of->b->graph, device->context, 0, 0),
        "cuGraphConditionalHandleCreate"));
    *out_handle = handle;
    return ROTA_OK;
}

/* ---- Bodies ---- */

/* What nothing of the graph comes after: at most one in each lane. */
static uint32_t find_ends(const building *b, CUgraphNode out_ends[ROTA_CUDA_LANES]) {
    uint32_t count = 0;
    uint8_t *goes_on = calloc(b->fold.count + (size_t)1, 1);
    if (!goes_on) return UINT32_MAX;
    for (uint32_t e = 0; b->fold.count && e < b->fold.first[b->fold.count]; e++)
        goes_on[b->fold.before[e]] = 1;
    for (uint32_t i = 0; i < b->fold.count; i++)
        if (!goes_on[i] && b->nodes[i] && count < ROTA_CUDA_LANES) out_ends[count++] = b->nodes[i];
    free(goes_on);
    return count;
}

/* A body's, in `graph`. */
static building begin_body(const deciding *of, const rota_cuda_program *body, CUgraph graph) {
    building inner = *of->b;
    inner.program = body;
    inner.desc = body ? body->desc : NULL;
    inner.graph = graph;
    inner.steady = NULL;
    inner.is_body = true;
    inner.fold = (rota_cuda_fold){0};
    inner.head = NULL;
    inner.nodes = inner.before = NULL;
    return inner;
}

/* Its commands, and behind them a step, if any. */
static rota_status add_commands(const deciding *of, building *inner, rota_decide_params *next) {
    CUgraphNode ends[ROTA_CUDA_LANES], node;
    uint32_t count = 0;
    if (rota_cuda_body_runs(inner->program)) {
        inner->segment = &inner->desc->segments[0];
        ROTA_TRY(rota_cuda_building_commands(inner));
        count = find_ends(inner, ends);
        if (count == UINT32_MAX)
            return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a graph of %u commands",
                             inner->fold.count);
    }
    return next ? add_step(of, inner, next, ends, count, &node) : ROTA_OK;
}

/* The commands of a body in `graph`, and behind them a step, if any. */
static rota_status fill_graph(const deciding *of, const rota_cuda_program *body, CUgraph graph,
                              rota_decide_params *next) {
    building inner = begin_body(of, body, graph);
    CUgraphNode node;
    rota_status status = add_commands(of, &inner, next);
    if (status == ROTA_OK && !next && !rota_cuda_body_runs(body))
        status = rota_cuda_building_empty(&inner, NULL, 0, &node);
    rota_cuda_building_free(&inner);
    /* What the driver does not take here. */
    if (status == ROTA_SYSTEM)
        status = rota_fail_context(ROTA_UNSUPPORTED, "in a body, which is one of a conditional node: ");
    return status;
}

/* A conditional node, behind the last one; graphs of bodies out. */
static rota_status add_conditional(deciding *of, int type, uint32_t size, uint64_t handle,
                                   CUgraph **out_graphs) {
    building *b = of->b;
    rota_cuda_conditional_node node = {
        .node_type = ROTA_CUDA_NODE_CONDITIONAL,
        .u.is = {.handle = handle, .type = type, .size = size, .context = b->device->context}};
    CUgraphNode made = NULL;
    ROTA_TRY(rota_cuda_bodies_check(
        b->device, b->device->cu->GraphAddNode(&made, b->graph, of->before, NULL, of->before_count, &node),
        "cuGraphAddNode"));
    move_on(of, made);
    *out_graphs = node.u.is.bodies;
    return ROTA_OK;
}

static rota_status add_one(deciding *of, int type, uint64_t handle, const rota_cuda_program *body,
                           rota_decide_params *next) {
    CUgraph *graphs = NULL;
    ROTA_TRY(add_conditional(of, type, 1, handle, &graphs));
    return fill_graph(of, body, graphs[0], next);
}

/* ---- Kinds ---- */

static rota_status add_loop(deciding *of) {
    const bool is_for = of->decision->desc->kind == ROTA_CONDITIONAL_FOR;
    rota_decide_params first = {.kind = is_for ? ROTA_DECIDE_FOR : ROTA_DECIDE_WHILE},
                       next = {.kind = is_for ? ROTA_DECIDE_FOR_NEXT : ROTA_DECIDE_WHILE_NEXT};
    ROTA_TRY(add_handle(of, &first.handles[0]));
    next.handles[0] = first.handles[0];
    ROTA_TRY(add_first_step(of, &first));
    return add_one(of, ROTA_CUDA_CONDITIONAL_WHILE, first.handles[0], of->decision->bodies[0], &next);
}

/* A node each for what runs and for what runs else: one with both would run the latter where neither is to, since the
 * loop around it is over. */
static rota_status add_if(deciding *of) {
    rota_cuda_program *const *bodies = of->decision->bodies;
    const bool has_then = rota_cuda_body_runs(bodies[0]);
    const bool has_else = of->decision->desc->body_count > 1 && rota_cuda_body_runs(bodies[1]);
    rota_decide_params step = {.kind = has_then ? ROTA_DECIDE_IF : ROTA_DECIDE_IF_NOT};
    if (!has_then && !has_else) return ROTA_OK;
    ROTA_TRY(add_handle(of, &step.handles[0]));
    if (has_then && has_else) ROTA_TRY(add_handle(of, &step.handles[1]));
    ROTA_TRY(add_first_step(of, &step));
    ROTA_TRY(add_one(of, ROTA_CUDA_CONDITIONAL_IF, step.handles[0], bodies[has_then ? 0 : 1], NULL));
    if (step.handles[1]) return add_one(of, ROTA_CUDA_CONDITIONAL_IF, step.handles[1], bodies[1], NULL);
    return ROTA_OK;
}

static rota_status add_switch(deciding *of) {
    const uint32_t count = of->decision->desc->body_count;
    rota_decide_params step = {.kind = ROTA_DECIDE_SWITCH, .chosen = count};
    CUgraph *graphs = NULL;
    ROTA_TRY(add_handle(of, &step.handles[0]));
    ROTA_TRY(add_first_step(of, &step));
    ROTA_TRY(add_conditional(of, ROTA_CUDA_CONDITIONAL_SWITCH, count, step.handles[0], &graphs));
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(fill_graph(of, of->decision->bodies[i], graphs[i], NULL));
    return ROTA_OK;
}

static rota_status add_ifs(deciding *of, uint64_t *handles) {
    rota_cuda_program *const *bodies = of->decision->bodies;
    for (uint32_t i = 0; i < of->decision->desc->body_count; i++) {
        if (!rota_cuda_body_runs(bodies[i])) continue;
        rota_decide_params step = {.kind = ROTA_DECIDE_SWITCH_ONE, .chosen = i};
        ROTA_TRY(add_handle(of, &step.handles[0]));
        handles[i] = step.handles[0];
        ROTA_TRY(add_first_step(of, &step));
    }
    for (uint32_t i = 0; i < of->decision->desc->body_count; i++)
        if (rota_cuda_body_runs(bodies[i]))
            ROTA_TRY(add_one(of, ROTA_CUDA_CONDITIONAL_IF, handles[i], bodies[i], NULL));
    return ROTA_OK;
}

/* ---- Kinds, by a script ---- */

/* The step, and what stands before it, in a graph that ends there. */
static rota_status ask(deciding *of, rota_decide_params *step) {
    ROTA_TRY(add_first_step(of, step));
    ROTA_TRY(rota_cuda_building_cut(of->b));
    of->last = NULL; /* is complete to what comes next */
    of->before_count = 0;
    of->is_cut = true;
    return ROTA_OK;
}

/* A body, and behind it a step, if any, in graphs of their own. */
static rota_status add_body(deciding *of, const rota_cuda_program *body, rota_decide_params *next) {
    building inner = begin_body(of, body, of->b->graph);
    rota_status status = add_commands(of, &inner, next);
    if (status == ROTA_OK) status = rota_cuda_building_cut(&inner);
    of->b->graph = inner.graph;
    rota_cuda_building_free(&inner);
    return status;
}

/* Unless the answer is `value`, on behind the body; and from its end to that of the command. */
static rota_status add_choice(deciding *of, uint32_t answer, uint32_t value, const rota_cuda_program *body) {
    rota_cuda_script *script = of->b->script;
    const rota_cuda_line unless = {.kind = ROTA_CUDA_LINE_UNLESS, .answer = answer, .value = value},
                         go = {.kind = ROTA_CUDA_LINE_GO, .target = UINT32_MAX};
    const uint32_t first = script->count;
    ROTA_TRY(rota_cuda_script_add(script, &unless));
    ROTA_TRY(add_body(of, body, NULL));
    ROTA_TRY(rota_cuda_script_add(script, &go));
    script->lines[first].target = script->count;
    return ROTA_OK;
}

static rota_status script_loop(deciding *of) {
    const bool is_for = of->decision->desc->kind == ROTA_CONDITIONAL_FOR;
    rota_cuda_script *script = of->b->script;
    const uint32_t answer = rota_cuda_script_take_answers(script);
    rota_decide_params first = {.kind = is_for ? ROTA_DECIDE_FOR : ROTA_DECIDE_WHILE},
                       next = {.kind = is_for ? ROTA_DECIDE_FOR_NEXT : ROTA_DECIDE_WHILE_NEXT};
    first.handles[0] = next.handles[0] = rota_cuda_script_answer_address(script, answer);
    ROTA_TRY(ask(of, &first));
    const uint32_t top = script->count;
    const rota_cuda_line unless = {.kind = ROTA_CUDA_LINE_UNLESS, .answer = answer, .value = 1},
                         again = {.kind = ROTA_CUDA_LINE_GO, .target = top};
    ROTA_TRY(rota_cuda_script_add(script, &unless));
    ROTA_TRY(add_body(of, of->decision->bodies[0], &next));
    ROTA_TRY(rota_cuda_script_add(script, &again));
    script->lines[top].target = script->count;
    return ROTA_OK;
}

static rota_status script_if(deciding *of) {
    rota_cuda_script *script = of->b->script;
    rota_cuda_program *const *bodies = of->decision->bodies;
    const bool has_then = rota_cuda_body_runs(bodies[0]);
    const bool has_else = of->decision->desc->body_count > 1 && rota_cuda_body_runs(bodies[1]);
    if (!has_then && !has_else) return ROTA_OK;
    const uint32_t answer = rota_cuda_script_take_answers(script);
    rota_decide_params step = {.kind = has_then ? ROTA_DECIDE_IF : ROTA_DECIDE_IF_NOT,
                               .handles = {rota_cuda_script_answer_address(script, answer)}};
    if (has_then && has_else) step.handles[1] = rota_cuda_script_answer_address(script, answer + 1);
    ROTA_TRY(ask(of, &step));
    const uint32_t first = script->count;
    ROTA_TRY(add_choice(of, answer, 1, bodies[has_then ? 0 : 1]));
    if (step.handles[1]) ROTA_TRY(add_choice(of, answer + 1, 1, bodies[1]));
    rota_cuda_script_end(script, first);
    return ROTA_OK;
}

static rota_status script_switch(deciding *of) {
    rota_cuda_script *script = of->b->script;
    const uint32_t count = of->decision->desc->body_count, answer = rota_cuda_script_take_answers(script);
    rota_decide_params step = {.kind = ROTA_DECIDE_SWITCH,
                               .chosen = count,
                               .handles = {rota_cuda_script_answer_address(script, answer)}};
    ROTA_TRY(ask(of, &step));
    const uint32_t first = script->count;
    for (uint32_t i = 0; i < count; i++)
        if (rota_cuda_body_runs(of->decision->bodies[i]))
            ROTA_TRY(add_choice(of, answer, i, of->decision->bodies[i]));
    rota_cuda_script_end(script, first);
    return ROTA_OK;
}

static rota_status add_script(deciding *of) {
    const uint8_t kind = of->decision->desc->kind;
    if (rota_conditional_is_loop(kind)) return script_loop(of);
    return kind == ROTA_CONDITIONAL_IF ? script_if(of) : script_switch(of);
}

static rota_status add_kind(deciding *of) {
    const uint8_t kind = of->decision->desc->kind;
    if (of->b->script) return add_script(of);
    if (rota_conditional_is_loop(kind)) return add_loop(of);
    if (kind == ROTA_CONDITIONAL_IF) return add_if(of);
    if (of->b->device->stops.has_switches) return add_switch(of);
    uint64_t *handles = calloc(of->decision->desc->body_count + (size_t)1, sizeof *handles);
    if (!handles) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a switch");
    const rota_status status = add_ifs(of, handles);
    free(handles);
    return status;
}

rota_status rota_cuda_bodies_add(rota_cuda_building *b, uint32_t command, const CUgraphNode *before,
                                 size_t before_count, CUgraphNode *out_node) {
    deciding of = {.b = b,
                   .decision = b->program->dispatches[command].decision,
                   .command = &b->desc->commands[command],
                   .slots = b->program->dispatches[command].slot_mask,
                   .before = before,
                   .before_count = before_count};
    const bool is_outermost = !of.decision->outer;
    if (is_outermost && of.decision->has_state) b->root = &b->roots->all[b->next_root++];
    rota_status status = add_kind(&of);
    if (is_outermost) b->root = NULL;
    if (status == ROTA_OK && !of.last && !of.is_cut)
        status = rota_cuda_building_empty(b, before, before_count, &of.last);
    *out_node = of.last;
    return status;
}
