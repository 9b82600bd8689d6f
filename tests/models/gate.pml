/* Held work and the gate: submitter/blocked.c, sched/runtime/submitter/gate.c, and who wakes a submit thread
 * (sched/runtime/shared/timeline.c, sched/runtime/shared/loss.c, sched/runtime/plans/builder.c,
 * sched/runtime/submitter/device_wait.c). Works go over to device 1 that come after works of device 0: without links
 * the host holds them, on their own queues as side_queues.c lays them; with -DLINKED the device waits, and the gate
 * keeps what it says.
 *
 * Asked: works of a queue go over in order, and none before what it waits for on its own device; where everything rests
 * each work has ended but those that come after what hangs, those beside the gate too (-DPASSES), whatever has failed
 * meanwhile, also where two wait for one after the other (-DTWICE); what is published as good has read good bytes, also
 * after a loss; a loss that came after what was waited for fails nothing; who waits for others to leave the gate finds
 * some there; with -DPATIENCE: a device that is well is not given up.
 *
 * Left out: full batches and rings, the direct way, spins before sleep, works that come last, staging and inputs,
 * choosing queues, three devices and more, the gate's room; where no device may be lost a look at one work (is_ready)
 * is one step. A lost device does nothing more, or gets on late. A sleep ends by itself in PATIENCE only, so that
 * elsewhere a lost wake-up shows. There time passes (a deadline, at once) only while device 0 and its thread have
 * nothing that they could do and the other thread sleeps too; with -DDRIVER device 0's thread hands something over
 * while it holds the work.
 *
 * run safe held: -DHELD
 * run safe nearer: -DNEARER
 * run safe maker: -DMAKER
 * run safe patience: -DPATIENCE
 * run safe linked: -DLINKED
 * full safe twice: -DLINKED -DPASSES -DTWICE -DGIVEN
 * run safe lost: -DLOST -DLOSS
 * run safe given_and_loss: -DLINKED -DLOSS -DGIVEN -DW=2
 * full safe linked_and_loss: -DLINKED -DLOSS -DW=2
 * full safe passes_and_follows: -DLINKED -DPASSES
 * full safe linked_loss_and_failures: -DLINKED -DLOSS -DFAILS -DW=2
 * full safe driver: -DPATIENCE -DDRIVER
 * plant 1 safe: -DHELD | everything behind the first blocked work is blocked
 * plant 2 safe: -DHELD | a hold is watched for after the last look
 * plant 3 safe: -DNEARER | what is watched for is not lowered for a nearer hold
 * plant 4 safe: -DHELD | a work goes over though its queue has blocked ones
 * plant 5 safe: -DHELD | what a work waits for on its own device may be blocked
 * plant 6 safe: -DMAKER | who made an instance wakes before it says so
 * plant 7 safe: -DLINKED -DLOSS -DGIVEN -DW=2 -DREVERSE | a point is asked before whether the device is lost
 * plant 8 safe: -DLINKED | the gate publishes before it judges
 * plant 9 safe: -DLINKED -DLOSS -DGIVEN -DW=2 | the gate is told after the device has the work
 * plant 10 safe: -DLINKED | a device that gets on looks at its own gate only
 * plant 11 safe: -DPATIENCE -DREVERSE | blocked_count falls before it is noted when works were handed over
 * plant 12 safe: -DPATIENCE -DREVERSE | blocked_count falls with handed_over, before it is noted when
 * plant 13 safe: -DLOST -DLOSS | a work is let go for a loss after the look that would have failed it
 * costly 14 safe: -DLINKED -DLOSS -DGIVEN -DW=2 -DREVERSE | who enters the gate does not look for the rescue
 * plant 15 safe: -DLINKED -DPASSES -DW=3 | the gate keeps all that comes after a work that waits
 * plant 16 safe: -DLINKED | what waits for a work in the gate passes it on another queue
 * costly 17 safe: -DLINKED -DPASSES | who lets a work leave the gate does not wake the thread that waits for that
 * plant 18 safe: -DLINKED -DPASSES -DW=3 | once something has failed nothing goes over before the gate is empty
 * plant 19 safe: -DLINKED | only the queue of the oldest work in the gate is kept back
 * costly 20 safe: -DLINKED -DPASSES -DW=3 -DREVERSE | what is with the other driver is not watched for
 * costly 21 safe: -DLINKED -DPASSES -DTWICE -DGIVEN | a work waits for others to leave a gate that is empty by then
 * costly 22 safe: -DPATIENCE -DDRIVER | that the thread hands something over is said before it is noted when
 */
