/* Streams, events and tickets that submissions come after, and streams that come after tickets.
 *
 * What a submission comes after is a point of a timeline of the library's (embed.h), which the driver, or the library's
 * completer, moves. A stream has one timeline for all its points, so that submissions that are held for it are of one
 * row (rota_submit_options.after); it is known again by the number that the driver gives a stream, since handles come
 * back. An event is what a stream of rota's own waits for, whose point is taken then. */
#include "streams.h"

#include "cuda.h"
#include "plan.h"

using Timeline = std::shared_ptr<rota_external_timeline>;

/* The default streams' handles: they are the driver's names, and no addresses. */
enum : uintptr_t { LEGACY_STREAM = 1, THREAD_STREAM = 2 };

static Timeline new_timeline(DeviceCore &device, const std::string &name) {
    rota_external_timeline *timeline = nullptr;
    check(rota_external_timeline_create(device.runtime, name.c_str(), &timeline));
    return Timeline(timeline, rota_external_timeline_release);
}

/* What a device remembers of streams. Under its mutex, which is held while the driver is told, so that the points of
 * one timeline reach a stream in their order. */
class StreamOrder {
  public:
    explicit StreamOrder(int ordinal) : any_(ordinal) {}

    rota_external_point after_stream(DeviceCore &device, uintptr_t stream, const std::string &what,
                                     Timeline *out) {
        Locked lock(mutex_);
        if (stream == THREAD_STREAM) { /* a stream for each thread that says so */
            *out = new_timeline(device, "the thread's default stream");
            return signal(device, stream, *out, 1, what);
        }
        Line &line = line_of(device, stream, what);
        *out = line.timeline;
        const rota_external_point point = signal(device, stream, line.timeline, line.last + 1, what);
        line.last++;
        return point;
    }

    void check(uintptr_t stream, const std::string &what) const { (void)any_.id_of(stream, what); }

    rota_external_point after_event(DeviceCore &device, uintptr_t event, const std::string &what,
                                    Timeline *out) {
        Locked lock(mutex_);
        if (waiting_.empty() || !waiting_.front()->is_idle())
            waiting_.push_front(std::make_unique<CudaStream>(device.ordinal));
        waiting_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
        CudaStream &own = *waiting_.back();
        own.come_after(event, what);
        *out = new_timeline(device, "event " + hex(event));
        return signal(device, own.number(), *out, 1, what);
    }

  private:
    struct Line {
        uint64_t id; /* of the stream */
        Timeline timeline;
        uint64_t last;
    };
    enum { LINES_MAX = 16 };

    static rota_external_point signal(DeviceCore &device, uintptr_t stream, const Timeline &timeline,
                                      uint64_t value, const std::string &what) {
        rota_status status;
        std::string sentence;
        {
            nb::gil_scoped_release released;
            status =
                rota_stream_signal(device.device, reinterpret_cast<void *>(stream), timeline.get(), value);
            if (status != ROTA_OK) sentence = rota_last_error();
        }
        if (status != ROTA_OK) fail(status, what + ": " + sentence);
        return {timeline.get(), value};
    }

    /* The last streams that were named, the latest at the end. */
    Line &line_of(DeviceCore &device, uintptr_t stream, const std::string &what) {
        const uint64_t id = any_.id_of(stream, what);
        Line found{id, nullptr, 0};
        for (size_t i = 0; i < lines_.size(); i++)
            if (lines_[i].id == id) {
                found = lines_[i];
                lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
        if (!found.timeline) found.timeline = new_timeline(device, "stream " + hex(stream));
        if (lines_.size() == LINES_MAX) lines_.erase(lines_.begin());
        lines_.push_back(std::move(found));
        return lines_.back();
    }

    std::mutex mutex_;
    const CudaStream any_; /* by which the driver is asked */
    std::vector<Line> lines_;
    std::deque<std::unique_ptr<CudaStream>> waiting_; /* for events; the one that began first in front */
};

/* ---- What Python's libraries call a stream or an event ---- */

static uintptr_t handle_in(nb::handle number, const std::string &what) {
    uintptr_t handle;
    if (nb::isinstance<nb::bool_>(number) || !nb::try_cast(number, handle))
        fail(ROTA_INVALID_ARGUMENT, what + ": a stream's handle is a whole number, 0 or more, not " +
                                        nb::cast<std::string>(nb::repr(number)));
    return handle ? handle : static_cast<uintptr_t>(LEGACY_STREAM);
}

static bool find_stream(nb::handle stream, const std::string &what, uintptr_t *out) {
    nb::object handle;
    if (nb::isinstance<nb::int_>(stream)) {
        handle = nb::borrow(stream);
    } else if (nb::hasattr(stream,
                           "__cuda_stream__")) { /* (version, handle), or a function that gives that */
        nb::object pair = stream.attr("__cuda_stream__");
        if (PyCallable_Check(pair.ptr())) pair = pair();
        handle = pair[1];
    } else if (nb::hasattr(stream, "cuda_stream")) {
        handle = stream.attr("cuda_stream");
    } else if (nb::hasattr(stream, "ptr") && nb::hasattr(stream, "wait_event")) {
        handle = stream.attr("ptr");
    } else {
        return false;
    }
    *out = handle_in(handle, what);
    return true;
}

/* torch's, and cupy's. */
static bool find_event(nb::handle event, const std::string &what, uintptr_t *out) {
    nb::object handle;
    if (nb::hasattr(event, "cuda_event"))
        handle = event.attr("cuda_event");
    else if (nb::hasattr(event, "ptr") && nb::hasattr(event, "record"))
        handle = event.attr("ptr");
    else
        return false;
    if (!nb::try_cast(handle, *out) || !*out)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": " + nb::cast<std::string>(nb::repr(event)) + " was not recorded on a stream yet");
    return true;
}

