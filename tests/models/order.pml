/* Ranks that are of two communicators, and submit their collectives in one order or in two: sched/ranks/order.c, with
 * exec/comm/ahead.c and orders.c.
 *
 * Two ranks submit K collectives of A and K of B, one after the other: the application of each submits as it likes, or
 * (WAITS) the next one when the one before has ended. Rank 0's order is A B A B; rank 1's is the same, or (CROSSED) B A
 * B A. What is submitted of one communicator comes one after the other, of two side by side, as its data come: at any
 * time. A collective says what it is and how many of the other communicator went before it (an announcement, which
 * waits at the other rank from then on), and ends when both have come; then what both said is compared. A rank that
 * waits at one has the other communicator look what has come for it, at any time.
 *
 * Asked: what is in one order ends well, all of it; in two orders both ranks end with that, and nobody waits for good.
 *
 * Left out: what else a collective says (ranks.pml), more than two ranks of a communicator, ranks that share no two
 * communicators with each other but come to a circle of three.
 *
 * run safe one_order:
 * run safe one_order_waits: -DWAITS
 * run safe crossed: -DCROSSED
 * run safe crossed_waits: -DCROSSED -DWAITS
 * full safe one_order_longer: -DK=3
 * full safe crossed_longer: -DCROSSED -DK=3
 * plant 1 safe: -DCROSSED -DWAITS | who waits does not have others look
 * plant 2 safe: -DCROSSED | what both said is not compared
 * plant 3 safe: -DK=2 | a look takes the next one but one that was submitted for its own part
 * plant 4 safe: | how many went before is counted as one begins, not as it is submitted
 * plant 5 safe: -DCROSSED -DWAITS | what has not been submitted is not counted
 * plant 6 safe: -DCROSSED -DWAITS | who finds it ends the one communicator alone
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef K
#define K 2
#endif

#define OTHER(c) (1 - (c))
#define AT(r, c) ((r) * 2 + (c))

/* By rank and communicator: how many were submitted, have begun and have ended; what of the other went before each. */
byte submitted[4], begun[4], ended[4];
byte before[4 * (K + 2)];
#define BEFORE(r, c, k) before[AT(r, c) * (K + 2) + (k)]
/* What was said of the one that has begun, and lies at the other rank until that has come to it. */
byte said[4 * (K + 2)];
#define SAID(r, c, k) said[AT(r, c) * (K + 2) + (k)]
bool is_ended[2]; /* a communicator, by a sentence: farewells come to all */
bool is_told[2];  /* a rank: one of its collectives has failed */

/* Rank p's k-th, which it said, with what rank r has submitted of its own part; or has not. */
#if PLANT == 3
#define OWN(k) ((k) + 1)
#else
#define OWN(k) (k)
#endif
#if PLANT == 5
#define NOT_YET(r, p, c, k) false
#else
#define NOT_YET(r, p, c, k) (submitted[AT(r, c)] < (k) && submitted[AT(r, OTHER(c))] > SAID(p, c, k))
#endif
#define IS_CROSSED(r, p, c, k)                                                                               \
    (NOT_YET(r, p, c, k) || (submitted[AT(r, c)] >= OWN(k) && BEFORE(r, c, OWN(k)) != SAID(p, c, k)))

inline end_both(c) {
    is_ended[c] = true;
#if PLANT != 6
    is_ended[OTHER(c)] = true;
#endif
}

/* The application, and the sequencer. */
proctype application(byte r) {
    byte i, c;
    do
    :: i == 2 * K -> break
    :: i < 2 * K ->
#ifdef CROSSED
        c = (r == 0 -> i % 2 : 1 - i % 2);
#else
        c = i % 2;
#endif
        d_step {
            submitted[AT(r, c)]++;
            BEFORE(r, c, submitted[AT(r, c)]) = submitted[AT(r, OTHER(c))];
            i++
        }
#ifdef WAITS
        (ended[AT(r, c)] == submitted[AT(r, c)] || is_ended[c]);
        if
        :: is_ended[c] -> break /* it has failed: no more is submitted */
        :: else
        fi
#endif
    od
}

/* A communicator's thread, on one rank. */
proctype carrier(byte r; byte c) {
    byte k, p = 1 - r;
    do
    :: is_ended[c] -> is_told[r] = true; break
    :: ended[AT(r, c)] == K -> break
    /* Its data are there, at any time. */
    :: atomic {
        !is_ended[c] && begun[AT(r, c)] == ended[AT(r, c)] && submitted[AT(r, c)] > begun[AT(r, c)] ->
            begun[AT(r, c)]++;
            k = begun[AT(r, c)];
#if PLANT == 4
            SAID(r, c, k) = begun[AT(r, OTHER(c))]
#else
            SAID(r, c, k) = BEFORE(r, c, k)
#endif
        }
    /* Both have come. */
    :: atomic {
        !is_ended[c] && begun[AT(r, c)] > ended[AT(r, c)] && begun[AT(p, c)] >= begun[AT(r, c)] ->
            k = begun[AT(r, c)];
            if
#if PLANT != 2
            :: SAID(r, c, k) != SAID(p, c, k) && !is_ended[OTHER(c)] -> end_both(c)
#endif
            :: PLANT == 2 || SAID(r, c, k) == SAID(p, c, k) || is_ended[OTHER(c)] -> ended[AT(r, c)]++
            fi
        }
#if PLANT != 1
    /* The other one waits: what lies here for one that this rank has not begun is looked at. */
    :: atomic {
        !is_ended[c] && !is_ended[OTHER(c)] && begun[AT(r, OTHER(c))] > ended[AT(r, OTHER(c))] &&
            begun[AT(r, c)] == ended[AT(r, c)] && begun[AT(p, c)] > begun[AT(r, c)] &&
            IS_CROSSED(r, p, c, begun[AT(r, c)] + 1) ->
            end_both(c)
        }
#endif
    od
}

/* Whether a rank waits at a collective for good: nothing else can happen. */
active proctype judge() {
    timeout;
#ifdef CROSSED
    assert(is_told[0] && is_told[1]);
    assert(is_ended[0] && is_ended[1])
#else
    assert(!is_ended[0] && !is_ended[1]);
    assert(ended[0] == K && ended[1] == K && ended[2] == K && ended[3] == K)
#endif
}

init {
    atomic {
        run application(0);
        run application(1);
        run carrier(0, 0);
        run carrier(0, 1);
        run carrier(1, 0);
        run carrier(1, 1)
    }
}
