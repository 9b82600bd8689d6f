/* Submission: tickets, argument sets, replays of plans. Threads, progress and fork are as of runtime.h. */
#ifndef ROTA_SCHED_SUBMIT_H
#define ROTA_SCHED_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>
#include "../graph/graph.h"

typedef struct rota_runtime rota_runtime;
typedef struct rota_plan rota_plan;
typedef struct rota_args rota_args;

/* ---- Tickets ---- */

/* One submission. A value: copy it freely; it outlives plan, buffers and the thread that submitted. */
typedef struct rota_ticket {
    rota_runtime *runtime;
    uint64_t id; /* 0: no submission */
} rota_ticket;

/* ROTA_OK: complete (outputs are written); BUSY: not yet; NODE_FAILED, DEVICE_LOST, CANCELLED, ...: failed, with the
 * first cause in rota_last_error. INVALID_ARGUMENT, here and below: the ticket was made up or is of another
 * runtime; WRONG_STATE: its runtime was closed. A thread's last ROTA_TICKET_HISTORY tickets say exactly what
 * became of them. Of older ones those that failed one after the other with the same cause are kept as one,
 * whose sentence names the submission of the first, and a thread's last 256 such runs are kept; NOT_FOUND: of
 * a ticket that lies between others that failed before those it is not known any more. At most 16 384
 * different sentences are kept; what fails with another one says so. Wait-free. */
ROTA_API rota_status rota_poll(rota_ticket ticket);

/* Waits until complete. `timeout_ns` 0: the runtime's default, counted from the last progress of what the
 * submission waits for (its queue up to it, and what that comes after on others); otherwise from the call.
 * TIMEOUT names plan, submission, first and last node of the smallest unfinished segment, and each queue's
 * timeline; on `cpu` and with diagnostics (but on llvmpipe) the exact node. Lock-free. */
ROTA_API rota_status rota_wait(rota_ticket ticket, uint64_t timeout_ns);

/* Waits until the borrowed INPUT memory of the submission may be changed. Lock-free. */
ROTA_API rota_status rota_wait_inputs_taken(rota_ticket ticket, uint64_t timeout_ns);

/* The submission's place in the one order of the runtime, from 1. BUSY: not sequenced yet. Kept for the last
 * ROTA_TICKET_HISTORY submissions of a thread (NOT_FOUND after that). Wait-free. */
ROTA_API rota_status rota_ticket_number(rota_ticket ticket, uint64_t *out_number);
#define ROTA_TICKET_HISTORY 4096

/* Calls fn(user, status, message) once, when the ticket is complete or failed, on a thread that rota has for
 * callbacks, one at a time; at once on the calling thread if it already is. `message` is valid during the
 * call. fn may take any time and may call anything here but rota_runtime_close: submit, wait, read, write and
 * release too. Only other callbacks wait for it (one that waits for what another callback is to do waits for
 * ever), and rota_runtime_close, which ends at its deadline all the same, and then frees nothing. One that
 * runs for more than a second is named in the log, as a warning. May block in malloc. */
typedef void (*rota_ticket_fn)(void *user, rota_status status, const char *message);
ROTA_API rota_status rota_ticket_on_complete(rota_ticket ticket, rota_ticket_fn fn, void *user);

/* Adds 1 to an eventfd when the ticket is complete or failed. The descriptor is the caller's and stays open
 * until then. May block in malloc. */
ROTA_API rota_status rota_ticket_eventfd(rota_ticket ticket, int eventfd);

