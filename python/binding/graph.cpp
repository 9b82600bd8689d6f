/* Graphs: what is recorded, by name; arguments; gradients; and which graph a thread records into. */
#include "communicator.h"

GraphCore::~GraphCore() {
    rota_tape_destroy(tape);
    if (!ended) rota_recorder_close(recorder);
    rota_graph_release(graph);
}

const Arg *GraphCore::find(const std::string &arg) const {
    for (const Arg &known : args)
        if (known.name == arg) return &known;
    return nullptr;
}

/* Graphs of the `with` blocks that this thread is in; none where it is in no block, so that nothing of Python's
 * is left when a thread ends. */
static thread_local std::vector<Graph> *entered;

Graph current_graph() {
    return entered ? entered->back() : nullptr;
}

Graph innermost_graph(const Graph &graph) {
    const Graph current = current_graph();
    for (const GraphCore *around = current.get(); around; around = around->outer.get())
        if (around == graph.get()) return current;
    return graph;
}

/* Nothing is recorded after the end of a recording. */
static void require_open(const GraphCore &graph) {
    if (!graph.ended) return;
    fail(ROTA_WRONG_STATE,
         "graph '" + graph.name +
             (graph.outer ? "': its block has ended, and what is its own is known in it alone"
                          : "' is compiled: nothing more can be recorded"));
}

void enter_graph(const Graph &graph) {
    if (!entered) entered = new std::vector<Graph>;
    entered->push_back(graph);
}

void leave_graph(const Graph &graph) {
    if (current_graph() != graph)
        fail(ROTA_WRONG_STATE,
             "graph '" + graph->name + "': its `with` block ends where it is not the innermost one");
    entered->pop_back();
    if (!entered->empty()) return;
    delete entered;
    entered = nullptr;
}

Recording::Recording(std::initializer_list<const Tensor *> operands, const char *what) {
    for (const Tensor *operand : operands)
        if (operand && operand->graph) graph_ = operand->graph;
    if (!graph_) graph_ = current_graph();
    if (!graph_)
        fail(ROTA_WRONG_STATE,
             std::string(what) + ": no graph to record into; call it inside of `with rota.graph():`");
    graph_ = innermost_graph(graph_);
    lock_.emplace(graph_->mutex);
    for (const Tensor *operand : operands) uses(operand);
    require_open(*graph_);
}

Recording::Recording(const Graph &graph, const Tensor *operand, bool within)
    : graph_(within ? innermost_graph(graph) : graph) {
    lock_.emplace(graph_->mutex);
    uses(operand);
    require_open(*graph_);
}

void Recording::uses(const Tensor *operand) {
    if (!operand || !operand->device) return;
    if (!graph_->device) graph_->device = operand->device;
    if (graph_->device == operand->device) return;
    fail(ROTA_INVALID_ARGUMENT, "graph '" + graph_->name + "' is for device '" + graph_->device->id +
                                    "'; tensor '" + rota_buffer_name(operand->t.buffer) + "' is another's");
}

rota_value value_of(const Value &value) {
    if (const double *number = std::get_if<double>(&value)) return ROTA_PLAIN(*number);
    if (Slot *const *slot = std::get_if<Slot *>(&value)) return ROTA_SLOT((*slot)->slot);
    return ROTA_CONSTANT(std::get<Constant>(value).number);
}

static Graph make_graph(const std::shared_ptr<DeviceCore> &device, const std::string &name, bool gradients,
                        bool allow_reassociation, uint64_t memory_limit,
                        const CommunicatorCore *communicator) {
    auto core = std::make_shared<GraphCore>();
    core->name = name;
    core->device = device;
    rota_graph_options options = ROTA_GRAPH_OPTIONS();
    options.name = name.c_str();
    options.allow_reassociation = allow_reassociation;
    options.memory_limit_bytes = memory_limit;
    check(rota_graph_create(&options, &core->graph));
    check(rota_recorder_open(core->graph, 0, nullptr, &core->recorder));
    rota_tape_options tape = ROTA_TAPE_OPTIONS();
    tape.no_gradients = !gradients;
    if (communicator) {
        tape.rank = communicator->rank;
        tape.ranks = communicator->size;
    }
    check(rota_tape_create(core->recorder, &tape, &core->tape));
    return core;
}

