/* Plans: compiling a graph, calling what came of it, and seeing it. */
#include "plan.h"
#include "streams.h"

using PlanRef = std::shared_ptr<Plan>;

/* Ends the recording; the graph is locked. What is fused is so in every plan of the graph. */
static void end_recording(GraphCore &core, bool fuse) {
    if (core.ended) return;
    if (fuse) check(rota_graph_fuse(core.graph));
    rota_node last{};
    if (rota_recorder_last_node(core.recorder, &last) == ROTA_OK) core.lane = last.lane;
    rota_recorder_close(core.recorder);
    core.ended = true;
}

static rota_packing packing_of(const std::string &name) {
    if (name == "tight") return ROTA_PACK_TIGHT;
    if (name == "concurrent") return ROTA_PACK_CONCURRENT;
    fail(ROTA_INVALID_ARGUMENT, "packing is 'tight' or 'concurrent', not '" + name + "'");
}

/* A plan's device and, of the same runtime, those that nodes may be placed on, too; they are the runtime's. */
static std::vector<rota_device *> open_all(DeviceCore &first, const std::vector<std::string> &others) {
    std::vector<rota_device *> all{first.device};
    for (const std::string &id : others) {
        rota_device *device = nullptr;
        check_released([&] { return rota_device_open(first.runtime, id.c_str(), &device); });
        for (const rota_device *one : all)
            if (one == device)
                fail(ROTA_INVALID_ARGUMENT, "also_on names device '" + id + "', which it is on");
        all.push_back(device);
    }
    return all;
}

static PlanRef compile(const Graph &core, const std::shared_ptr<DeviceCore> &given,
                       const std::vector<std::string> &also_on, const std::optional<std::string> &name,
                       const std::string &packing, bool fuse, uint32_t instances, uint32_t arenas,
                       uint32_t queues, bool transfer_queue, uint64_t memory_limit, bool certify,
                       bool check_kernels, bool deterministic, bool analyse) {
    auto plan = std::make_shared<Plan>();
    Locked lock(core->mutex);
    plan->device = analyse ? nullptr : given ? given : core->device;
    if (!plan->device && !analyse)
        fail(ROTA_INVALID_ARGUMENT,
             "graph '" + core->name + "' has no device yet: compile(device), or analyse=True");
    rota_compile_options options = ROTA_COMPILE_OPTIONS();
    options.name = name ? name->c_str() : nullptr;
    options.packing = packing_of(packing);
    options.instances = instances;
    options.arenas = arenas;
    options.queues = queues;
    options.transfer_queue = transfer_queue;
    options.memory_limit_bytes = memory_limit;
    options.certify = certify;
    options.check_kernels = check_kernels;
    options.deterministic = deterministic;
    std::optional<Use> use;
    if (plan->device) use.emplace(*plan->device);
    if (!plan->device && !also_on.empty())
        fail(ROTA_INVALID_ARGUMENT, "also_on is of a plan that has a device; analyse=True has none");
    std::vector<rota_device *> devices;
    if (plan->device) devices = open_all(*plan->device, also_on);
    options.devices = devices.data();
    options.device_count = static_cast<uint32_t>(devices.size());
    options.place_auto = devices.size() > 1;
    /* Arrays of other libraries may lie in the memory of the device's tensors, or be it: they see what a plan has
     * written there, and are seen, without rota being asked. */
    options.place_persistent_first = options.place_auto;
    end_recording(*core, fuse);
    check_released([&] {
        return rota_compile(plan->device ? plan->device->runtime : nullptr, core->graph, &options,
                            &plan->plan);
    });
    plan->graph = core;
    plan->lane = core->lane;
    plan->name = name ? *name : core->name;
    plan->args = core->args;
    plan->holds = !core->anchors->empty();
    for (const Arg &arg : plan->args)
        plan->holds = plan->holds || arg.kind == ArgKind::INPUT || arg.kind == ArgKind::OUTPUT;
    return plan;
}

