/* What the tests of host reads and writes have in common: a runtime with a device of one kind, and what is counted
 * of it. */
#ifndef ROTA_TESTS_HOSTIO_KIT_H
#define ROTA_TESTS_HOSTIO_KIT_H

#include <stdatomic.h>
#include "tests/adversary/adversary.h"
#include "tests/kit/runtime_support.h"

#define MIB ((uint64_t)1 << 20)
#define PATIENCE_NS 20000000000u

typedef enum device_kind { ON_CPU, ON_ADVERSARY, ON_UNIFIED_ADVERSARY, ON_VULKAN, DEVICE_KINDS } device_kind;

typedef struct rig {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
} rig;

/* False: there is no such device. */
bool open_rig(rig *p, device_kind kind, const rota_runtime_options *wanted);
void close_rig(rig *p);

uint64_t submissions(rota_runtime *runtime);
uint64_t memory_bytes(rota_runtime *runtime);
/* The submission's number in the order, which is also how many there were up to it. */
uint64_t number_of(rota_ticket ticket);
/* Waits until so many are sequenced, or `done`. */
void wait_for_submissions(rota_runtime *runtime, uint64_t count, const _Atomic bool *done);

/* From malloc. */
uint8_t *bytes_of(uint64_t size, uint8_t value);
bool all_are(const uint8_t *bytes, uint64_t size, uint8_t value);

#endif
