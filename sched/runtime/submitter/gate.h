/* What a device that waits on the GPU for another one has done is believed when it is decided. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_GATE_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_GATE_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"

typedef struct rota_work rota_work;

void rota_gate_lock(rota_device *device);
/* With the lock: the work, which waits on the device or not, is about to be handed over; sets work->gated where it
 * does, or may fail by itself, or comes after such. *out_is_decided: all that it comes after is, so that it can be
 * judged now. Returns why it would wait in vain, NULL: it does not. */
const rota_cause *rota_gate_push(rota_work *work, bool waits, bool *out_is_decided);
void rota_gate_unlock(rota_device *device);
/* The submit thread's: whether the work may be handed over. One that would be in the gate needs room there,
 * and while something has failed it waits for those before it: nothing should run on bytes that are known to
 * be bad. False: the thread is woken when some have left. */
bool rota_gate_takes(const rota_work *work);
/* A node of the work, which is not done, has failed by itself. True: it is in the gate, and the failure counts once it
 * is known that nothing it read had failed before. False: that is the caller's to say. */
bool rota_gate_note_failure(const rota_work *work, const rota_cause *failure);
/* A call of the executor's `advanced`. */
void rota_gate_report(rota_device *device, uint32_t queue, uint64_t value);
/* The device is lost: of what waits in its gate to be told of failures nothing more is said. */
void rota_gate_drain(rota_device *lost);
/* A timeline of the device moved, or it is lost: what others wait for may be decided now. */
void rota_gate_spread(rota_device *device);
/* Whether what works of a lost device up to the value of the queue waited for on the device is over: it has passed, or
 * is the other's of the two and that is lost too, which then waits for nothing else. One that was dropped was to come
 * after all that is in the gate. */
bool rota_gate_is_through(rota_device *lost, uint32_t queue, uint64_t value);
/* Whether the device itself waits for another one before it gets to this point of it: who keeps that one is its gate's
 * business. */
bool rota_gate_keeps(rota_device *device, uint64_t point);
/* The sequencer's: a device that lets others wait beyond the deadline is lost. `at_once`: whatever the time.
 */
void rota_gate_watch(rota_runtime *runtime, bool at_once);

#endif
