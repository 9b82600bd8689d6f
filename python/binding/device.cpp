/* Devices: opening and closing, what they know of themselves, and the host memory of what they run. */
#include "allocator.h"
#include "communicator.h"
#include "core.h"
#include "plan.h"
#include "streams.h"

#include <time.h>

static nb::object *error_classes; /* by status; made once, when the module is, and never changed */

void fail(rota_status status, const std::string &sentence) {
    const bool known = status >= 0 && status < ROTA_STATUS_COUNT;
    const nb::object error = error_classes[known ? status : ROTA_INTERNAL](sentence);
    PyErr_SetObject(error.type().ptr(), error.ptr());
    nb::raise_python_error();
}

uint64_t nanoseconds(const std::optional<double> &seconds) {
    if (!seconds) return 0;
    if (!(*seconds >= 0)) fail(ROTA_INVALID_ARGUMENT, "a timeout is a number of seconds, 0 or more");
    if (*seconds > 1e9) return UINT64_MAX;
    const uint64_t ns = static_cast<uint64_t>(*seconds * 1e9);
    return ns ? ns : 1; /* to the library 0 is the default */
}

static void nap() {
    const timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
}

void DeviceCore::add(const std::shared_ptr<CommunicatorCore> &communicator) {
    Locked lock(mutex);
    std::vector<std::weak_ptr<CommunicatorCore>> kept;
    for (const auto &one : communicators)
        if (!one.expired()) kept.push_back(one);
    kept.push_back(communicator);
    communicators.swap(kept);
}

/* Each is closed before its runtime is; the first error counts. */
static rota_status end_communicators(std::vector<std::shared_ptr<CommunicatorCore>> &communicators,
                                     uint64_t timeout, std::string *out_sentence) {
    rota_status first = ROTA_OK;
    for (const auto &one : communicators) {
        std::string sentence;
        const rota_status status = one->end(timeout, &sentence);
        if (status == ROTA_OK || first != ROTA_OK) continue;
        first = status;
        *out_sentence = sentence;
    }
    return first;
}

void DeviceCore::close(uint64_t timeout) {
    const uint64_t arrays = shared.count();
    if (arrays != 0 && !closing.load())
        fail(ROTA_WRONG_STATE, "device '" + id + "' is not closed: there are " + std::to_string(arrays) +
                                   " arrays over its memory, of from_dlpack(tensor" +
                                   (ordinal < 0 ? ", copy=False)" : ")"));
    if (closing.exchange(true)) return;
    rota_status status = ROTA_OK;
    bool busy = false;
    std::string sentence;
    std::vector<std::shared_ptr<CommunicatorCore>> open; /* let go of with the interpreter's lock */
    {
        Locked lock(mutex);
        for (const auto &one : communicators)
            if (auto communicator = one.lock()) open.push_back(std::move(communicator));
    }
    {
        nb::gil_scoped_release released;
        const uint64_t deadline = rota_deadline_after(timeout ? timeout : timeout_ns);
        while (users.load() != 0 && !(busy = rota_clock_ns() > deadline)) nap();
        if (!busy) {
            std::string first;
            const rota_status ended = end_communicators(open, timeout, &first);
            status = rota_close(device, timeout);
            if (status != ROTA_OK) sentence = rota_last_error();
            if (ended != ROTA_OK && status == ROTA_OK) status = ended, sentence = first;
        }
    }
    if (busy) {
        closing.store(false);
        fail(ROTA_TIMEOUT, "device '" + id + "' is not closed: other threads still wait in calls on it");
    }
    closed.store(true);
    if (status == ROTA_OK) {
        std::deque<std::shared_ptr<Submission>> ended;
        Locked lock(mutex);
        ended.swap(flying);
        return;
    }
    /* What a device that does not answer may still touch is never freed. */
    {
        Locked lock(mutex);
        new std::deque<std::shared_ptr<Submission>>(std::move(flying));
        flying.clear();
        if (allocator) new std::shared_ptr<Allocator>(allocator);
    }
    fail(status, sentence);
}

DeviceCore::~DeviceCore() {
    if (closed.load()) return;
    try {
        close(0);
    } catch (nb::python_error &error) {
        error.discard_as_unraisable("closing a rota device");
    }
}

void DeviceCore::sweep() {
    drop_waiting();
    std::vector<std::shared_ptr<Submission>> ended; /* let go of after the lock: that may run Python code */
    Locked lock(mutex);
    while (!flying.empty() && rota_poll(flying.front()->ticket) != ROTA_BUSY) {
        ended.push_back(std::move(flying.front()));
        flying.pop_front();
    }
}

