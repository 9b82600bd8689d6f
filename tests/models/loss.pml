/* End and loss of a device: sched/runtime/shared/loss.c, submitter/handover.c, complete.c, tickets.c, last_use.c,
 * close.c, and the CPU executor's end and loss (exec/cpu/wake.c, queue.c).
 *
 * Submissions 1 to N on device A take inputs out of the caller's memory, run on two workers, and are delivered into the
 * caller's memory; the last, on device B, reads what N wrote. All use one buffer, which the caller has released. A has
 * no memory for another work (OOM: its executor says that it is lost), or is given up while it is still at work, and
 * may get on late (LATE). The caller frees its memory as tickets end. Then close, which may have to go without A.
 *
 * Asked: nobody touches memory that is freed; a ticket says OK only where what its work read was good; each ticket ends
 * unless A hangs and nobody gives it up; close ends, and what it does not free is counted as abandoned; without a close
 * the buffer is freed unless A is still at work.
 *
 * Left out: sleeps and wakes (pump.pml, gate.pml; a thread here goes on when it can), devices that wait for each other
 * (gate.pml), who frees submissions (reclaim.pml), several outputs (deliver.pml), tickets over several devices.
 *
 * run safe no_memory: -DOOM -DN=1
 * run safe given_up: -DLATE
 * full safe given_up_and_close: -DLATE -DCLOSES
 * full safe no_memory_of_two: -DOOM -DN=2
 * full safe no_memory_and_close: -DOOM -DN=2 -DCLOSES
 * costly 1 safe: -DOOM -DN=2 | the executor says that it is lost while its workers still run
 * costly 2 safe: -DOOM -DN=2 | the first worker that leaves says that the device is lost
 * plant 3 safe: -DLATE | a buffer is freed when its last use has passed, whatever a lost device has
 * plant 4 safe: -DLATE | a lost device whose thread still hands over is taken to be finished
 * plant 5 safe: -DLATE | which lost devices are at work is asked before whether the last use has passed
 * plant 6 safe: -DLATE -DCLOSES -DREVERSE | what close may free is asked before the submit thread has ended
 * plant 7 safe: -DLATE -DCLOSES | close frees all at its deadline
 * plant 8 safe: -DLATE | a ticket of a lost device ends while its inputs are taken
 * plant 9 safe: -DLATE | who takes inputs looks whether the device is lost before saying so
 * plant 10 safe: -DLATE | the completer asks for the loss before it asks whether the point has passed
 * plant 11 safe: -DOOM -DN=2 -DREVERSE | timelines go on after the executor is out of memory
 * plant 12 safe: -DLATE | what comes after a lost device's work runs
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef N
#define N 1 /* submissions of A; the one of B is N + 1 */
#endif

byte ring_consumed, handed_over, given, taken_by_worker, completed; /* of A */
bool is_done[4], ran[4];                                            /* of its works; the latter is a ghost */
byte filling;
bool is_lost, is_gone, stops, is_closing, threads_stop;
bool thread_ended, completer_ended, sweeper_ended;
byte parked, exited;
bool completed_b, failed_b, good_b;
bool ended[4], delivery_done[3], hosted_lost[3];
bool caller_freed[3], buffer_freed, is_closed, is_abandoned, hangs;
byte touching; /* ghost: workers in a command */
byte in_caller[3]; /* ghost: who is in the caller's memory */

#define PASSED(w) (completed >= (w))
/* rota_device_is_finished of A */
#define IS_FINISHED (is_gone || completed >= (is_lost -> handed_over : N))

inline enter_caller(w) {
    atomic { assert(!caller_freed[w]); in_caller[w]++ }
}
inline leave_caller(w) {
    in_caller[w]--
}
inline free_caller(w) {
    atomic { assert(in_caller[w] == 0); caller_freed[w] = true }
}
inline free_buffer() {
    atomic { assert(!buffer_freed && touching == 0); buffer_freed = true }
}

/* hand_over */
proctype submit_thread() {
    byte w = 1;
    do
    :: w <= N ->
        /* rota_device_begin_filling */
#if PLANT == 9
        if
        :: is_lost -> skip
        :: else ->
            filling = w;
#else
        filling = w;
        if
        :: is_lost -> filling = 0
        :: else ->
#endif
            enter_caller(w);
            leave_caller(w);
            filling = 0
        fi;
        if
        :: is_lost -> break
        :: threads_stop -> break
        :: else
        fi;
        handed_over = w;
#ifdef OOM
        if
        :: stops -> skip
        :: !stops -> given = w
        :: !stops -> stops = true; /* rota_cpu_lose: works may be missing, and no timeline passes them */
#if PLANT == 1
            is_gone = true;
            is_lost = true
#endif
        fi;
#else
        given = w;
#endif
        ring_consumed = w;
        w++
    :: else -> break
    od;
    ring_consumed = N; /* what is not handed over is dropped with the loss, or by close */
    thread_ended = true
}

