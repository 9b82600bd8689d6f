/* Memory by address: graphs over memory that another library has, nodes that call that library on it, and replays that
 * are given addresses. rota.torch is made of it; addresses are taken as they are. */
#include "plan.h"
#include "streams.h"

#include <nanobind/stl/pair.h>

#include <cstring>

/* Bytes of a graph, of no dtype yet. Holds what has the buffer: the graph, or a device's tensor. */
struct Memory {
    rota_buffer *buffer;
    Graph graph;
    std::optional<Tensor> tensor;
};

void SharedMemory::add(uintptr_t begin, rota_buffer *buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lent_[{begin, buffer}]++;
}

void SharedMemory::remove(uintptr_t begin, rota_buffer *buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = lent_.find({begin, buffer});
    if (--found->second == 0) lent_.erase(found);
}

uint64_t SharedMemory::count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t arrays = 0;
    for (const auto &one : lent_) arrays += one.second;
    return arrays;
}

rota_buffer *SharedMemory::find(uintptr_t address, uint64_t size_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = lent_.lower_bound({address + 1, nullptr});
    if (found == lent_.begin()) return nullptr;
    const uintptr_t begin = (--found)->first.first;
    const uint64_t offset = address - begin;
    if (offset % 4 != 0) return nullptr;
    for (;; --found) {
        rota_buffer *const buffer = found->first.second;
        const uint64_t there = rota_buffer_size(buffer);
        rota_buffer *view = nullptr;
        if (offset <= there && size_bytes <= there - offset &&
            rota_buffer_create_view(buffer, offset, size_bytes, &view) == ROTA_OK)
            return view;
        if (found == lent_.begin() || std::prev(found)->first.first != begin) return nullptr;
    }
}

/* A buffer that arrays lie in, with its device. */
struct LentBuffer {
    std::shared_ptr<DeviceCore> device;
    rota_buffer *buffer;
    uintptr_t address;
};

nb::object lend(const std::shared_ptr<DeviceCore> &device, rota_buffer *buffer, uintptr_t address) {
    rota_buffer_retain(buffer);
    device->shared.add(address, buffer);
    return nb::capsule(new LentBuffer{device, buffer, address}, [](void *memory) noexcept {
        auto *lent = static_cast<LentBuffer *>(memory);
        lent->device->shared.remove(lent->address, lent->buffer);
        rota_buffer_release(lent->buffer);
        delete lent;
    });
}

/* New memory of a CPU device's, as an array of 32-bit words. */
static nb::object new_memory(const std::shared_ptr<DeviceCore> &core, uint64_t size_bytes) {
    Use use(*core);
    rota_buffer *buffer = nullptr;
    check(rota_buffer_create_in(core->runtime, "shared", (size_bytes + 3) / 4 * 4, &buffer));
    uint64_t address = 0;
    rota_status status = rota_buffer_prepare(buffer, core->device);
    if (status == ROTA_OK) status = rota_buffer_address(buffer, core->device, &address);
    if (status != ROTA_OK) {
        rota_buffer_release(buffer);
        check(status);
    }
    const nb::object owner = lend(core, buffer, address);
    rota_buffer_release(buffer);
    rota_tensor like{};
    like.dtype = ROTA_I32;
    like.rank = 1;
    like.shape[0] = (size_bytes + 3) / 4;
    return array_over({reinterpret_cast<void *>(address), owner}, like, false);
}

/* Gives an array back that a buffer was over; on the library's reclaiming thread, or in a close. */
static void give_back(void *owner) {
    const auto drop = [](void *array) {
        Py_DecRef(static_cast<PyObject *>(array));
        return 0;
    };
    drop_later(drop, owner);
}

Tensor adopt(const std::shared_ptr<DeviceCore> &core, nb::handle array,
             const std::optional<std::string> &name, const DlpackStream &stream) {
    drop_waiting();
    Use use(*core);
    const std::string what = name ? "tensor '" + *name + "'" : std::string("a tensor");
    rota_tensor like{};
    HostArray lent = borrow_whole(*core, array, stream, &like, what);
    rota_adopt_options options = ROTA_ADOPT_OPTIONS();
    options.name = name ? name->c_str() : nullptr;
    options.kind = core->ordinal < 0 ? ROTA_MEMORY_HOST : ROTA_MEMORY_DEVICE;
    options.memory = lent.data;
    options.size_bytes = rota_shape_bytes(like.dtype, like.rank, like.shape);
    options.release = give_back;
    options.user = lent.owner.ptr();
    rota_buffer *buffer = nullptr;
    check_released([&] { return rota_buffer_adopt(core->device, &options, &buffer); });
    lent.owner.release(); /* give_back's from now on */
    rota_tensor whole{};
    const rota_status status = rota_tensor_of(buffer, 0, like.dtype, like.rank, like.shape, &whole);
    const Tensor tensor(whole, nullptr, core);
    rota_buffer_release(buffer); /* the tensor has its own reference */
    check(status);
    return tensor;
}

