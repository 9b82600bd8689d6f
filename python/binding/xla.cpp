/* Plans as foreign functions of XLA's, which rota.jax calls: one handler, told by an attribute which call it is. For
 * XLA's CPU it returns when the replay has ended, which reads and writes XLA's memory; for its GPU when XLA's stream
 * comes after the replay, whose operands and results are copied on that stream.
 *
 * Threads: XLA calls handlers on threads of its own, several at once, without the interpreter's lock. They touch no
 * object of Python's and raise nothing: what goes wrong is an error of XLA's with the library's sentence. */
#include "plan.h"

#include <cstring>
#include <random>

#include "cuda.h"
#include "xla_ffi.h"

/* ---- Calls ---- */

/* Where a plan reads an operand, or leaves a result: a tensor of its device, which is nobody else's. */
struct FixedTensor {
    Tensor tensor;
    uint64_t address;
    uint64_t size_bytes;
};

/* What a call has whose operands and results are in tensors of its own. It runs once at a time, in XLA's order. */
struct FixedTensors {
    std::vector<FixedTensor> operands, results;
    std::mutex mutex; /* what follows */
    rota_external_timeline *timeline = nullptr;
    uint64_t value = 0;               /* of the last call's point */
    rota_ticket ticket{};             /* of the last call; none: its end was seen */
    std::optional<CudaCopies> copies; /* none: the memory is the host's */

    ~FixedTensors();
};

/* A plan with the order of its operands. Executables that have it hold it. */
struct ForeignCall {
    std::shared_ptr<Plan> plan;
    std::vector<size_t> operands;        /* of the plan's arguments, in XLA's order */
    std::shared_ptr<FixedTensors> fixed; /* or none: they are its arguments */
    int64_t id = 0;

    ~ForeignCall();
};

/* Calls by their numbers, which are random: an executable that was compiled in another process, and kept, names none
 * of this one's. */
static std::mutex calls_mutex;
static std::map<int64_t, std::weak_ptr<ForeignCall>> calls;

ForeignCall::~ForeignCall() {
    const std::lock_guard<std::mutex> lock(calls_mutex);
    calls.erase(id);
}

/* Who drops the last reference has the interpreter's lock, which XLA's stream may need on its way here. Memory that it
 * may still touch is never freed. */
FixedTensors::~FixedTensors() {
    rota_external_timeline_release(timeline);
    if (!copies) return;
    DeviceCore &device = *(operands.empty() ? results : operands).front().tensor.device;
    const nb::gil_scoped_release released;
    if (copies->is_over(device.timeout_ns)) return;
    for (std::vector<FixedTensor> *const kept : {&operands, &results})
        new std::vector<FixedTensor>(std::move(*kept));
}

static const Arg &named(const Plan &plan, const std::string &name, size_t *out_index) {
    for (size_t i = 0; i < plan.args.size(); i++) {
        *out_index = i;
        if (plan.args[i].name == name && plan.args[i].kind != ArgKind::OUTPUT) return plan.args[i];
    }
    fail(ROTA_NOT_FOUND, "plan '" + plan.name + "' has no argument '" + name + "'");
}

static void number(const std::shared_ptr<ForeignCall> &call) {
    const std::lock_guard<std::mutex> lock(calls_mutex);
    std::random_device random;
    do {
        call->id = static_cast<int64_t>((uint64_t(random()) << 32 | random()) >> 1);
    } while (!calls.try_emplace(call->id, call).second);
}

static std::shared_ptr<ForeignCall> new_call(const std::shared_ptr<Plan> &plan) {
    if (!plan->device) fail(ROTA_WRONG_STATE, "plan '" + plan->name + "' is only analysed: it has no device");
    auto call = std::make_shared<ForeignCall>();
    call->plan = plan;
    return call;
}