/* ---- Calling ---- */

Number own_number(Plan &plan, const Arg &arg) {
    if (arg.counts) {
        const uint64_t call = plan.calls.fetch_add(1, std::memory_order_relaxed) + 1;
        return {static_cast<double>(call), call};
    }
    return {*arg.preset, arg.slot.type == ROTA_VALUE_F32 ? 0 : static_cast<uint64_t>(*arg.preset)};
}

rota_status set_number(rota_args *set, const Arg &arg, Number number) {
    if (arg.slot.type == ROTA_VALUE_F32)
        return rota_args_set_f32(set, arg.slot.slot, static_cast<float>(number.real));
    if (arg.slot.type == ROTA_VALUE_U32)
        return rota_args_set_u32(set, arg.slot.slot, static_cast<uint32_t>(number.whole));
    return rota_args_set_u64(set, arg.slot.slot, number.whole);
}

static std::string what_of(const Plan &plan, const Arg &arg) {
    return "plan '" + plan.name + "': argument '" + arg.name + "'";
}

static void set_scalar(Plan &plan, rota_args *set, const Arg &arg, PyObject *given) {
    if (!given && !arg.counts && !arg.preset) fail(ROTA_INVALID_ARGUMENT, what_of(plan, arg) + " is missing");
    if (!given) return check(set_number(set, arg, own_number(plan, arg)));
    Number number{};
    if (arg.slot.type == ROTA_VALUE_F32)
        number.real = PyFloat_AsDouble(given);
    else
        number.whole = PyLong_AsUnsignedLongLong(given);
    const bool fits = arg.slot.type != ROTA_VALUE_U32 || number.whole <= UINT32_MAX;
    if (PyErr_Occurred() || !fits) {
        PyErr_Clear();
        fail(ROTA_INVALID_ARGUMENT, what_of(plan, arg) + " is a number, " +
                                        (arg.slot.type == ROTA_VALUE_F32   ? "f32"
                                         : arg.slot.type == ROTA_VALUE_U32 ? "u32, from 0 to 4294967295"
                                                                           : "u64") +
                                        ", not " + nb::cast<std::string>(nb::repr(given)));
    }
    check(set_number(set, arg, number));
}

static void set_buffer(Plan &plan, rota_args *set, const Arg &arg, nb::handle given) {
    const Tensor *tensor;
    if (!nb::try_cast(given, tensor) || !tensor->device)
        fail(ROTA_INVALID_ARGUMENT,
             what_of(plan, arg) + " is a tensor of a device, not " + nb::cast<std::string>(nb::repr(given)));
    if (tensor->t.dtype != arg.tensor.dtype || extents(tensor->t) != extents(arg.tensor) ||
        !rota_tensor_is_contiguous(&tensor->t)) {
        char text[ROTA_TENSOR_TEXT_MAX];
        fail(ROTA_INVALID_ARGUMENT, what_of(plan, arg) + " is contiguous, " +
                                        rota_tensor_describe(&arg.tensor, text, sizeof text) +
                                        ", the tensor is " + tensor->describe());
    }
    const uint64_t bytes = rota_shape_bytes(tensor->t.dtype, tensor->t.rank, tensor->t.shape);
    rota_buffer *view;
    check(rota_buffer_create_view(tensor->t.buffer, tensor->t.offset_bytes, bytes, &view));
    const rota_status status = rota_args_set_buffer(set, arg.tensor.buffer, view);
    rota_buffer_release(view);
    check(status);
}

static uint64_t bytes_of(const rota_tensor &t) {
    return rota_shape_bytes(t.dtype, t.rank, t.shape);
}

static void set_input(Plan &plan, rota_args *set, const Arg &arg, nb::handle given, Submission *submission) {
    HostArray host = borrow(given, arg.tensor, false, what_of(plan, arg));
    check(rota_args_set_input(set, arg.tensor.buffer, host.data, bytes_of(arg.tensor), arg.copy));
    submission->arrays.push_back(std::move(host));
}