static Tensor adopt_on(const std::shared_ptr<DeviceCore> &core, nb::handle array,
                       const std::optional<std::string> &name, nb::handle stream) {
    return adopt(core, array, name, dlpack_stream(core.get(), stream, "adopting an array"));
}

static std::vector<bool> are_shared(const std::shared_ptr<DeviceCore> &core,
                                    const std::vector<std::pair<uintptr_t, uint64_t>> &ranges) {
    std::vector<bool> shared;
    for (const auto &[address, size_bytes] : ranges) {
        rota_buffer *const found = core->shared.find(address, size_bytes);
        shared.push_back(found != nullptr);
        rota_buffer_release(found);
    }
    return shared;
}

static Memory add_memory(const Graph &core, const std::string &kind, const std::string &name,
                         uint64_t size_bytes) {
    Recording recording(core, nullptr);
    const bool input = kind == "input";
    if (!input && kind != "slot" && kind != "transient")
        fail(ROTA_INVALID_ARGUMENT, "memory is 'input', 'slot' or 'transient', not '" + kind + "'");
    rota_buffer *buffer = nullptr;
    const rota_buffer_kind made = input            ? ROTA_BUFFER_INPUT
                                  : kind == "slot" ? ROTA_BUFFER_SLOT
                                                   : ROTA_BUFFER_TRANSIENT;
    check(rota_recorder_buffer(core->recorder, made, name.c_str(), size_bytes, &buffer));
    if (made != ROTA_BUFFER_TRANSIENT) {
        Arg &arg = core->args.emplace_back();
        arg.kind = input ? ArgKind::INPUT : ArgKind::BUFFER;
        arg.name = name;
        arg.key = nb::str(name.c_str());
        arg.tensor.buffer = buffer;
        arg.tensor.dtype = ROTA_U32;
        arg.tensor.rank = 1;
        arg.tensor.shape[0] = (size_bytes + 3) / 4;
        arg.tensor.stride[0] = 1;
    }
    return {buffer, core, {}};
}

/* A device's tensor, the whole of its buffer. */
static Memory memory_of(const Graph &core, const Tensor &tensor) {
    Recording recording(core, &tensor);
    return {tensor.t.buffer, core, std::optional<Tensor>(std::in_place, tensor)};
}

static Tensor view(const Memory &memory, const std::string &dtype, const std::vector<uint64_t> &shape,
                   const std::vector<uint64_t> &stride, uint64_t offset) {
    if (shape.size() > ROTA_RANK_MAX || shape.size() != stride.size())
        fail(ROTA_INVALID_ARGUMENT, "a view has up to 8 axes, and a stride for each");
    rota_tensor t{};
    t.buffer = memory.buffer;
    t.dtype = dtype_of(dtype);
    t.offset_bytes = offset * rota_dtype_bytes(t.dtype);
    t.rank = static_cast<uint32_t>(shape.size());
    for (size_t i = 0; i < shape.size(); i++) {
        t.shape[i] = shape[i];
        t.stride[i] = stride[i];
    }
    return Tensor(t, memory.graph, nullptr);
}

/* ---- Calls of another library ---- */

struct MemoryFunction {
    nb::object function;
    std::string name;
};

/* What a function raised, as the node's failure. */
static rota_status raised(const std::string &name, nb::python_error &error) {
    return rota_fail(ROTA_NODE_FAILED, "'%s' raised %s: %s", name.c_str(),
                     nb::cast<std::string>(error.type().attr("__name__")).c_str(),
                     nb::cast<std::string>(nb::str(error.value())).c_str());
}

/* On a thread of the CPU device's. */
static rota_status call_function(void *user, void *const *operands, const uint64_t *, uint32_t count) {
    nb::gil_scoped_acquire acquired;
    auto *called = static_cast<MemoryFunction *>(user);
    try {
        nb::list addresses;
        for (uint32_t i = 0; i < count; i++) addresses.append(reinterpret_cast<uintptr_t>(operands[i]));
        called->function(addresses);
        return ROTA_OK;
    } catch (nb::python_error &error) {
        return raised(called->name, error);
    } catch (const std::exception &error) {
        return rota_fail(ROTA_NODE_FAILED, "'%s': %s", called->name.c_str(), error.what());
    }
}

