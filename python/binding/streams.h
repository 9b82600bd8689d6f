/* The order of submissions and of streams of other libraries on a CUDA device, and of tickets: what a submission comes
 * after, and what comes after a ticket. Nobody waits on the host for what is before a submission. */
#ifndef ROTA_PYTHON_STREAMS_H
#define ROTA_PYTHON_STREAMS_H

#include "core.h"

/* A stream as Python's libraries have it: a handle of the driver's (0 is the legacy default stream), or an object with
 * `__cuda_stream__`, `cuda_stream` (torch's) or `ptr` (cupy's). Raises InvalidArgument; `what` begins the sentence. */
uintptr_t stream_of(nb::handle stream, const std::string &what);

/* Has what is put on a stream from now on come after the ticket: returns when the driver has the ticket's last work. A
 * ticket that has failed by then raises that; `what` begins the sentence about a stream that is refused. */
void order_stream(DeviceCore &device, rota_ticket ticket, uintptr_t stream, const std::string &what,
                  uint64_t timeout_ns);

/* Has what is submitted from now on come after what a stream has by now, for which the device waits. */
void follow_stream(DeviceCore &device, uintptr_t stream, const std::string &what);

/* A consumer's stream as __dlpack__ is told it. */
struct DlpackStream {
    enum Kind { NONE, NO_ORDER, HANDLE } kind = NONE;
    uintptr_t handle = 0;
    int64_t number() const { return kind == NO_ORDER ? -1 : static_cast<int64_t>(handle); }
};
/* None; -1: the call is to put nothing in order; 1, 2 or a handle. Raises for anything else, 0 among it, which the
 * standard leaves out as ambiguous, and for a stream of a device that has none; `what` begins the sentence. */
DlpackStream dlpack_stream(const DeviceCore *device, nb::handle stream, const std::string &what);

/* What a submission of a device comes after. The points are held until this ends. */
class After {
  public:
    After() = default;
    /* Of a list, or any iterable, of streams, events and tickets; each is put in order as it is now. Raises; `what`
     * begins the sentence. */
    After(DeviceCore &device, nb::handle given, const std::string &what);
    const rota_external_point *points() const { return points_.data(); }
    uint32_t count() const { return static_cast<uint32_t>(points_.size()); }

  private:
    using Timeline = std::shared_ptr<rota_external_timeline>;
    void add(DeviceCore &device, nb::handle one, const std::string &what);
    void add_ticket(DeviceCore &device, const Ticket &ticket);
    void add_stream(DeviceCore &device, uintptr_t stream, const std::string &what);
    void add_event(DeviceCore &device, uintptr_t event, const std::string &what);
    void add_point(const Timeline &timeline, uint64_t value);

    std::vector<Timeline> timelines_;
    std::vector<rota_external_point> points_;
};

#endif
