/* A device's life: one word, and what may follow what. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_DEVICE_LIFE_H
#define ROTA_SCHED_RUNTIME_SHARED_DEVICE_LIFE_H

#include <stdbool.h>
#include "sched/runtime.h"

/* In the order of time: from CLOSED on calls of its executor are ignored. */
typedef enum rota_life {
    ROTA_LIFE_OPENING,   /* it has its struct, and then its executor and threads; or it failed its trials */
    ROTA_LIFE_OPEN,      /* it passed its trials */
    ROTA_LIFE_CLOSING,   /* its threads are told to end */
    ROTA_LIFE_LOST,      /* given up: it gets nothing more, and may still touch what it was given */
    ROTA_LIFE_QUIET,     /* lost, and its executor itself said so: it touches nothing any more */
    ROTA_LIFE_CLOSED,    /* its executor is closed */
    ROTA_LIFE_ABANDONED, /* left as it is, for the life of the process */
    ROTA_LIVES
} rota_life;

/* Whether the one may follow the other. */
bool rota_life_may_follow(rota_life from, rota_life to);
/* The device's life becomes `to`, if that may follow; false: it stays. Lock-free; seq_cst, and so with all that
 * was stored before it. Only loss.c makes a device LOST or QUIET. */
bool rota_device_move(rota_device *device, rota_life to);
/* Wait-free; seq_cst. */
rota_life rota_device_life(const rota_device *device);

#endif
