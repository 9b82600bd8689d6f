/* Tickets: asking, waiting and awaiting what was submitted. */
#include "plan.h"
#include "streams.h"

static bool is_done(const Ticket &ticket) {
    Use use(*ticket.device);
    return rota_poll(ticket.ticket) != ROTA_BUSY;
}

static void wait(const Ticket &ticket, std::optional<double> timeout) {
    Use use(*ticket.device);
    wait_for(*ticket.device, ticket.ticket, nanoseconds(timeout));
    ticket.device->sweep();
}

static nb::dict result(const Ticket &ticket, std::optional<double> timeout) {
    wait(ticket, timeout);
    nb::dict arrays;
    for (const Output &output : ticket.outputs)
        arrays[output.key] =
            output.given.is_valid() ? output.given : array_over(output.memory, output.like, true);
    return arrays;
}

static void wait_inputs(const Ticket &ticket, std::optional<double> timeout) {
    Use use(*ticket.device);
    const uint64_t timeout_ns = nanoseconds(timeout);
    check_released([&] { return rota_wait_inputs_taken(ticket.ticket, timeout_ns); });
}

static void stream_wait(const Ticket &ticket, nb::handle stream, std::optional<double> timeout) {
    Use use(*ticket.device);
    const uintptr_t handle = stream_of(stream, "stream_wait");
    order_stream(*ticket.device, ticket.ticket, handle, "stream_wait", nanoseconds(timeout));
    ticket.device->sweep();
}

static void cancel(const Ticket &ticket) {
    Use use(*ticket.device);
    check(rota_ticket_cancel(ticket.ticket));
}

static uint64_t number(const Ticket &ticket) {
    Use use(*ticket.device);
    uint64_t order = 0;
    check(rota_ticket_number(ticket.ticket, &order));
    return order;
}

/* What is to be dropped by the main thread, which is asked once for all, or by who calls the library before, as that
 * thread may be kept for long: it has few places for such calls, and a thread that waited for the interpreter's lock
 * instead would be ended where it stands once the interpreter ends. Never freed, as threads of the library's may come
 * when destructors have run. */
struct Dropped {
    std::mutex mutex;
    std::vector<std::pair<int (*)(void *), void *>> objects;
    bool is_asked = false;
};
static Dropped &dropped() {
    static auto *const made = new Dropped;
    return *made;
}

void drop_waiting() {
    std::vector<std::pair<int (*)(void *), void *>> objects;
    {
        const std::lock_guard<std::mutex> lock(dropped().mutex);
        objects.swap(dropped().objects);
        dropped().is_asked = false;
    }
    for (const auto &[drop, object] : objects) drop(object);
}

static int drop_all(void *) {
    drop_waiting();
    return 0;
}

void drop_later(int (*drop)(void *object), void *object) {
    if (!nb::is_alive()) return; /* the interpreter has ended, and what it had with it */
    const std::lock_guard<std::mutex> lock(dropped().mutex);
    dropped().objects.emplace_back(drop, object);
    /* Where there is no place even for one, whoever comes next asks again, or drops it. */
    if (!dropped().is_asked) dropped().is_asked = Py_AddPendingCall(drop_all, nullptr) == 0;
}

/* A function of Python's that a ticket calls: what is given to the library, and freed by the call. */
struct Callback {
    nb::object function;
    nb::object ticket;
};

/* On the library's callback thread. A device is closed before the interpreter ends (rota/__init__.py), and its
 * close waits for callbacks, so there is an interpreter. */
static void call_back(void *user, rota_status, const char *) {
    nb::gil_scoped_acquire acquired;
    const std::unique_ptr<Callback> callback(static_cast<Callback *>(user));
    try {
        callback->function(callback->ticket);
    } catch (nb::python_error &error) {
        error.discard_as_unraisable(callback->function);
    }
}

static void add_done_callback(nb::handle_t<Ticket> self, nb::object function) {
    const Ticket &ticket = nb::cast<const Ticket &>(self);
    Use use(*ticket.device);
    auto callback = std::make_unique<Callback>(Callback{std::move(function), nb::borrow(self)});
    check_released([&] { return rota_ticket_on_complete(ticket.ticket, call_back, callback.get()); });
    callback.release(); /* the call's */
}

static std::string ticket_text(const Ticket &ticket) {
    std::string state = "of a closed device";
    if (!ticket.device->closing.load()) {
        const rota_status status = rota_poll(ticket.ticket);
        state = status == ROTA_OK ? "complete" : status == ROTA_BUSY ? "running" : rota_status_name(status);
    }
    return "<rota.Ticket of plan '" + ticket.plan + "': " + state + ">";
}

void bind_ticket(nb::module_ &m) {
    nb::class_<Ticket>(m, "Ticket",
                       "A submission. It can be awaited; its result is a dict of the graph's outputs.")
        .def("done", &is_done, "Whether it has ended, well or not.")
        .def("wait", &wait, "timeout"_a = nb::none(),
             "Waits until it has ended; raises what made it fail. Without a timeout (in seconds) that is "
             "the device's default, counted from the last progress.")
        .def("result", &result, "timeout"_a = nb::none(),
             nb::sig("def result(self, timeout: float | None = None) -> dict[str, typing.Any]"),
             "Waits as `wait` does, and gives the outputs by name, as numpy arrays.")
        .def("wait_inputs", &wait_inputs, "timeout"_a = nb::none(),
             "Waits until the arrays that were given as inputs may be changed.")
        .def(
            "stream_wait", &stream_wait, "stream"_a, "timeout"_a = nb::none(),
            nb::sig("def stream_wait(self, stream: object, timeout: float | None = None) -> None"),
            "Has a CUDA stream of the device's GPU (a handle, 0 being the legacy default stream, or an "
            "object "
            "with __cuda_stream__, cuda_stream or ptr) wait for the ticket: what is put on it from now on "
            "comes "
            "after. The GPU waits, also where the ticket has outputs in arrays or is of several devices; the "
            "call returns when the drivers have been given the ticket's works, so it waits for what those "
            "come after on the host; what they have not been given within a second it waits for up to "
            "`timeout`. Raises what made the ticket fail by then; one that fails later does so for itself, "
            "and the stream goes on.")
        .def(
            "cancel", &cancel,
            "Cancels it: what of it has not begun does not begin, what runs is left to end. If something was "
            "left out, waiting raises errors.Cancelled, and what it was to write counts as failed; if "
            "nothing "
            "was, it ends as without the call. Does not wait, and changes nothing of one that has ended. Any "
            "thread's, also a callback's.")
        .def("add_done_callback", &add_done_callback, "function"_a,
             nb::sig(
                 "def add_done_callback(self, function: collections.abc.Callable[[Ticket], object]) -> None"),
             "Calls function(ticket) once it has ended, on a thread that the device has for that.")
        .def_prop_ro("number", &number, "Its place in the one order of the device's submissions.")
        .def(
            "__await__",
            [](nb::handle_t<Ticket> self) {
                return nb::module_::import_("rota.wait").attr("await_ticket")(self).attr("__await__")();
            },
            nb::sig(
                "def __await__(self) -> collections.abc.Generator[typing.Any, None, dict[str, typing.Any]]"))
        .def(
            "_repr_svg_",
            [](nb::handle_t<Ticket> self) -> nb::object {
                const std::shared_ptr<Plan> plan = nb::cast<const Ticket &>(self).source.lock();
                if (!plan) return nb::none();
                return nb::module_::import_("rota.draw").attr("run_svg")(self, plan);
            },
            nb::sig("def _repr_svg_(self) -> str | None"))
        .def("__repr__", &ticket_text);
}