/* On the thread that compiles, or makes an instance: `is_trial`, where nothing is captured yet. */
static rota_status put_on_stream(const rota_cuda_call *call, bool is_trial) {
    nb::gil_scoped_acquire acquired;
    MemoryFunction *called;
    memcpy(&called, call->params, sizeof called);
    try {
        nb::list addresses;
        for (uint32_t i = 0; i < call->operand_count; i++) addresses.append(call->operands[i]);
        called->function(addresses, reinterpret_cast<uintptr_t>(call->stream), is_trial);
        return ROTA_OK;
    } catch (nb::python_error &error) {
        return raised(called->name, error);
    } catch (const std::exception &error) {
        return rota_fail(ROTA_NODE_FAILED, "'%s': %s", called->name.c_str(), error.what());
    }
}

/* Kernels of such calls, by name and number of operands. Graphs and plans name kernels by their address and don't hold
 * them: none is ever freed. */
static const rota_kernel *captured_kernel(const std::string &name, uint32_t operands) {
    struct Named {
        std::string name;
        rota_kernel kernel{};
    };
    static std::mutex mutex;
    static auto *const made = new std::map<std::pair<std::string, uint32_t>, Named>;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [found, is_new] = made->try_emplace({name, operands});
    Named &named = found->second;
    if (!is_new) return &named.kernel;
    named.name = name;
    named.kernel.name = named.name.c_str();
    named.kernel.operand_count = operands;
    named.kernel.param_bytes = sizeof(MemoryFunction *);
    named.kernel.cuda.call = [](const rota_cuda_call *call) { return put_on_stream(call, false); };
    named.kernel.cuda.tune = [](const rota_cuda_call *call) { return put_on_stream(call, true); };
    return &named.kernel;
}

static rota_access access_of(const Memory &memory, rota_access_mode mode) {
    rota_access access{};
    access.buffer = memory.buffer;
    access.size_bytes = rota_buffer_size(memory.buffer);
    access.mode = mode;
    return access;
}

static uint32_t record_call(const Graph &core, nb::object function, const std::vector<Memory *> &reads,
                            const std::vector<Memory *> &writes, const std::vector<Memory *> &updates,
                            const std::string &name, std::optional<uint32_t> after) {
    Recording recording(core, nullptr);
    auto *called = new MemoryFunction{std::move(function), name};
    core->anchors->push_back(
        nb::capsule(called, [](void *made) noexcept { delete static_cast<MemoryFunction *>(made); }));
    std::vector<rota_access> accesses;
    for (const Memory *memory : reads) accesses.push_back(access_of(*memory, ROTA_READ));
    for (const Memory *memory : writes) accesses.push_back(access_of(*memory, ROTA_WRITE));
    for (const Memory *memory : updates) accesses.push_back(access_of(*memory, ROTA_READWRITE));
    const auto count = static_cast<uint32_t>(accesses.size());
    rota_node made{};
    if (core->device && core->device->ordinal >= 0) {
        rota_kernel_node node = ROTA_KERNEL_NODE();
        node.kernel = captured_kernel(name, count);
        node.params = &called;
        node.accesses = accesses.data();
        node.access_count = count;
        check(rota_record_kernel(core->recorder, &node, &made));
    } else {
        rota_host_node node = ROTA_HOST_NODE();
        node.fn = call_function;
        node.user = called;
        node.name = called->name.c_str();
        node.accesses = accesses.data();
        node.access_count = count;
        check(rota_record_host(core->recorder, &node, &made));
    }
    if (after) check(rota_node_after(core->recorder, made, {made.lane, *after}));
    return made.index;
}

/* ---- Dtypes that rota has not ---- */

template <typename From, typename To, bool Truth> static rota_status convert(const rota_kernel_call *call) {
    const auto *from = static_cast<const From *>(call->operands[0]);
    auto *to = static_cast<To *>(call->operands[1]);
    const uint64_t count = call->operand_bytes[1] / sizeof(To);
    for (uint64_t i = 0; i < count; i++)
        to[i] = Truth ? static_cast<To>(from[i] != 0) : static_cast<To>(from[i]);
    return ROTA_OK;
}

