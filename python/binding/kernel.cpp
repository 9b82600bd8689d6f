/* Nodes of one's own: Python functions on the host, and kernels that are given as code. */
#include "core.h"

#include <cstring>

/* ---- Python functions ---- */

struct HostFunction {
    nb::object function;
    std::string name;
    std::vector<rota_tensor> operands;
    std::vector<bool> writable;
};

/* An operand of a host function as an array for the length of the call. `out_ended` becomes true when nobody
 * has the array any more. */
static nb::object operand_array(void *data, const rota_tensor &like, bool writable,
                                std::shared_ptr<bool> ended) {
    auto *mark = new std::shared_ptr<bool>(std::move(ended));
    const nb::capsule owner(mark, [](void *memory) noexcept {
        auto *held = static_cast<std::shared_ptr<bool> *>(memory);
        **held = true;
        delete held;
    });
    nb::object array = array_over({data, owner}, like, true);
    if (!writable) array.attr("flags").attr("writeable") = false;
    return array;
}

static rota_status call_function(HostFunction &host, void *const *operands) {
    std::vector<std::shared_ptr<bool>> ended;
    {
        nb::list arrays;
        for (size_t i = 0; i < host.operands.size(); i++) {
            ended.push_back(std::make_shared<bool>(false));
            arrays.append(operand_array(operands[i], host.operands[i], host.writable[i], ended.back()));
        }
        host.function(*arrays);
    }
    for (const auto &one : ended)
        if (!*one)
            return rota_fail(ROTA_NODE_FAILED,
                             "function '%s' kept an array beyond its call; it has to copy what it keeps",
                             host.name.c_str());
    return ROTA_OK;
}

/* On a thread of the CPU device's. What the function raises is the node's failure. */
static rota_status host_node(void *user, void *const *operands, const uint64_t *, uint32_t) {
    nb::gil_scoped_acquire acquired;
    auto *host = static_cast<HostFunction *>(user);
    try {
        return call_function(*host, operands);
    } catch (nb::python_error &error) {
        return rota_fail(ROTA_NODE_FAILED, "function '%s' raised %s: %s", host->name.c_str(),
                         nb::cast<std::string>(error.type().attr("__name__")).c_str(),
                         nb::cast<std::string>(nb::str(error.value())).c_str());
    } catch (const std::exception &error) {
        return rota_fail(ROTA_NODE_FAILED, "function '%s': %s", host->name.c_str(), error.what());
    }
}

static void require_contiguous(const Tensor *tensor, const char *what) {
    if (!rota_tensor_is_contiguous(&tensor->t))
        fail(ROTA_INVALID_ARGUMENT,
             std::string(what) + ": operand " + tensor->describe() + " has gaps; copy it");
}

static void record_host(const Graph &core, nb::object function, const std::vector<Tensor *> &reads,
                        const std::vector<Tensor *> &writes, const std::optional<std::string> &name) {
    if (!nb::hasattr(function, "__call__")) fail(ROTA_INVALID_ARGUMENT, "host: a function is expected");
    Recording recording(core, nullptr, true);
    auto *host = new HostFunction{function, name ? *name : "host", {}, {}};
    /* Graph, plans and submissions in flight hold it by the graph's anchors. */
    recording.core().anchors->push_back(
        nb::capsule(host, [](void *made) noexcept { delete static_cast<HostFunction *>(made); }));
    std::vector<rota_access> accesses;
    for (size_t i = 0; i < reads.size() + writes.size(); i++) {
        const bool writable = i >= reads.size();
        const Tensor *tensor = writable ? writes[i - reads.size()] : reads[i];
        recording.uses(tensor);
        require_contiguous(tensor, "host");
        host->operands.push_back(tensor->t);
        host->writable.push_back(writable);
        accesses.push_back(rota_tensor_access(&tensor->t, writable ? ROTA_WRITE : ROTA_READ));
    }
    rota_host_node node = ROTA_HOST_NODE();
    node.fn = host_node;
    node.user = host;
    node.name = host->name.c_str();
    node.accesses = accesses.data();
    node.access_count = static_cast<uint32_t>(accesses.size());
    check(rota_record_host(recording.core().recorder, &node, nullptr));
}