static std::shared_ptr<ForeignCall> make_call(const std::shared_ptr<Plan> &plan,
                                              const std::vector<std::string> &operands) {
    const std::shared_ptr<ForeignCall> call = new_call(plan);
    std::vector<bool> given(plan->args.size());
    for (const std::string &name : operands) {
        size_t index = 0;
        const Arg &arg = named(*plan, name, &index);
        if (arg.kind == ArgKind::BUFFER || (arg.kind == ArgKind::SCALAR && arg.slot.type == ROTA_VALUE_U64))
            fail(ROTA_UNSUPPORTED, "plan '" + plan->name + "': argument '" + name +
                                       "' is a tensor of rota's, or u64, which XLA has none of");
        call->operands.push_back(index);
        given[index] = true;
    }
    for (size_t i = 0; i < given.size(); i++) {
        const Arg &arg = plan->args[i];
        const bool by_itself = arg.kind == ArgKind::SCALAR && (arg.counts || arg.preset);
        if (!given[i] && arg.kind != ArgKind::OUTPUT && !by_itself)
            fail(ROTA_INVALID_ARGUMENT, "plan '" + plan->name + "': argument '" + arg.name + "' is missing");
    }
    number(call);
    return call;
}

/* Where a tensor is, once all is done that was submitted to it: its first and last bytes, read, come after that. */
static FixedTensor fixed_of(DeviceCore &device, const Tensor &tensor) {
    const rota_tensor &t = tensor.t;
    if (tensor.device.get() != &device || !rota_tensor_is_contiguous(&t))
        fail(ROTA_INVALID_ARGUMENT,
             "a contiguous tensor of device '" + device.id + "' is expected, not " + tensor.describe());
    const uint64_t bytes = rota_shape_bytes(t.dtype, t.rank, t.shape);
    uint64_t address = 0;
    rota_status status = ROTA_OK;
    std::string sentence;
    {
        const nb::gil_scoped_release released;
        char byte;
        if (bytes) status = rota_buffer_read(t.buffer, t.offset_bytes, &byte, 1);
        if (bytes && status == ROTA_OK)
            status = rota_buffer_read(t.buffer, t.offset_bytes + bytes - 1, &byte, 1);
        if (status == ROTA_OK) status = rota_buffer_prepare(t.buffer, device.device);
        if (status == ROTA_OK) status = rota_buffer_address(t.buffer, device.device, &address);
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    if (status != ROTA_OK) fail(status, sentence);
    return {tensor, address + t.offset_bytes, bytes};
}

static std::shared_ptr<ForeignCall> make_fixed_call(const std::shared_ptr<Plan> &plan,
                                                    const std::vector<Tensor *> &operands,
                                                    const std::vector<Tensor *> &results) {
    const std::shared_ptr<ForeignCall> call = new_call(plan);
    DeviceCore &device = *plan->device;
    const Use use(device);
    if (!plan->args.empty() || results.empty())
        fail(ROTA_INVALID_ARGUMENT, "plan '" + plan->name + "' has arguments, or no results");
    if (device.ordinal < 0 && device.id != "cpu")
        fail(ROTA_UNSUPPORTED, "XLA reaches no memory of device '" + device.id + "'");
    rota_plan_stats counted = ROTA_PLAN_STATS();
    check(rota_plan_get_stats(plan->plan, &counted));
    /* Others would have copies of operands of their own, and not know that XLA writes anew. */
    if (counted.devices > 1)
        fail(ROTA_UNSUPPORTED, "plan '" + plan->name + "' has parts on other devices than '" + device.id +
                                   "', such as functions of the host's; where XLA's arrays are it has none");
    call->fixed = std::make_shared<FixedTensors>();
    for (const Tensor *one : operands) call->fixed->operands.push_back(fixed_of(device, *one));
    for (const Tensor *one : results) call->fixed->results.push_back(fixed_of(device, *one));
    if (device.ordinal >= 0) {
        call->fixed->copies.emplace(device);
        check(rota_external_timeline_create(device.runtime, plan->name.c_str(), &call->fixed->timeline));
    }
    number(call);
    return call;
}

/* What arguments or results are: name, dtype and shape of each. */
static nb::list described(const Plan &plan, bool outputs) {
    nb::list list;
    for (const Arg &arg : plan.args) {
        if ((arg.kind == ArgKind::OUTPUT) != outputs) continue;
        const bool scalar = arg.kind == ArgKind::SCALAR;
        const char *const dtype = !scalar                           ? rota_dtype_name(arg.tensor.dtype)
                                  : arg.slot.type == ROTA_VALUE_F32 ? "f32"
                                  : arg.slot.type == ROTA_VALUE_U32 ? "u32"
                                                                    : "u64";
        const nb::tuple shape = scalar ? nb::make_tuple() : nb::tuple(nb::cast(extents(arg.tensor)));
        list.append(nb::make_tuple(arg.key, dtype, shape, scalar && (arg.counts || arg.preset)));
    }
    return list;
}

static nb::list described(const std::vector<FixedTensor> &fixed) {
    nb::list list;
    for (const FixedTensor &one : fixed)
        list.append(nb::make_tuple("", rota_dtype_name(one.tensor.t.dtype),
                                   nb::tuple(nb::cast(extents(one.tensor.t))), false));
    return list;
}

/* ---- Errors ---- */

static XlaError *error_of(const XlaApi *api, int code, const char *sentence) {
    XlaErrorArgs args{};
    args.head.struct_size = sizeof args;
    args.message = sentence;
    args.code = code;
    return api->error_create(&args);
}

/* This thread's last failure. */
static XlaError *error_of(const XlaApi *api, rota_status status) {
    const int code = status == ROTA_INVALID_ARGUMENT ? XLA_INVALID_ARGUMENT
                     : status == ROTA_OUT_OF_MEMORY  ? XLA_RESOURCE_EXHAUSTED
                     : status == ROTA_WRONG_STATE    ? XLA_FAILED_PRECONDITION
                     : status == ROTA_UNSUPPORTED    ? XLA_UNIMPLEMENTED
                     : status == ROTA_TIMEOUT        ? XLA_DEADLINE_EXCEEDED
                     : status == ROTA_DEVICE_LOST    ? XLA_UNAVAILABLE
                                                     : XLA_INTERNAL;
    return error_of(api, code, rota_last_error());
}

/* ---- What an executable holds ---- */

/* XLA's GPU is a library of its own, which numbers types itself. */
enum Platform { ON_CPU, ON_CUDA, PLATFORMS };
static XlaTypeId state_types[PLATFORMS];

/* Whoever drops the last reference of a plan has the interpreter's lock; XLA destroys states on any thread, under
 * locks of its own. */
static void destroy_state(void *state) {
    const auto drop = [](void *dropped) {
        delete static_cast<std::shared_ptr<ForeignCall> *>(dropped);
        return 0;
    };
    drop_later(drop, state);
}

static XlaTypeInfo state_info{{sizeof(XlaTypeInfo), nullptr}, destroy_state};

/* ---- Handlers ---- */

/* Answers XLA's question when a handler is registered; an error refuses it. */
static XlaError *describe(const XlaFrame *frame, XlaTypeId state) {
    const XlaVersion &version = frame->api->version;
    if (version.major != XLA_MAJOR || version.minor < XLA_MINOR ||
        frame->api->head.struct_size < sizeof(XlaApi)) {
        rota_fail(ROTA_UNSUPPORTED,
                  "rota.jax needs version %d.%d of XLA's foreign functions or a later %d; it is %d.%d",
                  XLA_MAJOR, XLA_MINOR, XLA_MAJOR, version.major, version.minor);
        return error_of(frame->api, ROTA_UNSUPPORTED);
    }
    auto *const metadata = reinterpret_cast<XlaMetadataExtension *>(frame->head.extensions)->metadata;
    metadata->version = {{sizeof(XlaVersion), nullptr}, XLA_MAJOR, XLA_MINOR};
    metadata->traits = 0;
    metadata->state = state;
    return nullptr;
}

static bool asks(const XlaFrame *frame) {
    return frame->head.extensions && frame->head.extensions->type == XLA_EXTENSION_METADATA;
}

static XlaStateArgs state_args(const XlaFrame *frame, Platform platform, void *state) {
    XlaStateArgs args{};
    args.head.struct_size = sizeof args;
    args.context = frame->context;
    args.stage = XLA_STAGE_INSTANTIATE;
    args.type = &state_types[platform];
    args.state = state;
    return args;
}

/* The number of a call, or -1. */
static int64_t number_of(const XlaAttributes &attributes) {
    for (int64_t i = 0; i < attributes.count; i++) {
        const XlaText &name = *attributes.names[i];
        if (name.length != 4 || memcmp(name.begin, "call", 4) != 0) continue;
        if (attributes.types[i] != XLA_ATTRIBUTE_SCALAR) continue;
        const auto *scalar = static_cast<const XlaScalar *>(attributes.values[i]);
        if (scalar->dtype == XLA_S64) return *static_cast<const int64_t *>(scalar->value);
    }
    return -1;
}

/* An executable is made: it holds its plan from now on. */
template <Platform platform> static XlaError *instantiate(XlaFrame *frame) {
    if (asks(frame)) return describe(frame, state_types[platform]);
    std::shared_ptr<ForeignCall> call;
    {
        const std::lock_guard<std::mutex> lock(calls_mutex);
        const auto found = calls.find(number_of(frame->attributes));
        if (found != calls.end()) call = found->second.lock();
    }
    if (!call)
        return error_of(
            frame->api, XLA_FAILED_PRECONDITION,
            "the rota plan of this computation is gone, or was another process's: what was lowered is "
            "compiled while its function lives");
    auto *const state = new std::shared_ptr<ForeignCall>(std::move(call));
    XlaStateArgs args = state_args(frame, platform, state);
    XlaError *const error = frame->api->state_set(&args);
    if (error) destroy_state(state);
    return error;
}

static bool fits(const XlaBuffer &buffer, const rota_tensor &like) {
    static const int DTYPES[ROTA_DTYPE_COUNT] = {XLA_F32, XLA_F16,       XLA_BF16,   XLA_S32,
                                                 XLA_U32, XLA_F8_E4M3FN, XLA_F8_E5M2};
    if (buffer.dtype != DTYPES[like.dtype] || buffer.rank != int64_t(like.rank)) return false;
    for (uint32_t i = 0; i < like.rank; i++)
        if (buffer.extents[i] != static_cast<int64_t>(like.shape[i])) return false;
    return true;
}

static rota_status misfit(const Plan &plan, const Arg &arg) {
    return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': argument '%s' has another dtype or shape",
                     plan.name.c_str(), arg.name.c_str());
}

