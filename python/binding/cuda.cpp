/* Arrays of other libraries on a CUDA device: the order of rota's work and theirs, and copies there. The driver is
 * opened at run time, as the library does. */
#include "cuda.h"
#include "streams.h"

#include <nanobind/ndarray.h>

#include <dlfcn.h>
#include <time.h>

#include <cstdio>

/* ---- The driver's functions that are needed ---- */

using Context = void *;
using Stream = void *;
using Event = void *;

struct Driver {
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(Context *context, int device);
    int (*context_release)(int device);
    int (*context_push)(Context context);
    int (*context_pop)(Context *context);
    int (*stream_create)(Stream *stream, unsigned flags);
    int (*stream_destroy)(Stream stream);
    int (*stream_query)(Stream stream);
    int (*stream_context)(Stream stream, Context *context);
    int (*stream_id)(Stream stream, unsigned long long *id);
    int (*stream_wait)(Stream stream, Event event, unsigned flags);
    int (*event_create)(Event *event, unsigned flags);
    int (*event_destroy)(Event event);
    int (*event_record)(Event event, Stream stream);
    int (*event_query)(Event event);
    int (*copy)(uint64_t to, uint64_t from, size_t size_bytes, Stream stream);
    int (*error_name)(int result, const char **name);
};

enum { NOT_READY = 600, NON_BLOCKING = 1, NO_TIMING = 2, LEGACY_STREAMS = 1 };

/* cuGetProcAddress, in its second form. */
using Find = int (*)(const char *name, void **out, int version, uint64_t flags, int *out_found);

/* In the form that CUDA of that version has, with streams as they are named. */
template <typename Function> static void find(Find driver, const char *name, int version, Function *out) {
    void *function = nullptr;
    int found = 0;
    if (driver(name, &function, version, LEGACY_STREAMS, &found) != 0 || !function)
        fail(ROTA_UNSUPPORTED, std::string("the CUDA driver has no ") + name);
    *out = reinterpret_cast<Function>(function);
}

static const Driver &driver() {
    static const Driver found = [] {
        void *const opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!opened) fail(ROTA_UNSUPPORTED, std::string("no CUDA driver: ") + dlerror());
        const auto in = reinterpret_cast<Find>(dlsym(opened, "cuGetProcAddress_v2"));
        if (!in) fail(ROTA_UNSUPPORTED, "the CUDA driver has no cuGetProcAddress_v2");
        Driver d{};
        find(in, "cuDeviceGet", 2000, &d.device_get);
        find(in, "cuDevicePrimaryCtxRetain", 7000, &d.context_retain);
        find(in, "cuDevicePrimaryCtxRelease", 11000, &d.context_release);
        find(in, "cuCtxPushCurrent", 4000, &d.context_push);
        find(in, "cuCtxPopCurrent", 4000, &d.context_pop);
        find(in, "cuStreamCreate", 2000, &d.stream_create);
        find(in, "cuStreamDestroy", 4000, &d.stream_destroy);
        find(in, "cuStreamQuery", 2000, &d.stream_query);
        find(in, "cuStreamGetCtx", 9020, &d.stream_context);
        find(in, "cuStreamGetId", 12000, &d.stream_id);
        find(in, "cuStreamWaitEvent", 3020, &d.stream_wait);
        find(in, "cuEventCreate", 2000, &d.event_create);
        find(in, "cuEventDestroy", 4000, &d.event_destroy);
        find(in, "cuEventRecord", 2000, &d.event_record);
        find(in, "cuEventQuery", 2000, &d.event_query);
        find(in, "cuMemcpyAsync", 4000, &d.copy);
        find(in, "cuGetErrorName", 6000, &d.error_name);
        return d;
    }();
    return found;
}

static const char *name_of(int result) {
    const char *name = nullptr;
    (void)driver().error_name(result, &name);
    return name ? name : "an unknown error";
}

static void check_driver(int result, const char *what) {
    if (result != 0) fail(ROTA_DEVICE_LOST, std::string(what) + ": " + name_of(result));
}

