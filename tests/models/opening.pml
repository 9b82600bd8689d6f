/* The rendezvous of ranks on their devices: sched/ranks/device.c, over a transport that is open (ranks.pml) and a
 * library that opens when all have come to it. Each rank tells the others what it has, and all come to the same
 * verdict; rank 0 gives out an id; each opens the library, which waits for all, for half of the transport's timeout;
 * and all conclude whether it is open everywhere. What fails is closed.
 *
 * The last rank may not be ready (UNREADY), have a library that fails, at once or late (FAILS), die at any time (DIES),
 * or be closed while it opens (CLOSES); rank 0 may have no id (NO_ID).
 *
 * Asked: all end; where none dies or is closed, with the same, and never by a deadline of the transport's, which would
 * name another one than who failed; who is open has a library that is, and who is not has none; and where all is well
 * it is open.
 *
 * run safe well: -DWELL
 * run safe one_is_not_ready: -DUNREADY
 * run safe there_is_no_id: -DNO_ID
 * run safe one_fails: -DFAILS
 * run safe one_dies: -DDIES
 * run safe one_is_closed: -DCLOSES
 * full safe all_at_once: -DFAILS -DDIES -DCLOSES -DN=4
 * plant 1 safe: -DFAILS | who fails does not come to the conclusion
 * plant 2 safe: -DFAILS | ranks wait for the library as long as for one another
 * plant 3 safe: -DFAILS | who has it open does not ask whether the others have
 * plant 4 safe: -DFAILS | who has it open lets go of nothing where another one has not
 * plant 5 safe: -DUNREADY | who is not ready says so, and goes on
 * plant 6 safe: -DCLOSES | who is closed while it waits for the library is not let go
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef N
#define N 3
#endif

mtype = {NONE, OPEN, REFUSED, LATE};

#define TELLS 0
#define NAMES 1
#define CONCLUDES 2
byte came[3];
bool has_failed, has_died, all_ready = true, has_id = true, are_open = true;
/* The library. */
byte joined, waiting;
bool has_library[N], is_open[N];
mtype result[N] = NONE;
bool is_closed; /* the last rank's opening: nobody waits for it */

#define LAST (self == N - 1)

/* The transport: all come, or one has ended it, or is late. */
inline meet(it) {
    came[it]++;
    if
    :: came[it] == N
    /* A farewell does not end what its rank has done its part of, but where that was ended in it. */
    :: has_failed && (came[it] < N || is_closed) -> result[self] = LATE; goto ends
#if PLANT == 2
    :: timeout -> has_failed = true; result[self] = LATE; goto ends
#else
    :: atomic { timeout && waiting == 0 -> has_failed = true }
        result[self] = LATE;
        goto ends
#endif
#ifdef DIES
    :: atomic { LAST -> has_died = true; goto gone }
#endif
#ifdef CLOSES
    :: atomic { LAST -> is_closed = true; has_failed = true }
        result[self] = LATE;
        goto ends
#endif
    fi
}

proctype rank(byte self) {
#ifdef UNREADY
    if
    :: LAST -> all_ready = false
    :: else
    fi;
#endif
    meet(TELLS);
#if PLANT == 5
    if
    :: !all_ready && LAST -> result[self] = REFUSED; goto ends
    :: else
    fi;
#else
    if
    :: !all_ready -> result[self] = REFUSED; goto ends
    :: else
    fi;
#endif
#ifdef NO_ID
    has_id = false;
#endif
    meet(NAMES);
    if
    :: !has_id -> result[self] = REFUSED; goto ends
    :: else
    fi;
    /* ---- The library ---- */
#ifdef FAILS
    if
    :: LAST -> goto not_open
    :: skip
    fi;
#endif
    atomic { has_library[self] = true; joined++; waiting++ }
    if
    :: atomic { joined == N -> is_open[self] = true; waiting-- }
#ifdef FAILS
    :: atomic { LAST -> waiting--; goto not_open }
#endif
#ifdef DIES
    :: atomic { LAST -> has_died = true; waiting--; goto gone }
#endif
#if defined(CLOSES) && PLANT != 6
    :: atomic { LAST -> is_closed = true; has_failed = true; waiting--; goto not_open }
#elif defined(CLOSES)
    :: atomic { LAST -> is_closed = true; has_failed = true; false }
#endif
    :: atomic { timeout -> waiting--; goto not_open }
    fi;
    goto concludes;
not_open:
    has_library[self] = false; /* aborted */
    is_open[self] = false;
    are_open = false;
#if PLANT == 1
    result[self] = REFUSED;
    goto ends;
#endif
concludes:
#if PLANT == 3
    if
    :: is_open[self] -> result[self] = OPEN; goto ends
    :: else
    fi;
#endif
    meet(CONCLUDES);
    if
    :: are_open -> result[self] = OPEN
    :: else ->
        result[self] = REFUSED
#if PLANT != 4
        ;
        has_library[self] = false
#endif
    fi;
ends:
    /* What was not opened is closed, and with it what was made. */
#if PLANT != 4
    if
    :: result[self] != OPEN -> has_library[self] = false; has_failed = true
    :: else
    fi;
#endif
    assert(result[self] != NONE);
    assert(has_library[self] == (result[self] == OPEN));
    assert(result[self] != OPEN || is_open[self]);
#ifdef WELL
    assert(result[self] == OPEN);
#endif
#if !defined(DIES) && !defined(CLOSES) && !defined(WELL)
#ifdef FAILS
    assert(result[self] == (are_open -> OPEN : REFUSED));
#else
    assert(result[self] == REFUSED);
#endif
#endif
gone:
    skip
}

init {
    atomic {
        run rank(0);
        run rank(1);
        run rank(2);
#if N == 4
        run rank(3)
#endif
    }
}
