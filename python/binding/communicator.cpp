/* Ranks: communicators, and what they do together as ops. */
#include "communicator.h"
#include "ops.h"

#include <sched.h>

rota_status CommunicatorCore::end(uint64_t timeout, std::string *out_sentence) {
    if (closed.exchange(true)) return ROTA_OK;
    if (getpid() != device->process) return ROTA_OK; /* of the process that forked */
    while (users.load() != 0) sched_yield();         /* each ends by the communicator's timeout */
    const rota_status status = rota_communicator_close(communicator, timeout);
    if (status != ROTA_OK) *out_sentence = rota_last_error();
    return status;
}

void CommunicatorCore::close(uint64_t timeout) {
    rota_status status;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        status = end(timeout, &sentence);
    }
    if (status != ROTA_OK) fail(status, sentence);
}

CommunicatorCore::~CommunicatorCore() {
    try {
        close(0);
    } catch (nb::python_error &error) {
        error.discard_as_unraisable("closing a rota communicator");
    }
}

CommunicatorUse::CommunicatorUse(CommunicatorCore &core) : use_(*core.device), core_(core) {
    core.users.fetch_add(1);
    if (!core.closed.load()) return;
    core.users.fetch_sub(1);
    fail(ROTA_WRONG_STATE,
         "communicator '" + core.name + "' of rank " + std::to_string(core.rank) + " is closed");
}

using Communicator = std::shared_ptr<CommunicatorCore>;
using Devices = std::vector<std::shared_ptr<DeviceCore>>;

static Communicator made(rota_communicator *communicator, const std::shared_ptr<DeviceCore> &device) {
    auto core = std::make_shared<CommunicatorCore>();
    core->communicator = communicator;
    core->device = device;
    core->name = rota_communicator_name(communicator);
    core->rank = rota_communicator_rank(communicator);
    core->size = rota_communicator_size(communicator);
    device->add(core);
    return core;
}

/* Where a device is CUDA's, collectives of its memory are NCCL's, unless they are not to be. */
static bool is_by_nccl(const Devices &devices, std::optional<bool> nccl) {
    for (const auto &device : devices)
        if (device->ordinal < 0) {
            if (nccl && *nccl)
                fail(ROTA_INVALID_ARGUMENT, "nccl: device '" + device->id + "' is no CUDA device");
            return false;
        }
    return nccl.value_or(true);
}

static rota_communicator_options options_of(const std::optional<std::string> &name,
                                            const std::optional<std::string> &transport,
                                            const std::optional<double> &timeout) {
    rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS();
    options.name = name ? name->c_str() : nullptr;
    options.transport = transport ? transport->c_str() : nullptr;
    options.timeout_ns = nanoseconds(timeout);
    return options;
}

static Communicator open_one(const std::shared_ptr<DeviceCore> &device,
                             const std::optional<std::string> &name,
                             const std::optional<std::string> &transport, std::optional<double> timeout,
                             std::optional<bool> nccl, uint32_t rank, uint32_t size,
                             const std::optional<std::string> &address,
                             std::optional<uintptr_t> mpi_communicator, bool own_order, bool deterministic) {
    Use use(*device);
    rota_communicator_options options = options_of(name, transport, timeout);
    options.rank = rank;
    options.size = size;
    options.address = address ? address->c_str() : nullptr;
    options.own_order = own_order;
    options.deterministic = deterministic;
    options.mpi_communicator = reinterpret_cast<const void *>(mpi_communicator.value_or(0));
    if (is_by_nccl({device}, nccl)) options.devices = &device->device;
    rota_communicator *communicator = nullptr;
    check_released([&] { return rota_communicator_open(device->runtime, &options, &communicator); });
    return made(communicator, device);
}