#ifndef PLANT
#define PLANT 0
#endif
#ifdef HELD
#define W 5
#endif
#ifdef NEARER
#define W 4
#endif
#ifdef MAKER
#define W 2
#endif
#if defined(PASSES) && !defined(W)
#define W 4
#endif
#if defined(LINKED) && !defined(W)
#define W 3
#endif
#ifdef LOST
#define W 2
#endif
#ifdef DRIVER
#define W 3
#elif defined(PATIENCE)
#define W 2
#endif
#define Q 2
#define AT(d, q) ((d) * Q + (q))

/* The works, in the order of submissions: device, queue, value; the work of device 0 and that of its own device it
 * comes after; the next one of its queue. */
#ifdef HELD
#define DEV(w) ((w) == 1 -> 0 : 1)
#define QUE(w) ((w) <= 3 -> 0 : 1)
#define VAL(w) ((w) == 3 || (w) == 5 -> 2 : 1)
#define HOLD(w) ((w) == 2 -> 1 : 0)
#define OWN(w) ((w) == 5 -> 2 : 0)
#define FOLLOWING(w) ((w) + 1)
#define PARKS(w) false
#define COUNT0 1
#endif
#ifdef NEARER
#define DEV(w) ((w) <= 2 -> 0 : 1)
#define QUE(w) ((w) == 4 -> 1 : 0)
#define VAL(w) ((w) == 2 -> 2 : 1)
#define HOLD(w) ((w) == 3 -> 2 : ((w) == 4 -> 1 : 0))
#define OWN(w) 0
#define FOLLOWING(w) 0
#define PARKS(w) false
#define COUNT0 2
#endif
#ifdef MAKER
#define DEV(w) 1
#define QUE(w) ((w) == 1 -> 0 : 1)
#define VAL(w) 1
#define HOLD(w) 0
#define OWN(w) ((w) == 2 -> 1 : 0)
#define FOLLOWING(w) 0
#define PARKS(w) ((w) == 1)
#define COUNT0 0
#endif
#ifdef TWICE
#define DEV(w) ((w) <= 2 -> 0 : 1)
#define QUE(w) ((w) == 4 -> 1 : 0)
#define VAL(w) ((w) == 2 -> 2 : 1)
#define HOLD(w) ((w) > 2 -> (w) - 2 : 0)
#define OWN(w) 0
#define FOLLOWING(w) 0
#define PARKS(w) false
#define COUNT0 2
#elif defined(PASSES)
#define DEV(w) ((w) == 1 -> 0 : 1)
#define QUE(w) ((w) <= 2 -> 0 : 1)
#define VAL(w) ((w) == 4 -> 2 : 1)
#define HOLD(w) ((w) == 2 -> 1 : 0)
#define OWN(w) ((w) == 4 -> 2 : 0)
#define FOLLOWING(w) ((w) + 1)
#define PARKS(w) false
#define COUNT0 1
#elif defined(LINKED) || defined(LOST)
#define DEV(w) ((w) == 1 -> 0 : 1)
#define QUE(w) ((w) == 3 -> 1 : 0)
#define VAL(w) 1
#define HOLD(w) ((w) == 2 -> 1 : 0)
#define OWN(w) ((w) == 3 -> 2 : 0)
#define FOLLOWING(w) 0
#define PARKS(w) false
#define COUNT0 1
#endif
#ifdef PATIENCE
#define DEV(w) ((w) == 2 -> 1 : 0)
#define QUE(w) ((w) == 3 -> 1 : 0)
#define VAL(w) 1
#define HOLD(w) ((w) == 2 -> 1 : 0)
#define OWN(w) 0
#define FOLLOWING(w) 0
#define PARKS(w) ((w) == 1)
#define COUNT0 1
#endif
#define TIME(w) AT(DEV(w), QUE(w)) /* the work's timeline */