static void set_output(Plan &plan, rota_args *set, const Arg &arg, nb::handle given, Submission *submission,
                       Ticket *ticket) {
    Output output{arg.key, arg.tensor, {}, nb::object()};
    if (given.is_valid()) {
        output.memory = borrow(given, arg.tensor, true, what_of(plan, arg));
        output.given = nb::borrow(given);
    } else {
        output.memory = host_memory(arg.tensor);
    }
    check(rota_args_set_output(set, arg.tensor.buffer, output.memory.data, bytes_of(arg.tensor)));
    submission->arrays.push_back(output.memory);
    ticket->outputs.push_back(std::move(output));
}

[[noreturn]] static void fail_unknown(const Plan &plan, nb::handle keywords, const char *what, bool outputs) {
    std::string known, unknown;
    for (const Arg &arg : plan.args)
        if ((arg.kind == ArgKind::OUTPUT) == outputs) known += (known.empty() ? "" : ", ") + arg.name;
    for (nb::handle key : keywords) {
        const std::string name = nb::cast<std::string>(nb::str(key));
        bool found = !outputs && (name == "out" || name == "after");
        for (const Arg &arg : plan.args)
            found = found || ((arg.kind == ArgKind::OUTPUT) == outputs && arg.name == name);
        if (!found) unknown = name;
    }
    fail(ROTA_NOT_FOUND, "plan '" + plan.name + "' has no " + what + " '" + unknown + "'; it has " +
                             (known.empty() ? "none" : known));
}

/* Sets every argument from the keywords of a call. */
static void set_arguments(Plan &plan, rota_args *set, nb::handle keywords, Submission *submission,
                          Ticket *ticket) {
    PyObject *const dict = keywords.ptr();
    PyObject *const out = PyDict_GetItemString(dict, "out");
    if (out && !PyDict_Check(out))
        fail(ROTA_INVALID_ARGUMENT, "plan '" + plan.name + "': out is a dict of arrays");
    Py_ssize_t taken = (out ? 1 : 0) + (PyDict_GetItemString(dict, "after") ? 1 : 0), taken_out = 0;
    for (const Arg &arg : plan.args) {
        PyObject *const from = arg.kind == ArgKind::OUTPUT ? out : dict;
        PyObject *const given = from ? PyDict_GetItemWithError(from, arg.key.ptr()) : nullptr;
        if (given) (arg.kind == ArgKind::OUTPUT ? taken_out : taken)++;
        if (arg.kind == ArgKind::SCALAR) {
            set_scalar(plan, set, arg, given);
        } else if (arg.kind == ArgKind::OUTPUT) {
            set_output(plan, set, arg, given, submission, ticket);
        } else if (!given) {
            fail(ROTA_INVALID_ARGUMENT, what_of(plan, arg) + " is missing");
        } else if (arg.kind == ArgKind::INPUT) {
            set_input(plan, set, arg, given, submission);
        } else {
            set_buffer(plan, set, arg, given);
        }
    }
    if (taken != PyDict_Size(dict)) fail_unknown(plan, keywords, "argument", false);
    if (out && taken_out != PyDict_Size(out)) fail_unknown(plan, out, "output", true);
}

void submit_plan(Plan &plan, rota_args *set, const After *after, rota_ticket *out_ticket) {
    rota_submit_options options = ROTA_SUBMIT_OPTIONS();
    options.args = set;
    options.no_wait = true;
    if (after && after->count()) {
        options.after = after->points();
        options.after_count = after->count();
    }
    rota_status status = rota_submit_with(plan.plan, &options, out_ticket);
    if (status != ROTA_BUSY) return check(status);
    options.no_wait = false;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        status = rota_submit_with(plan.plan, &options, out_ticket);
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    if (status != ROTA_OK) fail(status, sentence);
}

