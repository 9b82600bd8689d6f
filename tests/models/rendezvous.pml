/* How ranks meet by an address or a file: exec/comm/rendezvous.c. Rank 0 listens; each other one comes to it, is
 * welcome and says that it is here; when all are, each connects to those below it, says so, and all are open when all
 * have said so.
 *
 * Process 0 is rank 0, 1 and 2 are ranks 1 and 2. A connection is begun as soon as somebody listens, looked at or not,
 * and either end closes it at any time, which the other one sees later. Who waits for rank 0's answer goes away and
 * comes again, twice at most (IMPATIENT); rank 1 leaves who came to it, once, for others (CROWDED); a process that has
 * another job's key comes to rank 0, and then one of an earlier session to rank 1 (VISITED). Process number DIES, or
 * STOPS, does so at any time, or never comes (MISSING); that of EARLY is late at any time, others when nothing else can
 * happen, rank 0 first. Process 3 is another rank 2: beside it (TWICE), or once that has died (RETURNS); or it says
 * another size (DIFFERS). With JOBS processes 2 and 3 are ranks 0 and 1 of another job of two: at several ports, each
 * with its key, or at one port (ONE_PORT), also with one key (ONE_KEY).
 *
 * Asked: all end; every two ranks that are open have one connection, and the same; who is open where another one is not
 * finds that connection ended; none but all are open where none dies or is late by itself; who came is told by rank 0
 * and does not wait for its own deadline; a rank of one job is never one of another with another key; and where all
 * come that should, all are open.
 *
 * Left out: addresses and names, the file, which ports, more newcomers than there is room for, messages torn in two;
 * that a process that is started again is heard before its forerunner's end is.
 *
 * run safe well: -DWELL
 * run safe impatient: -DWELL -DIMPATIENT
 * run safe visited: -DWELL -DVISITED -DCROWDED
 * run safe one_is_missing: -DMISSING=1
 * run safe one_dies: -DDIES=1
 * run safe rank_0_dies: -DDIES=0
 * run safe one_stops: -DSTOPS=1
 * run safe rank_0_stops: -DSTOPS=0
 * run safe one_is_late: -DEARLY=2
 * run safe rank_0_is_late: -DEARLY=0
 * run safe one_comes_again: -DDIES=2 -DRETURNS
 * run safe one_comes_twice: -DTWICE
 * run safe one_differs: -DDIFFERS
 * run safe two_jobs: -DJOBS -DWELL
 * run safe two_jobs_at_one_port: -DJOBS -DONE_PORT -DWELL
 * run safe two_jobs_of_one_key: -DJOBS -DONE_PORT -DONE_KEY
 * full safe impatient_and_dies: -DIMPATIENT -DCROWDED -DVISITED -DDIES=2
 * full safe impatient_and_twice: -DIMPATIENT -DCROWDED -DTWICE
 * full safe impatient_and_late: -DIMPATIENT -DCROWDED -DEARLY=1
 * full safe impatient_jobs: -DIMPATIENT -DJOBS -DWELL
 * plant 1 safe: -DWELL -DIMPATIENT | who is welcome counts as one that has come, and may have gone
 * plant 2 safe: -DWELL -DIMPATIENT | who comes again, and is not here yet, is taken for a second one
 * plant 3 safe: -DDIES=2 -DRETURNS | who comes again is refused, also when the first one has gone
 * plant 4 safe: -DWELL -DJOBS | who connects takes whoever listens there for rank 0
 * plant 5 safe: -DWELL -DVISITED | rank 0 does not compare keys
 * plant 6 safe: -DWELL -DVISITED | ranks do not compare sessions
 * plant 7 safe: -DWELL -DCROWDED | a connection between two counts before its other end has said so
 * plant 8 safe: -DDIES=1 | who is connected to all does not wait until the others are
 * plant 9 safe: -DSTOPS=1 | who connects does not look whether rank 0 gives up
 * plant 10 safe: -DMISSING=1 | rank 0 gives up without a word
 * plant 11 safe: -DDIES=1 | who fails keeps its connections
 * plant 12 safe: -DWELL -DJOBS -DONE_PORT | who finds a listener that closes takes that for the end
 * plant 13 safe: -DTWICE | a second process of one rank takes the place of the first
 * plant 14 safe: -DEARLY=0 | rank 0 gives up, and does not tell who is welcome
 * plant 15 safe: -DDIES=2 -DRETURNS | who has gone, and is looked at late, is taken for a second one
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef DIES
#define DIES 9
#endif
#ifndef STOPS
#define STOPS 9
#endif
#ifndef EARLY
#define EARLY 9
#endif
#ifndef MISSING
#define MISSING 9
#endif
#if defined(TWICE) || defined(RETURNS) || defined(DIFFERS) || defined(JOBS)
#define PROCESSES 4
#else
#define PROCESSES 3
#endif

mtype = {WELCOME, ALL, OPEN, REFUSED, HERE, CONNECTED};
mtype = {NONE, OPENED, LATE, LEFT, TOLD, WRONG};

/* Connections: two of each process to a rank 0, two to rank 1, two of a visitor's; 0: none. */
#define TO_0(i) (2 * (i) - 1)
#define TO_1(i) (2 * (i) + 3)
#define VISIT_0 11
#define VISIT_1 12
#define MOST 13
bool is_begun[MOST], is_taken[MOST]; /* by who listens */
bool is_left[MOST], is_dropped[MOST]; /* closed by who came, by who listens */
bool is_welcome[MOST]; /* at rank 0, which does not count it yet */
byte to[MOST];
chan down[MOST] = [3] of {mtype}; /* to who came */
chan up[MOST] = [2] of {mtype};
bool listens[4], is_port_taken;
/* Ghosts. */
bool came_has[MOST], listener_has[MOST], is_gone[4], has_ended[4];
mtype result[4] = NONE;
byte ended;