static std::vector<Communicator> open_ranks(const Devices &devices, const std::optional<std::string> &name,
                                            std::optional<double> timeout, std::optional<bool> nccl,
                                            bool own_order, bool deterministic) {
    std::deque<Use> uses;
    std::vector<rota_runtime *> runtimes;
    std::vector<rota_device *> own;
    for (const auto &device : devices) {
        uses.emplace_back(*device);
        runtimes.push_back(device->runtime);
        own.push_back(device->device);
    }
    rota_communicator_options options = options_of(name, std::nullopt, timeout);
    options.own_order = own_order;
    options.deterministic = deterministic;
    if (is_by_nccl(devices, nccl)) options.devices = own.data();
    std::vector<rota_communicator *> communicators(devices.size() + 1);
    check_released([&] {
        return rota_communicator_open_ranks(runtimes.data(), static_cast<uint32_t>(devices.size()), &options,
                                            communicators.data());
    });
    std::vector<Communicator> ranks;
    for (size_t i = 0; i < devices.size(); i++) ranks.push_back(made(communicators[i], devices[i]));
    return ranks;
}

static Communicator split(CommunicatorCore &core, std::optional<uint32_t> color, uint32_t key,
                          const std::optional<std::string> &name) {
    CommunicatorUse use(core);
    rota_communicator *communicator = nullptr;
    check_released([&] {
        return rota_communicator_open_split(core.communicator, color.value_or(ROTA_COMMUNICATOR_NO_COLOR),
                                            key, name ? name->c_str() : nullptr, &communicator);
    });
    return communicator ? made(communicator, core.device) : nullptr;
}

static void abort_all(CommunicatorCore &core, const std::string &cause) {
    CommunicatorUse use(core);
    check_released([&] { return rota_communicator_abort(core.communicator, cause.c_str()); });
}

static std::string communicator_text(CommunicatorCore &core) {
    const std::string text = "<rota.Communicator '" + core.name + "', rank " + std::to_string(core.rank) +
                             " of " + std::to_string(core.size);
    if (core.closed.load() || core.device->closing.load()) return text + ", closed>";
    CommunicatorUse use(core);
    const rota_device *device = rota_communicator_device(core.communicator);
    return text + ", " + rota_communicator_transport(core.communicator) + (device ? ", NCCL" : "") + " on " +
           core.device->id + ">";
}

static nb::tuple part_of(CommunicatorCore &core, uint64_t whole) {
    CommunicatorUse use(core);
    const rota_rank_part part = rota_communicator_part(core.communicator, whole);
    return nb::make_tuple(part.first, part.first + part.count);
}

/* ---- Ops ---- */

static rota_collective_reduction reduction_of(const std::string &name) {
    static const char *const known[] = {
#define NAME(reduction, text) text,
        ROTA_COLLECTIVE_REDUCTIONS(NAME)
#undef NAME
    };
    for (int i = 0; i < ROTA_COLLECTIVE_REDUCTION_COUNT; i++)
        if (name == known[i]) return static_cast<rota_collective_reduction>(i);
    fail(ROTA_INVALID_ARGUMENT,
         "reduction '" + name + "': expected 'sum', 'mean', 'max', 'min' or 'product'");
}

void uses_communicator(Recording &recording, const CommunicatorCore &communicator) {
    GraphCore &graph = recording.core();
    if (!graph.device) graph.device = communicator.device;
    if (graph.device == communicator.device) return;
    fail(ROTA_INVALID_ARGUMENT, "graph '" + graph.name + "' is for device '" + graph.device->id +
                                    "'; communicator '" + communicator.name + "' is another's");
}

template <typename Fresh, typename Into>
static Tensor collective(CommunicatorCore &communicator, const Tensor *x, const Out &out, const char *op,
                         Fresh fresh, Into into) {
    CommunicatorUse use(communicator);
    Recording recording({x}, op);
    uses_communicator(recording, communicator);
    if (const Tensor *y = pointer(out)) {
        recording.uses(y);
        check(into(recording.tape(), communicator.communicator, y->t));
        return *y;
    }
    rota_tensor y = ROTA_TENSOR_NONE;
    check(fresh(recording.tape(), communicator.communicator, &y));
    return recording.made(y);
}