static Tensor transient(const Graph &core, nb::handle shape, const std::string &dtype,
                        const std::optional<std::string> &name) {
    Recording recording(core, nullptr, true);
    const std::vector<uint64_t> extents_ = shape_of(shape);
    rota_tensor made;
    check(rota_tape_tensor(recording.tape(), ROTA_BUFFER_TRANSIENT, name ? name->c_str() : nullptr,
                           dtype_of(dtype), static_cast<uint32_t>(extents_.size()), extents_.data(), &made));
    return recording.made(made);
}

/* ---- Kernels ---- */

/* Graphs and plans name kernels by their address and don't hold them: none is ever freed. */
struct KernelData {
    std::string name, entry;
    std::vector<rota_access_mode> modes;
    std::vector<std::string> param_names;
    std::vector<rota_kernel_bindable> bindables;
    std::vector<uint32_t> words;
    std::string image;
    rota_kernel kernel{};
};
struct Kernel {
    KernelData *data;
};

static rota_access_mode mode_of(const std::string &name) {
    if (name == "read") return ROTA_READ;
    if (name == "write") return ROTA_WRITE;
    if (name == "readwrite") return ROTA_READWRITE;
    if (name == "accumulate") return ROTA_ACCUMULATE;
    fail(ROTA_INVALID_ARGUMENT,
         "an operand is 'read', 'write', 'readwrite' or 'accumulate', not '" + name + "'");
}

static void add_params(KernelData *data, const std::vector<std::tuple<std::string, std::string>> &params) {
    for (const auto &[name, type] : params) data->param_names.push_back(name);
    uint32_t bytes = 0;
    for (size_t i = 0; i < params.size(); i++) {
        const std::string &type = std::get<1>(params[i]);
        if (type != "f32" && type != "u32")
            fail(ROTA_INVALID_ARGUMENT,
                 "kernel '" + data->name + "': a parameter is f32 or u32, not '" + type + "'");
        rota_kernel_bindable bindable{};
        bindable.name = data->param_names[i].c_str();
        bindable.offset_bytes = static_cast<uint16_t>(bytes);
        bindable.size_bytes = 4;
        bindable.type = type == "f32" ? ROTA_VALUE_F32 : ROTA_VALUE_U32;
        data->bindables.push_back(bindable);
        bytes += 4;
    }
    if (bytes > ROTA_KERNEL_PARAM_BYTES_MAX || params.size() > ROTA_KERNEL_BINDABLE_MAX)
        fail(ROTA_INVALID_ARGUMENT, "kernel '" + data->name + "': at most 16 parameters");
    data->kernel.param_bytes = bytes;
    data->kernel.bindables = data->bindables.data();
    data->kernel.bindable_count = static_cast<uint32_t>(data->bindables.size());
}

static Kernel make_kernel(const std::string &name, const std::vector<std::string> &operands,
                          const std::vector<std::tuple<std::string, std::string>> &params,
                          const std::optional<nb::bytes> &spirv, const std::optional<nb::bytes> &cuda,
                          const std::string &entry, uint32_t block, uintptr_t cpu, bool pure) {
    auto data = std::make_unique<KernelData>();
    data->name = name;
    data->entry = entry;
    for (const std::string &operand : operands) data->modes.push_back(mode_of(operand));
    add_params(data.get(), params);
    rota_kernel &kernel = data->kernel;
    kernel.name = data->name.c_str();
    kernel.operand_count = static_cast<uint32_t>(operands.size());
    kernel.flags = pure ? ROTA_KERNEL_PURE : 0;
    kernel.cpu.fn = reinterpret_cast<rota_cpu_fn>(cpu);
    if (spirv) {
        const char *bytes = spirv->c_str();
        data->words.resize(spirv->size() / 4);
        if (spirv->size() % 4)
            fail(ROTA_INVALID_ARGUMENT, "kernel '" + name + "': SPIR-V is words of 4 bytes");
        memcpy(data->words.data(), bytes, spirv->size());
        kernel.vk.words = data->words.data();
        kernel.vk.size_bytes = spirv->size();
    }
    if (cuda) {
        data->image.assign(cuda->c_str(), cuda->size());
        kernel.cuda.image = data->image.c_str();
        kernel.cuda.size_bytes = data->image.size() + 1; /* with the 0 that ends PTX */
        kernel.cuda.entry = data->entry.c_str();
        kernel.cuda.block[0] = block;
    }
    return {data.release()};
}

