#!/usr/bin/env python3
"""Writes the probes of test_misuse (tests/interface/misuse.c): for each function that the public headers declare, a
call with everything right, and calls with one argument wrong each: a pointer NULL, an enum out of its range, a count of
0, a number far too large, a tensor, ticket, node or slot that is none. A function is known by its declaration alone;
what no table here has a value for is an error, so that a new one is not forgotten. misuse.py OUTPUT"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import exports  # noqa: E402

# A right value by type. Of tensors: see tensor().
VALUES = {
    "rota_runtime *": "w.runtime", "rota_device *": "w.device", "rota_buffer *": "w.buffer", "rota_graph *": "w.graph",
    "rota_recorder *": "w.recorder", "rota_tape *": "w.tape", "rota_plan *": "w.plan", "rota_args *": "w.args",
    "rota_rewriter *": "w.rewriter", "rota_ticket": "w.ticket", "rota_op *": 'rota_op_find("add")',
    "rota_op_use *": "&w.use", "rota_external_timeline *": "w.timeline", "rota_graph_file *": "w.file",
    "rota_graph_save_options *": "&ROTA_GRAPH_SAVE_OPTIONS()",
    "rota_graph_load_options *": "&ROTA_GRAPH_LOAD_OPTIONS()",
    "rota_graph_file_info *": "&ROTA_GRAPH_FILE_INFO()",
    "rota_kernel *": "&misuse_kernel", "rota_access *": "w.accesses", "rota_param_binding *": "w.bindings",
    "rota_kernel_node *": "&ROTA_KERNEL_NODE(.kernel = &misuse_kernel, .accesses = w.accesses, .access_count = 1, "
                          ".params = w.params, .bindings = w.bindings, .binding_count = 1)",
    "rota_host_node *": "&ROTA_HOST_NODE(.fn = misuse_host, .accesses = w.accesses, .access_count = 1)",
    "rota_if_node *": "&ROTA_IF_NODE(.condition = w.buffer, .body = misuse_new_body())",
    "rota_while_node *": "&ROTA_WHILE_NODE(.condition = w.buffer, .body = misuse_new_body(), .iterations_max = 1)",
    "rota_for_node *": "&ROTA_FOR_NODE(.count = w.buffer, .body = misuse_new_body(), .iterations_max = 1)",
    "rota_switch_node *": "&ROTA_SWITCH_NODE(.condition = w.buffer, .bodies = (rota_graph *[]){misuse_new_body()}, "
                          ".body_count = 1)",
    "rota_count *": "&ROTA_COUNT(.buffer = w.other, .offset_bytes = 60, .max = 1)",
    "rota_placement *": "&(rota_placement){0}", "rota_log *": "&(rota_log){0}", "rota_log_level": "ROTA_LOG_INFO",
    "rota_ticket_fn": "misuse_ended", "rota_rewrite_fn": "misuse_rewrite",
    "rota_status": "ROTA_BUSY", "rota_buffer_kind": "ROTA_BUFFER_TRANSIENT", "rota_access_mode": "ROTA_READ",
    "rota_dtype": "ROTA_F32",
    "rota_communicator *": "w.communicators[0]", "rota_collective_reduction": "ROTA_COLLECTIVE_SUM",
    "rota_sharding *": "misuse_sharding()", "rota_rank_part": "(rota_rank_part){0, 4, 8}",
    "rota_shard_piece **": "(const rota_shard_piece **)&w.out_object",
    "rota_communicator_options *": '&ROTA_COMMUNICATOR_OPTIONS(.transport = "alone")',
    "rota_host_run *": "(rota_host_run *)misuse_null",
    "rota_slot": "w.slot", "rota_value": "ROTA_PLAIN(1)", "float": "1", "double": "1", "int32_t": "1",
    "int": "misuse_eventfd()", "_Bool": "1", "...": '"text"',
    "char *": '"text"', "void *": "w.data", "void **": "&w.out_object",
    "rota_dlpack_form": "ROTA_DLPACK_FORM_UNVERSIONED", "rota_tensor *": "&w.tensor", "uint64_t *": "&w.out_u64",
    "uint32_t *": "&w.out_u32",
    "_Bool *": "&w.out_bool", "int *": "&w.out_int", "rota_slot *": "&w.out_slot", "rota_node *": "&w.out_node",
    "rota_ticket *": "&w.out_ticket",
    "rota_dtype *": "&w.out_dtype", "rota_gradient_write *": "&w.write", "rota_device_info *": "w.infos",
    "rota_plan_command *": "w.plan_commands",
    "rota_plan_time *": "w.times", "rota_plan_replay *": "&ROTA_PLAN_REPLAY()", "rota_node_view *": "&ROTA_NODE_VIEW()",
    "rota_rewrite_target *": "&ROTA_REWRITE_TARGET()", "rota_op_example *": "&(rota_op_example){0}",
    "rota_runtime_stats *": "&ROTA_RUNTIME_STATS()", "rota_plan_stats *": "&ROTA_PLAN_STATS()",
    "rota_runtime_options *": '&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "")',
    "rota_graph_options *": "&ROTA_GRAPH_OPTIONS()", "rota_compile_options *": "&ROTA_COMPILE_OPTIONS()",
    "rota_placing *": "&ROTA_PLACING(.device_count = 1)", "uint8_t *": "(uint8_t *)w.data",
    "double *": "(double *)(void *)w.data", "rota_draw_options *": "&ROTA_DRAW_OPTIONS()",
    "rota_adopt_options *": "&ROTA_ADOPT_OPTIONS(.memory = misuse_pages, .size_bytes = 64)",
    "rota_memory_export *": "&ROTA_MEMORY_EXPORT()", "rota_vulkan_device *": "&ROTA_VULKAN_DEVICE()",
    "rota_cuda_context *": "&ROTA_CUDA_CONTEXT(.index = 77)",
    "rota_submit_options *": "&ROTA_SUBMIT_OPTIONS(.args = w.args)", "rota_tape_options *": "&ROTA_TAPE_OPTIONS()",
    "rota_backward_options *": "&ROTA_BACKWARD_OPTIONS()",
    "rota_unshard *": "&ROTA_UNSHARD()",
    "rota_linear *": "&ROTA_LINEAR()", "rota_classifier *": "&ROTA_CLASSIFIER(.ignored = -100)",
    "rota_rope *": "&ROTA_ROPE(.offset = ROTA_CONSTANT(0), .base = 10000)",
    "rota_conv *": "&ROTA_CONV(.stride = {1, 1})", "rota_pool *": "&ROTA_POOL(.window = {1, 1})",
    "rota_batch_norm *": "&ROTA_BATCH_NORM(.axis = 1, .eps = 1e-5f, .momentum = 0.1f, "
                         ".running_mean = TENSOR(20, ROTA_F32, 4), .running_variance = TENSOR(21, ROTA_F32, 4))",
    "rota_adamw *": "&ROTA_ADAMW(.lr = ROTA_CONSTANT(0.1), .step = ROTA_CONSTANT(1), .beta1 = 0.9f, .beta2 = 0.9f, "
                    ".eps = 1e-8f)",
    "rota_sgd *": "&ROTA_SGD(.lr = ROTA_CONSTANT(0.1), .momentum = 0.9f)",
    "rota_lion *": "&ROTA_LION(.lr = ROTA_CONSTANT(0.1), .beta1 = 0.9f, .beta2 = 0.9f)",
    "rota_loss_scale *": "&ROTA_LOSS_SCALE(.interval = 10, .growth = 2, .backoff = 0.5f, .max_norm = 1)",
}
OBJECTS = ("buffer", "graph", "recorder", "tape", "plan", "args", "runtime", "device", "external_timeline",
           "graph_file", "communicator", "sharding")
VALUES |= {f"rota_{name} **": f"(rota_{name} **)&w.out_object" for name in OBJECTS}

# By type and name, of every function; then, in OF, by function and name.
NAMED = {
    "rota_tensor *": {
        "out_views": "w.out_tensors", "out_tensors": "w.out_tensors",
        "tensors": "w.tensors", "losses": "&w.loss", "params": "w.tensors",
        "grads": "w.grads",
        "out_index": "&w.out_tensors[1]", "out_scores": "&w.out_tensors[1]", "out_sum": "&w.out_tensors[1]"},
    "uint64_t *": {"shape": "w.shape", "out_shape": "w.out_shape", "out_end_ns": "&w.out_u64_b"},
    "uint32_t *": {"order": "w.order"}, "char *": {"path": '"/dev/null"', "format": '"%s"'},
    "rota_buffer *": {"destination": "w.other", "input": "w.input", "output": "w.output",
                      "slot_buffer": "w.slot_buffer"},
    "rota_node": {"later": "w.later", "earlier": "w.earlier", "node": "w.planned_node"},
    "void *": {"user": "&w", "params": "w.params"},
    "rota_value": {"seed": "ROTA_CONSTANT(1)", "step": "ROTA_CONSTANT(1)", "low": "ROTA_PLAIN(0)"},
    "float": {"p": "0.5f", "eps": "1e-5f", "decay": "0.9f"}, "_Bool": {"transpose_a": "0", "transpose_b": "0"},
}
NUMBERS = {
    "capacity": "sizeof w.text", "rank": "2", "axis": "0", "axis_a": "0", "axis_b": "1", "count": "1",
    "loss_count": "1", "start": "0",
    "length": "4", "size_bytes": "64", "offset_bytes": "0", "destination_offset_bytes": "0",
    "source_offset_bytes": "64",
    "param_bytes": "4", "nodes": "1", "accesses": "1", "order_key": "7", "pattern": "0", "position": "2", "into": "3",
    "timeout_ns": "1000000000", "idle_ns": "0", "value": "1", "groups": "2", "classes": "4", "k": "2", "index": "0",
    "size": "0", "root": "0", "to": "1", "from": "1", "color": "0", "key": "0", "whole": "8",
    "output": "0", "inputs": "3", "binding_count": "1", "bindable": "0", "wanted": "1",
}
OF = {
    "rota_runtime_close": {"runtime": "misuse_new_runtime()"}, "rota_buffer_release": {"buffer": "misuse_new_buffer()"},
    "rota_graph_release": {"graph": "misuse_new_graph()"}, "rota_plan_release": {"plan": "misuse_new_plan()"},
    "rota_args_release": {"args": "misuse_new_args()"}, "rota_recorder_close": {"recorder": "misuse_take_recorder()"},
    "rota_tape_destroy": {"tape": "misuse_take_tape()"},
    "rota_tensor_from_dlpack": {"managed": "misuse_managed()"},
    "rota_stream_signal": {"stream": "w.data"}, "rota_stream_wait": {"stream": "w.data"},
    "rota_stream_follow": {"stream": "w.data"},
    "rota_external_timeline_adopt": {"semaphore": "w.data"},
    "rota_external_timeline_release": {"timeline": "misuse_new_timeline()"},
    "rota_device_open": {"id": '"cpu"'}, "rota_open": {"id": '"cpu"'}, "rota_close": {"device": "misuse_new_device()"},
    "rota_tape_compile": {"tape": "misuse_device_tape()"}, "rota_tape_submit": {"tape": "misuse_device_tape()",
            "options": "&ROTA_SUBMIT_OPTIONS()"},
    "rota_devices": {"capacity": "4"},
    "rota_args_set_f32": {"slot": "w.f32_slot"}, "rota_args_set_u32": {"slot": "w.u32_slot"},
    "rota_args_set_u64": {"slot": "w.u64_slot"}, "rota_args_set_buffer": {"buffer": "w.other"},
    "rota_plan_get_commands": {"out_commands": "w.plan_commands", "capacity": "w.commands"},
    "rota_plan_command_times": {"out_times": "w.times", "capacity": "w.commands"},
    "rota_rewriter_note": {"text": '"note"'}, 
    "rota_compile": {"graph": "misuse_closed_graph()"}, "rota_kernel_find": {"name": '"matmul"'},
    "rota_op_find": {"name": '"add"'},
    "rota_graph_save": {"graph": "misuse_closed_graph()"}, "rota_graph_load": {"path": "w.file_path"},
    "rota_graph_file_release": {"file": "misuse_new_file()"},
    "rota_sharding_release": {"sharding": "misuse_take_sharding()"},
    "rota_graph_file_find_buffer": {"name": '"filed"'}, "rota_graph_file_find_slot": {"name": '"slot"'},
    "rota_graph_file_prepare": {"args": "NULL"},
    "rota_capture": {"user": "misuse_folder", "graph": "misuse_closed_graph()"},
    "rota_capture_contents": {"user": "misuse_folder", "graph": "misuse_closed_graph()"},
    "rota_communicator_open_ranks": {"runtimes": "(rota_runtime *[1]){w.runtime}", "size": "1",
                                     "options": "&ROTA_COMMUNICATOR_OPTIONS()"},
    "rota_communicator_open_split": {"communicator": "misuse_alone()"},  # others' ranks do not come
    "rota_communicator_abort": {"communicator": "misuse_alone()"},
    "rota_communicator_close": {"communicator": "misuse_new_communicator()"},
    "rota_sharding_gather_shards": {"shard": "misuse_shard()"}, "rota_sharding_take": {"shard": "misuse_shard()"},
    "rota_sharding_tensors": {"sharding": "misuse_group()"},
    "rota_sharding_reduce": {"sharding": "misuse_group()", "shard": "misuse_shard()"},
    "rota_sharding_unshard": {"sharding": "misuse_group()", "shard": "misuse_shard()"},
    "rota_tensor_split": {"count": "2"}, "rota_value_bind": {"count": "&w.out_u32"},
    "rota_graph_slot": {"name": '"another"', "size_bytes": "4"},
    "rota_backward": {"loss": "w.loss"},
    "rota_op_concat": {"count": "2"}, "rota_op_global_norm": {"count": "2"}, "rota_op_clip_global_norm": {"count": "2"},
    "rota_gradient_end": {"write": "misuse_begun()"},
    "rota_op_cast": {"dtype": "ROTA_F16"}, "rota_op_f8_scale": {"dtype": "ROTA_F8_E5M2"},
    "rota_op_quantize": {"dtype": "ROTA_F8_E5M2"}, "rota_op_scaled_matmul": {"dtype": "ROTA_BF16"},
    "rota_tensor_describe": {"text": "w.text"},
    "rota_plan_explain": {"text": "w.text"}, "rota_plan_explain_kernel": {"text": "w.text"},
    "rota_op_conv2d_backward_weight": {"kh": "1", "kw": "1"},
    "rota_op_max_pool2d_backward": {"height": "2", "width": "2"},
    "rota_op_avg_pool2d_backward": {"height": "2", "width": "2"},
}
for gradient in ("wanted", "add", "target", "begin", "end"):
    OF.setdefault(f"rota_gradient_{gradient}", {})["x"] = "&w.use.inputs[0]"
OF["rota_gradient_add"]["contribution"] = "&w.use.inputs[0]"

# Dtype and shape of tensors; without an entry f32 [4, 4]. An op's form with a destination has the same.
TENSORS = {
    "bias_gelu": {"bias": "F32 4"}, "gather": {"index": "I32 4,4"}, "scatter_add": {"index": "I32 4,4"},
    "cast": {"y": "F16 4,4"},
    "concat": {"y": "F32 8,4"}, "one_hot": {"index": "I32 4"}, "variance": {"y": "F32 1,4"}, "sum": {"y": "F32 1,4"},
    "mean": {"y": "F32 1,4"}, "max": {"y": "F32 1,4"}, "min": {"y": "F32 1,4"}, "argmax": {"y": "I32 1,4"},
    "sum_squares": {"y": "F32 1"}, "embedding": {"index": "I32 4"}, "embedding_of_ranks": {"index": "I32 4"},
    "layernorm": {"weight": "F32 4", "bias": "F32 4"},
    "rmsnorm": {"weight": "F32 4"}, "residual_layernorm": {"weight": "F32 4", "bias": "F32 4"},
    "group_norm": {"weight": "F32 4", "bias": "F32 4"}, "cross_entropy": {"labels": "I32 4", "loss": "F32 1"},
    "classifier": {"labels": "I32 4"}, "classifier_of_ranks": {"labels": "I32 4"},
    "index_add": {"index": "I32 4", "y": "I32 4"},
    "loss_scale": {"norm": "F32 1", "state": "F32 2"},
    "scaled_matmul": {"a": "F8_E4M3FN 4,4", "b": "F8_E4M3FN 4,4", "scale_a": "F32 1", "scale_b": "F32 1",
                      "bias": "BF16 4", "y": "BF16 4,4"},
    "reduce_scatter": {"y": "F32 2,4"}, "all_gather": {"y": "F32 8,4"},
    "nonzero": {"index": "I32 16", "count": "I32 1"}, "compact": {"mask": "F32 4", "count": "I32 1"},
    "unique": {"y": "F32 16", "count": "I32 1", "inverse": "I32 4,4"},
    "top_p": {"index": "I32 4,4", "count": "I32 4,1"},
}
for op in ("conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d"):
    TENSORS[op] = {"x": "F32 1,4,2,2", "w": "F32 4,4,1,1", "y": "F32 1,4,2,2"}
for op in ("conv2d_backward_weight", "max_pool2d_backward", "avg_pool2d_backward"):
    TENSORS[op] = {"x": "F32 1,4,2,2", "dy": "F32 1,4,2,2", "index": "I32 1,4,2,2"}
for op in ("conv1d", "max_pool1d", "avg_pool1d"):
    TENSORS[op] = {"x": "F32 1,4,4", "w": "F32 4,4,1"}
for op in ("attention", "attention_dropout", "attention_separate", "attention_residual", "weighted_matmul"):
    TENSORS[op] = dict.fromkeys(("q", "k", "v", "y", "previous", "weight", "value"), "F32 1,1,4,4")

# What may be NULL, as documented, by function and name; "any": of every function.
OPTIONAL = {
    "any": {"options", "user", "out_ticket", "out_node"},
    "rota_graph_create_body": {"name"}, "rota_buffer_create": {"name"}, "rota_buffer_create_in": {"name"},
    "rota_recorder_open": {"name"},
    "rota_runtime_buffer": {"name"}, "rota_device_tensor": {"name", "data"},
    "rota_graph_buffer": {"name"}, "rota_external_timeline_create": {"name"}, "rota_external_timeline_adopt": {"name"},
    "rota_external_timeline_import": {"name"}, "rota_tensor_from_dlpack": {"name"},
    "rota_recorder_buffer": {"name"}, "rota_tape_name": {"name"}, "rota_tape_tensor": {"name"},
    "rota_tape_temporary": {"name"},
    "rota_device_open": {"id"}, "rota_devices": {"out_infos"}, "rota_buffer_write": {"device"}, "rota_submit": {"args"},
    "rota_submit_wait": {"args"}, "rota_plan_explain": {"out_length", "text"},
    "rota_plan_explain_kernel": {"out_length", "text"},
    "rota_plan_command_times": {"out_replay"},
    "rota_op_unique": {"out_inverse"},
    "rota_op_check_finite": {"out_found"}, "rota_op_max_pool1d": {"out_index"}, "rota_op_max_pool2d": {"out_index"},
    "rota_tensor_of": {"buffer"}, "rota_tape_kernel": {"params", "bindings"},
    "rota_op_fail": {"op"}, "rota_runtime_close": {"runtime"}, "rota_compile": {"runtime"}, "rota_open": {"id"},
    "rota_close": {"device"},
    "rota_tensor_create": {"name", "data"}, "rota_graph_file_prepare": {"device", "args"},
    "rota_capture": {"plan"}, "rota_capture_contents": {"plan"}, "rota_host_end": {"run"},
    "rota_communicator_open_split": {"name"}, "rota_communicator_part": {"communicator"},
    "rota_communicator_close": {"communicator"},
}
REQUIRED = {"rota_buffer_adopt", "rota_op_batch_norm", "rota_op_rope", "rota_op_adamw", "rota_op_sgd", "rota_op_lion",
            "rota_op_loss_scale", "rota_op_max_pool1d", "rota_op_max_pool2d", "rota_op_avg_pool1d",
            "rota_op_avg_pool2d", "rota_op_max_pool2d_backward", "rota_op_avg_pool2d_backward"}  # options
NONE_ALLOWED = {"layernorm": {"weight", "bias"}, "rmsnorm": {"weight"}, "residual_layernorm": {"weight", "bias"},
                "group_norm": {"weight", "bias"}, "attention_residual": {"previous"}, "sgd": {"m"},
                "unique": {"inverse"}, "scaled_matmul": {"bias"}}
# What the world's device, the CPU, has not: a sentence says so.
NOT_ON_CPU = {"rota_stream_signal", "rota_stream_wait", "rota_stream_follow",
              "rota_device_open_vulkan", "rota_device_open_cuda",
              "rota_external_timeline_adopt", "rota_external_timeline_promise", "rota_external_timeline_import",
              "rota_external_timeline_export", "rota_buffer_export",
              "rota_buffer_export_dma_buf"}
# Whose status is what it was given.
GIVEN_STATUS = {"rota_fail", "rota_fail_context", "rota_op_fail"}
# Calls that wait, or take what a number counts.
NOT_LARGE = {"timeout_ns", "idle_ns", "capacity", "count", "loss_count", "binding_count", "order_key", "pattern",
             "value", "eventfd",
             "inputs", "bindable", "size", "correction"}
FREELY = {"rota_recorder_reserve"}  # sizes that memory must be there for


class Parameter:
    def __init__(self, text):
        text = text.replace("const ", "").replace(" const", "").strip()
        found = re.fullmatch(r"(.*?[ *])(\w+)", text)
        self.type, self.name = (found[1].strip(), found[2]) if found else (text, "")
        self.is_pointer = self.type.endswith("*") or self.type in ("rota_ticket_fn", "rota_rewrite_fn")


def base_op(function):
    return function.removeprefix("rota_op_").removesuffix("_into")


def value(function, parameter, position):
    """A right value, as C has it."""
    twin = function.removesuffix("_into")
    for known in (OF.get(function, {}), OF.get(twin, {})):
        if parameter.name in known:
            return known[parameter.name]
    if parameter.type == "rota_tensor":
        dtype, shape = TENSORS.get(base_op(function), {}).get(parameter.name, "F32 4,4").split()
        return f"TENSOR({position + 8}, ROTA_{dtype}, {shape})"
    if parameter.name in NAMED.get(parameter.type, {}):
        return NAMED[parameter.type][parameter.name]
    if parameter.type == "rota_tensor *" and parameter.name.startswith("out"):
        return "&w.out_tensor"
    if parameter.type in ("uint32_t", "uint64_t") and parameter.name in NUMBERS:
        return NUMBERS[parameter.name]
    if parameter.type in VALUES:
        return VALUES[parameter.type]
    sys.exit(f"{function}: no value is known for `{parameter.type} {parameter.name}`: add it to the tables of "
             f"{sys.argv[0]}")


def wrong(function, parameter, right, enums):
    """What may be put in a right value's place, each with what it is called and what is expected."""
    op = base_op(function)
    if parameter.is_pointer:
        optional = parameter.name in OPTIONAL["any"] | OPTIONAL.get(function, set())
        if parameter.name == "options" and function in REQUIRED:
            optional = False
        yield "NULL", f"({parameter.type})misuse_null", "ALLOWED" if optional else "NULL"
        if right.startswith("&ROTA_"):  # begins with its size
            yield "without its size", f"&({parameter.type.removesuffix(' *')}){{0}}", "REFUSED"
        if parameter.type == "rota_tensor *" and not parameter.name.startswith(("out", "grads")):
            yield "none", "&(rota_tensor){0}", "ALLOWED"
            for fault in ("dtype", "rank", "offset"):
                yield f"of a wrong {fault}", f"(rota_tensor[2]){{misuse_tensor_{fault}(w.tensor), w.tensor}}", "ALLOWED"
    elif parameter.type in enums:
        yield "77", f"({parameter.type})77", "REFUSED"
        yield "-1", f"({parameter.type})-1", "REFUSED"
    elif parameter.type == "rota_tensor":
        yield "none", "ROTA_TENSOR_NONE", "ALLOWED" if parameter.name in NONE_ALLOWED.get(op, set()) else "REFUSED"
        for fault in ("dtype", "rank", "offset"):
            yield f"of a wrong {fault}", f"misuse_tensor_{fault}({right})", "REFUSED"
    elif parameter.type == "rota_rank_part":
        yield "empty", "(rota_rank_part){0, 0, 8}", "REFUSED"
        yield "past the whole", "(rota_rank_part){6, 4, 8}", "REFUSED"
        yield "too large", "(rota_rank_part){UINT64_MAX, 4, UINT64_MAX}", "REFUSED"
    elif parameter.type == "rota_value":
        yield "of kind 77", "(rota_value){(rota_value_kind)77, {0}, 1}", "REFUSED"
        yield "of slot 0", "ROTA_SLOT((rota_slot){0})", "REFUSED"
        yield "of slot 999", "ROTA_SLOT((rota_slot){999})", "REFUSED"
    elif parameter.type == "rota_ticket":
        yield "none", "(rota_ticket){0}", "REFUSED"
        yield "made up", "(rota_ticket){w.runtime, UINT64_MAX}", "REFUSED"
        yield "of no runtime", "(rota_ticket){(rota_runtime *)&w, 1}", "REFUSED"
    elif parameter.type == "rota_slot":
        yield "none", "(rota_slot){0}", "REFUSED"
        yield "999", "(rota_slot){999}", "REFUSED"
    elif parameter.type == "rota_node":
        expected = "ALLOWED" if parameter.name == "earlier" else "REFUSED"  # of another lane: compile knows
        yield "999", "(rota_node){999, 0}", expected
        yield "999 of lane 0", "(rota_node){0, 999}", expected
    elif parameter.type in ("uint32_t", "uint64_t"):
        yield "0", "0", "ALLOWED"
        if parameter.name not in NOT_LARGE and function not in FREELY:
            yield "far too large", "UINT64_MAX" if parameter.type == "uint64_t" else "UINT32_MAX", "ALLOWED"
    elif parameter.type in ("float", "double"):
        yield "NaN", "NAN", "ALLOWED"
    elif parameter.type == "int32_t":
        yield "INT32_MIN", "INT32_MIN", "ALLOWED"
    elif parameter.type == "int":
        yield "-1", "-1", "REFUSED"
    elif parameter.type not in ("_Bool", "..."):
        sys.exit(f"{function}: nothing is known of what may be wrong with `{parameter.type} {parameter.name}`")


