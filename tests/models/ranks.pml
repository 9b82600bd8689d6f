/* Ranks that agree, carry out a collective, and end: exec/comm/messages.c, agreement.c, rounds.c and farewell.c, and
 * sched/ranks/device.c for what a device's library carries.
 *
 * N ranks carry out K collectives. In each they say to all others what they are about to do, compare what all said, and
 * then move bytes in ROUNDS rounds of messages (ONE_WAY: rank 0 alone sends; PAIR: the last one is a message of rank 1
 * to rank 2), or a library carries it for all (CARRIED) when all have come. Announcements are over when they are sent;
 * the rest, too, or when taken (SYNC), and then can be taken back (RETURNS) or not. Farewells come at any time,
 * whatever was sent before. A deadline passes when nothing else can happen, or at any time (EARLY).
 *
 * Rank 0 may, at any time, stop for good (DIES), stop for as long as it likes (STOPS), end the communicator (ABORTS),
 * or close it between two collectives (LEAVES). Or the last collective is another one for rank number DIFFERS.
 *
 * Asked: bytes are taken of who means the same, and in the round that they were sent in, and of memory that is there;
 * nobody waits for good; nobody ends that can go on; the sentence of each that ends names the one to blame; where they
 * differ it is one sentence.
 *
 * Left out: splits, several communicators, how a transport is freed (farewell.pml), the threads (communicator.pml).
 *
 * run safe one_dies: -DDIES -DK=1
 * run safe one_dies_sync: -DDIES -DK=1 -DSYNC
 * run safe one_of_two_dies: -DDIES -DN=2 -DK=3
 * run safe one_way_dies: -DDIES -DONE_WAY -DROUNDS=1
 * run safe pair_dies: -DDIES -DPAIR -DROUNDS=1
 * run safe carried_dies: -DDIES -DCARRIED
 * run safe one_stops: -DSTOPS -DK=1
 * run safe one_aborts: -DABORTS -DK=1 -DROUNDS=1
 * run safe one_aborts_sync: -DABORTS -DK=1 -DSYNC -DROUNDS=1
 * run safe one_aborts_returns: -DABORTS -DK=1 -DSYNC -DRETURNS -DROUNDS=1
 * run safe carried_aborts: -DABORTS -DCARRIED -DK=1
 * run safe one_leaves: -DLEAVES -DROUNDS=1
 * run safe one_of_two_leaves: -DLEAVES -DN=2 -DSYNC
 * run safe first_differs: -DDIFFERS=0 -DROUNDS=1
 * run safe last_differs: -DDIFFERS=2 -DROUNDS=1
 * run safe early: -DEARLY -DK=1 -DN=2
 * full safe one_aborts_at_length: -DABORTS -DK=1
 * full safe one_aborts_sync_at_length: -DABORTS -DK=1 -DSYNC
 * full safe carried_aborts_twice: -DABORTS -DCARRIED
 * full safe early_of_three: -DEARLY -DK=1
 * full safe one_dies_twice: -DDIES
 * plant 1 safe: -DLEAVES -DN=2 | a farewell ends what is under way, whatever was sent before
 * plant 2 safe: -DABORTS -DCARRIED -DK=1 | who is carried does not look whether another one failed in the same one
 * plant 3 safe: -DLEAVES -DN=2 | who waits does not look whether the other one sends or takes anything more
 * plant 4 safe: -DDIFFERS=2 -DROUNDS=1 | bytes move before all have said what they do
 * plant 5 safe: -DDIFFERS=0 -DROUNDS=1 | nothing is compared
 * plant 6 safe: -DDIFFERS=0 -DROUNDS=1 | each says how others differ from itself
 * plant 7 safe: -DDIES -DPAIR -DROUNDS=1 | who gives up names whom it waited for, which may wait itself
 * plant 8 safe: -DSTOPS -DK=1 | who was stopped counts that as others' time
 * plant 9 safe: -DABORTS -DK=1 -DSYNC -DROUNDS=1 | cells are freed while a message is under way
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
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef DIFFERS
#define DIFFERS 99
#endif

#define P(s, r) ((s) * N + (r))
#define ALL ((1 << N) - 1)
#define BIT(i) (1 << (i))

mtype = {AGREE, MOVE};
#define CLOSED 8 /* what a sentence says, beside the ranks that it names, as bits */
#define LATE 16
#define DIFFERENT 32
#define ABORTED 64