static rota_status set_slot(Plan &plan, rota_args *set, const Arg &arg, const XlaBuffer *given) {
    if (!given) return set_number(set, arg, own_number(plan, arg));
    const bool real = arg.slot.type == ROTA_VALUE_F32;
    if (given->rank != 0 || given->dtype != (real ? XLA_F32 : XLA_U32)) return misfit(plan, arg);
    Number number{};
    if (real)
        number.real = *static_cast<const float *>(given->data);
    else
        number.whole = *static_cast<const uint32_t *>(given->data);
    return set_number(set, arg, number);
}

static rota_status set_memory(Plan &plan, rota_args *set, const Arg &arg, const XlaBuffer &given) {
    const rota_tensor &like = arg.tensor;
    if (!fits(given, like)) return misfit(plan, arg);
    const uint64_t bytes = rota_shape_bytes(like.dtype, like.rank, like.shape);
    return arg.kind == ArgKind::OUTPUT ? rota_args_set_output(set, like.buffer, given.data, bytes)
                                       : rota_args_set_input(set, like.buffer, given.data, bytes, false);
}

static rota_status set_all(ForeignCall &call, rota_args *set, const XlaFrame *frame) {
    Plan &plan = *call.plan;
    std::vector<const XlaBuffer *> given(plan.args.size());
    if (frame->operands.count != int64_t(call.operands.size()))
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': %lld operands, not %zu", plan.name.c_str(),
                         static_cast<long long>(frame->operands.count), call.operands.size());
    for (size_t i = 0; i < call.operands.size(); i++) given[call.operands[i]] = frame->operands.buffers[i];
    int64_t results = 0;
    for (size_t i = 0; i < plan.args.size(); i++)
        if (plan.args[i].kind == ArgKind::OUTPUT && results < frame->results.count)
            given[i] = frame->results.buffers[results++];
    for (size_t i = 0; i < plan.args.size(); i++) {
        const Arg &arg = plan.args[i];
        if (!given[i] && arg.kind != ArgKind::SCALAR) return misfit(plan, arg);
        const rota_status status = arg.kind == ArgKind::SCALAR ? set_slot(plan, set, arg, given[i])
                                                               : set_memory(plan, set, arg, *given[i]);
        if (status != ROTA_OK) return status;
    }
    return ROTA_OK;
}

