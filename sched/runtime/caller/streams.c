/* rota_stream_signal: points of timelines that the application's streams reach. */
#include <stdlib.h>

#include "base/given.h"
#include "sched/embed.h"
#include "sched/opened.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"

typedef struct stream_point {
    rota_exec_stream_call call;       /* first */
    rota_external_timeline *timeline; /* held */
    uint64_t value;
} stream_point;

/* On a thread of the driver's, which may come after the runtime was closed. A point that the stream does not come to is
 * not reached, and only given back. */
static void reach(rota_exec_stream_call *call, bool is_done) {
    stream_point *point = (stream_point *)call;
    if (is_done)
        (void)rota_external_timeline_signal(point->timeline, point->value); /* closed: nobody waits */
    rota_external_timeline_drop(point->timeline);
    free(point);
}

static rota_status check(const rota_device *device, const rota_external_timeline *timeline) {
    if (timeline->opened.runtime != device->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "external timeline '%s' is of another runtime than device '%s'", timeline->name,
                         device->id);
    ROTA_TRY(rota_opened_check(timeline->opened));
    if (!device->exec->vtable->stream_call)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' has no streams", device->id);
    if (rota_device_is_lost(device)) return rota_fail(ROTA_DEVICE_LOST, "device '%s' is lost", device->id);
    return ROTA_OK;
}

rota_status rota_stream_signal(rota_device *device, void *stream, rota_external_timeline *timeline,
                               uint64_t value) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(stream);
    ROTA_GIVEN(timeline);
    ROTA_TRY(check(device, timeline));
    stream_point *point = malloc(sizeof *point);
    if (!point) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to watch a stream");
    *point = (stream_point){{reach}, timeline, value};
    rota_external_timeline_retain(timeline);
    const rota_status status = device->exec->vtable->stream_call(device->exec, stream, &point->call);
    if (status != ROTA_OK) {
        rota_external_timeline_drop(timeline);
        free(point);
    }
    return status;
}