/* An index is to be one that i32 has: where it is not, the node fails, as an index outside of anything does. */
static rota_status convert_index(const rota_kernel_call *call) {
    const auto *from = static_cast<const int64_t *>(call->operands[0]);
    auto *to = static_cast<int32_t *>(call->operands[1]);
    const uint64_t count = call->operand_bytes[1] / sizeof(int32_t);
    for (uint64_t i = 0; i < count; i++) {
        if (from[i] != static_cast<int32_t>(from[i]))
            return rota_fail(ROTA_NODE_FAILED, "index %lld is outside of i32",
                             static_cast<long long>(from[i]));
        to[i] = static_cast<int32_t>(from[i]);
    }
    return ROTA_OK;
}

static const struct {
    const char *from, *to;
    rota_kernel kernel;
} CONVERSIONS[] = {
#define CONVERSION(from, to, function)                                                                       \
    {                                                                                                        \
        from, to, [] {                                                                                       \
            rota_kernel kernel{};                                                                            \
            kernel.name = from " to " to;                                                                    \
            kernel.operand_count = 2;                                                                        \
            kernel.flags = ROTA_KERNEL_PURE;                                                                 \
            kernel.cpu.fn = function;                                                                        \
            return kernel;                                                                                   \
        }()                                                                                                  \
    }
    CONVERSION("bool", "f32", (convert<uint8_t, float, true>)),
    CONVERSION("f32", "bool", (convert<float, uint8_t, true>)),
    CONVERSION("i64", "f32", (convert<int64_t, float, false>)),
    CONVERSION("i64", "i32", convert_index),
    CONVERSION("i32", "i64", (convert<int32_t, int64_t, false>)),
#undef CONVERSION
};

static void record_convert(const Graph &core, const Memory &source, const std::string &from,
                           const Memory &destination, const std::string &to) {
    Recording recording(core, nullptr);
    for (const auto &one : CONVERSIONS) {
        if (from != one.from || to != one.to) continue;
        const rota_access accesses[] = {access_of(source, ROTA_READ), access_of(destination, ROTA_WRITE)};
        rota_kernel_node node = ROTA_KERNEL_NODE();
        node.kernel = &one.kernel;
        node.accesses = accesses;
        node.access_count = 2;
        return check(rota_record_kernel(core->recorder, &node, nullptr));
    }
    fail(ROTA_UNSUPPORTED, "there is no conversion from " + from + " to " + to);
}

/* ---- Replays ---- */

static std::string what_is_shared(const Plan &plan, const Arg &arg) {
    return "plan '" + plan.name + "': argument '" + arg.name + "' is to be shared memory of the device's";
}

/* Gives every argument its address, in the order in which they were added, then waits for the replay; or has the replay
 * come after what a stream of the application's has, and that stream after the replay. */
static std::optional<Ticket> run(const std::shared_ptr<Plan> &plan, const std::vector<uintptr_t> &addresses,
                                 nb::object keep, std::optional<uintptr_t> stream) {
    if (!plan->device) fail(ROTA_WRONG_STATE, "plan '" + plan->name + "' is only analysed: it has no device");
    if (addresses.size() != plan->args.size())
        fail(ROTA_INVALID_ARGUMENT, "plan '" + plan->name + "' takes " + std::to_string(plan->args.size()) +
                                        " addresses, not " + std::to_string(addresses.size()));
    Use use(*plan->device);
    rota_ticket ticket{};
    if (stream) follow_stream(*plan->device, *stream, "plan '" + plan->name + "'");
    {
        PlanArgs<Locked> set(*plan);
        check(set.status());
        for (size_t i = 0; i < addresses.size(); i++) {
            const Arg &arg = plan->args[i];
            rota_buffer *const buffer = arg.tensor.buffer;
            const uint64_t size_bytes = rota_buffer_size(buffer);
            if (arg.kind == ArgKind::INPUT) {
                const void *const memory = reinterpret_cast<const void *>(addresses[i]);
                check(rota_args_set_input(set.get(), buffer, memory, size_bytes, false));
                continue;
            }
            rota_buffer *const given = plan->device->shared.find(addresses[i], size_bytes);
            if (!given) fail(ROTA_INVALID_ARGUMENT, what_is_shared(*plan, arg));
            const rota_status status = rota_args_set_buffer(set.get(), buffer, given);
            rota_buffer_release(given);
            check(status);
        }
        submit_plan(*plan, set.get(), nullptr, &ticket);
    }
    auto submission = std::make_shared<Submission>();
    submission->ticket = ticket;
    submission->anchors = plan->graph->anchors;
    submission->arrays.push_back({nullptr, std::move(keep)});
    {
        /* A wait that ends early, by Ctrl-C or a deadline, leaves the replay what it uses. */
        Locked lock(plan->device->mutex);
        plan->device->flying.push_back(std::move(submission));
    }
    try {
        if (stream)
            order_stream(*plan->device, ticket, *stream, "plan '" + plan->name + "'", 0);
        else
            wait_for(*plan->device, ticket, 0);
    } catch (...) {
        plan->device->sweep();
        throw;
    }
    plan->device->sweep();
    if (!stream) return std::nullopt;
    Ticket given;
    given.ticket = ticket;
    given.device = plan->device;
    given.plan = plan->name;
    return given;
}

