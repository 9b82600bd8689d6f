/* Who owns a completed submission's memory, and close: sequencer/reap.c (recycling), last_use.c, reclaimer.c, args.c,
 * pins.c, complete.c and callbacks.c (as far as they let go), close.c.
 *
 * Three records on one queue of one device: two replays of a plan with copies of inputs in one argument set, of which
 * the second may fail when it is sequenced, and a write to a buffer. Set, plan and buffer are each released by the
 * caller as soon as they may be, or after close, the set also by the first ticket's callback. A thread whose wait for
 * the first ticket has timed out reads that submission. Then close, or none.
 *
 * Asked: nothing is touched that is freed, and nothing freed while a device or thread is at it, nor twice; a struct of
 * a submission serves the next one only when nobody reads it; close ends, and all is freed then, unless the device
 * hangs; without a close all that was released is freed, also where that thread is halted; no wake-up is lost.
 *
 * Left out: time (a sleep ends by itself only with SLICE, and the completer's where something is pending; a deadline
 * passes where the device hangs), several devices and losses, order among outputs (deliver.pml), weak memory. To set a
 * word and to look who sleeps for it is one step, as is the look at several words before a thread sleeps; that it
 * sleeps is said in a step before.
 *
 * BY is who releases the set: 0 the caller at once, 1 the callback, 2 the caller after close.
 *
 * full safe closed_released: -DCLOSES -DREADER=0 -DBY=0
 * run safe closed_held: -DCLOSES -DREADER=0 -DBY=2
 * full safe closed_by_callback: -DCLOSES -DREADER=0 -DBY=1
 * full live never_closed: -DHOSTED=0 -DREADER=0 -DBY=0
 * full safe stuck_device: -DCLOSES -DSTUCK -DREADER=0 -DBY=1
 * full safe reader: -DCLOSES -DBY=1
 * plant 1 safe: -DCLOSES -DREADER=0 -DBY=0 -DREVERSE | a set is idle when its last ticket has ended
 * plant 2 safe: -DCLOSES -DREADER=0 -DBY=1 | a set that is released while the runtime closes is destroyed at once
 * plant 3 safe: -DCLOSES -DREADER=0 -DBY=0 | what heals when a host write ends looks into its buffer
 * plant 4 live: -DHALT -DSLICE -DBY=0 | nothing is recycled while a thread makes its message
 * plant 5 safe: -DCLOSES -DREADER=0 -DBY=0 | what was released is taken after the lanes were looked at
 * plant 6 safe: -DCLOSES -DREADER=0 -DBY=0 | a submission is recycled before its outputs are delivered
 * plant 7 safe: -DCLOSES -DBY=1 -DREVERSE | a submission's number is taken away though a thread reads it
 * plant 8 live: -DHOSTED=0 -DREADER=0 -DBY=0 | the sequencer says after its last look that it is interested
 * plant 9 safe: -DCLOSES -DSTUCK -DREADER=0 -DBY=1 | close frees sets that a device may still read
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef HOSTED
#define HOSTED 1
#endif
#ifndef READER
#define READER 1
#endif
#define RECORDS 3
#define IS_WRITE(r) (r == 2)
#define PASSED 255

/* Objects */
#define SET 0
#define PLAN 1
#define BUFFER 2
bool freed[3], dead[3], released[3], unused[3];
byte users[3];         /* ghost: who is at it now */
byte references = 2;   /* on the plan: the caller's and the set's */
byte submitted, ended; /* rota_args */
byte unreaped;         /* rota_executable */
bool set_is_released;  /* ghost: once */

/* Lane, cells */
byte tail, head;
byte point[RECORDS]; /* 0: not sequenced */
bool is_done[RECORDS];
byte struct_of[RECORDS]; /* rota_cell.submission, 1 + index */
#define HAS_ENDED(r) \
    (point[r] == PASSED || (point[r] != 0 && completed >= point[r] && (r != 0 || !HOSTED || is_done[r])))

/* Structs of submissions */
byte number[RECORDS]; /* 0: free; 1 + the record */
byte pin_number[RECORDS], pin_count[RECORDS];
bool is_delivered[RECORDS]; /* delivery_done */
bool is_pinned[RECORDS];    /* on runtime->pinned */

/* The timeline, by value: one work a submission */
byte issued, completed, reaped;
byte struct_at[RECORDS + 1], record_at[RECORDS + 1];
bool poison_active;

/* Threads */
#define SEQUENCER 0
#define COMPLETER 1
#define CALLER 2
#define RECLAIMER 3
bool asleep[4], has_finished[4], told[4]; /* told: runtime->stop and its like */
bool sequencer_interest, completer_interest;
bool outputs_pushed, watch_pushed, call_pushed; /* jobs, calls */
byte reap_requested, reap_done;
bool closing, closed, stuck, hangs, app_done, reader_done, diagnosing;