#define WHO(c) (((c) + 1) / 2) /* of TO_0 */
#define OTHER(c, first) ((c) == (first) -> (first) + 1 : (first))
#ifdef JOBS
#define RANK(i) 1
#define LEAST 1 /* ranks that come */
#ifdef ONE_KEY
#define KEY(i) 0
#else
#define KEY(i) ((i) / 2)
#endif
#else
#define RANK(i) ((i) == 3 -> 2 : (i))
#define LEAST 2
#define KEY(i) 0
#endif

inline free_slot(c) {
    is_begun[c] = false;
    is_taken[c] = false;
    is_welcome[c] = false;
    is_left[c] = false;
    is_dropped[c] = false;
    do
    :: nempty(down[c]) -> down[c] ? _
    :: empty(down[c]) -> break
    od;
    do
    :: nempty(up[c]) -> up[c] ? _
    :: empty(up[c]) -> break
    od;
    skip
}

inline leave(c) {
    d_step {
        if
        :: is_dropped[c] -> free_slot(c)
        :: else -> is_left[c] = true
        fi;
        skip
    }
}

inline drop(c) {
    d_step {
        if
        :: is_left[c] -> free_slot(c)
        :: else -> is_dropped[c] = true
        fi;
        skip
    }
}

inline say(c, what) {
    if
    :: is_left[c] -> skip
    :: else -> down[c] ! what
    fi
}

/* With it those go that nobody has looked at. */
inline stop_listening() {
    d_step {
        if
        :: listens[self] ->
            listens[self] = false;
            for (n : 1 .. MOST - 1) {
                if
                :: is_begun[n] && to[n] == self && !is_taken[n] && !is_dropped[n] -> drop(n)
                :: else
                fi
            }
        :: else
        fi;
        n = 0
    }
}

#define IS_NEW(c) (is_begun[c] && to[c] == self && !is_taken[c] && !is_welcome[c] && !is_dropped[c])
#define HAS_LEFT(c) ((c) != 0 && is_left[c])
#ifdef JOBS
#define DEADLINE (self == EARLY || timeout)
#else
#define DEADLINE (self == EARLY || (timeout && (self == 0 || result[0] != NONE || is_gone[0])))
#endif
#define FAULT                                                                                                \
    atomic { self == DIES -> is_gone[self] = true; goto closes }                                             \
    :: atomic { self == STOPS -> is_gone[self] = true; goto stands }

