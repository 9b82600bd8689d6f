/* What a watch is for: a callback, which has its own thread, an eventfd, a point of a timeline of the application's, or
 * a stream of the application's, which goes on. */
#include "sched/runtime/completer/watches.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

static void end_callback(rota_completion *completion, rota_status status, const char *message) {
    completion->u.watch.status = status;
    completion->u.watch.message = status == ROTA_OK ? NULL : strdup(message);
    rota_callbacks_push(completion->u.watch.ticket.runtime, completion);
}

/* A descriptor that cannot take the 1 now (its count is at the highest, or it is no eventfd) is left alone: a
 * write that waits would hold up everything else. */
static void end_eventfd(rota_completion *completion, rota_status status, const char *message) {
    (void)status, (void)message;
    struct pollfd ready = {.fd = completion->u.watch.eventfd, .events = POLLOUT};
    const rota_log *log = &completion->u.watch.ticket.runtime->options.log;
    free(completion);
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
        rota_log_write(log, ROTA_LOG_WARNING, "a ticket's eventfd %d takes nothing more", ready.fd);
        return;
    }
    uint64_t one = 1;
    ssize_t written;
    do written = write(ready.fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    if (written < 0)
        rota_log_write(log, ROTA_LOG_WARNING, "a ticket's eventfd %d could not be written: %s", ready.fd,
                       strerror(errno));
}

static void end_external(rota_completion *completion, rota_status status, const char *message) {
    (void)status, (void)message;
    const rota_external_point *point = &completion->u.watch.external;
    /* Closing changes nothing: devices are there for as long as this thread is. */
    (void)rota_external_timeline_reach(point->timeline, point->value);
    rota_external_timeline_drop(point->timeline);
    free(completion);
}

/* However the ticket ended: the application asks for that by rota_poll. */
static void end_stream(rota_completion *completion, rota_status status, const char *message) {
    (void)status, (void)message;
    rota_exec_device *exec = completion->u.watch.device->exec; /* there, as in end_external */
    exec->vtable->streams->open_latch(exec, completion->u.watch.latch);
    free(completion);
}

/* By rota_completion_kind; a delivery is no watch. */
static void (*const ends[])(rota_completion *completion, rota_status status, const char *message) = {
    [ROTA_COMPLETION_CALLBACK] = end_callback,
    [ROTA_COMPLETION_EVENTFD] = end_eventfd,
    [ROTA_COMPLETION_EXTERNAL] = end_external,
    [ROTA_COMPLETION_STREAM] = end_stream,
};

void rota_watch_end(rota_completion *completion, rota_status status, const char *message) {
    ends[completion->kind](completion, status, message);
}