byte completed[4], handed_over[4], signalled[4];
byte blocked_for[4];
bool holders[4]; /* the other device's bit */
byte published[2], ring_taken[2];
bool asleep[2];
byte blocked_count[2];
bool hands_over[2]; /* its thread is in the driver, or on the way there: ROTA_HANDS_NOTHING is false */
bool lost[2], created;
bool is_over; /* the lost device does nothing more */
bool failed[6], poison_active;

byte given_to[4]; /* the executors': what they have, and what their device has done */
byte done[4];
bool good[6]; /* ghost: its bytes are right */
bool hangs, is_rescued;
byte passed_at_loss; /* ghost: how far device 0 had got */

bool pending, gate_mutex, is_wanted; /* device 1's gate */
byte gate_head, gate_tail, gate_works[4];
byte believed[2], reported[2], gated[2];

/* is_behind, will_wait in gate.c */
#if PLANT == 15
#define IS_BEHIND(w) (gate_head != gate_tail)
#elif PLANT == 16
#define IS_BEHIND(w) (gated[QUE(w)] != 0)
#else
#define IS_BEHIND(w) \
    (gated[QUE(w)] != 0 || \
     (OWN(w) != 0 && gated[QUE(OWN(w))] != 0 && VAL(OWN(w)) > believed[QUE(OWN(w))]))
#endif
#define WILL_WAIT(w) (HOLD(w) != 0 && completed[TIME(HOLD(w))] < VAL(HOLD(w)))

bool is_resting[2], handed_is_old = true, progress_is_old = true, since_is_old; /* older than the deadline */

/* rota_sleeper_wake */
#define WAKE(d) asleep[d] = false

/* rota_device_wake_holders */
inline wake_holders(t, value) {
    if
    :: holders[t] ->
        if
        :: blocked_for[t] <= value -> WAKE(1 - (t) / Q)
        :: else
        fi
    :: else
    fi
}

/* rota_device_publish */
inline publish(t, value) {
#ifdef PATIENCE
    progress_is_old = false;
#endif
    atomic {
        assert(completed[t] < value);
        completed[t] = value;
        i = 1;
        do
        :: i <= W ->
            assert(!(TIME(i) == t && VAL(i) == value) || good[i] || failed[i]);
            i++
        :: else -> i = 0; break
        od
    }
    wake_holders(t, value)
}

/* rota_poison_of_work, rota_poison_work */
inline judge(w, cause) {
    if
    :: cause || failed[HOLD(w)] || failed[OWN(w)] -> atomic { failed[w] = true; poison_active = true }
    :: else
    fi
}

