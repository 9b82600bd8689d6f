/* Why things failed, each sentence once.
 *
 * What is kept does not grow with the number of failures: sentences that are alike but for the submission's
 * number are one cause, and there are at most ROTA_CAUSES_MAX. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

static _Atomic(rota_cause *) *cause_bucket(rota_runtime *runtime, rota_status status, const char *text) {
    const uint64_t hash = rota_hash_text(ROTA_HASH_BEGIN + (uint64_t)status, text);
    return &runtime->causes.buckets[hash % ROTA_CAUSE_BUCKETS];
}

/* NULL: no memory. Two threads may both make the same one: then there are two. */
static const rota_cause *intern(rota_runtime *runtime, rota_status status, const char *text, bool is_last) {
    _Atomic(rota_cause *) *bucket = cause_bucket(runtime, status, text);
    /* Acquire pairs with the push below. */
    for (const rota_cause *cause = ra_load_acquire(bucket); cause; cause = cause->next)
        if (cause->status == status && strcmp(cause->message, text) == 0) return cause;
    if (!is_last && ra_load_relaxed(&runtime->causes.count) >= ROTA_CAUSES_MAX) {
        char other[ROTA_ERROR_MESSAGE_MAX];
        (void)snprintf(other, sizeof other,
                       "submission " ROTA_CAUSE_NUMBER
                       " failed with %s; its sentence is not kept, as %d others are",
                       rota_status_name(status), ROTA_CAUSES_MAX);
        return intern(runtime, status, other, true);
    }
    size_t bytes = strlen(text) + 1;
    rota_cause *cause = malloc(sizeof *cause + bytes);
    if (!cause) return NULL;
    cause->status = status;
    cause->message = memcpy(cause + 1, text, bytes);
    const char *number = strchr(cause->message, ROTA_CAUSE_NUMBER[0]);
    cause->number_at = number ? (uint32_t)(number - cause->message) : UINT32_MAX;
    (void)ra_fetch_add_relaxed(&runtime->causes.count, 1);
    cause->next = ra_load_acquire(bucket);
    while (!ra_cas_acq_rel(bucket, &cause->next, cause)) {
    }
    return cause;
}

const rota_cause *rota_cause_new(rota_runtime *runtime, rota_status status, const char *format, ...) {
    static const rota_cause no_memory = {NULL, ROTA_OUT_OF_MEMORY, UINT32_MAX,
                                         "no host memory for the message of a failure"};
    char text[ROTA_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) text[0] = 0;
    const rota_cause *cause = intern(runtime, status, text, false);
    return cause ? cause : &no_memory;
}

rota_status rota_cause_inherited(const rota_cause *cause) {
    switch (cause->status) {
    case ROTA_DEVICE_LOST:
    case ROTA_OUT_OF_MEMORY:
    case ROTA_UNDEFINED_DATA:
        return cause->status;
    default:
        return ROTA_NODE_FAILED;
    }
}

rota_status rota_reason_fail(rota_status status, rota_reason reason) {
    const char *message = reason.cause->message;
    uint32_t number_at = reason.cause->number_at;
    if (number_at == UINT32_MAX) return rota_fail(status, "%s", message);
    return rota_fail(status, "%.*s%llu%s", (int)number_at, message, (unsigned long long)reason.number,
                     message + number_at + 1);
}

void rota_causes_free(rota_runtime *runtime) {
    for (uint32_t i = 0; i < ROTA_CAUSE_BUCKETS; i++) {
        rota_cause *cause = ra_exchange_acq_rel(&runtime->causes.buckets[i], NULL);
        while (cause) {
            rota_cause *next = cause->next;
            free(cause);
            cause = next;
        }
    }
    ra_store_relaxed(&runtime->causes.count, 0);
}