/* ---- Rank 0 ---- */

#define ALL_HERE (sock[1] != 0 && sock[LEAST] != 0)

#if PLANT == 2
#define HAS_RIVAL(c) (is_welcome[OTHER(c, TO_0(WHO(c)))] || sock[RANK(WHO(c))] == OTHER(c, TO_0(WHO(c))))
#else
#define HAS_RIVAL(c) false
#endif

inline greet(c) {
    if
#if PLANT != 5
    :: c >= VISIT_0 || KEY(WHO(c)) != KEY(self) -> drop(c)
    :: c < VISIT_0 && KEY(WHO(c)) == KEY(self) ->
#else
    :: true ->
#endif
        if
#ifdef DIFFERS
        :: WHO(c) == 3 -> say(c, REFUSED); drop(c); result[self] = WRONG
        :: WHO(c) != 3 ->
#elif PLANT == 2
        :: HAS_RIVAL(c) -> say(c, REFUSED); drop(c); result[self] = WRONG
        :: !HAS_RIVAL(c) ->
#else
        :: true ->
#endif
            say(c, WELCOME);
            is_welcome[c] = true;
#if PLANT == 1
            is_welcome[c] = false;
            is_taken[c] = true;
            sock[RANK(WHO(c))] = c
#endif
        fi
    fi
}

#define IS_HERE(c) (is_welcome[c] && to[c] == self && !is_dropped[c] && (up[c] ? [HERE] || is_left[c]))

inline count_in(c) {
    r = RANK(WHO(c));
    if
    :: up[c] ? [HERE] ->
        up[c] ? HERE;
        if
#if PLANT == 13
        :: sock[r] != 0 -> drop(sock[r]); sock[r] = 0
#elif PLANT != 3
        :: HAS_LEFT(sock[r]) -> drop(sock[r]); sock[r] = 0
#endif
        :: else
        fi;
        if
        :: sock[r] == 0 -> is_welcome[c] = false; is_taken[c] = true; sock[r] = c
#if PLANT != 15
        :: sock[r] != 0 && is_left[c] -> drop(c)
        :: sock[r] != 0 && !is_left[c] ->
#else
        :: sock[r] != 0 ->
#endif
            say(c, REFUSED);
            drop(c);
            result[self] = WRONG
        fi
    :: else -> drop(c)
    fi;
    r = 0
}

#define SAYS(which, what) (sock[which] != 0 && up[sock[which]] ? [what])

/* Who is welcome, and does not count. */
inline refuse_rest() {
    for (n : 1 .. 6) {
        if
        :: PLANT != 14 && is_welcome[n] && to[n] == self && !is_dropped[n] -> say(n, REFUSED); drop(n)
        :: else
        fi
    }
    n = 0
}

inline refuse_all() {
#if PLANT != 10
    for (n : 1 .. LEAST) {
        if
        :: sock[n] != 0 -> say(sock[n], REFUSED)
        :: else
        fi
    }
    refuse_rest()
#else
    skip
#endif
}