/* The element that `tensor` has, as a count of at most `max`. */
static rota_count count_in(Recording &recording, const Tensor *tensor, uint32_t max) {
    recording.uses(tensor);
    if (tensor->t.dtype != ROTA_I32 || rota_tensor_count(&tensor->t) != 1)
        fail(ROTA_INVALID_ARGUMENT, "a count is one i32, not " + tensor->describe());
    const rota_access access = rota_tensor_access(&tensor->t, ROTA_READ);
    rota_count count = ROTA_COUNT();
    count.buffer = access.buffer;
    count.offset_bytes = access.offset_bytes;
    count.max = max;
    return count;
}

static void record_copy_rows(const Graph &core, const Tensor *destination, const Tensor *source,
                             const Tensor *count) {
    Recording recording(core, nullptr, true);
    for (const Tensor *tensor : {destination, source}) {
        recording.uses(tensor);
        require_contiguous(tensor, "copy_rows");
    }
    const rota_tensor &from = source->t, &to = destination->t;
    bool fits =
        from.rank != 0 && from.rank == to.rank && from.dtype == to.dtype && from.shape[0] <= UINT32_MAX;
    for (uint32_t i = 0; fits && i < from.rank; i++) fits = from.shape[i] == to.shape[i];
    const uint64_t bytes = rota_tensor_count(&from) * rota_dtype_bytes(from.dtype);
    if (!fits || !bytes || bytes / from.shape[0] > UINT32_MAX)
        fail(ROTA_INVALID_ARGUMENT,
             "copy_rows: of tensors of one shape, dtype and at least one row, not from " +
                 source->describe() + " to " + destination->describe());
    rota_count counted = count_in(recording, count, static_cast<uint32_t>(from.shape[0]));
    counted.unit_bytes = static_cast<uint32_t>(bytes / from.shape[0]);
    const rota_access read = rota_tensor_access(&from, ROTA_READ),
                      written = rota_tensor_access(&to, ROTA_WRITE);
    check(rota_record_counted_copy(recording.core().recorder, written.buffer, written.offset_bytes,
                                   read.buffer, read.offset_bytes, &counted, nullptr));
}

/* 1 + which of the kernel's parameters has that name. */
static uint32_t param_named(const KernelData &data, const std::string &name) {
    std::string all;
    for (size_t i = 0; i < data.param_names.size(); i++) {
        if (data.param_names[i] == name) return static_cast<uint32_t>(i + 1);
        all += (i ? ", '" : "'") + data.param_names[i] + "'";
    }
    fail(ROTA_INVALID_ARGUMENT, "kernel '" + data.name + "' has no parameter '" + name +
                                    "' (count_param); it has " + (all.empty() ? "none" : all));
}

static void record_kernel(const Graph &core, const Kernel &kernel, const std::vector<Tensor *> &operands,
                          const std::vector<Value> &params, const std::vector<uint32_t> &groups,
                          const Tensor *counted, uint32_t count_max, uint32_t items_per_group,
                          const std::optional<std::string> &count_param) {
    const KernelData &data = *kernel.data;
    if (operands.size() != data.modes.size() || params.size() != data.bindables.size())
        fail(ROTA_INVALID_ARGUMENT, "kernel '" + data.name + "' takes " + std::to_string(data.modes.size()) +
                                        " operands and " + std::to_string(data.bindables.size()) +
                                        " parameters, not " + std::to_string(operands.size()) + " and " +
                                        std::to_string(params.size()));
    Recording recording(core, nullptr, true);
    std::vector<rota_access> accesses;
    for (size_t i = 0; i < operands.size(); i++) {
        recording.uses(operands[i]);
        require_contiguous(operands[i], data.name.c_str());
        accesses.push_back(rota_tensor_access(&operands[i]->t, data.modes[i]));
    }
    uint32_t words[ROTA_KERNEL_BINDABLE_MAX] = {};
    rota_param_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < params.size(); i++) {
        const rota_value value = value_of(params[i]);
        const float real = rota_value_f32(value);
        if (data.bindables[i].type == ROTA_VALUE_F32)
            memcpy(&words[i], &real, 4);
        else
            words[i] = rota_value_u32(value);
        rota_value_bind(value, i, bindings, &count);
    }
    rota_kernel_node node = ROTA_KERNEL_NODE();
    node.kernel = &data.kernel;
    node.accesses = accesses.data();
    node.access_count = static_cast<uint32_t>(accesses.size());
    node.params = words;
    node.bindings = bindings;
    node.binding_count = count;
    for (size_t i = 0; i < groups.size() && i < 3; i++) node.groups[i] = groups[i];
    if (counted) {
        rota_count items = count_in(recording, counted, count_max);
        items.items_per_group = items_per_group;
        if (count_param) items.bindable_plus_1 = param_named(data, *count_param);
        check(rota_record_counted_kernel(recording.core().recorder, &node, &items, nullptr));
        return;
    }
    if (count_max || items_per_group || count_param)
        fail(ROTA_INVALID_ARGUMENT, "kernel '" + data.name + "': " +
                                        (count_max         ? "count_max"
                                         : items_per_group ? "items_per_group"
                                                           : "count_param") +
                                        " without a count");
    check(rota_record_kernel(recording.core().recorder, &node, nullptr));
}

