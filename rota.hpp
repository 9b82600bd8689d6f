/* rota for C++17: the objects as values that end themselves, errors as exceptions. A header over rota.h and
 * nothing else; what a call means, which threads may make it and whether it blocks is said where rota.h
 * declares it.
 *
 * Who owns: runtime, recorder, tape and args are moved, not copied; their destructor closes, destroys or
 * releases. buffer, graph and plan are references: a copy is one reference more. device and ticket are plain
 * values. get() gives what the C calls take, and what has no method here is called by
 * check(rota_...(object.get(), ...)). An object that was moved from, or made by default, is empty: assign to
 * it or let it end, nothing else.
 *
 * Errors: a status that is not ROTA_OK is thrown as rota::error, with the thread's sentence as what().
 * Destructors throw nothing. */
#ifndef ROTA_ROTA_HPP
#define ROTA_ROTA_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include "rota.h"

namespace rota {

class error : public std::runtime_error {
  public:
    error(rota_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    rota_status status() const noexcept { return status_; }

  private:
    rota_status status_;
};

/* Throws unless the status is ROTA_OK. */
inline void check(rota_status status) {
    if (status == ROTA_OK) return;
    const char *sentence = rota_last_error();
    throw error(status, *sentence ? sentence : rota_status_text(status));
}

/* Elements side by side that belong to somebody else: of an array, a std::vector, a std::array, or whatever
 * has data() and size(). A temporary is good for the call that it is given to. */
template <typename T> class span {
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <typename Container,
              typename = std::enable_if_t<
                  !std::is_array<std::remove_reference_t<Container>>::value &&
                  std::is_convertible<decltype(std::declval<Container &>().data()), T *>::value>>
    constexpr span(Container &&container) noexcept : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::uint64_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* The extents of a tensor: shape{12, n, 64}. */
class shape {
  public:
    template <typename... Extents, typename = std::enable_if_t<(std::is_integral<Extents>::value && ...)>>
    shape(Extents... extents) : rank_(sizeof...(extents)), extents_{static_cast<std::uint64_t>(extents)...} {
        static_assert(sizeof...(extents) <= ROTA_RANK_MAX, "a tensor has at most ROTA_RANK_MAX axes");
    }
    std::uint32_t rank() const noexcept { return rank_; }
    const std::uint64_t *data() const noexcept { return extents_; }

  private:
    std::uint32_t rank_;
    std::uint64_t extents_[ROTA_RANK_MAX];
};

namespace detail {

/* Owns what `End` ends. */
template <typename T, void (*End)(T *)> class owner {
  public:
    owner() noexcept = default;
    explicit owner(T *object) noexcept : object_(object) {}
    owner(owner &&from) noexcept : object_(std::exchange(from.object_, nullptr)) {}
    owner &operator=(owner &&from) noexcept {
        if (this != &from) {
            End(object_);
            object_ = std::exchange(from.object_, nullptr);
        }
        return *this;
    }
    ~owner() { End(object_); }
    T *get() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    /* Gives the object away: it is no longer ended here. */
    T *release() noexcept { return std::exchange(object_, nullptr); }

  private:
    T *object_ = nullptr;
};

/* Holds a reference. */
template <typename T, void (*Retain)(T *), void (*Release)(T *)> class reference {
  public:
    reference() noexcept = default;
    /* Takes a reference that is the caller's. */
    explicit reference(T *object) noexcept : object_(object) {}
    reference(const reference &from) noexcept : object_(from.object_) {
        if (object_) Retain(object_);
    }
    reference(reference &&from) noexcept : object_(std::exchange(from.object_, nullptr)) {}
    reference &operator=(reference from) noexcept {
        std::swap(object_, from.object_);
        return *this;
    }
    ~reference() { Release(object_); }
    T *get() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    /* Gives its reference away. */
    T *release() noexcept { return std::exchange(object_, nullptr); }

  private:
    T *object_ = nullptr;
};

inline void close_runtime(rota_runtime *runtime) {
    if (runtime) (void)rota_runtime_close(runtime, UINT64_C(30000000000));
}

} // namespace detail

/* A device of a runtime's, which owns it. */
class device {
  public:
    device() noexcept = default;
    explicit device(rota_device *object) noexcept : object_(object) {}
    rota_device *get() const noexcept { return object_; }
    const rota_device_info &info() const { return *rota_device_get_info(object_); }
    void smoke(std::uint64_t idle_ns = 0) const { check(rota_device_smoke(object_, idle_ns)); }

  private:
    rota_device *object_ = nullptr;
};

/* One submission. */
class ticket {
  public:
    ticket() noexcept : value_() {}
    explicit ticket(rota_ticket value) noexcept : value_(value) {}
    rota_ticket get() const noexcept { return value_; }
    void wait(std::uint64_t timeout_ns = 0) const { check(rota_wait(value_, timeout_ns)); }
    /* Until the memory of inputs that were given without a copy may be changed. */
    void wait_inputs_taken(std::uint64_t timeout_ns = 0) const {
        check(rota_wait_inputs_taken(value_, timeout_ns));
    }
    /* Whether it is complete; throws if it failed. */
    bool done() const {
        const rota_status status = rota_poll(value_);
        if (status == ROTA_BUSY) return false;
        check(status);
        return true;
    }
    /* What has not begun does not begin: then waiting throws ROTA_CANCELLED. Does not wait; of one that has ended
     * nothing changes. */
    void cancel() const { check(rota_ticket_cancel(value_)); }

  private:
    rota_ticket value_;
};

class buffer : public detail::reference<rota_buffer, rota_buffer_retain, rota_buffer_release> {
  public:
    using reference::reference;
    /* A reference more to what belongs to a graph, or to somebody else. */
    static buffer share(rota_buffer *object) noexcept {
        rota_buffer_retain(object);
        return buffer(object);
    }
    std::uint64_t size_bytes() const noexcept { return rota_buffer_size(get()); }
    const char *name() const noexcept { return rota_buffer_name(get()); }
    buffer view(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
        rota_buffer *object;
        check(rota_buffer_create_view(get(), offset_bytes, size_bytes, &object));
        return buffer(object);
    }
    /* The elements are copied before it returns. An empty device: where the buffer's bytes are. */
    template <typename T>
    ticket write(span<T> elements, std::uint64_t offset_bytes = 0, device to = device()) const {
        static_assert(std::is_trivially_copyable<T>::value, "a buffer has bytes");
        rota_ticket submitted;
        check(rota_buffer_write(get(), to.get(), offset_bytes, elements.data(), elements.size_bytes(),
                                &submitted));
        return ticket(submitted);
    }
    template <typename Container>
    ticket write(const Container &elements, std::uint64_t offset_bytes = 0, device to = device()) const {
        return write(span<const std::remove_reference_t<decltype(*std::data(elements))>>(elements),
                     offset_bytes, to);
    }
    /* What the last write submitted before this call produced; waits for it. */
    template <typename T> void read(span<T> out_elements, std::uint64_t offset_bytes = 0) const {
        static_assert(std::is_trivially_copyable<T>::value, "a buffer has bytes");
        check(rota_buffer_read(get(), offset_bytes, out_elements.data(), out_elements.size_bytes()));
    }
    template <typename Container> void read(Container &out_elements, std::uint64_t offset_bytes = 0) const {
        read(span<std::remove_reference_t<decltype(*std::data(out_elements))>>(out_elements), offset_bytes);
    }
    /* The part from offset_bytes on as a dense tensor, which borrows the buffer. */
    rota_tensor tensor(rota_dtype dtype, const shape &extents, std::uint64_t offset_bytes = 0) const {
        rota_tensor made;
        check(rota_tensor_of(get(), offset_bytes, dtype, extents.rank(), extents.data(), &made));
        return made;
    }
};

class args;

class plan : public detail::reference<rota_plan, rota_plan_retain, rota_plan_release> {
  public:
    using reference::reference;
    /* rota_submit: throws ROTA_BUSY where there is no room. */
    ticket try_submit() const { return submitted(nullptr); }
    inline ticket try_submit(const args &arguments) const;
    /* rota_submit_wait. */
    ticket submit(std::uint64_t timeout_ns = 0) const { return submitted_waiting(nullptr, timeout_ns); }
    inline ticket submit(const args &arguments, std::uint64_t timeout_ns = 0) const;
    /* rota_submit_with. */
    ticket submit(const rota_submit_options &options) const {
        rota_ticket made;
        check(rota_submit_with(get(), &options, &made));
        return ticket(made);
    }

  private:
    ticket submitted(rota_args *arguments) const {
        rota_ticket made;
        check(rota_submit(get(), arguments, &made));
        return ticket(made);
    }
    ticket submitted_waiting(rota_args *arguments, std::uint64_t timeout_ns) const {
        rota_ticket made;
        check(rota_submit_wait(get(), arguments, timeout_ns, &made));
        return ticket(made);
    }
};

/* The arguments of a plan's replays. */
class args : public detail::owner<rota_args, rota_args_release> {
  public:
    using owner::owner;
    explicit args(const plan &of) : owner(made(of)) {}
    void set(rota_slot slot, float value) { check(rota_args_set_f32(get(), slot, value)); }
    void set(rota_slot slot, std::uint32_t value) { check(rota_args_set_u32(get(), slot, value)); }
    void set(rota_slot slot, std::uint64_t value) { check(rota_args_set_u64(get(), slot, value)); }
    void set(const buffer &slot, const buffer &bound) {
        check(rota_args_set_buffer(get(), slot.get(), bound.get()));
    }
    /* Borrowed until ticket::wait_inputs_taken, or copied by each submission. */
    template <typename T> void set_input(const buffer &input, span<T> elements, bool copy = false) {
        check(rota_args_set_input(get(), input.get(), elements.data(), elements.size_bytes(), copy));
    }
    /* Written before a submission's ticket completes. */
    template <typename T> void set_output(const buffer &output, span<T> elements) {
        check(rota_args_set_output(get(), output.get(), elements.data(), elements.size_bytes()));
    }

  private:
    static rota_args *made(const plan &of) {
        rota_args *object;
        check(rota_args_create(of.get(), &object));
        return object;
    }
};

inline ticket plan::try_submit(const args &arguments) const {
    return submitted(arguments.get());
}
inline ticket plan::submit(const args &arguments, std::uint64_t timeout_ns) const {
    return submitted_waiting(arguments.get(), timeout_ns);
}

class graph;

class recorder : public detail::owner<rota_recorder, rota_recorder_close> {
  public:
    using owner::owner;
    rota_node kernel(const rota_kernel_node &node) {
        rota_node recorded;
        check(rota_record_kernel(get(), &node, &recorded));
        return recorded;
    }
    rota_node copy(const buffer &destination, std::uint64_t destination_offset_bytes, const buffer &source,
                   std::uint64_t source_offset_bytes, std::uint64_t size_bytes) {
        rota_node recorded;
        check(rota_record_copy(get(), destination.get(), destination_offset_bytes, source.get(),
                               source_offset_bytes, size_bytes, &recorded));
        return recorded;
    }
    rota_node fill(const buffer &destination, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                   std::uint32_t pattern) {
        rota_node recorded;
        check(rota_record_fill(get(), destination.get(), offset_bytes, size_bytes, pattern, &recorded));
        return recorded;
    }
    rota_node host(const rota_host_node &node) {
        rota_node recorded;
        check(rota_record_host(get(), &node, &recorded));
        return recorded;
    }
    rota_node counted_kernel(const rota_kernel_node &node, const rota_count &count) {
        rota_node recorded;
        check(rota_record_counted_kernel(get(), &node, &count, &recorded));
        return recorded;
    }
    rota_node counted_copy(const buffer &destination, std::uint64_t destination_offset_bytes,
                           const buffer &source, std::uint64_t source_offset_bytes, const rota_count &count) {
        rota_node recorded;
        check(rota_record_counted_copy(get(), destination.get(), destination_offset_bytes, source.get(),
                                       source_offset_bytes, &count, &recorded));
        return recorded;
    }
    void after(rota_node later, rota_node earlier) { check(rota_node_after(get(), later, earlier)); }
    /* Nodes that decide (rota_record_if and so on): bodies are those of graph::body, whose lanes have ended, and are
     * the node's from then on; where an error is thrown they are gone. The structs' own members for bodies are set
     * here. */
    rota_node if_(rota_if_node node, graph body);
    rota_node if_(rota_if_node node, graph body, graph otherwise);
    rota_node while_(rota_while_node node, graph body);
    rota_node for_(rota_for_node node, graph body);
    rota_node switch_(rota_switch_node node, std::vector<graph> bodies); /* of empty ones nothing is run */
    /* Of whatever was recorded last, an op too. */
    rota_node last_node() const {
        rota_node recorded;
        check(rota_recorder_last_node(get(), &recorded));
        return recorded;
    }
};

/* Records ops. It borrows its recorder: declare it after that, so that it ends before. */
class tape : public detail::owner<rota_tape, rota_tape_destroy> {
  public:
    using owner::owner;
    explicit tape(const recorder &into, const rota_tape_options *options = nullptr)
        : owner(made(into, options)) {}
    /* With a graph of its own, for submit() and compile(). */
    explicit tape(device on, const rota_tape_options *options = nullptr) : owner(made(on, options)) {}
    /* rota_tape_submit: compiles what was recorded, the first time. */
    ticket submit(const rota_submit_options *options = nullptr) {
        rota_ticket submitted;
        check(rota_tape_submit(get(), options, &submitted));
        return ticket(submitted);
    }
    plan compile() {
        rota_plan *object;
        check(rota_tape_compile(get(), &object));
        return plan(object);
    }
    /* An op that makes its result: tape.op(rota_op_add, a, b). */
    template <typename Op, typename... Operands> rota_tensor op(Op function, Operands &&...operands) {
        rota_tensor result;
        check(function(get(), std::forward<Operands>(operands)..., &result));
        return result;
    }
    /* Any call on a tape that makes nothing: tape.into(rota_op_add_into, a, b, sum). */
    template <typename Op, typename... Operands> void into(Op function, Operands &&...operands) {
        check(function(get(), std::forward<Operands>(operands)...));
    }
    rota_tensor tensor(rota_buffer_kind kind, const char *name, rota_dtype dtype, const shape &extents) {
        rota_tensor made;
        check(rota_tape_tensor(get(), kind, name, dtype, extents.rank(), extents.data(), &made));
        return made;
    }
    void name(const char *text) { check(rota_tape_name(get(), text)); }
    /* The gradients of a loss with respect to parameters, in their order, in buffers of the graph. */
    std::vector<rota_tensor> backward(const rota_tensor &loss, span<const rota_tensor> parameters,
                                      const rota_backward_options *options = nullptr) {
        std::vector<rota_tensor> gradients(parameters.size(), ROTA_TENSOR_NONE);
        check(rota_backward(get(), loss, parameters.data(), static_cast<std::uint32_t>(parameters.size()),
                            gradients.data(), options));
        return gradients;
    }

  private:
    static rota_tape *made(const recorder &into, const rota_tape_options *options) {
        rota_tape *object;
        check(rota_tape_create(into.get(), options, &object));
        return object;
    }
    static rota_tape *made(device on, const rota_tape_options *options) {
        rota_tape *object;
        check(rota_tape_create_on(on.get(), options, &object));
        return object;
    }
};

class graph : public detail::reference<rota_graph, rota_graph_retain, rota_graph_release> {
  public:
    using reference::reference;
    /* An empty one. */
    graph() : reference(made(nullptr)) {}
    explicit graph(const rota_graph_options &options) : reference(made(&options)) {}
    rota_slot slot(const char *name, std::uint32_t size_bytes = 4) {
        rota_slot declared;
        check(rota_graph_slot(get(), name, size_bytes, &declared));
        return declared;
    }
    rota::buffer buffer(rota_buffer_kind kind, const char *name, std::uint64_t size_bytes) {
        rota_buffer *object;
        check(rota_graph_buffer(get(), kind, name, size_bytes, &object));
        return rota::buffer::share(object);
    }
    /* An empty graph for a body of a node that decides. */
    graph body(const char *name = nullptr) const {
        rota_graph *object;
        check(rota_graph_create_body(get(), name, &object));
        return graph(object);
    }
    /* A lane. */
    rota::recorder recorder(std::uint64_t order_key = 0, const char *name = nullptr) {
        rota_recorder *object;
        check(rota_recorder_open(get(), order_key, name, &object));
        return rota::recorder(object);
    }

  private:
    static rota_graph *made(const rota_graph_options *options) {
        rota_graph *object;
        check(rota_graph_create(options, &object));
        return object;
    }
};

inline rota_node recorder::if_(rota_if_node node, graph body, graph otherwise) {
    rota_node recorded;
    node.body = body.get();
    node.otherwise = otherwise.get();
    check(rota_record_if(get(), &node, &recorded));
    (void)body.release();
    (void)otherwise.release();
    return recorded;
}
inline rota_node recorder::if_(rota_if_node node, graph body) {
    return if_(node, std::move(body), graph(static_cast<rota_graph *>(nullptr)));
}
inline rota_node recorder::while_(rota_while_node node, graph body) {
    rota_node recorded;
    node.body = body.get();
    check(rota_record_while(get(), &node, &recorded));
    (void)body.release();
    return recorded;
}
inline rota_node recorder::for_(rota_for_node node, graph body) {
    rota_node recorded;
    node.body = body.get();
    check(rota_record_for(get(), &node, &recorded));
    (void)body.release();
    return recorded;
}
inline rota_node recorder::switch_(rota_switch_node node, std::vector<graph> bodies) {
    rota_node recorded;
    std::vector<rota_graph *> objects;
    for (const graph &body : bodies) objects.push_back(body.get());
    node.bodies = objects.data();
    node.body_count = static_cast<std::uint32_t>(objects.size());
    check(rota_record_switch(get(), &node, &recorded));
    for (graph &body : bodies) (void)body.release();
    return recorded;
}

/* Its destructor closes it, and waits up to 30 s for what is in flight; close() takes another time, and
 * throws what closing says. */
class runtime : public detail::owner<rota_runtime, detail::close_runtime> {
  public:
    using owner::owner;
    runtime() : owner(made(nullptr)) {}
    explicit runtime(const rota_runtime_options &options) : owner(made(&options)) {}
    void close(std::uint64_t timeout_ns) {
        if (rota_runtime *object = release()) check(rota_runtime_close(object, timeout_ns));
    }
    /* NULL: the best that passes its smoke test. */
    rota::device device(const char *id = nullptr) {
        rota_device *object;
        check(rota_device_open(get(), id, &object));
        return rota::device(object);
    }
    /* A persistent buffer. */
    rota::buffer buffer(const char *name, std::uint64_t size_bytes) {
        rota_buffer *object;
        check(rota_buffer_create_in(get(), name, size_bytes, &object));
        return rota::buffer(object);
    }
    /* A persistent buffer that holds these elements on a device. */
    template <typename Container>
    rota::buffer buffer(const char *name, const Container &elements, rota::device on) {
        const span<const std::remove_reference_t<decltype(*std::data(elements))>> all(elements);
        rota::buffer made = buffer(name, all.size_bytes());
        made.write(all, 0, on);
        return made;
    }
    plan compile(const graph &recorded, const rota_compile_options *options = nullptr) {
        rota_plan *object;
        check(rota_compile(get(), recorded.get(), options, &object));
        return plan(object);
    }
    /* For one device. */
    plan compile(const graph &recorded, rota::device on) {
        rota_device *const device = on.get();
        rota_compile_options options = ROTA_COMPILE_OPTIONS();
        options.devices = &device;
        options.device_count = 1;
        return compile(recorded, &options);
    }
    rota_runtime_stats stats() const {
        rota_runtime_stats counted = ROTA_RUNTIME_STATS();
        check(rota_runtime_get_stats(get(), &counted));
        return counted;
    }

  private:
    static rota_runtime *made(const rota_runtime_options *options) {
        rota_runtime *object;
        check(rota_runtime_open(options, &object));
        return object;
    }
};

} // namespace rota

#endif