proctype rank_0(byte self) {
    byte sock[3], c, r, n, count;
    bool is_through[3];
#ifdef ONE_PORT
    if
    :: atomic { !is_port_taken -> is_port_taken = true; listens[self] = true }
    :: FAULT
    :: DEADLINE -> result[self] = LATE; goto closes
    fi;
#else
    listens[self] = true;
#endif
    /* ---- All come ---- */
    do
    :: ALL_HERE -> break
    :: atomic {
            if
            :: IS_NEW(1) -> c = 1
            :: IS_NEW(2) -> c = 2
            :: IS_NEW(3) -> c = 3
            :: IS_NEW(4) -> c = 4
            :: IS_NEW(5) -> c = 5
            :: IS_NEW(6) -> c = 6
            :: IS_NEW(VISIT_0) -> c = VISIT_0
            fi;
            greet(c);
            c = 0;
            if
            :: result[self] == WRONG -> refuse_all(); goto closes
            :: else
            fi
        }
    :: atomic {
            if
            :: IS_HERE(1) -> c = 1
            :: IS_HERE(2) -> c = 2
            :: IS_HERE(3) -> c = 3
            :: IS_HERE(4) -> c = 4
            :: IS_HERE(5) -> c = 5
            :: IS_HERE(6) -> c = 6
            fi;
            count_in(c);
            c = 0;
            if
            :: result[self] == WRONG -> refuse_all(); goto closes
            :: else
            fi
        }
    /* That one is gone may be seen, or later. */
    :: atomic { HAS_LEFT(sock[1]) -> drop(sock[1]); sock[1] = 0 }
    :: atomic { HAS_LEFT(sock[2]) -> drop(sock[2]); sock[2] = 0 }
    :: FAULT
    :: atomic { DEADLINE && !ALL_HERE -> result[self] = LATE; refuse_all(); goto closes }
    od;
    atomic { refuse_rest() }
    n = 1;
    do
    :: n > LEAST -> break
    :: atomic { n <= LEAST -> say(sock[n], ALL); n++ }
    :: FAULT
    od;
    /* ---- All are connected ---- */
    n = 0;
    do
    :: count == LEAST -> break
    :: atomic { SAYS(1, CONNECTED) -> up[sock[1]] ? CONNECTED; is_through[1] = true; count++ }
    :: atomic { SAYS(2, CONNECTED) -> up[sock[2]] ? CONNECTED; is_through[2] = true; count++ }
    /* Of those that have not said so. */
    :: atomic {
            (!is_through[1] && HAS_LEFT(sock[1]) && !SAYS(1, CONNECTED)) ||
                (!is_through[2] && HAS_LEFT(sock[2]) && !SAYS(2, CONNECTED)) ->
                result[self] = LEFT;
            refuse_all();
            goto closes
        }
    :: FAULT
    :: atomic { DEADLINE && count < LEAST -> result[self] = LATE; refuse_all(); goto closes }
    od;
    n = 1;
    do
    :: n > LEAST -> break
    :: atomic { n <= LEAST -> say(sock[n], OPEN); n++ }
    :: FAULT
    od;
    n = 0;
    atomic {
        result[self] = OPENED;
        listener_has[sock[1]] = true;
        listener_has[sock[2]] = true
    }
closes:
    stop_listening();
    is_port_taken = false;
    atomic {
        c = 1;
        do
        :: c > LEAST -> break
        :: else ->
            if
            :: sock[c] != 0 && result[self] != OPENED -> drop(sock[c])
            :: else
            fi;
            c++
        od;
        c = 0
    }
stands:
    ended++
}

/* ---- The others ---- */

/* Rank 0 gives up, or is gone. */
#if PLANT == 9
#define GIVES_UP false
#else
#define GIVES_UP (down[zero] ? [REFUSED] || (is_dropped[zero] && empty(down[zero])))
#endif

inline hear_end() {
    if
    :: down[zero] ? [REFUSED] -> result[self] = TOLD
    :: else -> result[self] = LEFT
    fi
}

/* Rank 2's to rank 1. */
inline connect() {
    between = TO_1(self);
    do
    :: atomic { !is_begun[between] && listens[1] -> to[between] = 1; is_begun[between] = true }
#if PLANT == 7
        break;
#endif
        do
        :: atomic { down[between] ? [WELCOME] -> down[between] ? WELCOME; goto connected }
        :: atomic { is_dropped[between] && empty(down[between]) ->
                leave(between);
                between = OTHER(between, TO_1(self));
                break
            }
        :: atomic { GIVES_UP -> hear_end(); goto closes }
        :: FAULT
        :: atomic { DEADLINE -> result[self] = LATE; goto closes }
        od
    :: atomic { GIVES_UP -> between = 0; hear_end(); goto closes }
    :: FAULT
    :: atomic { DEADLINE -> between = 0; result[self] = LATE; goto closes }
    od
}

