/* Turns for room: base/turns.c, and who takes them in sched/runtime/caller/submit.c.
 *
 * Asked: a waiter that has its number is overtaken by nobody with a later one, and by calls without one at most
 * once a thread (by one that had looked before); every waiter that is not stopped returns, whoever gives up, is
 * stopped, or lets its turn lapse; no wake-up is lost.
 *
 * Left out: the values of clocks (a turn lapses at any time while room is offered for it, LAPSES times, and must
 * lapse where its waiter is stopped); several devices; numbers that wrap. A sleep ends by itself only where SLICES
 * is set, so that elsewhere a lost wake-up is a deadlock; a poll for room (nap) is a wait for it.
 *
 * run safe two_and_plain: -DWAITERS=2 -DPLAIN=1
 * run safe a_lapse: -DWAITERS=2 -DPLAIN=0 -DSLICES -DLAPSES=1
 * full live a_stop: -DWAITERS=2 -DPLAIN=1 -DTRIES=1 -DSLICES -DSTOPS=1
 * full safe three_waiters: -DWAITERS=3 -DPLAIN=0
 * full safe lapse_stop_and_plain: -DWAITERS=2 -DPLAIN=1 -DTRIES=3 -DSLICES -DLAPSES=1 -DSTOPS=1
 * full live lapse_and_stop: -DWAITERS=2 -DPLAIN=0 -DSLICES -DLAPSES=1 -DSTOPS=1
 * plant 1 safe: -DWAITERS=2 -DPLAIN=1 | calls without a number do not look who waits
 * plant 2 safe: -DWAITERS=2 -DPLAIN=0 | who ends a turn does not change the next one's word
 * plant 3 safe: -DWAITERS=3 -DPLAIN=0 | who leaves looks whose turn it is before it says that it left
 * plant 4 live: -DWAITERS=2 -DPLAIN=0 -DSLICES -DLAPSES=0 -DSTOPS=1 | a stopped waiter's turn does not lapse
 * plant 5 safe: -DWAITERS=3 -DPLAIN=0 | a turn goes to one who left
 * plant 6 safe: -DWAITERS=2 -DPLAIN=0 | a sleeper takes its word after it looked whose turn it is
 * plant 7 safe: -DWAITERS=3 -DPLAIN=0 -DSLICES -DLAPSES=1 | a turn is ended by counting, not by compare-and-swap
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef LAPSES
#define LAPSES 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef TRIES
#define TRIES 2
#endif
#define NUMBERS (WAITERS + LAPSES + 2)
#define NONE 255
#define LIMIT 1
#define GIVEUPS 1

byte next, serving;
byte offered;       /* 1 + the number */
bool elapsed;       /* ROTA_TURN_LAPSE_NS have passed since that was stored */
byte word[NUMBERS]; /* rota_turns.words */
bool has_left[NUMBERS];
byte owner[NUMBERS];
byte unfinished; /* issued - completed of the device */
byte lapses = LAPSES, stops = STOPS, giveups = GIVEUPS;

bool waiting[WAITERS], is_halted[WAITERS];
byte number_of[WAITERS];
byte overtaken[WAITERS * (WAITERS + 2)]; /* by thread */
byte over;                               /* threads that returned or are stopped */

#define HAS_ROOM (unfinished < LIMIT)