/* A worker of A: a work, and the pump */
proctype worker() {
    byte w;
end_work:
    do
    :: stops -> break
    :: is_closing -> goto exits
    :: atomic { taken_by_worker < given && !stops -> taken_by_worker++; w = taken_by_worker }
        atomic { assert(!buffer_freed); touching++ }
#ifdef OOM
        enter_caller(w); /* it reads and writes where the caller has it */
#endif
        if
        :: true
#ifndef OOM
        :: hangs = true;
end_hang:   false
#endif
        fi;
#ifdef OOM
        leave_caller(w);
#endif
        atomic { assert(!buffer_freed); touching--; ran[w] = true }
        if
        :: stops -> break
        :: else
        fi;
        atomic { /* rota_cpu_complete, retire; one pumps at a time */
            is_done[w] = true;
            w = completed;
            do
            :: w < N && is_done[w + 1] -> w++
            :: else -> break
            od
        }
        atomic {
            if
#if PLANT == 11
            :: w > completed -> completed = (stops -> N : w)
#else
            :: w > completed && !stops -> completed = w
#endif
            :: else
            fi;
            w = 0
        }
    od;
    /* park */
    atomic { parked++; w = parked }
    if
#if PLANT == 2
    :: w == 1 -> is_gone = true; is_lost = true
#else
    :: w == 2 -> is_gone = true; is_lost = true
#endif
    :: else
    fi;
end_park:
    is_closing;
exits:
    exited++
}

#ifdef LATE
/* give_up_on, or the sequencer's look at what is stuck */
proctype giver_up() {
    is_lost = true
}
#endif

/* The submit thread and the executor of B */
proctype other() {
    bool seen_lost;
    do
    :: seen_lost = is_lost;
        if
        :: PASSED(N) -> break
        :: else ->
            if
            :: seen_lost ->
#if PLANT != 12
                failed_b = true;
#endif
                break
            :: else -> PASSED(N) || is_lost || threads_stop
            fi
        fi;
        if
        :: threads_stop -> goto ends
        :: else
        fi
    od;
    good_b = ran[N];
    completed_b = true;
ends:
    skip
}

/* Deliveries, in order; the sequencer fails what was lost */
proctype completer() {
    byte w = 1;
    bool seen_passed, seen_lost;
    do
    :: w <= N ->
#if PLANT == 10
again:  seen_lost = is_lost;
        seen_passed = PASSED(w);
        if
        :: !seen_passed && !seen_lost -> goto again
        :: else
        fi;
#else
end_point:
        PASSED(w) || is_lost || threads_stop;
        if
        :: threads_stop && !PASSED(w) && !is_lost -> break
        :: else
        fi;
        seen_passed = PASSED(w);
        seen_lost = is_lost;
#endif
        if
        :: seen_passed && !seen_lost ->
            enter_caller(w);
            leave_caller(w)
        :: else ->
            filling != w; /* rota_device_fills, in orphan */
            hosted_lost[w] = true
        fi;
        delivery_done[w] = true;
        w++
    :: else -> break
    od;
    completer_ended = true
}

/* rota_ticket_status of A's, and what the caller does then */
proctype caller(byte w) {
    bool seen_lost;
end_ticket:
    do
    :: PASSED(w) && delivery_done[w] ->
        assert(hosted_lost[w] || ran[w]);
        break
    :: !PASSED(w) && is_lost ->
        if
        :: PASSED(w)
        :: else ->
            if
#if PLANT == 8
            :: true -> break
#else
            :: filling != w -> break
            :: else
#endif
            fi
        fi
#ifdef CLOSES
    :: is_closed && !is_abandoned -> break
#endif
    od;
    free_caller(w);
    ended[w] = true
}

proctype caller_b() {
end_ticket:
    completed_b;
    assert(failed_b || good_b);
    ended[N + 1] = true
}

/* undrained_devices, as far as A is concerned */
#if PLANT == 4
#define IS_AT_LARGE (is_lost && !IS_FINISHED)
#else
#define IS_AT_LARGE (is_lost && (ring_consumed != N || !IS_FINISHED))
#endif

/* The sequencer's sweep and the reclaimer */
proctype reclaimer() {
    bool undrained, is_unused;
end_sweep:
    do
    :: threads_stop || buffer_freed -> break
#if PLANT == 5
    :: !threads_stop ->
#else
    :: !threads_stop && completed_b && !(is_unused && undrained && IS_AT_LARGE) ->
#endif
#if PLANT == 5
        undrained = IS_AT_LARGE;
        is_unused = completed_b;
#else
        is_unused = completed_b;
        undrained = IS_AT_LARGE;
#endif
        if
#if PLANT == 3
        :: is_unused -> free_buffer(); break
#else
        :: is_unused && !undrained -> free_buffer(); break
#endif
        :: else
        fi
    od;
    is_unused = false;
    undrained = false;
    sweeper_ended = true
}

#ifdef CLOSES
/* rota_runtime_close */
proctype close() {
    bool is_stuck;
    if
    :: IS_FINISHED && completed_b
    :: true /* the deadline */
    fi;
    threads_stop = true;
    sweeper_ended;
#if PLANT == 6
    is_stuck = !IS_FINISHED || !completed_b;
    thread_ended && completer_ended;
#else
    thread_ended && completer_ended;
    is_stuck = !IS_FINISHED || !completed_b;
#endif
    if
#if PLANT != 7
    :: is_stuck -> /* executors that work on the host end first, or are left with what they have */
        is_closing = true;
        is_abandoned = true
#endif
    :: else ->
        if
        :: !buffer_freed -> free_buffer()
        :: else
        fi;
        is_closing = true;
        exited == 2
    fi;
    is_closed = true
}
#endif

proctype monitor() {
    timeout ->
#ifdef CLOSES
    assert(is_closed && (buffer_freed || is_abandoned))
#endif
#ifndef CLOSES
    assert(ended[1] && ended[N] && ended[N + 1]);
    assert(buffer_freed || touching != 0)
#endif
}

init {
    atomic {
        run reclaimer();
        run caller(1);
#if N == 2
        run caller(2);
#endif
        run caller_b();
        run completer();
#ifdef LATE
        run giver_up();
#endif
#ifdef CLOSES
        run close();
#endif
        run other();
        run worker();
        run worker();
        run submit_thread();
        run monitor()
    }
}
