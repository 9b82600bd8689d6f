/* Opening: a process's rank, by whatever carries its bytes, and ranks that are threads of one process. */
#include "sched/communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "exec/comm/messages.h"
#include "exec/comm/mpi_engine.h"
#include "exec/comm/tcp_engine.h"
#include "exec/comm/threads.h"
#include "sched/ranks/flush.h"
#include "sched/ranks/parts.h"

static const uint64_t default_timeout_ns = 20000000000u;

/* ---- On the thread ---- */

typedef enum carrier { ALONE, MPI, TCP } carrier;

typedef struct asked_open {
    rota_rank_asked asked;
    rota_rank_thread *thread;
    carrier by;
    bool is_given;             /* the MPI_Comm of the application's, */
    uint64_t mpi_communicator; /* as the library for MPI has it */
    rota_meeting meeting;
    char name[64];
    uint64_t timeout_ns, deadline_ns; /* of what is opened; until when that takes, all of it */
    rota_transport *transport;
} asked_open;

/* Where the library that opened it let that pass, all ranks have come: they have this long for the rest. */
static const uint64_t rest_ns = 1000000000u;

/* The deadline, or the time `least_ns` from now where that is later. */
static uint64_t extended_deadline_ns(uint64_t deadline_ns, uint64_t least_ns) {
    const uint64_t soon_ns = rota_deadline_after(least_ns);
    return soon_ns > deadline_ns ? soon_ns : deadline_ns;
}

static rota_status open_engine(const asked_open *asked, rota_engine **out_engine) {
    const uint64_t now = rota_clock_ns();
    if (asked->by == TCP)
        return rota_tcp_open(&asked->meeting, asked->name,
                             asked->deadline_ns > now ? asked->deadline_ns - now : 0, out_engine);
    if (asked->by == MPI) return rota_mpi_open(asked->is_given ? &asked->mpi_communicator : NULL, out_engine);
    return rota_threads_open(1, out_engine);
}

static void open_on_thread(rota_rank_call *call) {
    asked_open *asked = (asked_open *)(void *)call;
    rota_engine *engine = NULL;
    rota_transport *made = NULL;
    rota_rank_thread *thread = asked->thread;
    const uint64_t timeout_ns = asked->timeout_ns;
    rota_status status = open_engine(asked, &engine);
    if (status == ROTA_OK) status = rota_messages_open(engine, asked->name, timeout_ns, &made);
    if (status == ROTA_OK && (status = rota_transport_identify(
                                  made, extended_deadline_ns(asked->deadline_ns, rest_ns))) != ROTA_OK) {
        rota_communicator_drop(thread, made);
        made = NULL;
    }
    asked->transport = made;
    if (rota_rank_answer(&asked->asked, status) && made) rota_communicator_drop(thread, made);
}

/* ---- What carries the bytes ---- */

static rota_status check_given(const rota_communicator_options *o) {
    const char *by = o->transport;
    if (o->address && o->mpi_communicator)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "a communicator at '%s' and of an MPI_Comm, expected one of them", o->address);
    if (by && strcmp(by, "mpi") != 0 && strcmp(by, "tcp") != 0 && strcmp(by, "alone") != 0)
        return rota_fail(ROTA_UNSUPPORTED,
                         "a communicator by transport '%s', expected \"mpi\", \"tcp\" or \"alone\"", by);
    if ((o->address && by && strcmp(by, "tcp") != 0) || (o->mpi_communicator && by && strcmp(by, "mpi") != 0))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "a communicator %s by transport '%s', expected \"%s\", or NULL",
                         o->address ? "with an address" : "of an MPI_Comm", by, o->address ? "tcp" : "mpi");
    if (!o->address && (o->rank || o->size))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "a communicator of rank %u of %u without an address, at which the ranks meet",
                         o->rank, o->size);
    return ROTA_OK;
}

static rota_status find_carrier(const rota_communicator_options *o, asked_open *out) {
    ROTA_TRY(check_given(o));
    out->by = ALONE;
    if (o->transport && strcmp(o->transport, "alone") == 0) return ROTA_OK;
    if (o->address) {
        out->by = TCP;
        return rota_meeting_at(o->address, o->rank, o->size, &out->meeting);
    }
    const bool is_started = rota_mpi_is_started() && !rota_meeting_is_within_srun(),
               is_tcp = o->transport && strcmp(o->transport, "tcp") == 0;
    if (o->mpi_communicator) {
        out->by = MPI;
        out->is_given = true;
        return rota_mpi_take(o->mpi_communicator, &out->mpi_communicator);
    }
    uint32_t ranks;
    const char *launcher = rota_meeting_launcher(&ranks);
    if (is_tcp || (launcher && !is_started && !o->transport)) {
        out->by = TCP;
        return rota_meeting_of_launcher(&out->meeting);
    }
    if (!o->transport && !is_started) return ROTA_OK;
    out->by = MPI;
    if (launcher && !is_started)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "a communicator by MPI of %u ranks that %s started without it: start them by mpirun, or by "
            "srun with --mpi, or have them by transport \"tcp\"",
            ranks, launcher);
    return ROTA_OK;
}

/* ---- A process's rank ---- */

/* With a thread of its own. */
static rota_status make_alone(rota_runtime *runtime, rota_communicator **out_communicator) {
    rota_device *device;
    rota_rank_thread *thread;
    ROTA_TRY(rota_device_open(runtime, "cpu", &device));
    ROTA_TRY(rota_rank_thread_start(&thread));
    return rota_communicator_make(runtime, device, thread, out_communicator);
}