void wait_for(DeviceCore &device, rota_ticket ticket, uint64_t timeout_ns) {
    const uint64_t slice_ns = 100 * 1000 * 1000;
    const uint64_t deadline = timeout_ns ? rota_deadline_after(timeout_ns) : 0;
    const uint64_t patience = rota_deadline_after(device.timeout_ns);
    for (;;) {
        const uint64_t now = rota_clock_ns();
        uint64_t wait_ns = slice_ns;
        bool last = false;
        if (deadline) {
            const uint64_t left = deadline > now ? deadline - now : 1;
            last = left <= slice_ns;
            if (last) wait_ns = left;
        } else if (now >= patience) { /* the library's own, counted from the last progress */
            last = true;
            wait_ns = 0;
        }
        rota_status status;
        std::string sentence;
        {
            nb::gil_scoped_release released;
            status = rota_wait(ticket, wait_ns);
            if (status != ROTA_OK) sentence = rota_last_error();
            /* The ticket may have failed with that itself. */
            last = last || (status == ROTA_TIMEOUT && rota_poll(ticket) == ROTA_TIMEOUT);
        }
        if (status == ROTA_OK) return;
        if (last || status != ROTA_TIMEOUT) fail(status, sentence);
        if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    }
}

using Device = std::shared_ptr<DeviceCore>;

/* Every device that may be open; never destroyed, as threads may open some while the process ends. */
struct Registry {
    std::mutex mutex;
    std::vector<std::weak_ptr<DeviceCore>> devices;
};

static Registry &registry() {
    static auto *made = new Registry;
    return *made;
}

static std::vector<Device> open_devices() {
    std::vector<Device> open; /* before the lock: letting go of the last reference closes a device */
    Locked lock(registry().mutex);
    std::vector<std::weak_ptr<DeviceCore>> kept;
    for (const std::weak_ptr<DeviceCore> &one : registry().devices) {
        Device device = one.lock();
        if (!device) continue;
        kept.push_back(device);
        open.push_back(std::move(device));
    }
    registry().devices.swap(kept);
    return open;
}

static Device open_device(const std::optional<std::string> &id, std::optional<double> timeout,
                          bool diagnostics, uint64_t memory_limit, uint32_t threads, bool validation,
                          const std::optional<std::string> &cache_dir,
                          const std::optional<std::string> &capture, nb::handle allocator) {
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS();
    options.timeout_ns = nanoseconds(timeout);
    options.diagnostics = diagnostics;
    options.memory_limit_bytes = memory_limit;
    options.worker_threads = threads;
    options.validation = validation;
    options.cache_dir = cache_dir ? cache_dir->c_str() : nullptr;
    auto core = std::make_shared<DeviceCore>();
    if (!allocator.is_none())
        core->allocator = std::make_shared<Allocator>(allocator, Allocator::device_of(id));
    if (capture) {
        core->captures = *capture;
        options.compiled = rota_capture_contents;
        options.compiled_user = core->captures.data();
    }
    core->closed.store(true); /* until it is open there is nothing to close */
    const uint32_t abandoned = rota_devices_abandoned();
    rota_status status;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        status = core->allocator ? core->allocator->open(&options, &core->device)
                                 : rota_open(id ? id->c_str() : nullptr, &options, &core->device);
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    if (status != ROTA_OK && core->allocator && rota_devices_abandoned() > abandoned)
        new std::shared_ptr<Allocator>(core->allocator); /* what was given up may go on to use it */
    if (status != ROTA_OK) fail(status, sentence);
    core->runtime = rota_device_runtime(core->device);
    core->id = rota_device_get_info(core->device)->id;
    if (core->allocator)
        core->ordinal = static_cast<int>(core->allocator->device());
    else if (core->id.rfind("cuda:", 0) == 0)
        core->ordinal = std::stoi(core->id.substr(5));
    core->timeout_ns = options.timeout_ns ? options.timeout_ns : 30ull * 1000 * 1000 * 1000;
    core->closed.store(false);
    open_devices(); /* forgets those that are gone */
    Locked lock(registry().mutex);
    registry().devices.push_back(core);
    return core;
}