/* Cancels the submission: what of it has not begun does not begin, what runs is left to end. If something was left
 * out, its ticket ends as CANCELLED, which rota_last_error says of which submission; what it was to write counts as
 * failed, as after a node that failed, until a node that overwrites all of it succeeds; what depends on it fails with
 * NODE_FAILED and that cause. If nothing was left out it ends as without the call. It ends in its place: after what it
 * comes after on its queues has ended, and no earlier (of submissions that are held for the same points, the earlier
 * ones); but for points of the application's (`after`) it waits no more. What comes after such points only by coming
 * after it comes after them no more, and is to be given them itself if it needs them: it may begin before the
 * application is through with what it guards by them.
 *
 * What has begun: on `cpu` each node by itself, so that at the most those that its threads run now are left to end (of
 * one that is split among threads all of it, of one that decides the iteration that it has begun); on other devices
 * what was handed to the driver, of which a plan's segment is the smallest part (but a while or for ends with its
 * iteration there, too). Reads and writes of buffers are one
 * such part. Moves between devices on its behalf are made all the same. But where its points are not reached, what the
 * application may touch (rota_buffer_adopt, rota_buffer_export, rota_buffer_address, called before it was submitted) is
 * not moved: what was submitted before all its works have ended (its ticket may end a moment earlier), and needs it
 * there, fails, and what that was to write with it; for later ones it is moved anew.
 *
 * One call is enough, and asks only: it does not wait for the end, and reading the ticket is as before it. One that has
 * ended, or was cancelled before, is left as it is, and OK. INVALID_ARGUMENT: the ticket was made up or is of another
 * runtime. Any thread's, also a callback's. Lock-free, some 0.3 us. While something that was in flight when a ticket
 * was cancelled has not ended, `cpu` asks before each node, some 40 ns. */
ROTA_API rota_status rota_ticket_cancel(rota_ticket ticket);

/* ---- Arguments and submission ---- */

/* The argument set of one plan: values of slots, buffers of SLOT buffers, host memory of INPUT and OUTPUT
 * buffers of its graph. What some node uses must be set before the first submission; what none does (as after
 * a rewrite) may be set too, which checks it and changes nothing. One thread at a time per rota_args; it may
 * be changed and submitted again as soon as rota_submit has returned. Settings persist from one submission to
 * the next. May block in malloc. */
ROTA_API rota_status rota_args_create(rota_plan *plan, rota_args **out_args);
/* Lock-free, also while submissions use the set; after the runtime was closed it frees, which may block in
 * malloc. NULL is ignored. */
ROTA_API void rota_args_release(rota_args *args);

/* Each checks the slot's size, and its type where a kernel says one, against the record and names both on
 * error; NOT_FOUND: no slot (below: no such buffer) of the plan's graph. Wait-free where
 * nothing else is said. Goes over the plan's words of arguments, 16349 at most. */
ROTA_API rota_status rota_args_set_f32(rota_args *args, rota_slot slot, float value);
ROTA_API rota_status rota_args_set_u32(rota_args *args, rota_slot slot, uint32_t value);
ROTA_API rota_status rota_args_set_u64(rota_args *args, rota_slot slot, uint64_t value);
/* A PERSISTENT buffer or view of at least the slot's size. Its memory on the plan's device is made now if
 * needed (may block then; rota_buffer_prepare beforehand makes this wait-free). */
ROTA_API rota_status rota_args_set_buffer(rota_args *args, rota_buffer *slot_buffer, rota_buffer *buffer);
/* size_bytes must equal the buffer's. Borrowed until the inputs-taken point of each submission, or, with
 * `copy`, copied during each rota_submit (into memory that rota_args owns a ring of; BUSY if all of it is in
 * flight). Wait-free, but for the first time with `copy` for an input: that makes the memory, and may block
 * in malloc. OUT_OF_MEMORY. */
ROTA_API rota_status rota_args_set_input(rota_args *args, rota_buffer *input, const void *data,
                                         uint64_t size_bytes, bool copy);
/* Written before each submission's ticket completes, in the order of submissions where several name the same
 * memory, or parts of it, whatever plans and devices they are of: once a ticket has ended, complete or not,
 * nothing submitted before it writes memory that it names. Of a replay that failed nothing is written, but on
 * devices that write host memory themselves (`cpu`) what was before its failure, or beside it. The memory may
 * be freed when the last ticket that names it has ended. Wait-free. */
ROTA_API rota_status rota_args_set_output(rota_args *args, rota_buffer *output, void *data,
                                          uint64_t size_bytes);