#define WAKE(t) if :: asleep[t] -> asleep[t] = false :: else fi
#define WAIT(t) !asleep[t]

/* rota_reclaim_free; also of what is released when the runtime has closed */
inline free_object(o) {
    atomic {
        assert(!freed[o] && users[o] == 0);
        freed[o] = true;
        if
        :: o == SET -> references--; /* rota_plan_release */
            if
            :: references == 0 && closed -> assert(!freed[PLAN]); freed[PLAN] = true
            :: references == 0 && !closed -> released[PLAN] = true; WAKE(SEQUENCER)
            :: else
            fi
        :: else
        fi
    }
}

/* rota_args_release, rota_plan_release, rota_buffer_release */
inline release(o) {
    atomic {
        is_last = true;
        if
        :: o == SET -> assert(!set_is_released); set_is_released = true
        :: o == PLAN -> references--; is_last = references == 0
        :: else
        fi;
        if
        :: !is_last
#if PLANT == 2
        :: is_last && (closed || (closing && o == SET)) -> free_object(o)
        :: is_last && !(closed || (closing && o == SET)) -> released[o] = true; WAKE(SEQUENCER)
#else
        :: is_last && closed -> free_object(o)
        :: is_last && !closed -> released[o] = true; WAKE(SEQUENCER) /* rota_reclaim_push */
#endif
        fi
    }
}

/* ---- The sequencer ---- */

/* forget and recycle */
inline forget(s) {
    d_step {
        if
        :: !IS_WRITE(number[s] - 1) -> unreaped--
        :: else
        fi;
        number[s] = 0
    }
}

/* let_go; rota_submission_unpublish */
inline let_go(s) {
    if
    :: !IS_WRITE(number[s] - 1) -> ended++
    :: else
    fi;
    atomic {
        if
#if PLANT == 7
        :: true -> pin_number[s] = 0; forget(s)
#else
        :: pin_count[s] == 0 -> pin_number[s] = 0; forget(s)
        :: else -> is_pinned[s] = true
#endif
        fi
    }
}

/* rota_sequence_record */
inline sequence(r) {
    atomic {
        s = 0;
        do
        :: number[s] != 0 -> s++
        :: else -> break
        od;
        number[s] = r + 1;
        is_delivered[s] = false;
        if
        :: !IS_WRITE(r) -> unreaped++
        :: else -> assert(!freed[BUFFER])
        fi;
        struct_of[r] = s + 1
    }
    if
    :: atomic {
            r == 1 -> /* it fails */
            pin_number[s] = r + 1; /* rota_submission_publish */
            poison_active = true;
            point[r] = PASSED; /* end_without_works */
            WAKE(COMPLETER)
        }
        let_go(s)
    :: atomic {
            struct_at[issued + 1] = s;
            record_at[issued + 1] = r;
            issued++; /* rota_handover_push: the device may have it now */
            if
            :: r == 0 && HOSTED -> outputs_pushed = true; WAKE(COMPLETER) /* push_delivery */
            :: else
            fi
        }
        atomic { /* published */
            pin_number[s] = r + 1;
            point[r] = issued
        }
    fi;
    s = 0
}

#if PLANT == 4
#define MAY_REAP(s) (!diagnosing && (record_at[reaped + 1] != 0 || !HOSTED || is_delivered[s]))
#elif PLANT == 6
#define MAY_REAP(s) true
#else
#define MAY_REAP(s) (record_at[reaped + 1] != 0 || !HOSTED || is_delivered[s])
#endif

/* rota_sequence_reap */
inline reap() {
    atomic { /* forget_unpinned */
        s = 0;
        do
        :: s < RECORDS ->
            if
            :: is_pinned[s] && pin_count[s] == 0 -> is_pinned[s] = false; pin_number[s] = 0; forget(s)
            :: else
            fi;
            s++
        :: else -> break
        od;
        s = 0
    }
    do
    :: atomic {
            reaped < issued && reaped < completed && MAY_REAP(struct_at[reaped + 1]) -> s = struct_at[reaped + 1];
            reaped++
        } /* put_away: rota_poison_end */
        atomic {
#if PLANT == 3
            if
            :: poison_active && IS_WRITE(record_at[reaped]) -> assert(!freed[BUFFER])
            :: else
            fi;
#endif
            let_go(s);
            s = 0
        }
    :: else -> break
    od
}

/* is_unused: of the buffer, that the range's writer has passed, which the sequencer knows once it is sequenced */
#if PLANT == 1
#define SET_IS_IDLE HAS_ENDED(1)
#else
#define SET_IS_IDLE (ended == submitted)
#endif
#define IS_UNUSED(o) ((o == SET && SET_IS_IDLE) || (o == PLAN && unreaped == 0) || \
                      (o == BUFFER && (point[2] == 0 || completed >= point[2])))