/* The context of this thread as long as it lives. */
struct Current {
    explicit Current(Context context) : pushed(driver().context_push(context) == 0) {}
    ~Current() {
        Context popped;
        if (pushed) (void)driver().context_pop(&popped);
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
    const bool pushed;
};

/* The context that the driver has for all libraries, retained. */
static Context retained(int ordinal, int *out_device) {
    Context context = nullptr;
    check_driver(driver().device_get(out_device, ordinal), "cuDeviceGet");
    check_driver(driver().context_retain(&context, *out_device), "cuDevicePrimaryCtxRetain");
    return context;
}

std::string hex(uintptr_t handle) {
    char text[32];
    (void)snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(handle));
    return text;
}

/* ---- Order ---- */

CudaStream::CudaStream(int ordinal) : context_(retained(ordinal, &device_)) {
    const Current current(context_);
    const int result = driver().stream_create(&stream_, NON_BLOCKING);
    if (result == 0) return;
    (void)driver().context_release(device_);
    check_driver(result, "cuStreamCreate");
}

CudaStream::~CudaStream() {
    {
        const Current current(context_);
        (void)driver().stream_destroy(stream_);
    }
    (void)driver().context_release(device_);
}

void CudaStream::wait(uint64_t timeout_ns) const {
    int result;
    {
        nb::gil_scoped_release released;
        const Current current(context_);
        const uint64_t deadline = rota_deadline_after(timeout_ns);
        const timespec pause = {0, 20000};
        while ((result = driver().stream_query(stream_)) == NOT_READY && rota_clock_ns() < deadline)
            nanosleep(&pause, nullptr);
    }
    if (result == NOT_READY)
        fail(ROTA_TIMEOUT, "another library's work on an array has not ended within the device's deadline");
    check_driver(result, "cuStreamQuery");
}

void CudaStream::come_after(uintptr_t event, const std::string &what) {
    const Current current(context_);
    const int result = driver().stream_wait(stream_, reinterpret_cast<Event>(event), 0);
    if (result != 0)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": the driver takes no event " + hex(event) + ": cuStreamWaitEvent: " + name_of(result));
}

bool CudaStream::is_idle() const {
    const Current current(context_);
    return driver().stream_query(stream_) == 0;
}

nb::object CudaStream::capsule_of(nb::handle array, int64_t stream) const {
    const Current current(context_);
    return array.attr("__dlpack__")("stream"_a = stream);
}

uint64_t CudaStream::id_of(uintptr_t stream, const std::string &what) const {
    const Current current(context_);
    const auto asked = reinterpret_cast<Stream>(stream);
    Context context = nullptr;
    unsigned long long id = 0;
    int result = driver().stream_context(asked, &context);
    if (result == 0 && context != context_)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": stream " + hex(stream) + " is of another GPU, or context, than the device's");
    if (result == 0) result = driver().stream_id(asked, &id);
    if (result != 0)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": the driver knows no stream " + hex(stream) + ": " + name_of(result));
    return id;
}

/* ---- Copies on streams of other libraries ---- */

CudaCopies::CudaCopies(const DeviceCore &device)
    : id_(device.id), context_(retained(device.ordinal, &device_)) {
    const Current current(context_);
    const int result = driver().event_create(&event_, NO_TIMING);
    if (result == 0) return;
    (void)driver().context_release(device_);
    check_driver(result, "cuEventCreate");
}

CudaCopies::~CudaCopies() {
    {
        const Current current(context_);
        (void)driver().event_destroy(event_);
    }
    (void)driver().context_release(device_);
}

static rota_status failed(const char *what, int result) {
    return rota_fail(ROTA_DEVICE_LOST, "%s: %s", what, name_of(result));
}

rota_status CudaCopies::begin(void *stream) {
    Context context = nullptr;
    const Current current(context_);
    int result = driver().stream_context(stream, &context);
    if (result != 0) return failed("cuStreamGetCtx", result);
    if (context != context_)
        return rota_fail(ROTA_INVALID_ARGUMENT, "the call is on another GPU, or context, than device '%s'",
                         id_.c_str());
    if (!has_begun_) return ROTA_OK;
    result = driver().stream_wait(stream, event_, 0);
    return result == 0 ? ROTA_OK : failed("cuStreamWaitEvent", result);
}