static After after_of(const Plan &plan, const nb::kwargs &keywords) {
    PyObject *const given = PyDict_GetItemString(keywords.ptr(), "after");
    if (!given || given == Py_None) return After();
    return After(*plan.device, given, "plan '" + plan.name + "': after");
}

static Ticket call(const PlanRef &plan, nb::kwargs keywords) {
    if (!plan->device) fail(ROTA_WRONG_STATE, "plan '" + plan->name + "' is only analysed: it has no device");
    Use use(*plan->device);
    Ticket ticket;
    ticket.device = plan->device;
    ticket.plan = plan->name;
    ticket.source = plan;
    const After after = after_of(*plan, keywords);
    std::shared_ptr<Submission> submission;
    if (plan->holds) {
        plan->device->sweep();
        submission = std::make_shared<Submission>();
        submission->anchors = plan->graph->anchors;
    }
    {
        PlanArgs<Locked> set(*plan);
        check(set.status());
        set_arguments(*plan, set.get(), keywords, submission.get(), &ticket);
        submit_plan(*plan, set.get(), &after, &ticket.ticket);
    }
    if (submission) {
        submission->ticket = ticket.ticket;
        Locked lock(plan->device->mutex);
        plan->device->flying.push_back(std::move(submission));
    }
    return ticket;
}

/* ---- Seeing ---- */

static nb::dict plan_stats(const PlanRef &plan) {
    rota_plan_stats counted = ROTA_PLAN_STATS();
    check(rota_plan_get_stats(plan->plan, &counted));
    nb::dict facts;
#define FACT(name) facts[#name] = counted.name;
    FACT(nodes)
    FACT(accesses)
    FACT(commands)
    FACT(edges)
    FACT(edges_dropped)
    FACT(barriers)
    FACT(batches)
    FACT(segments)
    FACT(arena_bytes)
    FACT(arena_lower_bound_bytes)
    FACT(recomputed)
    FACT(merged)
    FACT(plan_bytes)
    FACT(queues)
    FACT(devices)
#undef FACT
    return facts;
}

static nb::list commands(const PlanRef &plan) {
    static const char *const KINDS[] = {"kernel", "copy", "fill", "host", "upload", "read back", "transfer"};
    rota_plan_stats counted = ROTA_PLAN_STATS();
    check(rota_plan_get_stats(plan->plan, &counted));
    std::vector<rota_plan_command> all(counted.commands + 1, ROTA_PLAN_COMMAND());
    check(rota_plan_get_commands(plan->plan, all.data(), all.size()));
    nb::list list;
    for (uint64_t i = 0; i < counted.commands; i++) {
        nb::dict one;
        one["name"] = all[i].name;
        one["kind"] = KINDS[all[i].kind];
        one["device"] =
            all[i].device ? nb::str(rota_device_get_info(all[i].device)->id) : nb::object(nb::none());
        one["queue"] = all[i].queue;
        one["segment"] = all[i].segment;
        one["batch"] = all[i].batch;
        one["read_bytes"] = all[i].read_bytes;
        one["written_bytes"] = all[i].written_bytes;
        one["work"] = all[i].work;
        one["live_bytes"] = all[i].live_bytes;
        list.append(one);
    }
    return list;
}

static nb::dict times(const PlanRef &plan) {
    rota_plan_stats counted = ROTA_PLAN_STATS();
    check(rota_plan_get_stats(plan->plan, &counted));
    std::vector<rota_plan_time> all(counted.commands + 1);
    rota_plan_replay replay = ROTA_PLAN_REPLAY();
    std::optional<Use> use;
    if (plan->device) use.emplace(*plan->device);
    check_released([&] { return rota_plan_command_times(plan->plan, all.data(), all.size(), &replay); });
    nb::dict facts;
    facts["number"] = replay.number;
    facts["submitted"] = replay.submitted_ns;
    facts["completed"] = replay.completed_ns;
    nb::list commands;
    for (uint64_t i = 0; i < counted.commands; i++)
        commands.append(nb::make_tuple(all[i].begin_ns, all[i].end_ns));
    facts["commands"] = commands;
    return facts;
}

