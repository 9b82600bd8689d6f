/* What the extension's files share: the objects behind Python's, and how errors, locks and waits are done.
 *
 * Threads: everything here may be called by several threads, with the interpreter's lock or, in a
 * free-threaded Python, without. What the library has for one thread at a time has a mutex; a mutex is never
 * waited for while the interpreter's lock is held (Locked). Where the library may block the interpreter's lock
 * is released. */
#ifndef ROTA_PYTHON_CORE_H
#define ROTA_PYTHON_CORE_H

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <rota/rota.h>

#include <unistd.h>

namespace nb = nanobind;
using namespace nb::literals;

/* ---- Errors ---- */

/* Raises the exception of a status (errors.py) with a sentence; without one, this thread's last. */
[[noreturn]] void fail(rota_status status, const std::string &sentence);
inline void check(rota_status status) {
    if (status != ROTA_OK) fail(status, rota_last_error());
}

/* The same of a call that may block, which is made without the interpreter's lock. */
template <typename Call> void check_released(Call call) {
    rota_status status;
    std::string sentence; /* of this thread, as long as nothing else of the library's runs on it */
    {
        nb::gil_scoped_release released;
        status = call();
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    if (status != ROTA_OK) fail(status, sentence);
}

/* ---- Locks ---- */

/* Holds a mutex. Who has to wait for it lets the interpreter go on meanwhile: whoever has the mutex may want
 * the interpreter's lock. */
class Locked {
  public:
    explicit Locked(std::mutex &mutex) : lock_(mutex, std::try_to_lock) {
        if (lock_.owns_lock()) return;
        nb::gil_scoped_release released;
        lock_.lock();
    }

  private:
    std::unique_lock<std::mutex> lock_;
};

/* ---- Objects ---- */

struct Submission;

/* Buffers of a device's that arrays of other libraries lie in, by address; of adopted memory there may be several. Its
 * mutex is held for a few steps, in which nothing of Python's is called. */
class SharedMemory {
  public:
    void add(uintptr_t begin, rota_buffer *buffer);
    void remove(uintptr_t begin, rota_buffer *buffer);
    uint64_t count();
    /* The bytes from an address on as a buffer of the caller's, or NULL where they are none of a shared one. */
    rota_buffer *find(uintptr_t address, uint64_t size_bytes);

  private:
    std::mutex mutex_;
    std::map<std::pair<uintptr_t, rota_buffer *>, uint64_t> lent_; /* how many arrays each has */
};

class Allocator;
class CudaStream;
class StreamOrder;
struct CommunicatorCore;
struct DlpackStream;

/* A runtime with one device. */
struct DeviceCore : std::enable_shared_from_this<DeviceCore> {
    rota_device *device = nullptr;
    rota_runtime *runtime = nullptr;
    std::string id;
    std::string captures; /* a folder, of the runtime's option compiled_user */
    int ordinal = -1;     /* of a CUDA device, as its driver and DLPack have it */
    uint64_t timeout_ns = 0;
    const pid_t process = getpid(); /* it does not survive a fork: no driver is entered elsewhere */
    std::atomic<bool> closing{false};
    std::atomic<bool> closed{false};
    std::atomic<uint64_t> users{0}; /* calls on the runtime that are running */
    std::mutex mutex;
    std::deque<std::shared_ptr<Submission>> flying; /* what holds host memory; oldest first */
    std::shared_ptr<CudaStream> stream;             /* cuda.cpp; made when it is asked for */
    std::shared_ptr<StreamOrder> order;             /* streams.cpp; too */
    std::shared_ptr<Allocator> allocator;           /* allocator.h; none: the memory is the library's own */

    std::vector<std::weak_ptr<CommunicatorCore>> communicators; /* that are not gone; of the mutex */

    SharedMemory shared;

    ~DeviceCore();
    void add(const std::shared_ptr<CommunicatorCore> &communicator);
    void close(uint64_t timeout);
    /* Lets go of what submissions that have ended held. */
    void sweep();
};

/* A call on a device's runtime, which is not closed as long as it runs. Seq_cst on both sides: of a call that
 * raised `users` and a close that raised `closing`, one sees the other. */
class Use {
  public:
    explicit Use(DeviceCore &core) : core_(core) {
        core.users.fetch_add(1);
        if (!core.closing.load()) return;
        core.users.fetch_sub(1);
        fail(ROTA_WRONG_STATE, "device '" + core.id + "' is closed");
    }
    ~Use() { core_.users.fetch_sub(1); }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

  private:
    DeviceCore &core_;
};

/* Memory of an array of Python's, as it lent it: the host's, or a CUDA device's. */
struct HostArray {
    void *data = nullptr;
    nb::object owner;
};

/* What a submission needs of the host, until its ticket has ended. */
struct Submission {
    rota_ticket ticket{};
    std::vector<HostArray> arrays;
    std::shared_ptr<void> anchors; /* Python functions that its nodes call */
};

struct Slot {
    rota_slot slot;
    std::string name;
    rota_value_type type; /* F32, U32, U64 */
};
struct Constant {
    double number;
};
using Value = std::variant<double, Slot *, Constant>;

enum class ArgKind { SCALAR, INPUT, OUTPUT, BUFFER };

/* Something that is given at each call of a plan. */
struct Arg {
    ArgKind kind;
    std::string name;
    nb::object key; /* the name, interned */
    Slot slot{};
    rota_tensor tensor{};
    bool copy = false;
    bool counts = false; /* given by the plan itself: 1, 2, ... */
    std::optional<double> preset;
};

struct Tensor;

struct GraphCore : std::enable_shared_from_this<GraphCore> {
    rota_graph *graph = nullptr;
    rota_recorder *recorder = nullptr;
    rota_tape *tape = nullptr;
    std::string name;
    std::mutex mutex; /* recorder, tape, args, device */
    std::shared_ptr<DeviceCore> device;
    std::vector<Arg> args;
    std::shared_ptr<std::vector<nb::object>> anchors = std::make_shared<std::vector<nb::object>>();
    std::shared_ptr<GraphCore> outer; /* of a body of a node that decides: the graph around it */
    std::deque<std::string> names;    /* of such nodes, as long as plans need them */
    bool ended = false;
    uint32_t lane = 0; /* of all nodes; known once the recording has ended */

    ~GraphCore();
    const Arg *find(const std::string &arg) const;
};
using Graph = std::shared_ptr<GraphCore>;

/* A reference to a buffer with a way to read it. A transient's holds its graph. */
struct Tensor {
    rota_tensor t{};
    Graph graph;                        /* of what belongs to one */
    std::shared_ptr<DeviceCore> device; /* of PERSISTENT ones */

    Tensor() = default;
    Tensor(const rota_tensor &from, Graph of, std::shared_ptr<DeviceCore> on)
        : t(from), graph(std::move(of)), device(std::move(on)) {
        rota_buffer_retain(t.buffer);
    }
    Tensor(const Tensor &other) : Tensor(other.t, other.graph, other.device) {}
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor() { rota_buffer_release(t.buffer); }

    Tensor view(const rota_tensor &of) const { return Tensor(of, graph, device); }
    std::string describe() const {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_tensor_describe(&t, text, sizeof text);
    }
};

/* The graph of a `with` block of this thread, or none. */
Graph current_graph();
/* This graph, or the body that this thread is in, where that is one of it. */
Graph innermost_graph(const Graph &graph);
void enter_graph(const Graph &graph);
void leave_graph(const Graph &graph);

/* Recording of one op: into the graph of its operands, else that of the `with` block; in a block of that graph into
 * the body that the block is. */
class Recording {
  public:
    explicit Recording(std::initializer_list<const Tensor *> operands, const char *what);
    Recording(const Graph &graph, const Tensor *operand,
              bool within = false); /* within: the innermost body */
    rota_tape *tape() const { return graph_->tape; }
    GraphCore &core() const { return *graph_; }
    Tensor made(const rota_tensor &tensor) const { return Tensor(tensor, graph_, nullptr); }
    void uses(const Tensor *operand);

  private:
    Graph graph_;
    std::optional<Locked> lock_;
};

struct Plan;
struct Ticket;

rota_value value_of(const Value &value);
rota_dtype dtype_of(const std::string &name);
std::vector<uint64_t> shape_of(nb::handle shape);
std::string shape_text(const std::vector<uint64_t> &shape);
inline std::vector<uint64_t> extents(const rota_tensor &t) {
    return std::vector<uint64_t>(t.shape, t.shape + t.rank);
}
uint64_t nanoseconds(const std::optional<double> &seconds);

/* ---- Arrays (array.cpp) ---- */

/* The memory of a contiguous host array of that dtype and shape, whatever library it is of, without a copy;
 * `what` begins the sentence of an error. */
HostArray borrow(nb::handle array, const rota_tensor &like, bool writable, const std::string &what);
/* The elements of an array of any dtype, shape and strides, row-major: where they lie, if they lie so, else copied. */
HostArray borrow_any(nb::handle array, rota_tensor *out_like, const std::string &what);
/* The memory of a contiguous, writable array of any dtype of rota's and any shape, without a copy: the host's, or, of
 * a CUDA device, that device's, as of capsule_from_cuda. */
HostArray borrow_whole(DeviceCore &device, nb::handle array, const DlpackStream &stream,
                       rota_tensor *out_like, const std::string &what);
/* New memory for a tensor's elements, row-major, and the array over it: numpy's, or one of no library, which
 * every other takes by DLPack; of a CUDA device's memory where an ordinal is given. */
HostArray host_memory(const rota_tensor &like);
nb::object array_over(const HostArray &memory, const rota_tensor &like, bool numpy, int ordinal = -1);

/* ---- Other libraries on a CUDA device (cuda.cpp) ---- */

/* Whether an array says, by DLPack, that it is in the memory of CUDA's device. */
bool is_on_cuda(nb::handle array);
/* The memory of a device of DLPack's kind and number, as sentences have it. */
std::string memory_text(int kind, int ordinal);
/* The DLPack capsule of an array on a CUDA device. Its library is told the stream; without one (NONE) a stream of
 * rota's own, whose end is waited for: then all is done that the library's current stream there was given. */
nb::object capsule_from_cuda(DeviceCore &device, nb::handle array, const DlpackStream &stream,
                             const std::string &what);

/* A tensor over an array's own memory, which is held until nothing of the library's touches it any more. */
Tensor adopt(const std::shared_ptr<DeviceCore> &device, nb::handle array,
             const std::optional<std::string> &name, const DlpackStream &stream);
/* A copy in memory of its own, on the device that has the tensor; without out_ticket it is waited for. */
Tensor copied(const Tensor &x, const std::optional<std::string> &name, rota_ticket *out_ticket = nullptr);

/* What holds a buffer for arrays of other libraries over it, and its device open. */
nb::object lend(const std::shared_ptr<DeviceCore> &device, rota_buffer *buffer, uintptr_t address);

/* Waits for a ticket, letting the interpreter go on and looking for its signals (Ctrl-C). */
void wait_for(DeviceCore &device, rota_ticket ticket, uint64_t timeout_ns);

void bind_device(nb::module_ &m);
void bind_communicator(nb::module_ &m);
void bind_tensor_parallel(nb::module_ &m);
void bind_tensor(nb::module_ &m);
void bind_graph(nb::module_ &m);
void bind_blocks(nb::module_ &m);
void bind_deciding(nb::class_<GraphCore> &graph);
void bind_plan(nb::module_ &m);
void bind_ticket(nb::module_ &m);
void bind_kernel(nb::module_ &m);
void bind_memory(nb::module_ &m);
void bind_ops(nb::module_ &m);
void bind_layers(nb::module_ &m);
void bind_windows(nb::module_ &m);
void bind_table(nb::module_ &m);

#endif