/* Adds an argument; the graph is locked. */
static Arg &add_arg(GraphCore &core, ArgKind kind, const std::string &name) {
    if (name == "out" || name == "after")
        fail(ROTA_INVALID_ARGUMENT, "no argument of a graph is named '" + name +
                                        "': a plan's call has it for " +
                                        (name == "out" ? "outputs" : "what it comes after"));
    if (core.find(name))
        fail(ROTA_ALREADY_EXISTS, "graph '" + core.name + "' has an argument '" + name + "' already");
    Arg &arg = core.args.emplace_back();
    arg.kind = kind;
    arg.name = name;
    arg.key = nb::str(name.c_str());
    return arg;
}

static Slot add_slot(const Graph &core, const std::string &name, const std::string &dtype,
                     std::optional<double> preset, bool counts) {
    Slot slot;
    slot.name = name;
    slot.type = dtype == "f32"   ? ROTA_VALUE_F32
                : dtype == "u32" ? ROTA_VALUE_U32
                : dtype == "u64" ? ROTA_VALUE_U64
                                 : ROTA_VALUE_ANY;
    if (slot.type == ROTA_VALUE_ANY)
        fail(ROTA_INVALID_ARGUMENT, "slot '" + name + "': a number is f32, u32 or u64, not '" + dtype + "'");
    if (counts && slot.type != ROTA_VALUE_U32)
        fail(ROTA_INVALID_ARGUMENT, "slot '" + name + "': what counts is u32");
    if (core->outer)
        fail(ROTA_WRONG_STATE, "slot '" + name + "': numbers are given to the graph, not to a block of it");
    Recording recording(core, nullptr);
    if (core->find(name))
        fail(ROTA_ALREADY_EXISTS, "graph '" + core->name + "' has an argument '" + name + "' already");
    check(rota_graph_slot(core->graph, name.c_str(), slot.type == ROTA_VALUE_U64 ? 8 : 4, &slot.slot));
    Arg &arg = add_arg(*core, ArgKind::SCALAR, name);
    arg.slot = slot;
    arg.counts = counts;
    arg.preset = preset;
    return slot;
}

static Tensor add_buffer(const Graph &core, ArgKind kind, rota_buffer_kind buffer, const std::string &name,
                         const std::vector<uint64_t> &shape, rota_dtype dtype, bool copy) {
    Recording recording(core, nullptr);
    if (innermost_graph(core) != core || core->outer)
        fail(ROTA_WRONG_STATE, "graph '" + core->name + "', argument '" + name +
                                   "': inputs, outputs and buffers are given outside of blocks that decide");
    Arg &arg = add_arg(*core, kind, name);
    const rota_status status =
        rota_tape_tensor(core->tape, buffer, name.c_str(), dtype, static_cast<uint32_t>(shape.size()),
                         shape.data(), &arg.tensor);
    arg.copy = copy;
    const Tensor tensor = status == ROTA_OK ? Tensor(arg.tensor, core, nullptr) : Tensor();
    if (status == ROTA_OK) return tensor;
    core->args.pop_back();
    check(status);
    return tensor;
}

static Tensor add_input(const Graph &core, const std::string &name, nb::handle shape,
                        const std::string &dtype, bool copy) {
    return add_buffer(core, ArgKind::INPUT, ROTA_BUFFER_INPUT, name, shape_of(shape), dtype_of(dtype), copy);
}

static Tensor add_buffer_slot(const Graph &core, const std::string &name, nb::handle shape,
                              const std::string &dtype) {
    return add_buffer(core, ArgKind::BUFFER, ROTA_BUFFER_SLOT, name, shape_of(shape), dtype_of(dtype), false);
}

static void add_output(const Graph &core, const std::string &name, const Tensor &x) {
    const Tensor y =
        add_buffer(core, ArgKind::OUTPUT, ROTA_BUFFER_OUTPUT, name, extents(x.t), x.t.dtype, false);
    Recording recording(core, &x);
    check(rota_op_copy_into(recording.tape(), x.t, y.t));
}

