/* A communicator's life in one process: sched/ranks/collective.c, communicator.c and rank_thread.c. A worker posts a
 * collective and is through with that; the thread of ranks begins it, looks at it until it is over, and ends the node,
 * upon which the next one may be posted; the application closes it whenever it likes. The struct is freed by whoever
 * has the last reference.
 *
 * A worker posts RUNS collectives, one after the other, as hazards have it. A collective may be over at any look; after
 * an abort it is over at the next one, or takes its time (CARRIES). Close is answered, or its deadline passes before
 * (HURRIES).
 *
 * Asked: nobody touches a communicator that was freed; what a collective is stays as it is while the thread reads it;
 * each node ends, once; who closes is answered; the thread ends; and in the end all is freed.
 *
 * Left out: other ranks (ranks.pml), splits and opening; sleeping and waking (pump.pml; explore_wait).
 *
 * run safe closed: -DRUNS=2
 * run safe closed_in_a_hurry: -DRUNS=2 -DHURRIES
 * run safe carried: -DRUNS=2 -DCARRIES -DHURRIES
 * full safe more_runs: -DRUNS=4 -DCARRIES -DHURRIES
 * plant 1 safe: -DRUNS=1 | who posts has no reference of its own
 * plant 2 safe: -DRUNS=1 | a look that is queued has no reference
 * plant 3 safe: -DRUNS=2 | a look is taken for queued until it has looked
 * plant 4 safe: -DRUNS=1 | what is posted to one that is closed is not ended
 * plant 5 safe: -DRUNS=1 | who pushes a call does not ask whether the thread has ended
 * plant 6 safe: -DRUNS=1 | the thread looks once more after it has answered
 * plant 7 safe: -DRUNS=1 -DHURRIES | nobody lets go of what was closed after the deadline
 * plant 8 safe: -DRUNS=2 | the thread reads what a collective was after its node has ended
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef RUNS
#define RUNS 2
#endif

mtype = {LOOK, CLOSE, ASKED, ANSWERED, LEFT};

/* Shared. */
byte references = 2; /* the application's, the token's */
byte token_users = 2; /* the application, the graph */
byte posted;          /* a run's number; 0: none */
bool is_queued, is_closed, is_ended, is_freed;
byte users = 1;
chan calls = [4] of {mtype};
mtype closing = ASKED;
/* The thread's own. */
byte begun;
bool has_close, has_transport = true, is_listed;
/* Ghosts. */
bool is_over[RUNS + 1], is_read, is_through;
byte collective; /* what is posted */

#define THERE assert(!is_freed)

inline release() {
    d_step {
        assert(references > 0);
        references--;
        is_freed = references == 0
    }
}

inline release_token() {
    atomic {
        token_users--;
        if
        :: token_users == 0 -> release()
        :: else
        fi
    }
}

/* rota_host_end: whoever posts may go on. */
inline end_node(it) {
    atomic { assert(!is_over[it]); is_over[it] = true }
}

/* begin_next; `result`: something is under way */
inline begin_next() {
    THERE;
    if
    :: begun != 0 -> result = true
    :: else ->
        atomic { taken = posted; posted = 0 }
        if
        :: taken == 0 -> result = false
        :: taken != 0 && (is_closed || !has_transport || has_close) ->
#if PLANT != 4
            end_node(taken);
#endif
            result = false
        :: else ->
            atomic { begun = taken; is_read = true }
            result = true
        fi;
        taken = 0
    fi
}

inline look_at_posted() {
    THERE;
#if PLANT != 3
    is_queued = false;
#endif
    was_listed = begun != 0;
    begin_next();
#if PLANT == 3
    is_queued = false;
#endif
    if
    :: result && !was_listed -> assert(!is_listed); is_listed = true
    :: else
    fi;
#if PLANT != 2
    release()
#else
    skip
#endif
}

inline end_run() {
    atomic { taken = begun; begun = 0 }
#if PLANT == 8
    end_node(taken);
    assert(collective == taken);
    is_read = false;
#else
    is_read = false;
    end_node(taken);
#endif
    taken = 0;
    begin_next()
}

inline close_on_thread() {
    THERE;
    if
    :: begun != 0 ->
        is_listed = false;
        do
        :: begun == 0 -> break
#ifdef CARRIES
        :: begun != 0 -> break
#endif
        :: begun != 0 -> end_run()
        od
    :: else
    fi;
    has_close = true;
    begin_next();
    is_listed = true
}

inline end_close() {
    atomic { has_close = false; has_transport = false; is_listed = false }
    begin_next();
    atomic {
        if
        :: closing == ASKED -> closing = ANSWERED; heard = true
        :: else -> heard = false
        fi
    }
#if PLANT == 6
    begin_next();
#endif
    if
    :: !heard ->
        users--;
#if PLANT != 7
        release()
#endif
    :: else
    fi
}

/* All that is there, by the thread, or, when that has ended, by who pushed. */
inline take_calls() {
    do
    :: atomic { calls ? [LOOK] -> calls ? LOOK };
        look_at_posted()
    :: atomic { calls ? [CLOSE] -> calls ? CLOSE };
        close_on_thread()
    :: empty(calls) -> break
    od
}

active proctype rank_thread() {
    bool is_left, result, was_listed, heard;
    byte taken;
    do
    :: is_left = users == 0;
        take_calls();
        if
        :: is_listed ->
            if
            :: begun != 0 -> /* over, or not yet */
                THERE;
                if
                :: end_run();
                    is_listed = result || has_close
                :: skip
                fi
            :: begun == 0 && has_close -> end_close()
            :: begun == 0 && !has_close -> is_listed = false
            fi
        :: else -> skip
        fi;
        if
        :: is_left && !is_listed -> break
        :: else
        fi;
        (is_listed || nempty(calls) || users == 0)
    od;
    is_ended = true;
    take_calls();
    is_through = true
}

active proctype worker() {
    byte n = 1, taken;
    bool result, was_listed, heard, was_queued;
    do
    :: n > RUNS -> break
    :: else ->
        THERE;
        assert(posted == 0);
        assert(!is_read);
        collective = n;
#if PLANT != 1
        references++;
#endif
        posted = n;
        THERE;
        atomic { was_queued = is_queued; is_queued = true }
        if
        :: !was_queued ->
            atomic {
                THERE;
#if PLANT != 2
                references++
#endif
            }
            calls ! LOOK;
#if PLANT != 5
            if
            :: is_ended -> take_calls()
            :: else
            fi
#endif
        :: else
        fi;
#if PLANT != 1
        release();
#endif
        is_over[n];
        n++
    od
}

/* Who has the graph, and lets go of it as soon as the last node has ended. */
active proctype owner() {
    is_over[RUNS];
    release_token()
}

active proctype application() {
    is_closed = true;
    calls ! CLOSE;
    if
    :: closing == ANSWERED
#ifdef HURRIES
    :: atomic { closing == ASKED -> closing = LEFT }
#endif
    fi;
    release_token();
    if
    :: closing == ANSWERED ->
        users--;
        release()
    :: else
    fi;
    /* ---- The end ---- */
    is_through && is_over[RUNS];
    timeout;
    assert(is_freed && empty(calls) && users == 0)
}