rota_status CudaCopies::copy(void *stream, uint64_t to, uint64_t from, uint64_t size_bytes) const {
    if (size_bytes == 0) return ROTA_OK;
    const Current current(context_);
    const int result = driver().copy(to, from, size_bytes, stream);
    return result == 0 ? ROTA_OK : failed("cuMemcpyAsync", result);
}

rota_status CudaCopies::end(void *stream) {
    const Current current(context_);
    const int result = driver().event_record(event_, stream);
    has_begun_ = has_begun_ || result == 0;
    return result == 0 ? ROTA_OK : failed("cuEventRecord", result);
}

bool CudaCopies::is_over(uint64_t timeout_ns) const {
    if (!has_begun_) return true;
    const Current current(context_);
    const uint64_t deadline = rota_deadline_after(timeout_ns);
    const timespec pause = {0, 20000};
    int result;
    while ((result = driver().event_query(event_)) == NOT_READY && rota_clock_ns() < deadline)
        nanosleep(&pause, nullptr);
    return result != NOT_READY;
}

/* ---- Arrays ---- */

/* DLPack's kind and number of a device. */
struct DlpackDevice {
    int kind, ordinal;
};

/* The device that an array says it is on. Whether its type has buffers says nothing: those of JAX's and CuPy's arrays
 * are for others that lie on the host. */
static DlpackDevice device_of(nb::handle array) {
    if (!nb::hasattr(array, "__dlpack_device__")) return {nb::device::cpu::value, 0};
    const nb::object device = array.attr("__dlpack_device__")();
    return {nb::cast<int>(nb::int_(device[0])), nb::cast<int>(nb::int_(device[1]))};
}

bool is_on_cuda(nb::handle array) {
    return device_of(array).kind == nb::device::cuda::value;
}

void check_process(const DeviceCore &device) {
    if (device.process != getpid())
        fail(ROTA_WRONG_STATE,
             "device '" + device.id + "' is of another process: it does not survive a fork");
}

static std::shared_ptr<CudaStream> own_stream(DeviceCore &device) {
    check_process(device);
    Locked lock(device.mutex);
    if (!device.stream) device.stream = std::make_shared<CudaStream>(device.ordinal);
    return device.stream;
}

nb::object capsule_from_cuda(DeviceCore &device, nb::handle array, const DlpackStream &stream,
                             const std::string &what) {
    const DlpackDevice is_on = device_of(array);
    if (is_on.kind != nb::device::cuda::value || is_on.ordinal != device.ordinal)
        fail(ROTA_INVALID_ARGUMENT, what + ": an array in the memory of '" + device.id +
                                        "' is expected, not " +
                                        nb::cast<std::string>(nb::repr(array.type())) + " in " +
                                        memory_text(is_on.kind, is_on.ordinal));
    const std::shared_ptr<CudaStream> own = own_stream(device);
    if (stream.kind != DlpackStream::NONE) return own->capsule_of(array, stream.number());
    nb::object capsule = own->capsule_of(array, static_cast<int64_t>(own->number()));
    own->wait(device.timeout_ns);
    return capsule;
}

/* ---- Copies ---- */

Tensor copied(const Tensor &x, const std::optional<std::string> &name, rota_ticket *out_ticket) {
    if (!x.device)
        fail(ROTA_INVALID_ARGUMENT, "copying: " + x.describe() + " has data only inside of a replay");
    Use use(*x.device);
    rota_op_use copy{};
    copy.op = rota_op_find("copy");
    copy.input_count = copy.output_count = 1;
    copy.inputs[0] = x.t;
    rota_ticket ticket{};
    rota_status status;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        status = rota_tensor_create(x.device->device, name ? name->c_str() : nullptr, x.t.dtype, x.t.rank,
                                    x.t.shape, nullptr, &copy.outputs[0]);
        if (status == ROTA_OK) status = rota_op_submit(x.device->device, &copy, &ticket);
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    const Tensor made(copy.outputs[0], nullptr, x.device);
    rota_buffer_release(copy.outputs[0].buffer); /* the tensor has its own reference */
    if (status != ROTA_OK) fail(status, sentence);
    if (out_ticket)
        *out_ticket = ticket;
    else
        wait_for(*x.device, ticket, 0);
    return made;
}