class Function:
    def __init__(self, declaration):
        declaration = re.sub(r"\s*__attribute__.*", "", declaration)
        found = re.fullmatch(r"(.*?)(\w+)\((.*)\)", declaration)
        self.result, self.name = found[1].strip(), found[2]
        self.parameters = [] if found[3] == "void" else [Parameter(text) for text in found[3].split(", ")]
        self.context = "PLAIN"
        if any(parameter.type == "rota_rewriter *" for parameter in self.parameters):
            self.context = "REWRITE"
        elif self.name.startswith("rota_gradient_"):
            self.context = "GRADIENT"

    def has(self, *types):
        return any(parameter.type in types for parameter in self.parameters)


def probes(function, enums):
    """Of each call: what is wrong, where it is made, what ended before, what is expected, and the arguments."""
    right = [value(function.name, parameter, position) for position, parameter in enumerate(function.parameters)]
    expected = "REFUSED" if function.name in NOT_ON_CPU else "RIGHT"
    if function.name in GIVEN_STATUS:
        expected = "NO_STATUS"
    yield "with everything right", function.context, "NOTHING", expected, right
    for index, parameter in enumerate(function.parameters):
        for what, argument, expected in wrong(function.name, parameter, right[index], enums):
            if function.name in GIVEN_STATUS:
                expected = "NO_STATUS"
            arguments = right[:index] + [argument] + right[index + 1:]
            yield f"{parameter.name} {what}", function.context, "NOTHING", expected, arguments
    if function.context == "GRADIENT":
        yield "outside of a gradient", "PLAIN", "NOTHING", "ALLOWED", right
    if function.context == "PLAIN" and function.has("rota_recorder *", "rota_tape *", "rota_graph *"):
        yield "after the recorder was closed and the graph compiled", "PLAIN", "RECORDER", "ALLOWED", right
    # What a device's end leaves of it can't be known.
    if function.has("rota_runtime *", "rota_plan *", "rota_args *", "rota_ticket", "rota_external_timeline *",
                    "rota_buffer *") and not function.has("rota_device *"):
        yield "after the runtime was closed", "PLAIN", "RUNTIME", "ALLOWED", right