void bind_memory(nb::module_ &m) {
    nb::class_<Memory>(m, "Memory", "Bytes of a graph, of no dtype.")
        .def_prop_ro("size_bytes", [](const Memory &memory) { return rota_buffer_size(memory.buffer); })
        .def("view", &view, "dtype"_a, "shape"_a, "stride"_a, "offset"_a,
             "The bytes as a tensor; stride and offset in elements.");
    nb::class_<GraphCore> graph = nb::borrow<nb::class_<GraphCore>>(m.attr("Graph"));
    graph
        .def("memory", &add_memory, "kind"_a, "name"_a, "size_bytes"_a,
             "Bytes that are given at each call by address, to be read ('input') or of shared memory "
             "('slot'), or "
             "that live inside of one ('transient').")
        .def("memory_of", &memory_of, "tensor"_a, "A device's tensor, the whole of its buffer.")
        .def("call_memory", &record_call, "function"_a, "reads"_a, "writes"_a, "updates"_a, "name"_a,
             "after"_a = nb::none(),
             nb::sig("def call_memory(self, function: collections.abc.Callable[..., object], reads: "
                     "typing.Sequence[Memory], writes: typing.Sequence[Memory], updates: "
                     "typing.Sequence[Memory], name: str, after: int | None = None) -> int"),
             "A node that calls a function with the addresses of what it reads, then of what it writes, all "
             "of which it does, then of what it reads and writes. `after`: the index of a node that comes "
             "before it. Gives its own. On a CUDA device the function is called with a stream, too, when a "
             "plan "
             "is compiled, and what it puts there is captured: what every replay does. Before that it is "
             "called "
             "once with scratch memory and a third argument that is true, and may wait.")
        .def("convert_memory", &record_convert, "source"_a, "from_dtype"_a, "destination"_a, "to_dtype"_a,
             "A node that converts elements, of or to a dtype that tensors have not.");
    nb::class_<DeviceCore> device = nb::borrow<nb::class_<DeviceCore>>(m.attr("Device"));
    device
        .def("new_memory", &new_memory, "size_bytes"_a,
             nb::sig("def new_memory(self, size_bytes: int) -> typing.Any"),
             "Memory of a CPU device's, shared with whoever has the array of 32-bit words.")
        .def("are_shared", &are_shared, "ranges"_a,
             nb::sig("def are_shared(self, ranges: typing.Sequence[tuple[int, int]]) -> list[bool]"),
             "Whether addresses, with so many bytes behind, are of the device's shared memory.")
        .def(
            "adopt", &adopt_on, "array"_a, nb::kw_only(), "name"_a = nb::none(), "stream"_a = nb::none(),
            nb::sig("def adopt(self, array: object, *, name: str | None = None, stream: int | None = None) "
                    "-> Tensor"),
            "A tensor that lives across replays in the memory of a contiguous array, of any library with "
            "buffers or DLPack, which begins at a multiple of 16 bytes: nothing is copied. Plans read and "
            "write the array, which is held; others do neither to what a submission that has not ended "
            "writes. On a CUDA device it is an array on that device. Without `stream` the call waits for "
            "what "
            "its library's current stream has to do. `stream` is what its library is told, as of __dlpack__: "
            "a handle, which comes after that work, or -1, for which nobody does anything; nobody waits, and "
            "the first call of a plan that uses the tensor is to say what it comes after (`after`), as are "
            "later ones after such work.");
    nb::class_<Plan> plan = nb::borrow<nb::class_<Plan>>(m.attr("Plan"));
    plan.def(
        "run_memory", &run, "addresses"_a, "keep"_a, "stream"_a = nb::none(),
        nb::sig("def run_memory(self, addresses: typing.Sequence[int], keep: object, stream: int | None = "
                "None) -> Ticket | None"),
        "Submits a replay with an address for each argument and waits for it. With a CUDA stream of the "
        "application's nobody waits on the host: the device's works from this replay on come after what the "
        "stream "
        "has by now, what is put on the stream later comes after the replay, and the call gives the ticket. "
        "`keep` "
        "is held until the replay has ended.");
}