static void learn(const PlanRef &plan) {
    std::optional<Use> use;
    if (plan->device) use.emplace(*plan->device);
    check_released([&] { return rota_plan_learn(plan->plan); });
}

using Explains = rota_status(const rota_plan *, rota_node, char *, uint64_t, uint64_t *);
static std::string explained(const PlanRef &plan, uint32_t node, Explains *explains) {
    uint64_t length = 0;
    const rota_node asked = {plan->lane, node};
    check(explains(plan->plan, asked, nullptr, 0, &length));
    std::string text(length + 1, '\0');
    check(explains(plan->plan, asked, text.data(), text.size(), &length));
    text.resize(length);
    return text;
}

static std::string explain(const PlanRef &plan, uint32_t node) {
    return explained(plan, node, rota_plan_explain);
}

static std::string explain_kernel(const PlanRef &plan, uint32_t node) {
    return explained(plan, node, rota_plan_explain_kernel);
}

static void write_file(const PlanRef &plan, const std::string &path,
                       rota_status (*write)(rota_plan *, const char *)) {
    std::optional<Use> use;
    if (plan->device) use.emplace(*plan->device);
    check_released([&] { return write(plan->plan, path.c_str()); });
}

static std::string plan_text(const PlanRef &plan) {
    rota_plan_stats counted = ROTA_PLAN_STATS();
    check(rota_plan_get_stats(plan->plan, &counted));
    std::string text =
        "<rota.Plan '" + plan->name + "' on " + (plan->device ? plan->device->id : "no device") + ": " +
        std::to_string(counted.nodes) + " nodes, " + std::to_string(counted.batches) + " batches, " +
        std::to_string(counted.arena_bytes) + " bytes of transients; call it with (";
    bool first = true;
    for (const Arg &arg : plan->args) {
        if (arg.kind == ArgKind::OUTPUT) continue;
        text += (first ? "" : ", ") + arg.name + (arg.counts || arg.preset ? "=..." : "");
        first = false;
    }
    return text + ")>";
}

static nb::list names_of(const PlanRef &plan, bool outputs) {
    nb::list names;
    for (const Arg &arg : plan->args)
        if ((arg.kind == ArgKind::OUTPUT) == outputs) names.append(arg.key);
    return names;
}