/* Says that a deadline has passed. */
static void say(const char *sentence) {
    const nb::gil_scoped_acquire acquired;
    try {
        nb::module_::import_("logging").attr("getLogger")("rota.jax").attr("warning")("%s", sentence);
    } catch (nb::python_error &error) {
        error.discard_as_unraisable("rota.jax");
    }
}

/* XLA's memory is XLA's again when the handler returns, so that it waits until the replay has ended, whatever
 * deadlines pass meanwhile. */
static rota_status wait_to_the_end(rota_ticket ticket) {
    for (;;) {
        const rota_status status = rota_wait(ticket, 0);
        if (status != ROTA_TIMEOUT) return status;
        const std::string sentence = rota_last_error();
        if (rota_poll(ticket) != ROTA_BUSY) return rota_wait(ticket, 0); /* it has ended meanwhile */
        say(sentence.c_str());
    }
}

static rota_status run_call(ForeignCall &call, const XlaFrame *frame) {
    Plan &plan = *call.plan;
    rota_ticket ticket{};
    rota_status status;
    {
        const PlanArgs<std::lock_guard<std::mutex>> set(plan);
        status = set.status();
        if (status == ROTA_OK) status = set_all(call, set.get(), frame);
        if (status == ROTA_OK) status = rota_submit_wait(plan.plan, set.get(), 0, &ticket);
    }
    return status == ROTA_OK ? wait_to_the_end(ticket) : status;
}