def of_graph_files(function):
    """Whether it is of graph files, which a library without libcbor has none of."""
    return function.has("rota_graph_file *", "rota_graph_file **") or \
        function.name in ("rota_graph_save", "rota_capture", "rota_capture_contents")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    functions = [Function(declaration) for declaration in exports.declarations()]
    enums = exports.enums()
    table = []
    lines = ['/* Written by tests/interface/misuse.py. */', '#include "tests/interface/misuse.h"', "",
             "/* What is deprecated takes misuse as well. */",
             '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"', "",
             "#define TENSOR(place, dtype, ...) misuse_tensor(place, dtype, ROTA_SHAPE(__VA_ARGS__))",
             "static void *volatile misuse_null;", ""]
    for function in functions:
        for what, context, end, expected, arguments in probes(function, enums):
            call = f"{function.name}({', '.join(arguments)})"
            if function.result == "rota_status":
                body = f"return {call};"
            else:
                body, expected = f"(void){call}; return ROTA_OK;", "NO_STATUS"
            probe = f"probe_{len(lines)}"
            lines.append(f"static rota_status {probe}(void) {{ {body} }}")
            if of_graph_files(function):
                table.append("#ifdef ROTA_HAVE_CBOR")
            table.append(f'    {{"{function.name}", "{what}", MISUSE_{context}, MISUSE_{end}, MISUSE_{expected}, '
                         f'{probe}}},')
            if of_graph_files(function):
                table.append("#endif")
    lines += ["", "const misuse_probe misuse_probes[] = {", *table, "};",
              "const uint32_t misuse_probe_count = sizeof misuse_probes / sizeof *misuse_probes;", ""]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines))


main()