/* Of the two functions of an op with a reduction, and of one without. */
template <auto Fresh, auto Into>
static Tensor reduced(const char *op, CommunicatorCore &communicator, const Tensor &x,
                      const std::string &reduction, const Out &out) {
    const rota_collective_reduction by = reduction_of(reduction);
    return collective(
        communicator, &x, out, op,
        [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) { return Fresh(tape, c, x.t, by, y); },
        [&](rota_tape *tape, rota_communicator *c, rota_tensor y) { return Into(tape, c, x.t, by, y); });
}
template <auto Fresh, auto Into>
static Tensor moved(const char *op, CommunicatorCore &communicator, const Tensor &x, const Out &out) {
    return collective(
        communicator, &x, out, op,
        [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) { return Fresh(tape, c, x.t, y); },
        [&](rota_tape *tape, rota_communicator *c, rota_tensor y) { return Into(tape, c, x.t, y); });
}

static Tensor all_reduce(const Tensor &x, CommunicatorCore &communicator, const std::string &reduction,
                         const Out &out) {
    return reduced<rota_op_all_reduce, rota_op_all_reduce_into>("all_reduce", communicator, x, reduction,
                                                                out);
}

static Tensor reduce_scatter(const Tensor &x, CommunicatorCore &communicator, const std::string &reduction,
                             const Out &out) {
    return reduced<rota_op_reduce_scatter, rota_op_reduce_scatter_into>("reduce_scatter", communicator, x,
                                                                        reduction, out);
}

static Tensor all_gather(const Tensor &x, CommunicatorCore &communicator, const Out &out) {
    return moved<rota_op_all_gather, rota_op_all_gather_into>("all_gather", communicator, x, out);
}

static Tensor all_to_all(const Tensor &x, CommunicatorCore &communicator, const Out &out) {
    return moved<rota_op_all_to_all, rota_op_all_to_all_into>("all_to_all", communicator, x, out);
}

static Tensor broadcast_from(const Tensor &x, CommunicatorCore &communicator, uint32_t root, const Out &out) {
    return collective(
        communicator, &x, out, "broadcast_from",
        [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) {
            return rota_op_broadcast_from(tape, c, root, x.t, y);
        },
        [&](rota_tape *tape, rota_communicator *c, rota_tensor y) {
            return rota_op_broadcast_from_into(tape, c, root, x.t, y);
        });
}

static void send(const Tensor &x, CommunicatorCore &communicator, uint32_t to) {
    CommunicatorUse use(communicator);
    Recording recording({&x}, "send");
    uses_communicator(recording, communicator);
    check(rota_op_send(recording.tape(), communicator.communicator, to, x.t));
}

static Tensor receive(CommunicatorCore &communicator, uint32_t source, nb::handle shape,
                      const std::string &dtype) {
    const std::vector<uint64_t> extents_ = shape_of(shape);
    CommunicatorUse use(communicator);
    Recording recording({}, "receive");
    uses_communicator(recording, communicator);
    rota_tensor y = ROTA_TENSOR_NONE;
    check(rota_op_receive(recording.tape(), communicator.communicator, source, dtype_of(dtype),
                          static_cast<uint32_t>(extents_.size()), extents_.data(), &y));
    return recording.made(y);
}

static void barrier(CommunicatorCore &communicator) {
    CommunicatorUse use(communicator);
    Recording recording({}, "barrier");
    uses_communicator(recording, communicator);
    check(rota_op_barrier(recording.tape(), communicator.communicator));
}

static void bind_collectives(nb::module_ &m) {
    m.def("all_reduce", &all_reduce, "x"_a, "communicator"_a, "reduction"_a = "sum", "out"_a = nb::none(),
          "The sum, mean, max, min or product of all ranks' x, on every rank; out may be x. Gradients of sum "
          "and mean.");
    m.def("reduce_scatter", &reduce_scatter, "x"_a, "communicator"_a, "reduction"_a = "sum",
          "out"_a = nb::none(),
          "Of that the rank's part along the first axis, which the ranks divide. Gradients of sum and mean.");
    m.def("all_gather", &all_gather, "x"_a, "communicator"_a, "out"_a = nb::none(),
          "Each rank's x, one after the other along the first axis.");
    m.def("all_to_all", &all_to_all, "x"_a, "communicator"_a, "out"_a = nb::none(),
          "Part k of x along its first axis goes to rank k; the parts that came, in the order of ranks.");
    m.def("broadcast_from", &broadcast_from, "x"_a, "communicator"_a, "root"_a, "out"_a = nb::none(),
          "Rank root's x, on every rank; x has its shape on all.");
    m.def("send", &send, "x"_a, "communicator"_a, "to"_a,
          "x goes to another rank, which records the `receive`.");
    m.def("receive", &receive, "communicator"_a, "source"_a, "shape"_a, "dtype"_a = "f32",
          nb::sig("def receive(communicator: Communicator, source: int, shape: int | typing.Sequence[int], "
                  "dtype: str = 'f32') -> Tensor"),
          "What another rank sends.");
    m.def("barrier", &barrier, "communicator"_a,
          "Ends when all ranks have come to it, after the collectives before it; orders nothing else.");
}