/* rota_lane_publish: the submission counts, and who is overtaken by it is noted. */
inline publish(me, mine) {
    d_step {
        unfinished++;
        i = 0;
        do
        :: i < WAITERS ->
            if
            :: i != me && waiting[i] && serving <= number_of[i] && (mine == NONE || mine > number_of[i]) ->
                assert(mine == NONE);
                overtaken[i * (WAITERS + 2) + me]++;
                assert(overtaken[i * (WAITERS + 2) + me] <= 1)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

/* end_turn */
inline end_turn(which) {
    at = which;
    do
    :: atomic {
#if PLANT == 7
            serving = serving + 1; at++
#else
            if
            :: serving == at -> serving = at + 1; at++
            :: else -> at = NONE
            fi
#endif
        }
        if
        :: at == NONE -> break
        :: else
        fi;
#if PLANT == 5
        if
        :: true -> break
        fi
#else
        if
        :: at < NUMBERS && has_left[at] /* the load of its place */
        :: else -> break
        fi
#endif
    od;
#if PLANT != 2
    if
    :: at < NUMBERS -> word[at] = 1 - word[at] /* the word, and the futex's wake */
    :: else
    fi;
#endif
    at = 0
}

/* offer: `s` is whose turn it is */
inline offer(s, room) {
    atomic { /* the load of `offered` with the clock's, and the store or compare-and-swap */
        if
        :: !room -> offered = 0; elapsed = false; lapsed = false
        :: room && offered != s + 1 -> offered = s + 1; elapsed = false; lapsed = false
        :: room && offered == s + 1 -> lapsed = elapsed
        fi
    }
#if PLANT != 4
    if
    :: lapsed -> lapsed = false; end_turn(s)
    :: else
    fi
#else
    lapsed = false
#endif
}

/* A thread may be halted here for good. */
#define MAY_STOP \
    if \
    :: atomic { stops > 0 -> stops--; is_halted[me] = true; over++; goto halted } \
    :: true \
    fi

/* rota_turns_leave */
inline leave(which) {
#if PLANT == 3
    its_turn = serving == which;
    has_left[which] = true;
#else
    atomic { has_left[which] = true; waiting[me] = false }
    its_turn = serving == which;
#endif
    waiting[me] = false;
    if
    :: its_turn -> its_turn = false; end_turn(which)
    :: else
    fi
}

/* rota_submit_wait */
proctype waiter(byte me) {
    byte number, s, at, i, seen_word;
    bool room, lapsed, its_turn;
    /* wait_for_turn: has_backlog, rota_turns_are_none */
    if
    :: HAS_ROOM ->
        if
        :: next <= serving -> publish(me, NONE); goto done
        :: else
        fi
    :: else
    fi;
take: /* rota_turns_take */
    atomic {
        number = next;
        next++;
        owner[number] = me;
        number_of[me] = number;
        waiting[me] = true;
        i = 0;
        do
        :: i < WAITERS + 2 -> overtaken[me * (WAITERS + 2) + i] = 0; i++
        :: else -> break
        od;
        i = 0
    }
look: /* rota_turns_look */
    MAY_STOP;
    room = HAS_ROOM;
    s = serving;
    if
    :: s < number -> offer(s, room); s = serving
    :: else
    fi;
    if
    :: s == number && room -> goto now
    :: s == number && !room -> /* nap, for room or to the deadline */
        if
        :: HAS_ROOM -> goto look
        :: atomic { giveups > 0 -> giveups-- } leave(number); goto done
        fi
    :: s > number -> waiting[me] = false; goto take
    :: else
    fi;
    /* rota_turns_sleep */
#if PLANT != 6
    seen_word = word[number];
#endif
    if
    :: serving < number ->
#if PLANT == 6
        seen_word = word[number];
#endif
        if
        :: word[number] != seen_word -> seen_word = 0
        :: atomic { giveups > 0 -> giveups-- } leave(number); goto done
#ifdef SLICES
        :: seen_word = 0 /* half of a lapse's time is over */
#endif
        fi
    :: else
    fi;
    goto look;
now: /* wait_for_lane: the turn is kept until the submission is published */
    MAY_STOP;
    publish(me, number);
    waiting[me] = false;
    MAY_STOP;
    leave(number);
done:
    over++
halted:
    skip
}

/* rota_submit, time and again */
proctype plain(byte me) {
    byte i, s, at, tries = TRIES;
    bool lapsed;
    do
    :: tries > 0 ->
        tries--;
        if
        :: HAS_ROOM -> /* has_backlog */
#if PLANT != 1
            if
            :: next <= serving /* rota_turns_are_none */
            :: else -> /* rota_turns_lapse */
                s = serving;
                if
                :: s < next -> offer(s, true)
                :: else
                fi;
                if
                :: next <= serving
                :: else -> goto busy
                fi
            fi;
#endif
            publish(me, NONE)
        :: else
        fi;
busy:   skip
    :: else -> break
    od;
    over++
}

/* The device gets on with what it has. */
proctype device() {
    do
    :: atomic { unfinished > 0 -> unfinished-- }
    :: over == WAITERS + PLAIN && unfinished == 0 -> break
    od
}

#if LAPSES + STOPS > 0
proctype clock() {
    do
    :: atomic {
            offered != 0 && !elapsed && (lapses > 0 || is_halted[owner[offered - 1]]) ->
            if
            :: is_halted[owner[offered - 1]]
            :: else -> lapses--
            fi;
            elapsed = true
        }
    :: over == WAITERS + PLAIN -> break
    od
}
#endif

init {
    atomic {
        byte w;
        unfinished = LIMIT;
        run device();
        for (w : 0 .. WAITERS - 1) { run waiter(w) }
#if PLAIN
        run plain(WAITERS);
#endif
#if LAPSES + STOPS > 0
        run clock();
#endif
    }
}

ltl live { <> (over == WAITERS + PLAIN) }