static nb::dict describe(const rota_device_info &info) {
    nb::dict facts;
    facts["id"] = info.id;
    facts["name"] = info.name;
    facts["driver"] = info.driver;
    facts["usable"] = info.usable;
    facts["missing"] = info.missing;
    facts["memory_bytes"] = info.memory_bytes;
    facts["compute_units"] = info.compute_units;
    facts["features"] = info.features;
    return facts;
}

static nb::list devices() {
    std::vector<rota_device_info> infos(64);
    uint32_t count = 0;
    rota_status status;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        rota_runtime *runtime = nullptr;
        status = rota_runtime_open(nullptr, &runtime);
        for (rota_device_info &info : infos) info = ROTA_DEVICE_INFO();
        if (status == ROTA_OK) status = rota_devices(runtime, infos.data(), 64, &count);
        if (status != ROTA_OK) sentence = rota_last_error();
        const rota_status closed = rota_runtime_close(runtime, 0);
        if (status == ROTA_OK && closed != ROTA_OK) sentence = rota_last_error();
        if (status == ROTA_OK) status = closed;
    }
    if (status != ROTA_OK) fail(status, sentence);
    nb::list list;
    for (uint32_t i = 0; i < count && i < 64; i++) list.append(describe(infos[i]));
    return list;
}

static Tensor make_tensor(const Device &core, rota_dtype dtype, const std::vector<uint64_t> &shape,
                          const char *name, const void *data) {
    Use use(*core);
    rota_tensor made{};
    check_released([&] {
        return rota_tensor_create(core->device, name, dtype, static_cast<uint32_t>(shape.size()),
                                  shape.data(), data, &made);
    });
    Tensor tensor(made, nullptr, core);
    rota_buffer_release(made.buffer); /* the tensor has its own reference */
    return tensor;
}

static Tensor tensor_from(const Device &core, nb::handle array, const std::optional<std::string> &name) {
    if (core->ordinal >= 0 && is_on_cuda(array)) return copied(adopt(core, array, std::nullopt, {}), name);
    rota_tensor like{};
    const HostArray host =
        borrow_any(array, &like, name ? "tensor '" + *name + "'" : std::string("a tensor"));
    return make_tensor(core, like.dtype, extents(like), name ? name->c_str() : nullptr, host.data);
}

static Tensor empty_tensor(const Device &core, nb::handle shape, const std::string &dtype,
                           const std::optional<std::string> &name) {
    return make_tensor(core, dtype_of(dtype), shape_of(shape), name ? name->c_str() : nullptr, nullptr);
}

static Tensor zeros(const Device &core, nb::handle shape, const std::string &dtype,
                    const std::optional<std::string> &name) {
    const std::vector<uint64_t> extents_ = shape_of(shape);
    const rota_dtype type = dtype_of(dtype);
    const std::vector<char> data(
        rota_shape_bytes(type, static_cast<uint32_t>(extents_.size()), extents_.data()));
    return make_tensor(core, type, extents_, name ? name->c_str() : nullptr, data.data());
}

static nb::dict stats(const Device &core) {
    Use use(*core);
    rota_runtime_stats counted = ROTA_RUNTIME_STATS();
    check(rota_runtime_get_stats(core->runtime, &counted));
    nb::dict facts;
    facts["memory_bytes"] = counted.memory_bytes;
    facts["memory_peak_bytes"] = counted.memory_peak_bytes;
    facts["buffers"] = counted.buffers;
    facts["plans"] = counted.plans;
    facts["submissions"] = counted.submissions;
    facts["completed"] = counted.completed;
    facts["failed"] = counted.failed;
    facts["driver_submits"] = counted.driver_submits;
    facts["reclaim_pending"] = counted.reclaim_pending;
    return facts;
}

static nb::dict info_of(const Device &core) {
    Use use(*core);
    return describe(*rota_device_get_info(core->device));
}

static std::string device_text(const Device &core) {
    if (core->closing.load()) return "<rota.Device '" + core->id + "', closed>";
    Use use(*core);
    return "<rota.Device '" + core->id + "': " + rota_device_get_info(core->device)->name + ">";
}

static size_t held(const Device &core) {
    core->sweep();
    Locked lock(core->mutex);
    return core->flying.size();
}