/* ---- Calls whose operands and results are in tensors of theirs ---- */

static rota_status check_fixed(const Plan &plan, const std::vector<FixedTensor> &fixed,
                               const XlaBuffers &given, const char *what) {
    if (given.count != int64_t(fixed.size()))
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': %lld %ss, not %zu", plan.name.c_str(),
                         static_cast<long long>(given.count), what, fixed.size());
    for (size_t i = 0; i < fixed.size(); i++)
        if (!fits(*given.buffers[i], fixed[i].tensor.t))
            return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': %s %zu has another dtype or shape",
                             plan.name.c_str(), what, i);
    return ROTA_OK;
}

/* A replay that failed when its stream had gone on already: it is said of the next call. */
static rota_status last_failure(FixedTensors &fixed) {
    if (!fixed.ticket.id) return ROTA_OK;
    const rota_status status = rota_poll(fixed.ticket);
    if (status == ROTA_BUSY || status == ROTA_NOT_FOUND) return ROTA_OK;
    fixed.ticket = {};
    if (status == ROTA_OK) return ROTA_OK;
    const std::string sentence = rota_last_error();
    return rota_fail(status, "a call before this one failed: %s", sentence.c_str());
}

/* What is before a call on XLA's stream may take so long; a context that fails is known of before. */
#define BEFORE_NS (24u * 3600u * 1000000000ull)

/* After all that the stream was given, which comes after the replay then: it waits for the replay on the device. This
 * thread waits until the driver has the replay, so for what is before it on the stream. */
