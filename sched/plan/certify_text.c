/* Why a plan is wrong, in a sentence. */
#include "sched/plan/certify_text.h"

#include <stdarg.h>
#include <stdio.h>

#include "sched/plan/certify_parts.h"
#include "sched/plan/names.h"

rota_status rota_certify_no_memory(const certifier *c) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "certificate of plan '%s': no host memory", c->plan->name);
}

rota_status rota_certify_wrong(const certifier *c, const char *format, ...) {
    char text[640];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_fail(ROTA_INTERNAL, "plan '%s' is wrong: %s", c->plan->name, text);
}

rota_status rota_certify_unordered(const certifier *c, uint32_t earlier, uint32_t later, const char *why,
                                   bool by_edges) {
    char first[256];
    (void)snprintf(first, sizeof first, "%s", rota_operation_describe(c->plan, earlier));
    return rota_certify_wrong(c, "%s does not come before %s by %s: %s, bytes [%llu, %llu) of '%s'", first,
                              rota_operation_describe(c->plan, later),
                              c->segment[earlier] != c->segment[later] ? "waits"
                              : by_edges                               ? "edges"
                                                                       : "batches",
                              why, (unsigned long long)c->at_low, (unsigned long long)c->at_high,
                              c->at_buffer);
}
