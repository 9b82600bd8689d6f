/* The end of a transport of messages: exec/comm/farewell.c and drain.c, messages.c as far as it posts and waits.
 *
 * Two ranks carry out K collectives of two rounds, a message each way in each (ONE_WAY: in the second from rank 0
 * alone); a send ends only when it is taken, and can't be taken back; a receive can. Rank 0 may end it with a failure
 * anywhere (ABORTS), or after so many collectives (LEAVES) closes; then each closes, drains, and ends its engine. A
 * farewell goes at once or, where a connection takes no bytes then, when its rank asks for it again; it may come before
 * what was sent before it, and is looked for at any time or none. What rank 0 ends may be with a device (CARRIED),
 * which comes to rest later than anything else: when rank 1 has heard of it, or has ended by itself.
 *
 * Asked: a rank whose peer has done its part of a collective ends that well; nobody waits for good, with no deadline
 * anywhere; when the engine ends no send and no receive is under way, and each message that was sent was taken.
 *
 * Left out: deadlines, more ranks (each pair has its own farewell, and who hears one says its own to all), what the
 * ranks agree about.
 *
 * run safe ended_by_one: -DABORTS
 * run safe left_by_one: -DLEAVES
 * run safe ended_by_one_that_sends: -DABORTS -DONE_WAY
 * run safe left_by_one_that_sends: -DLEAVES -DONE_WAY
 * run safe ended_while_carried: -DABORTS -DCARRIED
 * full safe ended_by_one_of_three: -DABORTS -DK=3
 * plant 1 safe: -DLEAVES | a farewell ends what is under way, whatever was sent before
 * plant 2 safe: -DABORTS | who waits to be taken does not look whether its peer takes anything more
 * plant 3 safe: -DABORTS -DONE_WAY | who waits for a message does not look whether its peer sends it
 * plant 4 safe: -DABORTS | nothing is drained
 * plant 5 safe: -DABORTS | what a drain waits for in vain is not taken back
 * plant 6 safe: -DABORTS | a farewell that has not gone is taken back by who closes
 * plant 7 safe: -DABORTS -DCARRIED | a farewell is asked for when a device has come to rest
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifndef K
#define K 2
#endif

/* By sender. `sent` and `wanted`: posted; `moved`: those that met; `sent_seen`, `taken`: whose ends were seen. */
byte sent[2], wanted[2], moved[2], sent_seen[2], taken[2];
bool has_said[2], has_gone[2], has_failed[2], has_heard[2]; /* said by a rank; gone to the other one */
byte said_sent[2], said_taken[2], said_in[2]; /* a farewell */
byte through[2];                              /* ghost: collectives that a rank has done its part of */
bool has_named[2], is_done[2];
byte named[2];

/* Messages that a rank sends are its own index; the peer's are what it takes. */
inline say(failure, in) {
    atomic {
        if
        :: has_said[self] -> skip
        :: else ->
            said_sent[self] = sent[self];
            said_taken[self] = taken[peer];
            said_in[self] = in;
            has_failed[self] = failure;
            has_said[self] = true;
            if
            :: has_gone[self] = true
            :: skip
            fi
        fi
    }
}

/* rota_messages_flush */
inline flush() {
    has_gone[self] = true
}

/* waits_in_vain, and that it was in this very collective */
#if PLANT == 1
#define VAIN (has_heard[self])
#elif PLANT == 2
#define VAIN (has_heard[self] && taken[peer] < wanted[peer] && taken[peer] >= said_sent[peer])
#elif PLANT == 3
#define VAIN (has_heard[self] && sent_seen[self] < sent[self] && sent[self] > said_taken[peer])
#else
#define VAIN                                                                                                 \
    (has_heard[self] && ((has_failed[peer] && said_in[peer] == k) ||                                         \
                         (taken[peer] < wanted[peer] && taken[peer] >= said_sent[peer]) ||                   \
                         (sent_seen[self] < sent[self] && sent[self] > said_taken[peer])))
#endif

proctype engine() {
end:
    do
    :: atomic { moved[0] < sent[0] && moved[0] < wanted[0] -> moved[0]++ }
    :: atomic { moved[1] < sent[1] && moved[1] < wanted[1] -> moved[1]++ }
    od
}

proctype rank(byte self) {
    byte peer = 1 - self, k = 1, round;
    /* ---- Collectives ---- */
    do
    :: k > K -> break
    :: else ->
        if
        :: has_gone[peer] -> has_heard[self] = true
        :: skip
        fi;
        if
        :: has_heard[self] && has_failed[peer] ->
            say(true, 0);
            goto closes
        :: else
        fi;
        round = 0;
        do
        :: round == 2 -> break
        :: else ->
#ifdef ONE_WAY
            atomic {
                if
                :: round == 0 || self == 0 -> sent[self]++
                :: else
                fi;
                if
                :: round == 0 || self == 1 -> wanted[peer]++
                :: else
                fi
            };
#else
            atomic { wanted[peer]++; sent[self]++ };
#endif
            do
            :: atomic { taken[peer] < wanted[peer] && taken[peer] < moved[peer] -> taken[peer]++ }
            :: atomic { sent_seen[self] < sent[self] && sent_seen[self] < moved[self] -> sent_seen[self]++ }
            :: taken[peer] == wanted[peer] && sent_seen[self] == sent[self] -> break
            :: has_gone[peer] && !has_heard[self] -> has_heard[self] = true
            :: VAIN ->
                assert(through[peer] < k);
                say(true, k);
                goto closes
#ifdef ABORTS
            :: self == 0 -> say(true, k); goto closes
#endif
            od;
            round++
        od;
        through[self] = k;
#ifdef LEAVES
        if
        :: self == 0 -> goto closes
        :: skip
        fi;
#endif
        k++
    od;
closes:
#ifdef CARRIED
    if
    :: self == 0 && has_failed[self] ->
#if PLANT != 7
        flush();
#endif
        has_heard[peer] || has_said[peer] /* the device's rest */
    :: else
    fi;
#endif
    say(false, 0);
    flush();
#if PLANT == 6
    atomic {
        if
        :: !has_heard[peer] -> has_gone[self] = false
        :: skip
        fi
    }
#endif
    /* cancel_all: what did not meet a message is taken back. */
    atomic {
        if
        :: moved[peer] < wanted[peer] -> wanted[peer] = moved[peer]
        :: else
        fi
    }
    /* ---- Draining: named, taken, told ---- */
#if PLANT != 4
    atomic { named[self] = sent[self] - sent_seen[self]; has_named[self] = true }
    has_named[peer];
    atomic { wanted[peer] = wanted[peer] + named[peer] }
#endif
    do
    :: atomic { taken[peer] < moved[peer] -> taken[peer]++ }
    :: atomic { sent_seen[self] < moved[self] -> sent_seen[self]++ }
    :: sent_seen[self] == sent[self] -> break
    od;
    is_done[self] = true;
    is_done[peer];
#if PLANT != 5
    atomic {
        if
        :: moved[peer] < wanted[peer] -> wanted[peer] = moved[peer]
        :: else
        fi
    }
#endif
    do
    :: atomic { taken[peer] < moved[peer] -> taken[peer]++ }
    :: taken[peer] == wanted[peer] -> break
    od;
    assert(sent_seen[self] == sent[self] && moved[peer] == sent[peer])
}

init {
    atomic { run engine(); run rank(0); run rank(1) }
}
