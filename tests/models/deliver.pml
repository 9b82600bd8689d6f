/* Outputs in the order of submissions: sched/runtime/order/deliver.c and the deliveries of
 * sched/runtime/completer/complete.c.
 *
 * Submissions 1 to N write the same host range, each on a queue of its own that passes when it likes, or whose device
 * is lost, or which fails; the sequencer notes for each the one before it that is not over, and the completer delivers.
 * Ends of tickets go to callers who may then free the memory.
 *
 * Asked: the range is never written after a later ticket has ended, nor by a submission that failed or was lost; each
 * ticket ends.
 *
 * Left out: several ranges (a submission waits for the owner of the range alone), devices that write the memory
 * themselves, staging that is set aside, sleeps (reclaim.pml has the completer's), recycling of structs.
 *
 * run safe two: -DN=2
 * run live two: -DN=2
 * full safe three: -DN=3
 * plant 1 safe: -DN=3 | jobs are looked at one by one, whatever is before them
 * plant 2 safe: -DN=3 | outputs are copied though the submission failed
 * plant 3 safe: -DN=3 | that the point has passed counts more than that the device is lost
 * plant 4 live: -DN=3 | whose turn has come is not looked at again
 * plant 5 safe: -DN=3 | a turn ends before the bytes are there
 * plant 6 safe: -DN=3 | a submission that fails when it is sequenced ends its ticket at once
 */
#ifndef PLANT
#define PLANT 0
#endif
#define NOBODY 0

bool pushed[N + 1], fails_early[N + 1], failed[N + 1], passed[N + 1], lost[N + 1];
byte older[N + 1];    /* rota_delivery.waits: the owner of the range before */
bool is_over[N + 1];  /* rota_delivery.over */
bool is_due[N + 1];   /* nothing but its turn is missing */
bool is_done[N + 1];  /* the ticket has ended */
bool was_lost[N + 1]; /* ghost: seen lost by a caller, with the point not passed */
byte owner, done_count;

/* rota_deliver_outputs, or rota_deliver_nothing where it fails; push_delivery */
proctype sequencer() {
    byte n = 1;
    do
    :: n <= N ->
        older[n] = owner; /* take_over */
        owner = n;
        if
        :: true
        :: fails_early[n] = true; failed[n] = true
        fi;
#if PLANT == 6
        if
        :: fails_early[n] -> is_done[n] = true; is_over[n] = true; done_count++
        :: else -> pushed[n] = true
        fi;
#else
        pushed[n] = true;
#endif
        n++
    :: else -> break
    od
}

/* A device, with one work */
proctype device(byte n) {
    pushed[n] || is_done[n];
    if
    :: fails_early[n]
    :: !fails_early[n] && !is_done[n] ->
        if
        :: true
        :: failed[n] = true /* rota_submission_fail, before the value is reached */
        :: lost[n] = true /* given up: it may pass all the same */
        fi;
        if
        :: true -> passed[n] = true
        :: lost[n]
        fi
    fi
}

/* end_turn, finish_delivery */
inline finish(n) {
#if PLANT == 5
    is_over[n] = true;
    is_done[n] = true;
#endif
#if PLANT == 2
    good = !seen_lost[n] && !fails_early[n];
#else
    good = !seen_lost[n] && !failed[n]; /* is_good */
#endif
    if
    :: good -> /* deliver: a write to the caller's memory */
        atomic {
            i = n;
            do
            :: i <= N -> assert(!is_done[i]); i++
            :: else -> break
            od;
            i = 0;
            assert(!failed[n] && !was_lost[n])
        }
    :: else
    fi;
    atomic { is_over[n] = true; is_done[n] = true; is_taken[n] = false; done_count++ }
}

proctype completer() {
    byte n = 1, i;
    bool good, is_passed, is_taken[N + 1], seen_lost[N + 1], is_reached[N + 1];
    do
    :: done_count == N -> break
    :: else ->
        n = 1;
        do
        :: n <= N ->
            if
            :: pushed[n] && !is_done[n] ->
                /* is_reached: how it ends is judged the first time */
                if
                :: !is_reached[n] && !fails_early[n] ->
                    is_passed = passed[n];
#if PLANT == 3
                    seen_lost[n] = lost[n] && !is_passed;
                    is_reached[n] = is_passed || lost[n]
#else
                    atomic { seen_lost[n] = lost[n]; is_reached[n] = is_passed || seen_lost[n] }
#endif
                :: else -> is_reached[n] = true
                fi;
                if
#if PLANT == 1
                :: is_reached[n] -> finish(n)
#else
                :: is_reached[n] && (older[n] == NOBODY || is_over[older[n]]) && !(PLANT == 4 && is_due[n]) -> finish(n)
                :: is_reached[n] && older[n] != NOBODY && !is_over[older[n]] -> is_due[n] = true
#endif
                :: else
                fi
            :: else
            fi;
            n++
        :: else -> break
        od
    od
}

/* Who looks at a ticket: a device that is lost, and then a point that has not passed, has ended it as lost. */
proctype caller(byte n) {
    if
    :: lost[n] ->
        if
        :: !passed[n] -> was_lost[n] = true
        :: else
        fi
    :: is_done[n]
    fi
}

init {
    atomic {
        byte n;
        run sequencer();
        run completer();
        for (n : 1 .. N) { run device(n); run caller(n) }
    }
}

ltl live { <> (done_count == N) }