/* Submits a replay. `args` may be NULL for a plan whose nodes take no arguments. Lock-free: publishes a
 * record in bounded space and returns, whatever the plan's size, but with a copy of its words of arguments;
 * BUSY when there is no room: 256 submissions of the thread that were not taken yet, 523 776 made after one
 * that is unfinished, 131 072 living threads that submitted, and whatever else its sentence names. Calls that
 * wait for room on a device (rota_submit_wait) come first: until they have had it, this one is BUSY there.
 * INVALID_ARGUMENT names an argument that was never set, or two slots whose buffers overlap where the plan
 * writes one. `out_ticket` may be NULL. */
ROTA_API rota_status rota_submit(rota_plan *plan, rota_args *args, rota_ticket *out_ticket);

/* The same, but waits for room up to timeout_ns (0: the default, counted from the last progress of the plan's
 * devices and of the calls before this one). Room on a device is given in the order in which calls began to
 * wait for it there: no call that began later overtakes one that waits, but for calls that looked for room
 * just before, one a thread, and unless the waiting thread is stopped for 50 ms while there is room for it:
 * then its turn lapses, and it waits anew. Lock-free. */
ROTA_API rota_status rota_submit_wait(rota_plan *plan, rota_args *args, uint64_t timeout_ns,
                                      rota_ticket *out_ticket);

/* A timeline that the application moves (embed.h), and a value of it. */
typedef struct rota_external_timeline rota_external_timeline;
typedef struct rota_external_point {
    rota_external_timeline *timeline;
    uint64_t value;
} rota_external_point;
#define ROTA_AFTER_MAX 16

typedef struct rota_submit_options {
    size_t struct_size;  /* sizeof, by ROTA_SUBMIT_OPTIONS() */
    rota_args *args;     /* borrowed during the call; NULL: for a plan whose nodes take no arguments */
    uint64_t timeout_ns; /* how long to wait for room, as of rota_submit_wait; 0: the default */
    bool no_wait;        /* BUSY where there is no room, as rota_submit; timeout_ns is 0 then */
    /* Points of the application's (embed.h) that the submission comes after: nothing of it begins before all of them
     * are reached. What depends on it waits with it, and so may later replays of its plan, which share its instances;
     * everything else passes. Cancelled, or at its deadline (below), it is left out and waits for them no more, and
     * what waited only with it goes on (rota_ticket_cancel). On one device that holds for up to 5 rows of submissions
     * that wait: one belongs to the row of an earlier one if it has all timelines of that one, none at a lesser value,
     * and no lesser after_timeout_ns, and nothing keeps either but points and their row; a move between devices does,
     * and a part of the plan on another one, and an instance that is in use. With more rows, some of those wait for
     * others of those too, beyond their deadlines. If the points are not reached within after_timeout_ns, counted from
     * when one of their timelines moved last, it fails with TIMEOUT, naming one. What it takes from arguments is taken
     * at once; of a plan without an argument set whose slots, which no node uses, have more than 64 words, it is
     * INVALID_ARGUMENT. The array is borrowed during the call. */
    const rota_external_point *after;
    uint64_t after_timeout_ns; /* 0: the runtime's timeout_ns */
    uint32_t after_count;      /* at most ROTA_AFTER_MAX */
    /* 0: none. A submission that has not ended so long after the call began, which may have waited for room, is
     * cancelled as by rota_ticket_cancel, with all that follows, and the cause says that it was its deadline. A time
     * beyond the clock's end never comes. A thread of rota's sees to it; with deadlines a submission costs O(log of
     * those in flight). As `after` it needs an argument set where a plan's unused slots have more than 64 words. */
    uint64_t deadline_ns;
} rota_submit_options;
#define ROTA_SUBMIT_OPTIONS(...) ROTA_SIZED(rota_submit_options, __VA_ARGS__)

/* Submits a replay as the options say; what a submission can be told besides comes as members of theirs.
 * NULL: no arguments, and it waits for room up to the default deadline. `options` is not needed afterwards.
 * INVALID_ARGUMENT: also no_wait with a timeout. Lock-free; the rest is as of rota_submit and
 * rota_submit_wait, which are this with fewer words. */
ROTA_API rota_status rota_submit_with(rota_plan *plan, const rota_submit_options *options,
                                      rota_ticket *out_ticket);

#endif