/* Of rank s's messages to r: on their way; posted, come; whether one is not over. */
chan wire[N * N] = [4] of {mtype, byte, byte};
byte sent[N * N], taken[N * N];
bool is_out[N * N];
/* A farewell. */
bool said[N], has_failed[N];
byte said_sent[N * N], said_taken[N * N], said_in[N], said_cause[N];
/* Ghosts. */
byte cause[N], through[N], library[K + 1], come[K + 1];
bool is_freed[N], is_gone, was_stopped;

#define MEANS(i, k) ((i) == DIFFERS && (k) == K)
#ifdef PAIR
#define OF_TWO(k) ((k) == K)
#else
#define OF_TWO(k) false
#endif
#define HAS_PART(i, k) ((i) != self && (!OF_TWO(k) || (i) + self == 3))
#define OUTS (is_out[P(self, 0)] || is_out[P(self, 1)] || is_out[P(self, N - 1)])

inline say(failure) {
    if
    :: !said[self] ->
        for (j : 0 .. N - 1) {
            said_sent[P(self, j)] = sent[P(self, j)];
            said_taken[P(self, j)] = taken[P(j, self)]
        }
        said_in[self] = (failure -> in_one : 0);
        has_failed[self] = failure;
        said_cause[self] = reason;
        said[self] = true
    :: else
    fi
}

inline take_back() {
#ifdef RETURNS
    for (j : 0 .. N - 1) {
        if
        :: is_out[P(self, j)] ->
            wire[P(self, j)] ?? MOVE, _, _;
            sent[P(self, j)]--;
            is_out[P(self, j)] = false
        :: else
        fi
    }
#endif
    ins = 0
}

/* rota_messages_end_with, by `reason`, in collective `in_one` of all ranks, or 0 */
inline end_with() {
    d_step {
        cause[self] = reason;
        take_back();
        say(true);
        j = 0;
        differ = 0
    }
}

#if defined(LEAVES) || defined(PAIR)
#define ENDS_EARLY (self == 0)
#else
#define ENDS_EARLY false
#endif

#if DIFFERS < N
#define BLAMED BIT(DIFFERS)
#elif defined(EARLY)
#define BLAMED ALL
#else
#define BLAMED BIT(0)
#endif

#define ALL_SAID (said[0] && said[1] && said[N - 1])
#define FAILED(i) ((i) != self && said[i] && has_failed[i])

/* rota_messages_hindrance */
#if PLANT == 1
#define VAIN(i) said[i]
#elif PLANT == 2
#define VAIN(i)                                                                                              \
    (said[i] && (((ins & BIT(i)) && taken[P(i, self)] >= said_sent[P(i, self)]) ||                 \
                           (is_out[P(self, i)] && sent[P(self, i)] > said_taken[P(i, self)])))
#elif PLANT == 3
#define VAIN(i) (said[i] && has_failed[i] && said_in[i] == k)
#else
#define VAIN(i)                                                                                              \
    (said[i] && ((has_failed[i] && said_in[i] == k && !OF_TWO(k)) ||                               \
                           ((ins & BIT(i)) && taken[P(i, self)] >= said_sent[P(i, self)]) ||                 \
                           (is_out[P(self, i)] && sent[P(self, i)] > said_taken[P(i, self)])))
#endif
#define HINDERS(i) (HAS_PART(i, k) && VAIN(i))

/* That one has not done its part of what this one is in. */
inline hindered(i) {
    assert(through[i] < k)
}

inline post_receive(i) {
    ins = ins | BIT(i)
}

inline post_send(i, tag, x) {
    assert(nfull(wire[P(self, i)]));
    wire[P(self, i)] ! tag, k, x;
    sent[P(self, i)]++
#ifdef SYNC
    ;
    if
    :: tag == MOVE -> is_out[P(self, i)] = true
    :: else
    fi
#endif
}

