/* Waiting for room, in turn. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_CALLER_ROOM_H
#define ROTA_SCHED_RUNTIME_CALLER_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include "base/turns.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"

typedef struct rota_residency rota_residency;

/* A call's turn among those that wait for one kind of room; zero: none. */
typedef struct rota_room_turn {
    rota_turns *turns;
    uint64_t number;
} rota_room_turn;

/* Of one call. The turns that it had it keeps until its submission is published, so that those are in order,
 * too. */
typedef struct rota_room_wait {
    rota_runtime *runtime;
    uint64_t pause_ns;
    bool is_watching;
    rota_progress progress;
    uint64_t counted; /* turns that had led to room when it was last looked at: each is progress, too */
    rota_room_turn slot, own, pool, promise;
} rota_room_wait;

typedef enum rota_taking {
    ROTA_NOT_YET,
    ROTA_TAKEN,
    ROTA_ELSEWHERE /* what is waited for does not come by waiting here */
} rota_taking;

/* Some kind of room, and who is to have some. */
typedef struct rota_room {
    rota_turns *turns;
    const char *what;
    rota_device *device; /* that it comes from; NULL: any */
    bool is_staging;     /* given back by the sequencer */
    uint64_t size;       /* how much of it is wanted */
    /* `may`: it is this one's turn. */
    rota_taking (*take)(void *user, bool may);
    /* Whether whoever's turn it is, and wants so much (0: has not said), has room: its time runs then. */
    bool (*is_free)(void *user, uint64_t wanted);
    void *user;
} rota_room;

typedef struct rota_promised {
    rota_runtime *runtime;
    uint64_t size;
} rota_promised;

extern const char ROTA_NO_STAGING[];

/* The buffer's residency, where these are bytes of a runtime's persistent buffer. */
rota_status rota_host_check_range(rota_buffer *buffer, uint64_t offset_bytes, const void *data,
                                  uint64_t size_bytes, rota_residency **out);
void rota_room_wait_begin(rota_room_wait *w, rota_runtime *runtime);
void rota_room_leave(rota_room_turn *p);
void rota_room_leave_all(rota_room_wait *w);
/* Takes some of the room at once where nobody waits for any, else in turn (turns.h). TIMEOUT, DEVICE_LOST. */
rota_status rota_room_take(rota_room_wait *w, const rota_room *r, rota_room_turn *p, rota_taking *out_taking);
/* As rota_fail: why the device is lost. */
rota_status rota_room_device_lost(const rota_device *device);
/* Room under the memory limit. */
rota_room rota_promise_room(rota_promised *p, rota_device *device);
bool rota_promise_is_free(void *user, uint64_t wanted);
/* A record in the thread's lane; waits for room there, where `w` is given. BUSY, TIMEOUT. */
rota_status rota_room_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_room_wait *w,
                              rota_ticket *out_ticket);

#endif