/* settle of device 1 */
inline settle() {
    atomic { !gate_mutex -> gate_mutex = true }
#if PLANT == 8
    publish_believed();
#endif
    do
    :: gate_head != gate_tail ->
        atomic { gw = gate_works[gate_head % 4]; is_decided = true; seen_lost = false }
        if
        :: HOLD(gw) != 0 ->
#if PLANT == 7
            seen_passed = completed[TIME(HOLD(gw))] >= VAL(HOLD(gw));
            seen_lost = lost[0];
#else
            seen_lost = lost[0];
            seen_passed = completed[TIME(HOLD(gw))] >= VAL(HOLD(gw));
#endif
            atomic { is_decided = seen_passed || seen_lost; seen_lost = seen_lost && !seen_passed }
            assert(!seen_lost || VAL(HOLD(gw)) > passed_at_loss)
        :: else
        fi;
        if
        :: is_decided -> skip
        :: else -> break
        fi;
        atomic { /* all with the mutex */
            judge(gw, seen_lost);
            believed[QUE(gw)] = VAL(gw);
            gated[QUE(gw)]--;
            gate_head++;
            has_left = true
        }
    :: else -> break
    od;
#if PLANT != 8
    publish_believed();
#endif
    if
    :: gate_head == gate_tail -> pending = false
    :: else
    fi;
    atomic {
        has_left = has_left && is_wanted;
        is_wanted = is_wanted && !has_left;
        gate_mutex = false; gw = 0; is_decided = false; seen_lost = false; seen_passed = false
    }
#if PLANT != 17
    if
    :: has_left -> WAKE(1)
    :: else
    fi;
#endif
    has_left = false
}

inline publish_believed() {
    gq = 0;
    do
    :: gq < Q ->
        gv = reported[gq];
        if
#if PLANT == 8
        :: false
#elif PLANT == 19
        :: gated[gq] != 0 && gq == QUE(gate_works[gate_head % 4]) && gv > believed[gq] -> gv = believed[gq]
#else
        :: gated[gq] != 0 && gv > believed[gq] -> gv = believed[gq]
#endif
        :: else
        fi;
        if
        :: gv > completed[AT(1, gq)] -> publish(AT(1, gq), gv)
        :: else
        fi;
        gq++
    :: else -> gq = 0; gv = 0; break
    od
}

#ifdef LINKED
#define MAY_READ(w) (HOLD(w) == 0 || done[TIME(HOLD(w))] >= VAL(HOLD(w)) || is_rescued)
#else
#define MAY_READ(w) true
#endif
#define CAN(w) \
    ((w) <= W && DEV(w) == d && given_to[TIME(w)] >= VAL(w) && done[TIME(w)] + 1 == VAL(w) && \
     (OWN(w) == 0 || done[TIME(OWN(w))] >= VAL(OWN(w))) && !(d == 0 && (hangs || is_over)) && MAY_READ(w))

/* A device and its executor: runs what it has, then `advanced` in sched/runtime/life/device.c. */
proctype executor(byte d) {
    byte w, i, gw, gq, gv;
    bool is_decided, seen_lost, seen_passed, has_left;
end_device:
    do
    :: atomic {
            CAN(1) || CAN(2) || CAN(3) || CAN(4) || CAN(5) ->
            if
            :: CAN(1) -> w = 1
            :: CAN(2) -> w = 2
            :: CAN(3) -> w = 3
            :: CAN(4) -> w = 4
            :: CAN(5) -> w = 5
            fi;
            done[TIME(w)] = VAL(w);
            good[w] = (HOLD(w) == 0 || good[HOLD(w)]) && (OWN(w) == 0 || good[OWN(w)])
        }
#if defined(LINKED) && (!defined(LOSS) || defined(FAILS)) && !defined(PASSES)
        if
        :: true
        :: d == 0 -> atomic { good[w] = false; failed[w] = true; poison_active = true } /* rota_poison_failed */
        fi;
#endif
        if
        :: d == 1 && pending -> /* rota_gate_report */
            atomic { !gate_mutex -> reported[QUE(w)] = VAL(w) }
            settle()
        :: else ->
            publish(AT(d, QUE(w)), VAL(w))
        fi;
#if defined(LINKED) && PLANT != 10
        if
        :: d == 0 && pending -> settle() /* rota_gate_spread */
        :: else
        fi
#endif
#if !defined(PATIENCE) && !(defined(LINKED) && defined(LOSS)) && !defined(LOST)
    :: d == 0 && completed[0] < COUNT0 -> hangs = true; break /* what it has is never done */
#endif
    od
}

