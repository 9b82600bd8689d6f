/* Plans as foreign functions of XLA's, which rota.jax calls: one handler, told by an attribute which call it is.
 *
 * Threads: XLA calls handlers on threads of its own, several at once, without the interpreter's lock. They touch no
 * object of Python's and raise nothing: what goes wrong is an error of XLA's with the library's sentence. */
#include "plan.h"

#include <cstring>
#include <random>

#include "xla_ffi.h"

/* ---- Calls ---- */

/* A plan with the order of its operands. Executables that have it hold it. */
struct ForeignCall {
    std::shared_ptr<Plan> plan;
    std::vector<size_t> operands; /* of the plan's arguments, in XLA's order */
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

static const Arg &named(const Plan &plan, const std::string &name, size_t *out_index) {
    for (size_t i = 0; i < plan.args.size(); i++) {
        *out_index = i;
        if (plan.args[i].name == name && plan.args[i].kind != ArgKind::OUTPUT) return plan.args[i];
    }
    fail(ROTA_NOT_FOUND, "plan '" + plan.name + "' has no argument '" + name + "'");
}

static std::shared_ptr<ForeignCall> make_call(const std::shared_ptr<Plan> &plan,
                                              const std::vector<std::string> &operands) {
    if (!plan->device) fail(ROTA_WRONG_STATE, "plan '" + plan->name + "' is only analysed: it has no device");
    auto call = std::make_shared<ForeignCall>();
    call->plan = plan;
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
    const std::lock_guard<std::mutex> lock(calls_mutex);
    std::random_device random;
    do {
        call->id = static_cast<int64_t>((uint64_t(random()) << 32 | random()) >> 1);
    } while (!calls.try_emplace(call->id, call).second);
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

static XlaTypeId state_type;

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
static XlaError *describe(const XlaFrame *frame, bool makes_state) {
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
    metadata->state = makes_state ? state_type : XlaTypeId{0};
    return nullptr;
}

static bool asks(const XlaFrame *frame) {
    return frame->head.extensions && frame->head.extensions->type == XLA_EXTENSION_METADATA;
}

static XlaStateArgs state_args(const XlaFrame *frame, void *state) {
    XlaStateArgs args{};
    args.head.struct_size = sizeof args;
    args.context = frame->context;
    args.stage = XLA_STAGE_INSTANTIATE;
    args.type = &state_type;
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
static XlaError *instantiate(XlaFrame *frame) {
    if (asks(frame)) return describe(frame, true);
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
    XlaStateArgs args = state_args(frame, state);
    XlaError *const error = frame->api->state_set(&args);
    if (error) destroy_state(state);
    return error;
}

static bool fits(const XlaBuffer &buffer, const rota_tensor &like) {
    static const int DTYPES[ROTA_DTYPE_COUNT] = {XLA_F32, XLA_F16, XLA_BF16, XLA_S32, XLA_U32};
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

/* As Use, which raises. */
static XlaError *execute(XlaFrame *frame) {
    if (asks(frame)) return describe(frame, false);
    XlaStateArgs args = state_args(frame, nullptr);
    XlaError *const error = frame->api->state_get(&args);
    if (error) return error;
    ForeignCall &call = **static_cast<std::shared_ptr<ForeignCall> *>(args.state);
    DeviceCore &device = *call.plan->device;
    device.users.fetch_add(1);
    const rota_status status = device.closing.load()
                                   ? rota_fail(ROTA_WRONG_STATE, "device '%s' is closed", device.id.c_str())
                                   : run_call(call, frame);
    device.users.fetch_sub(1);
    return status == ROTA_OK ? nullptr : error_of(frame->api, status);
}

/* ---- The module's ---- */

template <typename Pointer> static nb::capsule capsule_of(Pointer *pointer) {
    return nb::capsule(reinterpret_cast<void *>(pointer), "xla._CUSTOM_CALL_TARGET");
}

static nb::dict xla_handlers() {
    nb::dict handlers;
    handlers["instantiate"] = capsule_of(instantiate);
    handlers["execute"] = capsule_of(execute);
    return handlers;
}

static nb::dict xla_state() {
    nb::dict type;
    type["type_id"] = capsule_of(&state_type);
    type["type_info"] = capsule_of(&state_info);
    return type;
}

void bind_xla(nb::module_ &m) {
    nb::class_<ForeignCall>(m, "ForeignCall", "A plan that XLA can call, by its number.")
        .def(nb::new_(&make_call), "plan"_a, "operands"_a,
             "A call of a plan whose operands, by name, are XLA's, in this order.")
        .def_ro("id", &ForeignCall::id)
        .def_prop_ro(
            "arguments", [](const ForeignCall &call) { return described(*call.plan, false); },
            nb::sig("def arguments(self) -> list[tuple[str, str, tuple[int, ...], bool]]"))
        .def_prop_ro(
            "results", [](const ForeignCall &call) { return described(*call.plan, true); },
            nb::sig("def results(self) -> list[tuple[str, str, tuple[int, ...], bool]]"));
    m.def("xla_handlers", &xla_handlers, nb::sig("def xla_handlers() -> dict[str, typing.Any]"),
          "The handlers of calls, by XLA's stages, as rota.jax registers them.");
    m.def("xla_state", &xla_state, nb::sig("def xla_state() -> dict[str, typing.Any]"),
          "The type of what an executable holds, which is registered before them.");
}