static std::vector<Tensor> backward(const Graph &core, nb::handle loss, const std::vector<Tensor *> &params,
                                    const std::optional<std::vector<Tensor *>> &grads, bool accumulate,
                                    bool keep, CommunicatorCore *communicator, const std::string &reduction,
                                    uint64_t bucket_bytes, bool whole_tables) {
    std::vector<const Tensor *> losses;
    if (nb::isinstance<Tensor>(loss)) {
        losses.push_back(nb::cast<const Tensor *>(loss));
    } else {
        for (nb::handle one : loss) losses.push_back(nb::cast<const Tensor *>(one));
    }
    if (grads && grads->size() != params.size())
        fail(ROTA_INVALID_ARGUMENT, "backward: " + std::to_string(params.size()) + " params, " +
                                        std::to_string(grads->size()) + " grads");
    Recording recording(core, nullptr, true);
    std::vector<rota_tensor> of, wanted, made(params.size());
    for (const Tensor *one : losses) of.push_back(one->t);
    for (size_t i = 0; i < params.size(); i++) {
        recording.uses(params[i]);
        wanted.push_back(params[i]->t);
        if (grads) made[i] = (*grads)[i]->t;
    }
    rota_backward_options options = ROTA_BACKWARD_OPTIONS();
    options.accumulate = accumulate;
    options.keep = keep;
    std::optional<CommunicatorUse> use;
    rota_data_parallel all = ROTA_DATA_PARALLEL();
    if (reduction != "mean" && reduction != "sum")
        fail(ROTA_INVALID_ARGUMENT, "backward: reduction '" + reduction + "', expected 'mean' or 'sum'");
    if (communicator) {
        use.emplace(*communicator);
        all.communicator = communicator->communicator;
        all.sum = reduction == "sum";
        all.bucket_bytes = bucket_bytes;
        all.whole_tables = whole_tables;
        options.data_parallel = &all;
    }
    check(rota_backward_losses(recording.tape(), of.data(), static_cast<uint32_t>(of.size()), wanted.data(),
                               static_cast<uint32_t>(wanted.size()), made.data(), &options));
    std::vector<Tensor> results;
    results.reserve(params.size());
    for (size_t i = 0; i < params.size(); i++)
        results.push_back(grads ? *(*grads)[i] : recording.made(made[i]));
    return results;
}

static void name_nodes(const Graph &core, const std::optional<std::string> &name) {
    Recording recording(core, nullptr, true);
    check(rota_tape_name(recording.tape(), name ? name->c_str() : nullptr));
}

static void remember(const Graph &core, bool on) {
    Recording recording(core, nullptr, true);
    rota_tape_remember(recording.tape(), on);
}

static std::string graph_text(const Graph &core) {
    Locked lock(core->mutex);
    std::string text = "<rota.Graph '" + core->name + "'" + (core->device ? " on " + core->device->id : "");
    const char *kinds[] = {"number", "input", "output", "buffer"};
    for (const Arg &arg : core->args)
        text += std::string(", ") + kinds[static_cast<int>(arg.kind)] + " " + arg.name;
    return text + (core->ended ? ", compiled>" : ">");
}

static void bind_arguments(nb::class_<GraphCore> &graph) {
    graph
        .def("slot", &add_slot, "name"_a, "dtype"_a = "f32", nb::kw_only(), "default"_a = nb::none(),
             "counts"_a = false,
             "A number that is given at each call of a plan, by name (f32, u32 or u64). `counts`: the "
             "plan gives it itself, its calls' number from 1, unless the call does.")
        .def("input", &add_input, "name"_a, "shape"_a, "dtype"_a = "f32", nb::kw_only(), "copy"_a = false,
             nb::sig("def input(self, name: str, shape: int | typing.Sequence[int], dtype: str = 'f32', "
                     "*, copy: bool = False) -> Tensor"),
             "An array that is given at each call. It is read in place, and is not to be changed until "
             "`ticket.wait_inputs()` has returned, or, with `copy`, copied during the call.")
        .def("buffer_slot", &add_buffer_slot, "name"_a, "shape"_a, "dtype"_a = "f32",
             nb::sig("def buffer_slot(self, name: str, shape: int | typing.Sequence[int], dtype: str = "
                     "'f32') -> Tensor"),
             "A place to which a tensor of a device is bound at each call.")
        .def("output", &add_output, "name"_a, "tensor"_a,
             "What a ticket's `result()` has under this name: the tensor's elements at this place of the "
             "record.");
}