/* rota_reclaim_sweep */
inline sweep() {
    atomic {
        o = 0;
        do
        :: o < 3 ->
            if
            :: dead[o] && IS_UNUSED(o) -> dead[o] = false; unused[o] = true /* rota_reclaim_push_unused */
            :: else
            fi;
            o++
        :: else -> break
        od;
        o = 0
    }
}

inline take_released() {
    d_step { /* the exchange, and prepend in sweep */
        o = 0;
        do
        :: o < 3 ->
            if
            :: released[o] -> released[o] = false; fresh[o] = true; any = true
            :: else
            fi;
            o++
        :: else -> break
        od;
        o = 0
    }
}

#define HAS_WORK \
    (released[0] || released[1] || released[2] || told[SEQUENCER] || reap_requested != reap_done || tail != head)

proctype sequencer() {
    byte s, o, limit, requested;
    bool any, fresh[3];
    do
    :: told[SEQUENCER] -> break
    :: else -> /* round_of_work */
        atomic {
            any = false;
            requested = reap_requested;
#if PLANT != 5
            take_released()
#endif
        }
        limit = tail;
        do
        :: head < limit -> any = true; sequence(head); head++
        :: else -> break
        od;
#if PLANT == 5
        take_released();
#endif
        reap();
        atomic { /* prepend */
            if :: fresh[0] -> dead[0] = true; fresh[0] = false :: else fi;
            if :: fresh[1] -> dead[1] = true; fresh[1] = false :: else fi;
            if :: fresh[2] -> dead[2] = true; fresh[2] = false :: else fi;
            sweep();
            reap_done = requested;
            requested = 0;
            limit = 0
        }
        if
        :: any
        :: else -> /* idle */
            atomic {
                asleep[SEQUENCER] = true;
#if PLANT != 8
                sequencer_interest = dead[0] || dead[1] || dead[2] || is_pinned[0] || is_pinned[1] || is_pinned[2]
#endif
            }
            if
            :: dead[0] || dead[1] || dead[2] || is_pinned[0] || is_pinned[1] || is_pinned[2] ->
                reap();
                sweep();
#if PLANT == 8
                sequencer_interest = true
#endif
            :: else
            fi;
            atomic {
                if
                :: HAS_WORK || !asleep[SEQUENCER]
#ifdef SLICE
                :: true
#endif
                fi;
                asleep[SEQUENCER] = false;
                sequencer_interest = false
            }
        fi
    od;
    has_finished[SEQUENCER] = true
}

/* ---- The device: its submit thread and its executor ---- */

inline use(r) {
    atomic {
        if
        :: IS_WRITE(r) -> assert(!freed[BUFFER]); users[BUFFER]++
        :: else -> assert(!freed[SET] && !freed[PLAN]); users[SET]++; users[PLAN]++
        fi
    }
}
inline leave(r) {
    atomic {
        if
        :: IS_WRITE(r) -> users[BUFFER]--
        :: else -> users[SET]--; users[PLAN]--
        fi
    }
}

proctype device() {
    do
    :: completed < issued ->
#ifdef STUCK
        if
        :: !hangs && !closing -> hangs = true; use(record_at[completed + 1]); leave(record_at[completed + 1]);
            closed; use(record_at[completed + 1]); leave(record_at[completed + 1]); break
        :: true
        fi;
#endif
        use(record_at[completed + 1]);
        atomic { /* rota_device_publish */
            leave(record_at[completed + 1]);
            completed++;
            if
            :: sequencer_interest -> WAKE(SEQUENCER)
            :: else
            fi;
            if
            :: completer_interest -> WAKE(COMPLETER)
            :: else
            fi
        }
    :: app_done && head == tail && completed == issued -> break
    od
}

/* ---- Completer and caller ---- */

inline pass() {
    if
    :: has_outputs && completed >= 1 -> /* finish_delivery: the first record is the first value */
        atomic { assert(number[struct_of[0] - 1] == 1 && !freed[PLAN]); is_done[0] = true }
        atomic { assert(number[struct_of[0] - 1] == 1 && !freed[PLAN]);
                 is_delivered[struct_of[0] - 1] = true; has_outputs = false }
    :: else
    fi;
    if
    :: atomic { has_watch && HAS_ENDED(0) -> has_watch = false; call_pushed = true } /* try_watch */
    :: else
    fi
}
inline take_completions() {
    d_step {
        if :: outputs_pushed -> outputs_pushed = false; has_outputs = true :: else fi;
        if :: watch_pushed -> watch_pushed = false; has_watch = true :: else fi
    }
}