void bind_plan(nb::module_ &m) {
    nb::class_<Plan>(m, "Plan", "A compiled graph: call it with its arguments by name, as often as you like.")
        .def(
            "__call__", &call, nb::sig("def __call__(self, **arguments: typing.Any) -> Ticket"),
            "Submits a replay and returns its ticket, waiting only where there is no room. Arguments "
            "are the graph's inputs and numbers, by name; `out`: a dict of arrays that outputs are "
            "written to, in place of new ones; `after`: a list of what the replay comes after, 16 at most, "
            "while the call returns at once and no thread waits: tickets (of any device, ended well or not), "
            "and, on a CUDA device, streams with all that they have by now (a handle, 0 being the legacy "
            "default stream, or an object with __cuda_stream__, cuda_stream or ptr) and events that were "
            "recorded (torch's, cupy's). What has not come to pass within the device's timeout, counted from "
            "when one of them moved last, fails the ticket with errors.Timeout.")
        .def_prop_ro("name", [](const PlanRef &plan) { return plan->name; })
        .def_prop_ro(
            "device", [](const PlanRef &plan) { return plan->device; },
            nb::sig("def device(self) -> Device | None"))
        .def_prop_ro(
            "arguments", [](const PlanRef &plan) { return names_of(plan, false); },
            nb::sig("def arguments(self) -> list[str]"))
        .def_prop_ro(
            "outputs", [](const PlanRef &plan) { return names_of(plan, true); },
            nb::sig("def outputs(self) -> list[str]"))
        .def_prop_ro("stats", &plan_stats, "What compiling counted.",
                     nb::sig("def stats(self) -> dict[str, int]"))
        .def("commands", &commands, nb::sig("def commands(self) -> list[dict[str, typing.Any]]"),
             "All commands in record order: nodes, and the copies that rota added.")
        .def("times", &times, nb::sig("def times(self) -> dict[str, typing.Any]"),
             "When the last completed replay ran, in nanoseconds of one clock: `number`, the one that its "
             "ticket has; `submitted`, `completed`; `commands`, begin and end of each of commands(), both 0 "
             "of one that was skipped. Of a device that was opened with diagnostics; else WrongState.")
        .def("learn", &learn,
             "Keeps what nodes, copies and all of the last completed replay took, in the cache, for plans to "
             "come that "
             "are placed on several devices (compile(also_on=...)). Of a device that was opened with "
             "diagnostics; "
             "else WrongState.")
        .def("explain", &explain, "node"_a, "Why a node waits, on what, by which buffer and range.")
        .def("explain_kernel", &explain_kernel, "node"_a,
             "What runs a node's kernel on its device, why it is that one, and what was left out.")
        .def(
            "write_dot",
            [](const PlanRef &plan, const std::string &path) {
                write_file(plan, path,
                           [](rota_plan *of, const char *to) { return rota_plan_write_dot(of, to); });
            },
            "path"_a, "Writes the plan for Graphviz.")
        .def(
            "write_trace",
            [](const PlanRef &plan, const std::string &path) {
                write_file(plan, path,
                           [](rota_plan *of, const char *to) { return rota_plan_write_trace(of, to); });
            },
            "path"_a,
            "Writes the last replay as a Chrome trace; of a device that was opened with diagnostics.")
        .def(
            "_repr_svg_",
            [](const PlanRef &plan) { return nb::module_::import_("rota.draw").attr("plan_svg")(plan); },
            nb::sig("def _repr_svg_(self) -> str"))
        .def("__repr__", &plan_text);
    nb::class_<GraphCore> graph = nb::borrow<nb::class_<GraphCore>>(m.attr("Graph"));
    graph.def(
        "compile", &compile, "device"_a = nb::none(), nb::kw_only(), "also_on"_a = std::vector<std::string>(),
        "name"_a = nb::none(), "packing"_a = "tight", "fuse"_a = true, "instances"_a = 0, "arenas"_a = 0,
        "queues"_a = 0, "transfer_queue"_a = false, "memory_limit"_a = 0, "certify"_a = false,
        "check_kernels"_a = false, "deterministic"_a = false, "analyse"_a = false,
        nb::sig(
            "def compile(self, device: Device | None = None, *, "
            "also_on: collections.abc.Sequence[str] = (), name: str | None = None, "
            "packing: str = 'tight', fuse: bool = True, instances: int = 0, arenas: int = 0, "
            "queues: int = 0, transfer_queue: bool = False, memory_limit: int = 0, certify: "
            "bool = False, check_kernels: bool = False, deterministic: bool = False, analyse: bool = False) "
            "-> Plan"),
        "Ends the recording and compiles: hazards, barriers, memory, command buffers. `fuse` "
        "counts at the first compile. `also_on`: ids of further devices, \"cpu\" or \"cuda:1\": nodes are "
        "placed on all of them by what they, and copies between devices, cost, as measured where "
        "Plan.learn() was called, and on one where that is as fast, or where several have no room or "
        "refuse a node. Results are those of any other placement. `deterministic`: no way of computing is "
        "chosen by measuring, so every process has the same bits on GPUs of one model. `analyse`: without a "
        "device, for "
        "statistics "
        "and pictures.");
}