void bind_graph(nb::module_ &m) {
    nb::class_<Slot>(m, "Slot", "A number that is given at each call of a plan.")
        .def_ro("name", &Slot::name)
        .def("__repr__", [](const Slot &slot) { return "<rota.Slot '" + slot.name + "'>"; });
    nb::class_<Constant>(m, "Constant",
                         "A number for what varies by step (lr, step, seed) that is meant to stay.")
        .def(nb::init<double>(), "number"_a)
        .def_ro("number", &Constant::number);
    nb::class_<GraphCore> graph(m, "Graph", "A graph that ops are recorded into, inside of `with`.");
    graph.def_prop_ro("name", [](const Graph &core) { return core->name; })
        .def("backward", &backward, "loss"_a, "params"_a, "grads"_a = nb::none(), nb::kw_only(),
             "accumulate"_a = false, "keep"_a = false, "communicator"_a = nb::none(), "reduction"_a = "mean",
             "bucket_bytes"_a = 0, "whole_tables"_a = false,
             nb::sig("def backward(self, loss: Tensor | typing.Sequence[Tensor], params: "
                     "typing.Sequence[Tensor], grads: typing.Sequence[Tensor] | None = None, *, accumulate: "
                     "bool = False, keep: bool = False, communicator: Communicator | None = None, reduction: "
                     "str = 'mean', bucket_bytes: int = 0, whole_tables: bool = False) -> list[Tensor]"),
             "Records the gradients of a loss (or of the sum of several) by each of the params. "
             "`communicator`: they become the mean, or sum, of all ranks' gradients, in buckets of so many "
             "bytes, while the backward pass goes on. What an embedding adds to a table goes round as rows "
             "where "
             "those are fewer bytes, and then each rank embeds as many; `whole_tables`: it never does.")
        .def("name_nodes", &name_nodes, "name"_a.none(),
             "The name of nodes recorded from now on, in errors, traces and pictures; None: the ops' names.")
        .def("remember", &remember, "on"_a, "Stops and resumes remembering ops for gradients.")
        .def_prop_ro("node_count",
                     [](const Graph &core) {
                         Locked lock(core->mutex);
                         rota_node last{};
                         return rota_recorder_last_node(core->recorder, &last) == ROTA_OK
                                    ? uint64_t(last.index) + 1
                                    : 0;
                     })
        .def_prop_ro(
            "device",
            [](const Graph &core) {
                Locked lock(core->mutex);
                return core->device;
            },
            nb::sig("def device(self) -> Device | None"))
        .def("__enter__",
             [](const Graph &core) {
                 enter_graph(core);
                 return core;
             })
        .def(
            "__exit__", [](const Graph &core, nb::args) { leave_graph(core); },
            nb::sig("def __exit__(self, *args: object) -> None"))
        .def("__repr__", &graph_text);
    bind_arguments(graph);
    bind_blocks(m);
    bind_deciding(graph);
    m.def(
        "graph", &make_graph, "device"_a = nb::none(), nb::kw_only(), "name"_a = "graph",
        "gradients"_a = true, "allow_reassociation"_a = false, "memory_limit"_a = 0,
        "communicator"_a = nb::none(),
        nb::sig("def graph(device: Device | None = None, *, name: str = 'graph', gradients: bool = "
                "True, allow_reassociation: bool = False, memory_limit: int = 0, communicator: Communicator "
                "| None = None) -> Graph"),
        "An empty graph, for `with`. The device is that of the tensors it uses, if none is given. "
        "`communicator`: its tensors are this rank's part of a batch, along their first axis; dropouts then "
        "have their part of the whole batch's masks.");
    m.def("current_graph", &current_graph, "The graph of this thread's innermost `with` block.",
          nb::sig("def current_graph() -> Graph | None"));
}