#ifdef LINKED /* rota_linked_is_ready */
#define IS_THERE(w) \
    (completed[TIME(HOLD(w))] >= VAL(HOLD(w)) || \
     (!poison_active && signalled[TIME(HOLD(w))] >= VAL(HOLD(w)) && !lost[0]))
#else
#define IS_THERE(w) (completed[TIME(HOLD(w))] >= VAL(HOLD(w)))
#endif

/* is_ready: to `ready`. Where a device may be lost, look_for_loss and for_keepers are steps of their own, and in each
 * of them the look at `lost`. */
inline look(w) {
    atomic {
        ready = true;
#if PLANT == 1
        if
        :: (blocked_first[0] != 0 && blocked_first[0] < w) ||
           (blocked_first[1] != 0 && blocked_first[1] < w) -> ready = false
        :: else
        fi;
#endif
        if
        :: ready && PARKS(w) -> ready = created /* rota_instance_is_decided */
        :: else
        fi;
#ifndef LOSS
        ready = ready && (HOLD(w) == 0 || IS_THERE(w))
#endif
    }
#ifdef LOSS
    if
    :: ready && HOLD(w) != 0 ->
        seen_lost = lost[0];
        atomic {
            if
            :: seen_lost && !IS_THERE(w) ->
                assert(VAL(HOLD(w)) > passed_at_loss);
                failed[w] = true;
                poison_active = true
            :: else
            fi
        }
        seen_lost = lost[0];
        atomic {
#if PLANT == 13
            ready = seen_lost || IS_THERE(w);
#else
            ready = (seen_lost && failed[w]) || IS_THERE(w);
#endif
            seen_lost = false
        }
    :: else
    fi;
#endif
#if PLANT != 5
    if
    :: ready && blocked_count[d] != 0 && OWN(w) != 0 && given[QUE(OWN(w))] < VAL(OWN(w)) -> ready = false
    :: else
    fi;
#endif
#ifdef LINKED
    if
    :: ready && d == 1 && pending -> /* rota_gate_takes */
        has_failed = poison_active;
        atomic {
            !gate_mutex ->
#if PLANT == 18
            ready = !(has_failed && gate_head != gate_tail);
#else
#if PLANT == 21
            ready = !(has_failed && (IS_BEHIND(w) || WILL_WAIT(w)));
#else
            ready = gate_head == gate_tail || !(has_failed && (IS_BEHIND(w) || WILL_WAIT(w)));
#endif
#endif
            is_wanted = is_wanted || !ready;
            assert(!is_wanted || gate_head != gate_tail); /* else nobody ends the wait */
            has_failed = false
        }
    :: else
    fi
#endif
}

/* any_ready */
inline look_at_all() {
    q = 0;
    ready = false;
    do
    :: q < Q && !ready ->
        if
        :: blocked_first[q] != 0 -> look(blocked_first[q])
        :: else
        fi;
        q++
    :: else -> q = 0; break
    od
}

/* for_first of watch: whatever else the work waits for, and also where it waits for the signal only, as yet */
inline watch() {
    q = 0;
    do
    :: q < Q ->
        w = blocked_first[q];
        if
#if PLANT == 20
        :: w != 0 && HOLD(w) != 0 && !IS_THERE(w) && !lost[0] ->
#else
        :: w != 0 && HOLD(w) != 0 && completed[TIME(HOLD(w))] < VAL(HOLD(w)) ->
#endif
            if
#if PLANT == 3
            :: !holders[TIME(HOLD(w))] ->
#else
            :: !holders[TIME(HOLD(w))] || VAL(HOLD(w)) < blocked_for[TIME(HOLD(w))] ->
#endif
                blocked_for[TIME(HOLD(w))] = VAL(HOLD(w))
            :: else
            fi;
            holders[TIME(HOLD(w))] = true
        :: else
        fi;
        q++
    :: else -> q = 0; w = 0; break
    od
}

inline add_work(w) {
    given[QUE(w)] = VAL(w);
    works[count] = w;
    count++
}