/* Rank 1 takes it. */
inline take_between() {
    do
    :: atomic {
            if
            :: IS_NEW(7) -> c = 7
            :: IS_NEW(8) -> c = 8
            :: IS_NEW(9) -> c = 9
            :: IS_NEW(10) -> c = 10
            :: IS_NEW(VISIT_1) -> c = VISIT_1
            fi;
            if
#if PLANT != 6
            :: c == VISIT_1 -> drop(c); is_taken[c] = is_begun[c]; c = 0
            :: c != VISIT_1 ->
#else
            :: true ->
#endif
                is_taken[c] = true; between = c; c = 0; say(between, WELCOME); goto connected
#ifdef CROWDED
            :: !was_crowded && c != VISIT_1 -> was_crowded = true; is_taken[c] = true; drop(c); c = 0
#endif
            fi
        }
    :: atomic { GIVES_UP -> hear_end(); goto closes }
    :: FAULT
    :: atomic { DEADLINE -> result[self] = LATE; goto closes }
    od
}

proctype rank(byte self) {
    byte zero, c, n, between, z;
#ifdef IMPATIENT
    byte went;
#endif
#ifdef CROWDED
    bool was_crowded;
#endif
#ifdef RETURNS
    if
    :: self == 3 && is_gone[2] && has_ended[2]
    :: self == 3 && ended == 3 && !is_gone[2] -> goto stands
    :: self != 3
    fi;
#endif
    if
    :: self == MISSING -> goto stands
    :: else
    fi;
    listens[self] = true;
    /* ---- To rank 0 ---- */
    c = TO_0(self);
    do
    :: atomic {
            if
            :: !is_begun[c] && listens[0] -> z = 0
#ifdef JOBS
            :: !is_begun[c] && listens[2] -> z = 2
#endif
            fi;
            to[c] = z;
            z = 0;
            is_begun[c] = true
        }
#if PLANT == 4
        zero = c;
        break;
#endif
        do
        :: atomic {
                down[c] ? [WELCOME] -> down[c] ? WELCOME;
                zero = c;
                c = 0;
                up[zero] ! HERE;
                goto come
            }
        :: atomic { down[c] ? [REFUSED] -> result[self] = TOLD; zero = c; goto closes }
        :: atomic { is_dropped[c] && empty(down[c]) ->
#if PLANT == 12
                result[self] = LEFT;
                zero = c;
                goto closes;
#endif
                leave(c);
                c = OTHER(c, TO_0(self));
                break
            }
#ifdef IMPATIENT
        :: atomic { went < 2 && !is_begun[OTHER(c, TO_0(self))] && !is_dropped[c] ->
                went++;
                leave(c);
                c = OTHER(c, TO_0(self));
                break
            }
#endif
        :: FAULT
        :: atomic { DEADLINE -> result[self] = LATE; zero = c; goto closes }
        od
    :: FAULT
    :: atomic { DEADLINE && !listens[0] -> c = 0; result[self] = LATE; goto closes }
    od;
come:
#if PLANT == 4
    c = 0;
#endif
    do
    :: atomic { down[zero] ? [ALL] -> down[zero] ? ALL; break }
    :: atomic { down[zero] ? [REFUSED] || (is_dropped[zero] && empty(down[zero])) -> hear_end(); goto closes }
    :: FAULT
    :: atomic { DEADLINE -> result[self] = LATE; goto closes }
    od;
    /* ---- To one another ---- */
#ifndef JOBS
    if
    :: RANK(self) == 2 -> connect()
    :: else -> take_between()
    fi;
#endif
connected:
    if
    :: up[zero] ! CONNECTED
    :: FAULT
    fi;
#if PLANT == 8
    goto opens;
#endif
    do
    :: atomic { down[zero] ? [OPEN] -> down[zero] ? OPEN; break }
    :: atomic { down[zero] ? [REFUSED] || (is_dropped[zero] && empty(down[zero])) -> hear_end(); goto closes }
    :: FAULT
    :: atomic { DEADLINE -> result[self] = LATE; goto closes }
    od;
opens:
    atomic {
        result[self] = OPENED;
        came_has[zero] = true;
        if
        :: between != 0 && RANK(self) == 2 -> came_has[between] = true
        :: between != 0 && RANK(self) == 1 -> listener_has[between] = true
        :: else
        fi
    }
closes:
    stop_listening();
#if PLANT != 11
    atomic {
        if
        :: result[self] != OPENED ->
            if
            :: zero == 0 && c != 0 && is_begun[c] && !is_left[c] -> leave(c)
            :: zero != 0 -> leave(zero)
            :: else
            fi;
            if
            :: between != 0 && RANK(self) == 2 && is_begun[between] && !is_left[between] -> leave(between)
            :: between != 0 && RANK(self) == 1 -> drop(between)
            :: else
            fi
        :: else
        fi;
        c = 0
    }
#endif
stands:
    atomic { ended++; has_ended[self] = true }
}

