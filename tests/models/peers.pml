/* Ranks of one process whose GPUs add up one another's memory: exec/nccl/peers.c, nccl.c as far as it posts, looks and
 * aborts, and sched/ranks/device.c, by which a rank begins when all have agreed.
 *
 * Each of N ranks lends its memory, and comes; whoever comes last puts on all streams at once what each GPU does to
 * all memories. A rank is over when all shares are done, as it sees itself or another rank has seen. Any rank may give
 * up at any time (ABORTS), upon which the others do when they hear of it, and wait until no stream has work; or the
 * last one fails to put all of it there (FAILS); or rank 0's GPU fails (DIES), and touches nothing from there on. In
 * the end each leaves, and its event goes with it.
 *
 * Asked: no stream touches memory of a rank that is over, or has given up and waited; and nobody waits for good.
 *
 * Left out: what NCCL carries.
 *
 * run safe two: -DN=2
 * run safe two_one_gives_up: -DN=2 -DABORTS
 * run safe two_put_fails: -DN=2 -DFAILS
 * run safe two_one_dies: -DN=2 -DDIES
 * run safe three_one_gives_up: -DABORTS -DK=1
 * run safe three_one_dies: -DDIES -DK=1
 * full safe three_give_up_twice: -DABORTS
 * full safe three_put_fails: -DABORTS -DFAILS
 * full safe three_die: -DABORTS -DFAILS -DDIES
 * plant 1 safe: -DN=2 -DABORTS | what a rank gave up is put there when the other one comes
 * plant 2 safe: -DN=2 -DFAILS | who gives up waits for its own stream alone
 * plant 3 safe: -DN=2 | those that came are counted on
 * plant 4 safe: -DN=2 | who comes still sees the end of the one before
 * plant 5 safe: -DN=2 | a rank looks at its own share alone
 * plant 6 safe: -DN=2 -DDIES | a stream waits for what the others do
 * plant 7 safe: -DN=2 | who leaves has told nobody what it saw
 * plant 8 safe: -DN=2 -DDIES | a GPU that has failed counts as at work
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef N
#define N 3
#endif
#ifndef K
#define K 2
#endif

byte agreed[K + 1];
bool has_failed; /* the transport: a rank has ended it */
/* The group, under its lock. */
byte come;
bool has_ended, is_put[N];
bool has_left[N], is_seen[N]; /* is_seen: its share is done, as somebody has seen */
/* Streams: what they have, how far they are, and the events behind it. */
bool has_share[N], is_touching[N], is_done[N];
bool is_dead[N];
bool is_lent[N]; /* ghost: a rank's memory */

#define ALL_LENT (is_lent[0] && is_lent[1] && is_lent[N - 1])
#if PLANT == 8
#define AT_WORK(r) (has_share[r])
#else
#define AT_WORK(r) (has_share[r] && !is_dead[r])
#endif
#define DONE(r) (is_seen[r] || (!has_left[r] && is_done[r] && !is_dead[r]))
#if PLANT == 5
#define IS_OVER DONE(self)
#else
#define IS_OVER (DONE(0) && DONE(1) && DONE(N - 1))
#endif
#if PLANT == 6
#define MAY_END (is_done[1 - self] || is_touching[1 - self])
#else
#define MAY_END true
#endif
#define LOOK_FAILS(r) (!is_seen[r] && !has_left[r] && is_dead[r])
#if PLANT == 2
#define AT_REST (!AT_WORK(self))
#else
#define AT_REST (!AT_WORK(0) && !AT_WORK(1) && !AT_WORK(N - 1))
#endif

proctype stream(byte self) {
end:
    do
    :: atomic {
        has_share[self] && !is_touching[self] && !is_dead[self] ->
            assert(ALL_LENT);
            is_touching[self] = true
    }
    :: atomic {
        has_share[self] && is_touching[self] && !is_dead[self] && MAY_END ->
            assert(ALL_LENT);
            is_touching[self] = false;
            has_share[self] = false;
            is_done[self] = true
    }
#ifdef DIES
    :: atomic {
        self == 0 && !is_dead[0] ->
            is_dead[0] = true;
            is_touching[0] = false
    }
#endif
    od
}

/* By whoever comes last. `result`: all is there */
inline put_all() {
    result = true;
    for (j : 0 .. N - 1) {
        if
#ifdef FAILS
        :: result -> result = false
#endif
        :: result && is_dead[j] -> result = false
        :: result && !is_dead[j] ->
            assert(!AT_WORK(j));
            is_done[j] = false;
            has_share[j] = true
        :: !result -> skip
        fi
    }
    for (j : 0 .. N - 1) {
        if
        :: result ->
            is_put[j] = true;
            is_seen[j] = false
        :: else
        fi
    }
    j = 0
}

proctype rank(byte self) {
    byte k = 1, j;
    bool result;
    do
    :: k > K -> break
    :: else ->
        agreed[k]++;
        if
        :: agreed[k] == N
        :: has_failed -> break
        fi;
        is_lent[self] = true;
#ifdef ABORTS
        if
        :: goto gives_up
        :: skip
        fi;
#endif
        atomic {
#if PLANT != 4
            is_put[self] = false;
#endif
            result = true;
            if
#if PLANT == 1
            :: true ->
#else
            :: !has_ended ->
#endif
                come++;
                if
                :: come == N ->
                    put_all();
#if PLANT != 3
                    if
                    :: result -> come = 0
                    :: else
                    fi;
#endif
                    if
                    :: !result -> has_ended = true
                    :: else
                    fi
                :: else
                fi
#if PLANT != 1
            :: else
#endif
            fi
        }
        if
        :: !result -> goto gives_up
        :: else
        fi;
        if
        :: atomic {
            is_put[self] && IS_OVER ->
#if PLANT != 7
                for (j : 0 .. N - 1) {
                    is_seen[j] = true
                }
                j = 0;
#endif
                is_lent[self] = false
        }
        :: atomic {
            is_put[self] && (LOOK_FAILS(0) || LOOK_FAILS(1) || LOOK_FAILS(N - 1)) -> goto gives_up
        }
        :: has_failed -> goto gives_up
#ifdef ABORTS
        :: goto gives_up
#endif
        fi;
        k++
    od;
    goto leaves;
gives_up:
    has_failed = true; /* all are told */
    has_ended = true;
    AT_REST;
    is_lent[self] = false;
leaves:
    atomic {
        has_ended = true;
        has_left[self] = true
    }
}

init {
    atomic {
        run stream(0);
        run stream(1);
#if N == 3
        run stream(2);
#endif
        run rank(0);
        run rank(1);
#if N == 3
        run rank(2)
#endif
    }
}