/* A device's submit thread: serve */
proctype submitter(byte d) {
    byte blocked_first[Q], blocked_last[Q], given[Q], works[W];
    byte taken, until, count, w, q, i;
    bool ready, seen_lost, any, holds, is_gated, has_failed;
    do
    :: /* take */
        until = published[d];
        /* take_blocked */
        any = blocked_count[d] != 0;
        do
        :: any ->
            any = false;
            q = 0;
            do
            :: q < Q ->
                do
                :: blocked_first[q] != 0 ->
                    look(blocked_first[q]);
                    if
                    :: ready ->
                        atomic {
                            w = blocked_first[q];
                            if
                            :: blocked_first[q] == blocked_last[q] -> blocked_first[q] = 0; blocked_last[q] = 0
                            :: else -> blocked_first[q] = FOLLOWING(w)
                            fi
                        }
#if defined(PATIENCE) && PLANT != 11 && PLANT != 12
                        if
                        :: d == 0 -> handed_is_old = false
                        :: else
                        fi;
#endif
#if PLANT != 12
                        blocked_count[d]--;
#endif
                        atomic { add_work(w); any = true; w = 0 }
                    :: else -> break
                    fi
                :: else -> break
                od;
                q++
            :: else -> q = 0; break
            od
        :: else -> break
        od;
        do
        :: taken < until ->
            atomic { /* the ring's slot */
                i = 0;
                w = 0;
                do
                :: i <= taken ->
                    w++;
                    if
                    :: DEV(w) == d -> i++
                    :: else
                    fi
                :: else -> break
                od;
                i = 0;
                taken++
            }
            ready = true;
            if
#if PLANT == 4
            :: false
#else
            :: blocked_first[QUE(w)] != 0 -> ready = false
#endif
            :: else -> look(w)
            fi;
            if
            :: !ready -> /* hold_back */
                atomic {
                    if
                    :: blocked_first[QUE(w)] == 0 ->
                        blocked_first[QUE(w)] = w;
                        if
                        :: d == 1 -> since_is_old = false
                        :: else
                        fi
                    :: else
                    fi;
                    blocked_last[QUE(w)] = w;
                    blocked_count[d]++
                }
            :: else -> atomic { add_work(w) }
            fi;
            w = 0
        :: else -> break
        od;
        ring_taken[d] = taken;
        until = 0;
        if
        :: count == 0 -> /* rest */
            asleep[d] = true;
            holds = blocked_count[d] != 0;
#if PLANT != 2
            if
            :: holds -> watch()
            :: else
            fi;
#endif
            look_at_all();
#if PLANT == 2
            if
            :: holds && !ready -> watch()
            :: else
            fi;
#endif
            if
            :: published[d] == taken && !ready ->
                ready = false;
                is_resting[d] = true;
end_rest:       if
                :: !asleep[d] -> is_resting[d] = false
#ifdef PATIENCE
                :: holds && d == 1 -> is_resting[d] = false /* HOLD_SLICE_NS */
#endif
                fi
            :: else
            fi;
            asleep[d] = false;
            ready = false;
            atomic { /* watch_nothing */
                i = 0;
                do
                :: i < Q -> holders[AT(1 - d, i)] = false; i++
                :: else -> i = 0; break
                od
            }
#ifdef PATIENCE
            if
            :: holds && d == 1 && completed[0] < 1 -> /* give_up_on */
                if
                :: handed_over[0] < 1 ->
                    if
                    :: blocked_count[0] != 0 ->
                        if
                        :: !hands_over[0] -> goto spared /* else it may hang there */
                        :: else
                        fi
                    :: else
                    fi
                :: else
                fi;
                if
                :: handed_is_old ->
                    if
                    :: progress_is_old -> assert(!since_is_old) /* rota_device_set_lost */
                    :: else
                    fi
                :: else
                fi
            :: else
            fi;
spared:
#endif
            holds = false
        :: else -> /* hand_over */
#ifdef PATIENCE
#if PLANT == 22
            hands_over[d] = true;
#endif
#if PLANT != 12
            if
            :: d == 0 -> handed_is_old = false
            :: else
            fi;
#endif
            hands_over[d] = true;
#endif
            i = 0;
#ifdef LINKED
            do /* enter */
            :: d == 1 && i < count ->
                w = works[i];
                atomic { !gate_mutex -> gate_mutex = true }
                /* rota_linked_waits, rota_gate_push */
                if
                :: IS_BEHIND(w) || (WILL_WAIT(w) && signalled[TIME(HOLD(w))] >= VAL(HOLD(w))) ->
                    atomic {
                        if
                        :: gated[QUE(w)] == 0 -> believed[QUE(w)] = VAL(w) - 1
                        :: else
                        fi;
                        gated[QUE(w)]++;
                        gate_works[gate_tail % 4] = w;
                        gate_tail++
                    }
#if PLANT != 9
                    pending = true;
#endif
                    is_gated = true
                :: else
                fi;
#if defined(LOSS) && PLANT != 14
                seen_lost = is_gated && HOLD(w) != 0 && lost[0];
                atomic {
                    seen_lost = seen_lost && completed[TIME(HOLD(w))] < VAL(HOLD(w));
#else
                atomic {
#endif
                    if
                    :: seen_lost || !is_gated -> judge(w, seen_lost)
                    :: else
                    fi;
                    is_gated = false;
                    seen_lost = false;
                    gate_mutex = false;
                    i++
                }
            :: else -> break
            od;
#endif
#ifndef LINKED
            do /* enter */
            :: d == 1 && i < count -> judge(works[i], false); i++
            :: else -> break
            od;
#endif
            i = (lost[d] -> count : 0);
#if defined(PATIENCE) && PLANT != 12
            if
            :: d == 0 -> handed_is_old = false
            :: else
            fi;
#endif
            do
            :: i < count -> handed_over[TIME(works[i])] = VAL(works[i]); i++
            :: else -> break
            od;
#if defined(PATIENCE) && PLANT == 12
            blocked_count[d] = 0;
            if
            :: d == 0 -> handed_is_old = false
            :: else
            fi;
#endif
            i = (lost[d] -> count : 0);
            do
            :: i < count -> /* the executor's submit */
                w = works[i];
                atomic {
                    assert(given_to[TIME(w)] + 1 == VAL(w));
                    assert(OWN(w) == 0 || given_to[TIME(OWN(w))] >= VAL(OWN(w)));
                    given_to[TIME(w)] = VAL(w)
                }
                i++
            :: else -> break
            od;
#if PLANT == 9
            if
            :: gate_head != gate_tail -> pending = true
            :: else
            fi;
#endif
            atomic {
                hands_over[d] = false;
                i = 0;
                do
                :: i < W -> works[i] = 0; i++
                :: else -> break
                od;
                i = 0; w = 0; count = 0
            }
        fi
    od
}

#if !defined(PATIENCE) && !defined(GIVEN)
/* hand_over of device 0, where nothing is blocked */
proctype hand_over_0() {
    byte w = 1;
    do
    :: w <= COUNT0 ->
        published[0] >= w;
        if
        :: lost[0] -> break
        :: else
        fi;
        handed_over[TIME(w)] = VAL(w);
        given_to[TIME(w)] = VAL(w);
#ifdef LINKED
        signalled[TIME(w)] = VAL(w); /* rota_linked_signalled */
        wake_holders(TIME(w), VAL(w));
#endif
        w++
    :: else -> break
    od
}
#endif

/* push_ring, rota_handover_flush */
proctype sequencer() {
    byte w = 1;
    do
    :: w <= W ->
        published[DEV(w)]++;
        if
        :: ring_taken[DEV(w)] != published[DEV(w)] -> WAKE(DEV(w))
        :: else
        fi;
        w++
    :: else -> break
    od
}

/* answer in sched/runtime/plans/builder.c */
proctype maker() {
#if PLANT == 6
    WAKE(0);
    WAKE(1);
    created = true
#else
    created = true;
    WAKE(0);
    WAKE(1)
#endif
}

#ifdef LOSS
/* rota_device_set_lost, tell_of_loss; rota_linked_rescue of the completer */
proctype loss() {
    byte i, gw, gq, gv;
    bool is_decided, seen_lost, seen_passed, has_left;
    atomic {
        lost[0] = true;
        passed_at_loss = completed[0];
        if
        :: is_over = true
        :: true
        fi
    }
    WAKE(0);
    WAKE(1);
#ifdef LINKED
    if
    :: pending -> settle() /* rota_gate_spread */
    :: else
    fi;
    is_rescued = true
#endif
}
#endif

#ifdef PASSES
/* The rest is sequenced, and something else fails and is not healed, before that or after it. */
proctype failure() {
    if
    :: poison_active = true
    :: true
    fi;
    published[1] = W - COUNT0;
    if
    :: ring_taken[1] != published[1] -> WAKE(1)
    :: else
    fi;
    poison_active = true
}
#endif

#ifdef PATIENCE
/* The deadline passes. */
proctype clock() {
end_clock:
    do
    :: atomic {
            is_resting[0] && asleep[0] && is_resting[1] && given_to[0] == completed[0] &&
            given_to[1] == completed[1] && !(handed_is_old && progress_is_old && since_is_old) ->
            handed_is_old = true;
            progress_is_old = true;
            since_is_old = true
        }
    od
}
#endif

/* Where everything rests. */
proctype monitor() {
    timeout ->
#ifdef HELD
    assert(completed[AT(1, 1)] >= 1);
    assert((completed[0] < 1 && !lost[0]) || (completed[AT(1, 0)] == 2 && completed[AT(1, 1)] == 2));
#endif
#ifdef NEARER
    assert(completed[0] < 1 || completed[AT(1, 1)] == 1);
    assert(completed[0] < 2 || completed[AT(1, 0)] == 1);
#endif
#ifdef LOST
    assert(completed[AT(1, 0)] == 1);
#endif
#ifdef MAKER
    assert(completed[AT(1, 0)] == 1 && completed[AT(1, 1)] == 1);
#endif
#ifdef TWICE
    assert(completed[0] < 1 || completed[AT(1, 0)] == 1);
    assert(completed[0] < 2 || (completed[AT(1, 1)] == 1 && !pending));
    skip
#elif defined(LINKED)
    assert(!pending || (completed[0] < 1 && !lost[0]));
    assert((completed[0] < 1 && !lost[0]) || (completed[AT(1, 0)] == 1 && completed[AT(1, 1)] == W - 2));
#ifdef PASSES
    assert(completed[AT(1, 1)] >= 1);
#endif
    skip
#endif
#ifdef PATIENCE
    assert(hangs || completed[AT(1, 0)] == 1)
#endif
}

init {
    atomic {
        good[0] = true;
#ifdef LINKED
        published[0] = COUNT0; /* all is sequenced */
#ifdef PASSES
        published[1] = 1;
#else
        published[1] = W - 1;
#endif
#else
        run sequencer();
#endif
#if defined(MAKER) || defined(PATIENCE)
        run maker();
#endif
#ifdef PASSES
        run failure();
#endif
#if defined(PATIENCE)
        run submitter(0);
#elif defined(GIVEN)
        handed_over[0] = COUNT0;
        given_to[0] = COUNT0;
        signalled[0] = COUNT0;
#else
        run hand_over_0();
#endif
        run submitter(1);
        run executor(0);
        run executor(1);
#ifdef LOSS
        run loss();
#endif
#ifdef PATIENCE
        run clock();
#endif
        run monitor()
    }
}