proctype completer() {
    bool has_outputs, has_watch;
    do
    :: told[COMPLETER] -> break
    :: else ->
        take_completions();
        atomic { /* rota_sleeper_prepare */
            asleep[COMPLETER] = true;
            completer_interest = has_outputs || has_watch
        }
        pass();
        atomic {
            if
            :: outputs_pushed || watch_pushed || told[COMPLETER] || !asleep[COMPLETER]
            :: has_outputs || has_watch /* 100 ms are over */
            fi;
            asleep[COMPLETER] = false;
            completer_interest = false
        }
    od;
    take_completions();
    pass();
    pass();
    if
    :: has_watch -> call_pushed = true /* give_up: TIMEOUT */
    :: else
    fi;
    has_finished[COMPLETER] = true
}

/* rota_callbacks_main: the callback releases the set */
proctype caller() {
    bool is_last;
    do
    :: call_pushed -> atomic { call_pushed = false; release(SET) }
    :: !call_pushed && told[CALLER] -> break
    od;
    has_finished[CALLER] = true
}

/* ---- The reclaimer ---- */

inline free_unused() {
    o = 0;
    do
    :: o < 3 ->
        atomic {
            if
            :: unused[o] -> unused[o] = false; free_object(o)
            :: else
            fi;
            o++
        }
    :: else -> break
    od;
    o = 0
}

proctype reclaimer() {
    byte o;
    do
    :: unused[0] || unused[1] || unused[2] -> free_unused()
    :: told[RECLAIMER] -> break
    od;
    free_unused();
    has_finished[RECLAIMER] = true
}

/* ---- A wait that timed out: timed_out in tickets.c ---- */

#if READER
proctype reader() {
    byte s;
    if
    :: point[0] != 0 ->
        s = struct_of[0] - 1;
        diagnosing = true; /* plant 4's */
        if
        :: atomic { pin_number[s] == 1 -> pin_count[s]++ } /* rota_submission_pin */
#ifdef HALT
            reader_done = true; false; /* halted for good */
#endif
            assert(number[s] == 1 && !freed[PLAN]);
            atomic { pin_count[s]--; WAKE(SEQUENCER) } /* rota_submission_unpin */
        :: else
        fi;
        diagnosing = false
    :: tail == RECORDS /* it has not timed out */
    fi;
    reader_done = true
}
#endif

/* ---- The caller's thread ---- */

#ifdef CLOSES
/* free_released, and empty_objects for what callers still hold, whose struct stays */
inline free_rest() {
    o = 0;
    do
    :: o < 3 ->
        if
        :: dead[o] || released[o] ->
            dead[o] = false;
            released[o] = false;
            if
#if PLANT == 9
            :: stuck && o != SET
#else
            :: stuck
#endif
            :: else -> free_object(o)
            fi
        :: else
        fi;
        o++
    :: else -> break
    od;
    o = 0
}

inline stop(t) {
    atomic { told[t] = true; WAKE(t) }
    has_finished[t]
}

inline close() {
    closing = true;
    if
    :: tail == head && completed == issued -> /* is_finished; rota_sequencer_reap_now */
        atomic { reap_requested++; WAKE(SEQUENCER) }
        reap_done == reap_requested
#ifdef STUCK
    :: hangs && tail == head
#endif
    fi;
    stop(SEQUENCER); /* stop_threads */
    stop(RECLAIMER);
    stop(COMPLETER);
    stop(CALLER);
    stuck = completed != issued; /* unfinished_devices */
    free_rest();
    closed = true
}
#endif

proctype app() {
    byte o, by = 255;
    bool is_last;
    atomic { submitted++; tail++; WAKE(SEQUENCER) } /* rota_submit */
#ifdef BY
    by = BY;
#else
    if
    :: by = 0 /* who releases the set */
    :: by = 1
#ifdef CLOSES
    :: by = 2
#endif
    fi;
#endif
    atomic { submitted++; tail++; WAKE(SEQUENCER) }
    if
    :: by == 1 -> atomic { watch_pushed = true; WAKE(COMPLETER) }
    :: by == 0 -> release(SET)
    :: else
    fi;
    atomic { tail++; WAKE(SEQUENCER) } /* rota_buffer_write */
    release(BUFFER);
#ifndef CLOSES
    release(PLAN);
#else
#if READER
    reader_done;
#endif
    if
    :: by == 0 -> release(PLAN)
    :: else
    fi;
    close();
    if
    :: by == 2 -> release(SET)
    :: else
    fi;
    if
    :: by != 0 -> release(PLAN)
    :: else
    fi;
    assert(stuck || (freed[SET] && freed[PLAN] && freed[BUFFER]));
#endif
    app_done = true
}

init {
    atomic {
        run app();
        run sequencer();
        run device();
        run completer();
        run caller();
        run reclaimer();
#if READER
        run reader()
#endif
    }
}

#ifdef CLOSES
ltl live { <> app_done }
#else
ltl live { <> (freed[SET] && freed[BUFFER] && (READER || freed[PLAN])) }
#endif