static rota_status replay_on(ForeignCall &call, void *stream) {
    FixedTensors &fixed = *call.fixed;
    const rota_external_point point = {fixed.timeline, ++fixed.value};
    rota_submit_options options = ROTA_SUBMIT_OPTIONS();
    options.after = &point;
    options.after_count = 1;
    options.after_timeout_ns = BEFORE_NS;
    rota_device *const device = call.plan->device->device;
    rota_status status = rota_stream_signal(device, stream, point.timeline, point.value);
    if (status == ROTA_OK) status = rota_submit_with(call.plan->plan, &options, &fixed.ticket);
    if (status != ROTA_OK) return status;
    if (rota_stream_wait(device, stream, fixed.ticket, 0) == ROTA_OK) return ROTA_OK;
    status = wait_to_the_end(fixed.ticket); /* so that it is over, or is known to have failed */
    fixed.ticket = {};
    return status;
}

static rota_status copy_and_replay(ForeignCall &call, const XlaFrame *frame, void *stream) {
    FixedTensors &fixed = *call.fixed;
    for (size_t i = 0; i < fixed.operands.size(); i++) {
        const FixedTensor &to = fixed.operands[i];
        const auto from = reinterpret_cast<uintptr_t>(frame->operands.buffers[i]->data);
        const rota_status status = fixed.copies->copy(stream, to.address, from, to.size_bytes);
        if (status != ROTA_OK) return status;
    }
    rota_status status = replay_on(call, stream);
    for (size_t i = 0; i < fixed.results.size() && status == ROTA_OK; i++) {
        const FixedTensor &from = fixed.results[i];
        const auto to = reinterpret_cast<uintptr_t>(frame->results.buffers[i]->data);
        status = fixed.copies->copy(stream, to, from.address, from.size_bytes);
    }
    return status;
}

static rota_status run_on_stream(ForeignCall &call, const XlaFrame *frame, void *stream) {
    CudaCopies &copies = *call.fixed->copies;
    rota_status status = copies.begin(stream);
    if (status != ROTA_OK) return status;
    status = copy_and_replay(call, frame, stream);
    if (status == ROTA_OK) return copies.end(stream);
    const std::string sentence = rota_last_error();
    (void)copies.end(stream);
    return rota_fail(status, "%s", sentence.c_str());
}

static rota_status run_on_host(ForeignCall &call, const XlaFrame *frame) {
    FixedTensors &fixed = *call.fixed;
    for (size_t i = 0; i < fixed.operands.size(); i++) {
        const FixedTensor &to = fixed.operands[i];
        memcpy(reinterpret_cast<void *>(to.address), frame->operands.buffers[i]->data, to.size_bytes);
    }
    rota_ticket ticket{};
    rota_status status = rota_submit_wait(call.plan->plan, nullptr, 0, &ticket);
    if (status == ROTA_OK) status = wait_to_the_end(ticket);
    for (size_t i = 0; i < fixed.results.size() && status == ROTA_OK; i++) {
        const FixedTensor &from = fixed.results[i];
        memcpy(frame->results.buffers[i]->data, reinterpret_cast<void *>(from.address), from.size_bytes);
    }
    return status;
}

static rota_status run_fixed(ForeignCall &call, const XlaFrame *frame, void *stream) {
    FixedTensors &fixed = *call.fixed;
    const std::lock_guard<std::mutex> lock(fixed.mutex);
    rota_status status = check_fixed(*call.plan, fixed.operands, frame->operands, "operand");
    if (status == ROTA_OK) status = check_fixed(*call.plan, fixed.results, frame->results, "result");
    if (status == ROTA_OK) status = last_failure(fixed);
    if (status != ROTA_OK) return status;
    return fixed.copies ? run_on_stream(call, frame, stream) : run_on_host(call, frame);
}

/* ---- Execution ---- */

/* The platform's own calls, on its stream. */
static rota_status run_on(Platform platform, ForeignCall &call, const XlaFrame *frame, void *stream) {
    if ((platform == ON_CUDA) != (call.fixed && call.fixed->copies))
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s' is not made for XLA's %s", call.plan->name.c_str(),
                         platform == ON_CUDA ? "GPU" : "CPU");
    return call.fixed ? run_fixed(call, frame, stream) : run_call(call, frame);
}

