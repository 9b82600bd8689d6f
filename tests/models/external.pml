/* Points of the application's: sched/runtime/shared/external_timeline.c, the submit threads that hold works for them
 * (rest in submitter/thread.c, after_is_over in blocked.c), and a close meanwhile (life/close.c).
 *
 * A submission with a work on each of DEVICES devices comes after value 1 of TIMELINES timelines. Each is moved
 * by SIGNALS threads at once, the first to the highest value. Asked: no work runs before all points are reached; of one
 * submission all works run or none does; a timeline never falls; no wake-up is lost, though nobody wakes by himself
 * (SLICES: he may); what is held ends as it should where the points are reached and neither the deadline passes nor
 * the runtime closes, and ends in any case where one of those happens, whoever is stopped; and who signals touches
 * nothing that a close has freed.
 *
 * Left out: the works' other waits (gate.pml, loss.pml); when a deadline passes: at any time, once (EXPIRES). Close is
 * by its deadline at any time, too (CLOSES). All of it is seq_cst in the sources, as here.
 *
 * run safe signals: -DDEVICES=2 -DTIMELINES=2 -DSIGNALS=1
 * run safe signals_at_once: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=2
 * run safe deadline: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DEXPIRES=1
 * run safe close: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DCLOSES=1
 * run live a_stop: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DEXPIRES=1 -DSTOPS=1 -DSLICES
 * full safe deadline_and_close: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DEXPIRES=1 -DCLOSES=1
 * full safe two_timelines: -DDEVICES=1 -DTIMELINES=2 -DSIGNALS=1 -DEXPIRES=1 -DCLOSES=1
 * full live a_stop_and_close: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DEXPIRES=1 -DCLOSES=1 -DSTOPS=1 -DSLICES
 * plant 1 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=1 | who signals looks who sleeps before it moves the timeline
 * plant 2 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=1 | a submit thread notes itself after it looked
 * plant 3 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=1 | it says that it sleeps after it looked
 * plant 4 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=2 | the value is stored, not brought up
 * plant 5 safe: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 -DEXPIRES=1 | each device's thread decides by itself
 * plant 6 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=1 -DCLOSES=1 | who signals wakes by the device's struct
 * plant 7 safe: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=0 -DCLOSES=1 | close looks who sleeps before it says that it closes
 * plant 8 safe: -DDEVICES=1 -DTIMELINES=2 -DSIGNALS=1 | only the first point is looked at
 * plant 9 safe: -DDEVICES=2 -DTIMELINES=1 -DSIGNALS=1 | who wakes takes all devices' notes away
 * plant 10 safe: -DDEVICES=2 -DTIMELINES=2 -DSIGNALS=1 | a submit thread notes itself with the first timeline alone
 * plant 11 live: -DDEVICES=1 -DTIMELINES=1 -DSIGNALS=1 -DSTOPS=1 -DSLICES -DEXPIRES=1 | nobody looks at the deadline
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef EXPIRES
#define EXPIRES 0
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#define WANTED 1
#define PENDING 0
#define REACHED 1
#define FAILED 2

byte reached[TIMELINES];
byte holders[TIMELINES]; /* bit per device */
bool asleep[DEVICES];
byte outcome;            /* of the submission */
byte fate[DEVICES];      /* REACHED: the device's work ran; FAILED: it did not */
byte ended;              /* submit threads that have nothing left, or were told to stop */
byte stops = STOPS;
bool expired, closes, stopped, freed;

/* rota_sleeper_wake. `s`: the load of its flag; the exchange wakes it, where it is still to. */
inline wake(device) {
    s = asleep[device];
    if
    :: s -> asleep[device] = false
    :: else
    fi;
    s = false
}

/* rota_external_wait_look, which begins with is_over's load. `seen`: what is decided; PENDING: nothing. */
inline look(seen) {
    c = closes;
    seen = outcome;
    if
    :: seen == PENDING ->
        e = expired;
#if PLANT == 11
        e = false;
#endif
        all = true; t = 0;
        do
#if PLANT == 8
        :: t < 1 ->
#else
        :: t < TIMELINES ->
#endif
            if
            :: reached[t] < WANTED -> all = false
            :: else
            fi;
            t++
        :: else -> break
        od;
        t = 0;
        if
        :: all -> mine = REACHED
        :: !all && (e || c) -> mine = FAILED
        :: else -> mine = PENDING
        fi;
        atomic { /* the compare-and-swap */
            if
            :: mine == PENDING
#if PLANT == 5
            :: mine != PENDING -> outcome = mine; seen = mine
#else
            :: mine != PENDING && outcome == PENDING -> outcome = mine; seen = mine
            :: mine != PENDING && outcome != PENDING -> seen = outcome
#endif
            fi;
            mine = PENDING; all = false; e = false
        }
    :: else
    fi;
    c = false
}