/* Where it fails they are closed, and NULL. */
rota_status rota_communicator_open_devices(rota_communicator **communicators, uint32_t count,
                                           rota_device *const *devices) {
    char text[ROTA_ERROR_MESSAGE_MAX];
    const rota_status status = rota_rank_devices_open(communicators, count, devices);
    if (status == ROTA_OK) return ROTA_OK;
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    for (uint32_t i = 0; i < count; i++) {
        (void)rota_communicator_close(communicators[i], 0);
        communicators[i] = NULL;
    }
    return rota_fail(status, "%s", text);
}

rota_status rota_communicator_open(rota_runtime *runtime, const rota_communicator_options *options,
                                   rota_communicator **out_communicator) {
    rota_communicator_options room = ROTA_COMMUNICATOR_OPTIONS();
    ROTA_GIVEN(out_communicator);
    *out_communicator = NULL;
    ROTA_GIVEN(runtime);
    options = options ? ROTA_SIZED_IN(rota_communicator_options, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    asked_open *asked = (asked_open *)(void *)rota_rank_ask(sizeof *asked, open_on_thread);
    if (!asked) return rota_fail(ROTA_OUT_OF_MEMORY, "a communicator: no host memory");
    rota_communicator *made = NULL;
    rota_status status = find_carrier(options, asked);
    if (status == ROTA_OK) status = make_alone(runtime, &made);
    if (status != ROTA_OK) { /* the thread has none of it */
        rota_rank_forget(&asked->asked);
        rota_rank_forget(&asked->asked);
        return status;
    }
    const uint64_t timeout_ns = options->timeout_ns ? options->timeout_ns : default_timeout_ns;
    asked->thread = made->thread;
    asked->timeout_ns = timeout_ns;
    asked->deadline_ns = rota_deadline_after(timeout_ns);
    (void)snprintf(asked->name, sizeof asked->name, "%s", options->name ? options->name : "world");
    bool is_answered;
    /* What the thread does ends by that, but for what a library does, and says who is missing. */
    status =
        rota_rank_wait(made->thread, &asked->asked, rota_rank_later(asked->deadline_ns, ROTA_RANK_ANSWER_NS),
                       "opening a communicator, which waits for all ranks", &is_answered);
    if (status == ROTA_OK) {
        made->ordered.is_own = options->own_order;
        made->on_device.is_deterministic = options->deterministic;
        rota_communicator_carry_by(made, asked->transport);
        *out_communicator = made;
    }
    if (is_answered) rota_rank_forget(&asked->asked);
    if (status != ROTA_OK) rota_communicator_unmake(made);
    if (status != ROTA_OK || !options->devices) return status;
    return rota_communicator_open_devices(out_communicator, 1, options->devices);
}

/* ---- Ranks of one process ---- */

/* Takes the engine, also where it fails. */
static rota_status open_rank(rota_runtime *runtime, rota_engine *engine,
                             const rota_communicator_options *options, rota_communicator **out_communicator) {
    rota_communicator *made;
    rota_transport *transport;
    rota_status status = make_alone(runtime, &made);
    if (status != ROTA_OK) {
        engine->vtable->close(engine);
        return status;
    }
    engine->vtable->tell(engine, &made->thread->told); /* the thread is there for longer than what it has */
    status = rota_messages_open(engine, options->name ? options->name : "world",
                                options->timeout_ns ? options->timeout_ns : default_timeout_ns, &transport);
    if (status != ROTA_OK) {
        rota_communicator_unmake(made);
        return status;
    }
    made->ordered.is_own = options->own_order;
    made->on_device.is_deterministic = options->deterministic;
    rota_communicator_carry_by(made, transport);
    *out_communicator = made;
    return ROTA_OK;
}

rota_status rota_communicator_open_ranks(rota_runtime *const *runtimes, uint32_t size,
                                         const rota_communicator_options *options,
                                         rota_communicator **out_communicators) {
    rota_communicator_options room = ROTA_COMMUNICATOR_OPTIONS();
    ROTA_GIVEN(runtimes);
    ROTA_GIVEN(out_communicators);
    options = options ? ROTA_SIZED_IN(rota_communicator_options, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    if (size == 0 || options->transport || options->address || options->mpi_communicator)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "%u ranks of one process by transport '%s'%s, expected one at least, NULL, and no address", size,
            options->transport ? options->transport : "NULL",
            options->address || options->mpi_communicator ? " that meet elsewhere" : "");
    for (uint32_t i = 0; i < size; i++) {
        out_communicators[i] = NULL;
        ROTA_GIVEN(runtimes[i]);
        for (uint32_t k = 0; k < i; k++)
            if (runtimes[k] == runtimes[i])
                return rota_fail(
                    ROTA_INVALID_ARGUMENT,
                    "ranks %u and %u of one process have one runtime, expected one for each: what one "
                    "of them waits for may be behind it there",
                    k, i);
    }
    rota_engine **engines = calloc(size, sizeof *engines);
    if (!engines) return rota_fail(ROTA_OUT_OF_MEMORY, "%u ranks: no host memory", size);
    rota_status status = rota_threads_open(size, engines);
    uint32_t count = 0;
    for (; count < size && status == ROTA_OK; count++)
        status = open_rank(runtimes[count], engines[count], options, &out_communicators[count]);
    if (status != ROTA_OK && count) { /* the last one tried has closed its engine */
        char text[ROTA_ERROR_MESSAGE_MAX];
        (void)snprintf(text, sizeof text, "%s", rota_last_error());
        for (uint32_t i = count; i < size; i++) engines[i]->vtable->close(engines[i]);
        for (uint32_t i = 0; i < count; i++) {
            (void)rota_communicator_close(out_communicators[i], 0);
            out_communicators[i] = NULL;
        }
        status = rota_fail(status, "%s", text);
    }
    free(engines);
    if (status != ROTA_OK || !options->devices) return status;
    return rota_communicator_open_devices(out_communicators, size, options->devices);
}
