/* The CPU executor's pump and sleepers: exec/cpu/queue.c, exec/cpu/wake.c.
 *
 * A submit thread hands over works on two queues, the later ones of queue 1 blocked until queue 0 has passed, each in a
 * call of its own or several in one; workers take them, run them, and pump.
 *
 * Asked: where everything rests each work has ended, whoever sleeps (no sleep ends by itself, so that a lost wake-up
 * shows); works of a queue start in order, once, and when what they wait for has passed; `advanced` is called by one
 * thread at a time, with rising values; where everything rests nobody counts as searching; a work that never ends holds
 * up none that does not come after it; a work that the pump started is run by another worker where the pump goes on for
 * ever, as empty works come that are complete when they are started (STREAM).
 *
 * Left out: deques (all tasks lie in one pool, where who looks finds one that is there, in one step), the overflow
 * list, units and splits, recycling of works, copies, the stop and the loss (loss.pml has those), how long a search
 * goes on.
 *
 * run safe two_works: -DWORKERS=2 -DW=2
 * run safe hang: -DWORKERS=2 -DHANGS
 * run live stream: -DWORKERS=2 -DW=2 -DSTREAM
 * full safe three_works: -DWORKERS=2
 * plant 1 safe: -DWORKERS=2 | no last look before sleep
 * plant 2 safe: -DWORKERS=2 | who sleeps says so after its last look
 * plant 3 safe: -DWORKERS=2 | who pushes wakes first
 * plant 4 safe: -DWORKERS=2 | a blocked work is parked without a look at what it waits for
 * plant 5 safe: -DWORKERS=2 -DW=2 | the pump looks at what is blocked once, before it stores the timelines
 * plant 6 safe: -DWORKERS=2 | an event that is left behind is not answered
 * plant 7 safe: -DWORKERS=2 | the waker takes the sleeper's bit and leaves its word
 * plant 8 safe: -DWORKERS=2 -DHANGS | a searcher that found a task wakes nobody for the next one
 * plant 9 safe: -DWORKERS=2 -DHANGS | who finds a task at its last look before sleep wakes nobody for the next one
 * plant 10 safe: -DWORKERS=2 -DW=2 | the end of a call does not show what is ready
 * plant 11 live: -DWORKERS=2 -DW=2 -DSTREAM | what the pump handed to its worker is hidden while it goes on
 * plant 12 live: -DWORKERS=2 -DW=2 -DSTREAM | a worker pumps while it counts as searching or sleeping
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifdef HANGS
#define W 2 /* on two queues, and the first one may never end */
#define WAIT_VALUE(w) 0
#else
#ifndef W
#define W 3 /* 1: queue 0, value 1. 2: queue 1, value 1, after 1. 3: queue 1, value 2. 4: queue 0, value 2, after 2. */
#endif
#define WAIT_VALUE(w) ((w) == 2 || (w) == 4 -> 1 : 0)
#endif
#define QUEUE(w) ((w) == 1 || (w) == 4 -> 0 : 1)
#define VALUE(w) ((w) <= 2 -> 1 : 2)
#define WAIT_QUEUE(w) ((w) == 2 -> 0 : 1)
#define WORK_AT(q, v) ((q) == 0 -> ((v) == 1 -> 1 : 4) : ((v) == 1 -> 2 : 3))
#define COUNT(q) ((q) == 0 -> (W == 4 -> 2 : 1) : (W == 2 -> 1 : 2))

bool ready[5];       /* lies in a deque */
bool unseen[5];      /* put there by a call that has not ended */
bool started[5], given[5]; /* ghost; the latter: somebody may start it */
bool done[5], linked[5];
byte tasks;          /* how many lie there */
byte timeline[2], retired[2], released[2], blocked_published[2], first_blocked[2];
bool kick;
byte events, searchers, idle; /* idle: a bit per worker */
bool word[WORKERS];
bool is_pumping, is_hung; /* ghost */
bool is_empty_there;      /* an empty work that may start */

/* rota_cpu_notify */
inline notify() {
    if
    :: searchers != 0
    :: else ->
        do
        :: idle == 0 -> break
        :: atomic { idle & 1 -> idle = idle & ~1; woken = 0 } wake(); break
        :: atomic { idle & 2 -> idle = idle & ~2; woken = 1 } wake(); break
#if WORKERS == 3
        :: atomic { idle & 4 -> idle = idle & ~4; woken = 2 } wake(); break
#endif
        od;
        woken = 0
    fi
}

inline wake() {
    searchers++;
#if PLANT != 7
    word[woken] = true
#else
    skip
#endif
}