/* Of another job, and of another session. */
proctype visitor() {
    byte c = VISIT_0;
    do
    :: c > VISIT_1 -> break
    :: c <= VISIT_1 ->
        if
        :: atomic { listens[c - VISIT_0] -> to[c] = c - VISIT_0; is_begun[c] = true }
            if
            :: down[c] ? [WELCOME] -> assert(false)
            :: is_dropped[c] -> leave(c)
            fi
        :: timeout
        fi;
        c++
    od
}

/* ---- What came of it ---- */

#define FAULTY (DIES != 9 || STOPS != 9 || EARLY != 9)

proctype judge() {
    byte c;
    atomic {
        ended == PROCESSES ->
        for (c : 1 .. MOST - 1) {
            assert(!came_has[c] || listener_has[c] || is_dropped[c] || STOPS != 9);
            assert(!listener_has[c] || came_has[c] || is_left[c] || STOPS != 9)
        }
#ifdef JOBS
#ifndef ONE_KEY
        for (c : 1 .. 6) { assert(!listener_has[c] || KEY(to[c]) == KEY(WHO(c))) }
        assert(FAULTY || (result[0] == result[1] && result[2] == result[3]));
#endif
#else
#ifdef WELL
        assert(result[0] == OPENED && result[1] == OPENED && result[2] == OPENED);
        assert(listener_has[TO_1(2)] || listener_has[TO_1(2) + 1]);
#endif
        /* Also where one is lost: those that are left are all open, or none, but where that was rank 0. */
#if DIES != 0 && STOPS != 0 && EARLY == 9
        assert(DIES == 2 || STOPS == 2 || result[3] == OPENED || (result[0] == OPENED) == (result[2] == OPENED));
        assert(DIES == 1 || STOPS == 1 || MISSING == 1 || (result[0] == OPENED) == (result[1] == OPENED));
#endif
        /* Who came waits no longer than rank 0. */
        assert(STOPS == 0 || EARLY == 1 || result[1] != LATE || result[0] != OPENED);
        assert(!came_has[0]);
#if MISSING != 9
        assert(result[0] == LATE && result[2] == TOLD);
#endif
#ifdef DIFFERS
        assert(result[3] != OPENED);
#endif
        assert(EARLY != 0 || (result[1] != LEFT && result[2] != LEFT));
#ifdef RETURNS
        assert(result[0] != WRONG);
#endif
#ifdef TWICE
        assert(result[2] != OPENED || result[3] != OPENED);
        assert(result[0] == OPENED || result[0] == WRONG);
        assert(result[2] != LEFT && result[3] != LEFT);
#endif
#if defined(STOPS) && STOPS == 1
        assert(result[2] != LATE);
#endif
#endif
#if defined(JOBS) && defined(WELL)
        assert(result[0] == OPENED && result[1] == OPENED);
        assert(result[2] == OPENED && result[3] == OPENED);
#endif
    }
}

init {
    atomic {
        run rank_0(0);
        run rank(1);
#ifdef JOBS
        run rank_0(2);
        run rank(3);
#else
        run rank(2);
#if PROCESSES == 4
        run rank(3);
#endif
#endif
#ifdef VISITED
        run visitor();
#endif
        run judge()
    }
}
