/* Devices that are lost, and inputs that are being taken when one is. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_LOSS_H
#define ROTA_SCHED_RUNTIME_SHARED_LOSS_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

/* The device is given up: it gets nothing more. The first message stays. */
void rota_device_set_lost(rota_device *device, const char *message);
/* It said so itself: nothing of it touches memory any more. */
void rota_device_gone(rota_device *device, const char *message);
bool rota_device_is_lost(const rota_device *device);
/* Around taking a submission's inputs out of memory that is its caller's once its ticket has ended, which the
 * loss of the device may bring about at any time; `end` once what it says has been done with the submission's
 * cell, too. False: the device is lost, nothing may be taken. */
bool rota_device_begin_filling(rota_device *device, uint64_t number);
void rota_device_end_filling(rota_device *device);
/* Whether that is going on for a device that is lost: the ticket has not ended yet. */
bool rota_device_fills(rota_runtime *runtime, uint64_t number);
/* Whether the executor is through with all that it will get. */
bool rota_device_is_finished(const rota_device *device);
/* So many devices more are given up: rota_devices_abandoned. */
void rota_device_note_abandoned(uint32_t count);

#endif