inline push(w) {
#if PLANT == 3
    notify();
    atomic { ready[w] = true; tasks++; given[w] = true }
#else
    atomic { ready[w] = true; tasks++; given[w] = true }
    notify()
#endif
}

/* What nobody sees yet is shown, by one store. */
inline show_all() {
    atomic {
        u = 1;
        do
        :: u <= W ->
            if
            :: unseen[u] -> unseen[u] = false; ready[u] = true; tasks++; given[u] = true; is_shown = true
            :: else
            fi;
            u++
        :: else -> u = 0; break
        od
    }
}

/* publish */
inline publish() {
#if PLANT == 3
    notify();
    show_all();
#elif PLANT != 10
    show_all();
    if
    :: is_shown -> notify()
    :: else
    fi;
#endif
    is_shown = false;
    q = 0;
    do
    :: q < 2 && first[q] == 0 -> q++
    :: q < 2 && first[q] != 0 -> /* publish_blocked */
        blocked_published[q] = blocked[q];
#if PLANT != 4
        if
        :: WAIT_VALUE(first[q]) != 0 && timeline[WAIT_QUEUE(first[q])] < WAIT_VALUE(first[q])
        :: else ->
            if
            :: !opened[q] && released[q] + 1 < VALUE(first[q]) - first_blocked[q]
            :: else -> kick = true; notify()
            fi
        fi;
#endif
        first[q] = 0;
        q++
    :: else -> q = 0; break
    od
}

/* rota_cpu_submit: submit_one, block_work; a call ends after any of the works, or at the last */
proctype submitter() {
    byte w = 1, q, u, woken, blocked[2], first[2];
    bool is_open, is_shown, opened[2];
    do
    :: w <= W ->
        linked[w] = true;
        is_open = released[QUEUE(w)] == blocked[QUEUE(w)];
        if
        :: is_open && (WAIT_VALUE(w) == 0 || timeline[WAIT_QUEUE(w)] >= WAIT_VALUE(w)) -> unseen[w] = true
        :: else ->
            blocked[QUEUE(w)]++;
            if
            :: is_open -> first_blocked[QUEUE(w)] = VALUE(w) - blocked[QUEUE(w)]
            :: else
            fi;
            if
            :: first[QUEUE(w)] == 0 -> first[QUEUE(w)] = w; opened[QUEUE(w)] = is_open
            :: else
            fi
        fi;
        w++;
        if
        :: publish()
        :: w <= W
        fi
    :: else -> break
    od
}

/* retire of all queues */
inline retire_all() {
    q = 0;
    do
    :: q < 2 ->
        v = 0;
        do
        :: retired[q] < COUNT(q) && linked[WORK_AT(q, retired[q] + 1)] && done[WORK_AT(q, retired[q] + 1)] ->
            retired[q]++;
            v = retired[q]
        :: else -> break
        od;
        if
        :: v != 0 -> assert(timeline[q] < v); timeline[q] = v /* and host.advanced */
        :: else
        fi;
        q++
    :: else -> q = 0; v = 0; break
    od
}

/* rota_cpu_show_handed */
inline show_handed() {
    if
    :: handed != 0 -> push(handed); handed = 0
    :: else
    fi
}

/* release_blocked of all queues, and start_blocked */
inline release_all() {
    q = 0;
    do
    :: q < 2 ->
        last = blocked_published[q];
        v = released[q];
        do
        :: v < last ->
            u = WORK_AT(q, first_blocked[q] + v + 1);
            if
            :: WAIT_VALUE(u) != 0 && timeline[WAIT_QUEUE(u)] < WAIT_VALUE(u) -> break
            :: else
            fi;
            show_handed();
            handed = u;
            given[u] = true;
            v++
        :: else -> break
        od;
        if
        :: v != released[q] ->
            released[q] = v;
            if
            :: v == last && blocked_published[q] != last -> again = true
            :: else
            fi
        :: else
        fi;
        v = 0;
        last = 0;
        q++
    :: else -> q = 0; u = 0; break
    od;
#ifdef STREAM
    if
    :: atomic { is_empty_there -> is_empty_there = false; again = true }
    :: else
    fi
#endif
}

/* rota_cpu_pump */
inline pump() {
    atomic { seen = events; events++ }
    if
    :: seen != 0 -> seen = 0
    :: else ->
        seen = 1;
        do
        :: atomic { assert(!is_pumping); is_pumping = true; again = true }
            do
            :: again ->
                again = false;
#if PLANT != 11
                show_handed();
#endif
#if PLANT == 5
                release_all();
                retire_all()
#else
                retire_all();
                release_all()
#endif
            :: else -> break
            od;
            is_pumping = false;
#if PLANT == 6
            events = 0;
            seen = 0;
            break
#else
            atomic {
                events = events - seen;
                seen = events;
                if
                :: seen == 0 -> break
                :: else
                fi
            }
#endif
#if PLANT == 11
            show_handed()
#endif
        od
    fi
}