void bind_communicator(nb::module_ &m) {
    nb::class_<CommunicatorCore>(
        m, "Communicator", nb::is_weak_referenceable(),
        "Ranks that run graphs with collectives between them: each a process (MPI), or a part of this one.")
        .def_static(
            "open", &open_one, "device"_a, nb::kw_only(), "name"_a = nb::none(), "transport"_a = nb::none(),
            "timeout"_a = nb::none(), "nccl"_a = nb::none(), "rank"_a = 0, "size"_a = 0,
            "address"_a = nb::none(), "mpi_communicator"_a = nb::none(), "own_order"_a = false,
            "deterministic"_a = false,
            "This process's rank of all ranks that mpirun, torchrun, srun or rota-run started; one rank "
            "without them. All "
            "ranks call it. `transport`: 'mpi', 'tcp' or 'alone'. `timeout`: how long a collective waits "
            "for a rank that "
            "does not come, in seconds (20). `nccl`: collectives of a CUDA device's memory run "
            "there, by NCCL "
            "(the default of CUDA devices), or through the host. `address`: where ranks meet that each give "
            "their `rank` of `size`: 'host:port', at which rank 0 listens, or 'file:PATH', which all see. "
            "`mpi_communicator`: the address of an MPI_Comm, as mpi4py's MPI._addressof(comm), whose ranks "
            "these are. `own_order`: its collectives' order is not compared with other communicators', for "
            "what is submitted by threads of its own. `deterministic`: NCCL's algorithm and protocol are "
            "pinned, by NCCL_ALGO and NCCL_PROTO of the environment.")
        .def_static(
            "open_ranks", &open_ranks, "devices"_a, nb::kw_only(), "name"_a = nb::none(),
            "timeout"_a = nb::none(), "nccl"_a = nb::none(), "own_order"_a = false, "deterministic"_a = false,
            "A rank for each device, in one process, each opened for itself by rota.open. Ranks wait for one "
            "another, so each is used by a thread of its own, or without waiting in between.")
        .def_ro("rank", &CommunicatorCore::rank)
        .def_ro("size", &CommunicatorCore::size)
        .def_ro("name", &CommunicatorCore::name)
        .def_prop_ro(
            "device", [](CommunicatorCore &core) { return core.device; },
            nb::sig("def device(self) -> Device"))
        .def_prop_ro("closed", [](CommunicatorCore &core) { return core.closed.load(); })
        .def("part", &part_of, "whole"_a, nb::sig("def part(self, whole: int) -> tuple[int, int]"),
             "First and end of this rank's of so many rows, columns or classes: parts lie in the order of "
             "ranks, and differ by one at most.")
        .def("split", &split, "color"_a.none(), "key"_a = 0, "name"_a = nb::none(),
             nb::sig(
                 "def split(self, color: int | None, key: int = 0, name: str | None = None) -> Communicator "
                 "| None"),
             "The ranks that give one colour become a communicator of their own, ordered by key; with None "
             "this "
             "rank is in none. All ranks call it.")
        .def("abort", &abort_all, "cause"_a,
             "Ends the communicator on all ranks, with this sentence: what is under way fails there.")
        .def(
            "close",
            [](CommunicatorCore &core, std::optional<double> timeout) { core.close(nanoseconds(timeout)); },
            "timeout"_a = nb::none(), "Collectives of it fail from then on, on all ranks.")
        .def("__enter__", [](const Communicator &core) { return core; })
        .def(
            "__exit__", [](CommunicatorCore &core, nb::args) { core.close(0); },
            nb::sig("def __exit__(self, *args: object) -> None"))
        .def("__repr__", &communicator_text);
    bind_collectives(m);
}