inline take(i, tag) {
    wire[P(i, self)] ?? tag, got_k, got;
    assert(got_k == k);
    taken[P(i, self)]++;
    ins = ins & ~BIT(i);
    if
    :: tag == AGREE ->
        if
        :: got != MEANS(self, k) -> differ = differ | BIT(i)
        :: else
        fi
    :: else ->
        assert(got == round && MEANS(i, k) == MEANS(self, k));
        assert(OF_TWO(k) || (come[k] == ALL && !(DIFFERS < N && k == K)));
        assert(!is_out[P(i, self)] || !is_freed[i]);
        is_out[P(i, self)] = false
    fi;
    got = 0;
    got_k = 0
}

#define COMES(i, tag) ((ins & BIT(i)) && wire[P(i, self)] ?? [tag, _, _])


inline expire() {
    if
    :: FAILED(0) -> reason = said_cause[0]; end_with()
    :: !FAILED(0) && FAILED(1) -> reason = said_cause[1]; end_with()
#if N == 3
    :: !FAILED(0) && !FAILED(1) && FAILED(2) -> reason = said_cause[2]; end_with()
#endif
    :: else ->
        who = ins;
        for (j : 0 .. N - 1) { who = who | (is_out[P(self, j)] -> BIT(j) : 0) }
        reason = LATE | who; end_with();
        who = 0
    fi
}

#ifdef EARLY
#define DEADLINE true
#else
#define DEADLINE timeout
#endif

#ifdef DIES
#define FAULT atomic { self == 0 -> is_gone = true; ins = 0; goto gone }
#elif defined(ABORTS)
#define FAULT atomic { self == 0 && !said[0] -> reason = ABORTED | BIT(0); end_with(); goto closes }
#elif defined(STOPS)
#if PLANT == 8
#define FAULT                                                                                                \
    atomic { self == 0 && !was_stopped -> was_stopped = true; timeout -> expire(); goto closes }
#else
#define FAULT atomic { self == 0 && !was_stopped -> was_stopped = true; timeout }
#endif
#else
#define FAULT atomic { false -> skip }
#endif

/* Until all came and went: messages.c's progress. */
inline wait(tag) {
    do
    :: atomic { COMES(0, tag) -> take(0, tag) }
    :: atomic { COMES(1, tag) -> take(1, tag) }
#if N == 3
    :: atomic { COMES(2, tag) -> take(2, tag) }
#endif
    :: ins == 0 && !OUTS -> break
    :: atomic { HINDERS(0) -> hindered(0); reason = said_cause[0]; end_with(); goto closes }
    :: atomic { HINDERS(1) -> hindered(1); reason = said_cause[1]; end_with(); goto closes }
#if N == 3
    :: atomic { HINDERS(2) -> hindered(2); reason = said_cause[2]; end_with(); goto closes }
#endif
    :: atomic { (ins != 0 || OUTS) && DEADLINE -> expire(); goto closes }
    :: FAULT
    od
}
/* What has come of others' ends, before anything of the next one is said. */
inline listen_at_rest() {
    if
    :: atomic { FAILED(0) -> in_one = 0; reason = said_cause[0]; end_with(); goto closes }
    :: atomic { FAILED(1) -> in_one = 0; reason = said_cause[1]; end_with(); goto closes }
#if N == 3
    :: atomic { FAILED(2) -> in_one = 0; reason = said_cause[2]; end_with(); goto closes }
#endif
    :: skip
    fi
}

#ifdef PAIR
#define SENDS(i) (!OF_TWO(k) || self == 1)
#define TAKES(i) (!OF_TWO(k) || self == 2)
#elif defined(ONE_WAY)
#define SENDS(i) (self == 0)
#define TAKES(i) ((i) == 0)
#else
#define SENDS(i) true
#define TAKES(i) true
#endif