/* The work goes over, to run or to fail. */
inline hand_over(device, seen) {
    d_step {
        fate[device] = seen;
        if
        :: seen == REACHED ->
            t = 0;
            do
            :: t < TIMELINES -> assert(reached[t] >= WANTED); t++
            :: else -> break
            od;
            t = 0
        :: else -> assert(EXPIRES || CLOSES)
        fi;
        t = 0;
        do
        :: t < DEVICES -> assert(fate[t] == PENDING || fate[t] == seen); t++
        :: else -> break
        od;
        t = 0
    }
}

#if PLANT == 10
#define WATCHED 1
#else
#define WATCHED TIMELINES
#endif

inline watch(device) {
    t = 0;
    do
    :: t < WATCHED -> holders[t] = holders[t] | (1 << device); t++
    :: else -> break
    od;
    t = 0
}

inline watch_nothing(device) {
    t = 0;
    do
    :: t < WATCHED ->
#if PLANT == 9
        holders[t] = 0;
#else
        holders[t] = holders[t] & (255 - (1 << device));
#endif
        t++
    :: else -> break
    od;
    t = 0
}

proctype submitter(byte d) {
    byte t, mine, seen;
    bool all, e, c;
    do
    :: stopped -> break
    :: !stopped ->
        look(seen);
        if
        :: seen != PENDING -> hand_over(d, seen); break
        :: else
        fi;
#if PLANT != 3
        asleep[d] = true;
#endif
#if PLANT != 2
        watch(d);
#endif
        look(seen);
#if PLANT == 2
        watch(d);
#endif
#if PLANT == 3
        asleep[d] = true;
#endif
        if
        :: seen == PENDING && !stopped ->

            if
            :: !asleep[d]
#ifdef SLICES
            :: true -> asleep[d] = false
#endif
            fi
        :: else -> asleep[d] = false
        fi;
        watch_nothing(d)
    od;
    ended++
}

/* rota_external_timeline_signal. */
proctype signaller(byte on; byte value) {
    byte left, d, before;
    bool s;
#if PLANT == 1
    left = holders[on];
#endif
    if
    :: stops > 0 -> atomic { stops > 0 -> stops--; goto halted }
    :: true
    fi;
    before = reached[on];
    do
    :: before >= value -> break
    :: else ->
        atomic {
#if PLANT == 4
            reached[on] = value; break
#else
            if
            :: reached[on] == before -> reached[on] = value; break
            :: else -> before = reached[on]
            fi
#endif
        }
    od;
    assert(reached[on] >= value);
    if
    :: stops > 0 -> atomic { stops > 0 -> stops--; goto halted }
    :: true
    fi;
#if PLANT != 1
    left = holders[on];
#endif
    do
    :: d < DEVICES ->
        if
        :: left & (1 << d) ->
#if PLANT == 6
            assert(!freed);
#endif
            wake(d)
        :: else
        fi;
        d++
    :: else -> break
    od;
halted:
    skip
}

/* The deadline passes; a submit thread looks at it when its slice is over. */
proctype deadline() {
    byte d;
    expired = true;
#ifndef SLICES
    do
    :: d < DEVICES -> asleep[d] = false; d++
    :: else -> break
    od
#endif
}

/* end_external_waits, stop_threads and free_devices. */
proctype closer() {
    byte d;
    bool s;
#if PLANT == 7
    do
    :: d < DEVICES -> wake(d); d++
    :: else -> break
    od;
#endif
    closes = true;
#if PLANT != 7
    do
    :: d < DEVICES -> wake(d); d++
    :: else -> break
    od;
#endif
    ended == DEVICES; /* a close that gives up earlier tells them to stop, and joins them as well */
    freed = true
}

init {
    byte i, k;
    atomic {
        do
        :: i < DEVICES -> run submitter(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < TIMELINES ->
            k = 0;
            do
            :: k < SIGNALS -> run signaller(i, SIGNALS - k); k++
            :: else -> break
            od;
            i++
        :: else -> break
        od;
        if
        :: EXPIRES -> run deadline()
        :: else
        fi;
        if
        :: CLOSES -> run closer()
        :: else
        fi
    }
    ended == DEVICES; /* a lost wake-up is a deadlock here */
    i = 0;
    do
    :: i < DEVICES -> assert(fate[i] != PENDING && fate[i] == fate[0]); i++
    :: else -> break
    od
}

ltl live { <> (ended == DEVICES) }
