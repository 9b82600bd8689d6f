/* Arrays of other libraries on a CUDA device: the order of rota's work and theirs, and copies there. The driver is
 * opened at run time, as the library does. */
#include "core.h"

#include <nanobind/ndarray.h>

#include <dlfcn.h>
#include <time.h>

/* ---- The driver's functions that are needed ---- */

using Context = void *;
using Stream = void *;

struct Driver {
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(Context *context, int device);
    int (*context_release)(int device);
    int (*context_push)(Context context);
    int (*context_pop)(Context *context);
    int (*stream_create)(Stream *stream, unsigned flags);
    int (*stream_destroy)(Stream stream);
    int (*stream_query)(Stream stream);
    int (*error_name)(int result, const char **name);
};

enum { NOT_READY = 600, NON_BLOCKING = 1 };

template <typename Function> static void find(void *driver, const char *name, Function *out) {
    *out = reinterpret_cast<Function>(dlsym(driver, name));
    if (!*out) fail(ROTA_UNSUPPORTED, std::string("the CUDA driver has no ") + name);
}

static const Driver &driver() {
    static const Driver found = [] {
        void *const opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!opened) fail(ROTA_UNSUPPORTED, std::string("no CUDA driver: ") + dlerror());
        Driver d{};
        find(opened, "cuDeviceGet", &d.device_get);
        find(opened, "cuDevicePrimaryCtxRetain", &d.context_retain);
        find(opened, "cuDevicePrimaryCtxRelease_v2", &d.context_release);
        find(opened, "cuCtxPushCurrent_v2", &d.context_push);
        find(opened, "cuCtxPopCurrent_v2", &d.context_pop);
        find(opened, "cuStreamCreate", &d.stream_create);
        find(opened, "cuStreamDestroy_v2", &d.stream_destroy);
        find(opened, "cuStreamQuery", &d.stream_query);
        find(opened, "cuGetErrorName", &d.error_name);
        return d;
    }();
    return found;
}

static void check_driver(int result, const char *what) {
    if (result == 0) return;
    const char *name = nullptr;
    (void)driver().error_name(result, &name);
    fail(ROTA_DEVICE_LOST, std::string(what) + ": " + (name ? name : "an unknown error"));
}

/* ---- Order ---- */

/* A stream that no work is put on: other libraries make it wait for what they have begun. */
class CudaStream {
  public:
    explicit CudaStream(int ordinal) {
        check_driver(driver().device_get(&device_, ordinal), "cuDeviceGet");
        check_driver(driver().context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
        const Current current(context_);
        const int result = driver().stream_create(&stream_, NON_BLOCKING);
        if (result == 0) return;
        (void)driver().context_release(device_);
        check_driver(result, "cuStreamCreate");
    }
    ~CudaStream() {
        (void)driver().stream_destroy(stream_);
        (void)driver().context_release(device_);
    }
    CudaStream(const CudaStream &) = delete;
    CudaStream &operator=(const CudaStream &) = delete;

    uintptr_t number() const { return reinterpret_cast<uintptr_t>(stream_); }

    /* Until all that it waits for has been done, or the time is over. Lets the interpreter go on meanwhile. */
    void wait(uint64_t timeout_ns) const {
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
            fail(ROTA_TIMEOUT,
                 "another library's work on an array has not ended within the device's deadline");
        check_driver(result, "cuStreamQuery");
    }

  private:
    /* The context of this thread as long as it lives. */
    struct Current {
        explicit Current(Context context) : pushed(driver().context_push(context) == 0) {}
        ~Current() {
            Context popped;
            if (pushed) (void)driver().context_pop(&popped);
        }
        bool pushed;
    };

    int device_ = 0;
    Context context_ = nullptr;
    Stream stream_ = nullptr;
};

bool is_on_cuda(nb::handle array) {
    if (PyObject_CheckBuffer(array.ptr()) || !nb::hasattr(array, "__dlpack_device__")) return false;
    const nb::object device = array.attr("__dlpack_device__")();
    return nb::cast<int>(nb::int_(device[0])) == nb::device::cuda::value;
}

nb::object capsule_from_cuda(DeviceCore &device, nb::handle array, const std::string &what) {
    if (!is_on_cuda(array))
        fail(ROTA_INVALID_ARGUMENT, what + ": an array in the memory of '" + device.id +
                                        "' is expected, not " +
                                        nb::cast<std::string>(nb::repr(array.type())) + " in the host's");
    std::shared_ptr<CudaStream> stream;
    {
        Locked lock(device.mutex);
        if (!device.stream) device.stream = std::make_shared<CudaStream>(device.ordinal);
        stream = device.stream;
    }
    nb::object capsule = array.attr("__dlpack__")("stream"_a = stream->number());
    stream->wait(device.timeout_ns);
    return capsule;
}

/* ---- Copies ---- */

Tensor copied(const Tensor &x, const std::optional<std::string> &name) {
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
    wait_for(*x.device, ticket, 0);
    return made;
}
