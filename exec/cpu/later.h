/* Host functions that end later than they return: see later.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_LATER_H
#define ROTA_EXEC_CPU_LATER_H

#include "base/atomic.h"
#include "exec/cpu/program.h"
#include "graph/host_run.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_unit_state rota_cpu_unit_state;

/* Of one such unit of one instance. Its worker's until `begin` is called; then whoever ends the run has it, and then
 * the worker that takes the unit up again. */
typedef struct rota_cpu_later_state {
    rota_host_run run; /* first: what `begin` is given */
    rota_cpu_device *device;
    rota_cpu_unit_state *unit;
    _Atomic uint32_t is_open; /* it was begun and has not ended */
    _Atomic uint32_t node;    /* that runs, for stuck_node; ROTA_CPU_NONE: none */
    rota_status status;
    bool is_brief; /* as `begin` says */
    bool watched;  /* report success */
    uint64_t begin_ns;
    char message[ROTA_ERROR_MESSAGE_MAX]; /* of a status other than OK */
} rota_cpu_later_state;

void rota_cpu_later_init(rota_cpu_later_state *later, rota_cpu_device *device, rota_cpu_unit_state *unit);
/* Begins a run. True: the run goes on elsewhere, or has ended there already, and nothing of its work may be touched
 * any more. False: it has failed at once, by rota_fail, and *out_status says how. */
bool rota_cpu_later_begin(rota_cpu_later_state *later, const rota_cpu_record *record, void *const *operands,
                          const uint64_t *operand_bytes, rota_status *out_status);
/* No worker is left: waits until all runs have ended. False: the deadline passed first. */
bool rota_cpu_later_wait(rota_cpu_device *device, uint64_t deadline_ns);

#endif