proctype rank(byte self) {
    byte k = 1, in_one, reason, round, ins, differ, i, j, got, got_k, who;
    do
    :: k > K -> break
    :: else ->
        if
        :: OF_TWO(k) && self == 0 -> break
        :: else
        fi;
        listen_at_rest();
        in_one = (OF_TWO(k) -> 0 : k);
        come[k] = come[k] | BIT(self);
        /* ---- Agreement ---- */
        i = 0;
        do
        :: i == N -> break
        :: FAULT
        :: atomic { i < N && !HAS_PART(i, k) -> i++ }
        :: atomic { i < N && HAS_PART(i, k) -> post_receive(i); post_send(i, AGREE, MEANS(self, k)); i++ }
        od;
        i = 0;
#if PLANT == 4
        if
        :: !OF_TWO(k) -> ins = ins & (BIT(0) | BIT(1)) /* not all are waited for */
        :: else
        fi;
#endif
        wait(AGREE);
#if PLANT != 5
        if
        :: atomic { differ != 0 ->
            /* All compare in the order of ranks, and so name the same two. */
#if PLANT == 6
            reason = DIFFERENT | BIT(self) | differ; end_with();
#else
            reason = DIFFERENT | BIT(0) | (DIFFERS == 0 -> BIT(1) : BIT(DIFFERS % 8)); end_with();
#endif
            goto closes }
        :: else
        fi;
#endif
        /* ---- Bytes ---- */
#ifdef CARRIED
        library[k] = library[k] | BIT(self);
        do
        :: library[k] == ALL -> break
        :: atomic { HINDERS(0) -> hindered(0); reason = said_cause[0]; end_with(); goto closes }
        :: atomic { HINDERS(1) -> hindered(1); reason = said_cause[1]; end_with(); goto closes }
#if N == 3
        :: atomic { HINDERS(2) -> hindered(2); reason = said_cause[2]; end_with(); goto closes }
#endif
        /* The library does not say who has not come. */
        :: atomic { timeout -> reason = LATE; end_with(); goto closes }
        :: FAULT
        od;
#else
        round = 0;
        do
        :: round == ROUNDS -> break
        :: else ->
            i = 0;
            do
            :: i == N -> break
            :: FAULT
            :: atomic { i < N && !HAS_PART(i, k) -> i++ }
            :: atomic {
                i < N && HAS_PART(i, k) ->
                    if
                    :: TAKES(i) -> post_receive(i)
                    :: else
                    fi;
                    if
                    :: SENDS(i) -> post_send(i, MOVE, round)
                    :: else
                    fi;
                    i++
                }
            od;
            i = 0;
            wait(MOVE);
            round++
        od;
        round = 0;
#endif
        through[self] = k;
#ifdef LEAVES
        if
        :: self == 0 -> break
        :: skip
        fi;
#endif
        k++
    od;
closes:
    i = 0;
    /* ---- Who said nothing meanwhile ---- */
#if PLANT != 7
    do
    :: !(cause[self] & LATE) -> break
    :: (cause[self] & LATE) && ALL_SAID -> break
    :: (cause[self] & LATE) && DEADLINE -> break
    od;
    i = 0;
    d_step {
        if
        :: cause[self] & LATE ->
            for (j : 0 .. N - 1) {
                if
                :: !said[j] -> cause[self] = cause[self] | BIT(j)
                :: else
                fi
            }
            if
            :: self == 0 && was_stopped -> cause[self] = cause[self] | BIT(0)
            :: else
            fi;
            j = 0
        :: else
        fi
    }
#endif
    i = 0;
    atomic {
        d_step {
            reason = CLOSED | BIT(self);
            say(false);
            j = 0
        }
        /* What was taken back, or is over; the rest is drained, or its cell kept (farewell.pml). */
        if
        :: OUTS && PLANT != 9 -> skip
        :: else -> is_freed[self] = true
        fi
    }
    /* ---- Who is to blame ---- */
    if
    :: cause[self] == 0 && ENDS_EARLY -> skip
    :: cause[self] == 0 && !ENDS_EARLY -> assert(through[self] == K)
    :: cause[self] != 0 ->
        assert(cause[self] & BLAMED);
#if !defined(DIES) && !defined(STOPS) && !defined(EARLY)
        assert(!(cause[self] & LATE))
#endif
    fi;
#if DIFFERS < N
    assert(cause[self] == (DIFFERENT | BIT(0) | (DIFFERS == 0 -> BIT(1) : BIT(DIFFERS % 8))));
#endif
gone:
    skip
}

init {
    atomic {
        run rank(0);
        run rank(1);
#if N == 3
        run rank(2)
#endif
    }
}