static std::string type_text(nb::handle object) {
    return nb::cast<std::string>(nb::repr(object.type()));
}

uintptr_t stream_of(nb::handle stream, const std::string &what) {
    uintptr_t handle;
    if (find_stream(stream, what, &handle)) return handle;
    fail(ROTA_INVALID_ARGUMENT,
         what +
             ": a CUDA stream is expected (a handle, or an object with __cuda_stream__, "
             "cuda_stream or ptr), not " +
             type_text(stream));
}

static void check_has_streams(const DeviceCore &device, const std::string &what) {
    if (device.ordinal < 0)
        fail(ROTA_UNSUPPORTED, what + ": device '" + device.id + "' has no streams; a CUDA device has");
}

DlpackStream dlpack_stream(const DeviceCore *device, nb::handle stream, const std::string &what) {
    if (stream.is_none()) return {};
    int64_t number;
    if (nb::isinstance<nb::bool_>(stream) || !nb::try_cast(stream, number) || number < -1 || number == 0)
        fail(ROTA_INVALID_ARGUMENT,
             what +
                 ": stream is None, -1, 1 (the legacy default stream), 2 (the thread's) or a handle, as "
                 "__dlpack__ has it, not " +
                 nb::cast<std::string>(nb::repr(stream)));
    if (number == -1) return {DlpackStream::NO_ORDER, 0};
    if (!device || device->ordinal < 0)
        fail(ROTA_UNSUPPORTED, what + ": device '" + (device ? device->id : "cpu") +
                                   "' has no streams: stream is None, not " + std::to_string(number));
    return {DlpackStream::HANDLE, static_cast<uintptr_t>(number)};
}

static std::shared_ptr<StreamOrder> order_of(DeviceCore &device) {
    check_process(device);
    Locked lock(device.mutex);
    if (!device.order) device.order = std::make_shared<StreamOrder>(device.ordinal);
    return device.order;
}

/* ---- Streams after tickets ---- */

void order_stream(DeviceCore &device, rota_ticket ticket, uintptr_t stream, const std::string &what,
                  uint64_t timeout_ns) {
    check_has_streams(device, what);
    order_of(device)->check(stream, what);
    check_released([&] {
        return rota_stream_wait(device.device, reinterpret_cast<void *>(stream), ticket, timeout_ns);
    });
}

void follow_stream(DeviceCore &device, uintptr_t stream, const std::string &what) {
    check_has_streams(device, what);
    order_of(device)->check(stream, what);
    check_released([&] { return rota_stream_follow(device.device, reinterpret_cast<void *>(stream)); });
}

/* ---- Submissions after streams, events and tickets ---- */

void After::add_point(const Timeline &timeline, uint64_t value) {
    timelines_.push_back(timeline);
    points_.push_back({timeline.get(), value});
}

void After::add_stream(DeviceCore &device, uintptr_t stream, const std::string &what) {
    check_has_streams(device, what);
    Timeline timeline;
    const rota_external_point point = order_of(device)->after_stream(device, stream, what, &timeline);
    add_point(timeline, point.value);
}

void After::add_event(DeviceCore &device, uintptr_t event, const std::string &what) {
    check_has_streams(device, what);
    Timeline timeline;
    const rota_external_point point = order_of(device)->after_event(device, event, what, &timeline);
    add_point(timeline, point.value);
}

/* On the callback thread of the ticket's device. The timeline's runtime may be closed by now: nobody waits then. */
static void reach(void *user, rota_status, const char *) {
    const std::unique_ptr<Timeline> timeline(static_cast<Timeline *>(user));
    (void)rota_external_timeline_signal(timeline->get(), 1);
}

void After::add_ticket(DeviceCore &device, const Ticket &ticket) {
    Use use(*ticket.device);
    if (rota_poll(ticket.ticket) != ROTA_BUSY) return;
    const Timeline timeline = new_timeline(device, "a ticket of plan '" + ticket.plan + "'");
    auto held = std::make_unique<Timeline>(timeline);
    check_released([&] {
        return ticket.device->runtime == device.runtime
                   ? rota_ticket_export(ticket.ticket, timeline.get(), 1)
                   : rota_ticket_on_complete(ticket.ticket, reach, held.get());
    });
    if (ticket.device->runtime != device.runtime) (void)held.release(); /* the call's */
    add_point(timeline, 1);
}

void After::add(DeviceCore &device, nb::handle one, const std::string &what) {
    const Ticket *ticket;
    uintptr_t handle;
    if (nb::try_cast(one, ticket) && ticket)
        add_ticket(device, *ticket);
    else if (find_stream(one, what, &handle))
        add_stream(device, handle, what);
    else if (find_event(one, what, &handle))
        add_event(device, handle, what);
    else
        fail(ROTA_INVALID_ARGUMENT, what + " is a CUDA stream, an event or a ticket, not " + type_text(one));
}

After::After(DeviceCore &device, nb::handle given, const std::string &what) {
    if (nb::isinstance<nb::str>(given) || !nb::hasattr(given, "__iter__"))
        fail(ROTA_INVALID_ARGUMENT,
             what + " is a list of CUDA streams, events and tickets, not " + type_text(given));
    size_t i = 0;
    for (nb::handle one : given) add(device, one, what + "[" + std::to_string(i++) + "]");
    if (points_.size() > ROTA_AFTER_MAX)
        fail(ROTA_INVALID_ARGUMENT, what + " has " + std::to_string(points_.size()) +
                                        " that have not ended; a submission comes after " +
                                        std::to_string(ROTA_AFTER_MAX) + " at most");
}