void bind_device(nb::module_ &m) {
    error_classes = new nb::object[ROTA_STATUS_COUNT];
    const nb::object by_name = nb::module_::import_("rota.errors").attr("BY_STATUS");
    for (int i = 0; i < ROTA_STATUS_COUNT; i++)
        error_classes[i] = by_name[nb::str(rota_status_name(static_cast<rota_status>(i)))];
    nb::class_<DeviceCore>(m, "Device", nb::is_weak_referenceable(),
                           "A device that runs plans, with its runtime.")
        .def_prop_ro(
            "id", [](const Device &core) { return core->id; }, "'cpu', 'vk:0', 'cuda:0'")
        .def_prop_ro("closed", [](const Device &core) { return core->closing.load(); })
        .def_prop_ro("info", &info_of, "What the device is: its name, driver, memory.",
                     nb::sig("def info(self) -> dict[str, object]"))
        .def_prop_ro("stats", &stats, "What the runtime counted so far.",
                     nb::sig("def stats(self) -> dict[str, int]"))
        .def_prop_ro(
            "shared", [](const Device &core) { return core->shared.count(); },
            "Arrays of other libraries over its memory, which keep it open.")
        .def_prop_ro("held", &held, "Submissions that have not ended and hold host arrays or functions.")
        .def("tensor", &tensor_from, "array"_a, nb::kw_only(), "name"_a = nb::none(),
             nb::sig("def tensor(self, array: object, *, name: str | None = None) -> Tensor"),
             "A tensor that lives on the device across replays, with a copy of an array's elements "
             "(numpy's, or of any library with buffers or DLPack, in host memory; on a CUDA device also in "
             "that device's, contiguous, after what its library has begun there).")
        .def("from_dlpack", &tensor_from, "array"_a, nb::kw_only(), "name"_a = nb::none(),
             nb::sig("def from_dlpack(self, array: object, *, name: str | None = None) -> Tensor"),
             "The same as `tensor`: a copy.")
        .def("empty", &empty_tensor, "shape"_a, "dtype"_a = "f32", nb::kw_only(), "name"_a = nb::none(),
             nb::sig("def empty(self, shape: int | typing.Sequence[int], dtype: str = 'f32', *, name: "
                     "str | None = None) -> Tensor"),
             "A tensor that lives across replays; undefined until something writes it.")
        .def("zeros", &zeros, "shape"_a, "dtype"_a = "f32", nb::kw_only(), "name"_a = nb::none(),
             nb::sig("def zeros(self, shape: int | typing.Sequence[int], dtype: str = 'f32', *, name: "
                     "str | None = None) -> Tensor"),
             "A tensor of zeroes that lives across replays.")
        .def(
            "close",
            [](const Device &core, std::optional<double> timeout) { core->close(nanoseconds(timeout)); },
            "timeout"_a = nb::none(),
            "Waits for what is in flight and closes the device. Tensors and plans of it are empty shells "
            "afterwards.")
        .def("__enter__", [](const Device &core) { return core; })
        .def(
            "__exit__", [](const Device &core, nb::args) { core->close(0); },
            nb::sig("def __exit__(self, *args: object) -> None"))
        .def("__repr__", &device_text);
    m.def(
        "open", &open_device, "device"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(),
        "diagnostics"_a = false, "memory_limit"_a = 0, "threads"_a = 0, "validation"_a = false,
        "cache_dir"_a = nb::none(), "capture"_a = nb::none(), "allocator"_a = nb::none(),
        nb::sig(
            "def open(device: str | None = None, *, timeout: float | None = None, diagnostics: bool = False, "
            "memory_limit: int = 0, threads: int = 0, validation: bool = False, cache_dir: str | None = "
            "None, "
            "capture: str | None = None, allocator: rota.allocators.Allocator | None = None) -> Device"),
        "Opens a device by its id ('cpu', 'vk:0', 'cuda:0'), or the best one there is; for `with`, or "
        "close() ends it. `timeout`: the default deadline of waits, in seconds from the last progress "
        "(30). `diagnostics`: times of every node, for write_trace. `memory_limit`: bytes of device "
        "memory. `threads`: workers of the CPU device. `capture`: a folder, to which each graph that is "
        "compiled is saved as a file, with what its tensors hold then, for `rota-bench run`. `allocator`: of "
        "a "
        "CUDA device, where its memory comes from (Allocator), as PyTorch's pool by rota.torch.allocator(); "
        "it is held until the device is closed.");
    m.def("open_devices", &open_devices, "Devices that are not gone, closed ones too.");
    m.def("devices", &devices, nb::sig("def devices() -> list[dict[str, object]]"),
          "What devices there are, also those that can't be used, and what they lack.");
    m.def(
        "version", [] { return rota_version(); }, "The library's version.");
}