/* find_task: to `task` */
inline find_task() {
#if PLANT == 12
    if
    :: atomic { kick -> kick = false } pump()
    :: else
    fi;
#endif
    if
    :: handed != 0 && tasks != 0 -> show_handed() /* now and then what lies in the deques comes first */
    :: true
    fi;
    atomic {
        if
        :: handed != 0 -> task = handed; handed = 0; ready[task] = true; tasks++
        :: else ->
        if
        :: ready[1] -> task = 1
        :: ready[2] -> task = 2
        :: ready[3] -> task = 3
        :: ready[4] -> task = 4
        :: else -> task = 0
        fi
        fi;
        if
        :: task != 0 ->
            ready[task] = false;
            tasks--;
            assert(!started[task]);
            assert(WAIT_VALUE(task) == 0 || timeline[WAIT_QUEUE(task)] >= WAIT_VALUE(task));
            assert(VALUE(task) == 1 || given[WORK_AT(QUEUE(task), 1)]);
            started[task] = true
        :: else
        fi
    }
}

/* wake_next */
inline wake_next() {
    if
    :: (task != 0 && (tasks != 0 || kick)) || (pumps && tasks != 0) -> notify()
    :: else
    fi
}

/* is_kicked, of a worker that counts as searching or sleeping */
inline look_for_kick() {
#if PLANT != 12
    pumps = kick
#else
    skip
#endif
}

/* rota_cpu_worker_main, next_task */
proctype worker(byte me) {
    byte task, handed, last, seen, q, u, v, woken;
    bool is_searching, is_mine, again, pumps;
    do
    :: /* next_task */
        if
        :: !is_searching ->
            if
            :: atomic { kick -> kick = false } pump()
            :: else
            fi;
            find_task();
            if
            :: task != 0 -> goto work
            :: else
            fi;
            atomic { /* enter_search, at most one */
                if
                :: searchers < 1 -> searchers++; is_searching = true
                :: else
                fi
            }
        :: else
        fi;
        if
        :: is_searching -> /* search */
            look_for_kick();
            if
            :: !pumps -> find_task()
            :: else
            fi;
            searchers--;
#if PLANT != 8
            wake_next();
#endif
            is_searching = false;
            if
            :: task != 0 -> goto work
            :: pumps -> pumps = false; goto next
            :: else
            fi
        :: else
        fi;
        /* sleep_until_woken */
        word[me] = false;
#if PLANT == 2
        look_for_kick();
        if
        :: !pumps -> find_task()
        :: else
        fi;
        idle = idle | (1 << me);
#else
        idle = idle | (1 << me);
#if PLANT != 1
        look_for_kick();
        if
        :: !pumps -> find_task()
        :: else
        fi;
#endif
#endif
        if
        :: task == 0 && !pumps ->
end_sleep:  word[me]
        :: else
        fi;
        atomic {
            is_mine = (idle & (1 << me)) != 0;
            idle = idle & ~(1 << me)
        }
        if
        :: is_mine ->
#if PLANT != 9
            wake_next();
#endif
            skip
        :: else ->
end_word:   word[me]; /* a waker took the bit, and counts this worker */
            if
            :: task != 0 -> pumps = false; searchers--; wake_next()
            :: else -> is_searching = true
            fi
        fi;
        pumps = false;
        is_mine = false;
        if
        :: task == 0 -> goto next
        :: else
        fi;
work:
#ifdef HANGS
        if
        :: task == 1 -> is_hung = true;
end_hang:   false
        :: true
        fi;
#endif
        done[task] = true; /* rota_cpu_complete */
        task = 0;
        pump();
next:   skip
    od
}

#ifdef STREAM
/* Submissions that fail, so that their works are empty, each of which waits for the one before: the pump that completes
 * one may start the next in its next turn. What comes when nobody pumps is a work like the others. */
proctype stream() {
    do
    :: atomic { is_pumping && !is_empty_there -> is_empty_there = true }
    od
}
#endif

/* Where everything rests. */
proctype monitor() {
    timeout ->
    assert((timeline[0] == COUNT(0) || is_hung) && timeline[1] == COUNT(1));
    assert(searchers == 0 && events == 0 && tasks == 0)
}

init {
    atomic {
        byte n;
        run submitter();
        for (n : 0 .. WORKERS - 1) { run worker(n) }
#ifdef STREAM
        run stream()
#else
        run monitor()
#endif
    }
}

ltl live { <> (started[1] && started[W]) }