void bind_kernel(nb::module_ &m) {
    nb::class_<Kernel>(m, "CompiledKernel",
                       "A kernel as code. It stays in memory for the life of the process.")
        .def_prop_ro("name", [](const Kernel &kernel) { return kernel.data->name; });
    m.def("make_kernel", &make_kernel, "name"_a, "operands"_a, "params"_a, nb::kw_only(),
          "spirv"_a = nb::none(), "cuda"_a = nb::none(), "entry"_a = "", "block"_a = 0, "cpu"_a = 0,
          "pure"_a = false,
          "A kernel of operands ('read', 'write', ...) and parameters (name, 'f32' or 'u32'), with its "
          "code for each kind of device; `cpu` is the address of a C function. rota.Kernel makes it from "
          "sources.");
    nb::class_<GraphCore> graph = nb::borrow<nb::class_<GraphCore>>(m.attr("Graph"));
    graph
        .def("host", &record_host, "function"_a, nb::kw_only(), "reads"_a = std::vector<Tensor *>(),
             "writes"_a = std::vector<Tensor *>(), "name"_a = nb::none(),
             nb::sig("def host(self, function: collections.abc.Callable[..., object], *, reads: "
                     "typing.Sequence[Tensor] = (), writes: typing.Sequence[Tensor] = (), name: str | "
                     "None = None) -> None"),
             "A node that calls a Python function with numpy arrays over its operands, those it reads "
             "first. It writes all of those that it writes, and keeps none beyond the call. What it "
             "raises fails the node. Graph and plans hold the function: one that refers to them is never "
             "freed.")
        .def("empty", &transient, "shape"_a, "dtype"_a = "f32", nb::kw_only(), "name"_a = nb::none(),
             nb::sig("def empty(self, shape: int | typing.Sequence[int], dtype: str = 'f32', *, name: "
                     "str | None = None) -> Tensor"),
             "A tensor inside of a replay, undefined until something writes it.")
        .def("kernel", &record_kernel, "kernel"_a, "operands"_a, "params"_a = std::vector<Value>(),
             "groups"_a = std::vector<uint32_t>(), nb::kw_only(), "count"_a = nb::none(), "count_max"_a = 0,
             "items_per_group"_a = 0, "count_param"_a = nb::none(),
             nb::sig("def kernel(self, kernel: CompiledKernel, operands: typing.Sequence[Tensor], "
                     "params: typing.Sequence[float | Slot | Constant] = (), groups: "
                     "typing.Sequence[int] = (), *, count: Tensor | None = None, count_max: int = 0, "
                     "items_per_group: int = 0, count_param: str | None = None) -> None"),
             "A node of a kernel of one's own. `groups`: how many workgroups (blocks) run on a GPU. `count`: "
             "how many items it runs, one i32 that is read when its turn comes, at most `count_max`, or the "
             "node fails; what the kernel then doesn't write keeps what it had. On a GPU a group runs "
             "`items_per_group` of them, and the parameter `count_param`, a u32, gets the exact number, "
             "whatever is given for it: what is beyond the kernel leaves out.")
        .def("copy_rows", &record_copy_rows, "destination"_a, "source"_a, "count"_a,
             nb::sig("def copy_rows(self, destination: Tensor, source: Tensor, count: Tensor) -> None"),
             "Copies the first rows (along the first axis) between tensors of one shape: as many as `count` "
             "says, one i32 that is read when its turn comes; the others keep what they had. More rows than "
             "there are fail the node.");
}