/* As Use, which raises. */
template <Platform platform> static XlaError *execute(XlaFrame *frame) {
    if (asks(frame)) return describe(frame, {0});
    XlaStateArgs args = state_args(frame, platform, nullptr);
    XlaError *error = frame->api->state_get(&args);
    if (error) return error;
    XlaStreamArgs stream{};
    stream.head.struct_size = sizeof stream;
    stream.context = frame->context;
    if (platform == ON_CUDA && (error = frame->api->stream_get(&stream)) != nullptr) return error;
    ForeignCall &call = **static_cast<std::shared_ptr<ForeignCall> *>(args.state);
    DeviceCore &device = *call.plan->device;
    device.users.fetch_add(1);
    const rota_status status = device.closing.load()
                                   ? rota_fail(ROTA_WRONG_STATE, "device '%s' is closed", device.id.c_str())
                                   : run_on(platform, call, frame, stream.stream);
    device.users.fetch_sub(1);
    return status == ROTA_OK ? nullptr : error_of(frame->api, status);
}

/* ---- The module's ---- */

template <typename Pointer> static nb::capsule capsule_of(Pointer *pointer) {
    return nb::capsule(reinterpret_cast<void *>(pointer), "xla._CUSTOM_CALL_TARGET");
}

static Platform platform_of(const std::string &name) {
    if (name == "cpu") return ON_CPU;
    if (name == "cuda") return ON_CUDA;
    fail(ROTA_INVALID_ARGUMENT, "a platform of XLA's is 'cpu' or 'cuda', not '" + name + "'");
}

static nb::dict xla_handlers(const std::string &platform) {
    const bool on_cuda = platform_of(platform) == ON_CUDA;
    nb::dict handlers;
    handlers["instantiate"] = capsule_of(on_cuda ? instantiate<ON_CUDA> : instantiate<ON_CPU>);
    handlers["execute"] = capsule_of(on_cuda ? execute<ON_CUDA> : execute<ON_CPU>);
    return handlers;
}

static nb::dict xla_state(const std::string &platform) {
    nb::dict type;
    type["type_id"] = capsule_of(&state_types[platform_of(platform)]);
    type["type_info"] = capsule_of(&state_info);
    return type;
}

void bind_xla(nb::module_ &m) {
    nb::class_<ForeignCall>(m, "ForeignCall", "A plan that XLA can call, by its number.")
        .def(nb::new_(&make_call), "plan"_a, "operands"_a,
             "A call of a plan whose operands, by name, are XLA's, in this order.")
        .def_static("of_tensors", &make_fixed_call, "plan"_a, "operands"_a, "results"_a,
                    "A call of a plan without arguments that reads and writes tensors of its device, which "
                    "are nobody else's: operands are copied there first, and results from there.")
        .def_ro("id", &ForeignCall::id)
        .def_prop_ro(
            "arguments",
            [](const ForeignCall &call) {
                return call.fixed ? described(call.fixed->operands) : described(*call.plan, false);
            },
            nb::sig("def arguments(self) -> list[tuple[str, str, tuple[int, ...], bool]]"))
        .def_prop_ro(
            "results",
            [](const ForeignCall &call) {
                return call.fixed ? described(call.fixed->results) : described(*call.plan, true);
            },
            nb::sig("def results(self) -> list[tuple[str, str, tuple[int, ...], bool]]"));
    m.def("xla_handlers", &xla_handlers, "platform"_a = "cpu",
          nb::sig("def xla_handlers(platform: str = 'cpu') -> dict[str, typing.Any]"),
          "The handlers of calls on a platform of XLA's, 'cpu' or 'cuda', by XLA's stages, as rota.jax "
          "registers them.");
    m.def("xla_state", &xla_state, "platform"_a = "cpu",
          nb::sig("def xla_state(platform: str = 'cpu') -> dict[str, typing.Any]"),
          "The type of what an executable holds there, which is registered before them.");
}
