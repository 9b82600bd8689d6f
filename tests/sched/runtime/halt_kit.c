/* See halt_kit.h. */
#include "tests/sched/runtime/halt_kit.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

#define ARRIVES_WITHIN_NS UINT64_C(10000000000)

static _Atomic uint32_t is_to_hook, is_halted, goes_on;
static const char *_Atomic halts_in;
static _Atomic uint64_t stays_ns;

static void at_stop(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, halts_in) != 0) return; /* not by a wrapper, which is a stop itself */
    rota_stop_hook = NULL;
    ra_store_seq_cst(&is_halted, 1);
    const uint64_t deadline = rota_deadline_after(stays_ns);
    while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) test_nap_ms(1);
    ra_store_seq_cst(&is_halted, 0);
}

static void hook(void *user, uint32_t device) {
    (void)user, (void)device;
    if (ra_exchange_acq_rel(&is_to_hook, 0)) rota_stop_hook = at_stop;
}

void halt_begin(adversary_options *options, const char *function, uint64_t limit_ns) {
    ra_store_seq_cst(&halts_in, function);
    ra_store_seq_cst(&stays_ns, limit_ns);
    ra_store_seq_cst(&is_halted, 0);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&is_to_hook, 1);
    ra_store_seq_cst(&options->on_submit, hook);
}

void halt_await(void) {
    const uint64_t deadline = rota_deadline_after(ARRIVES_WITHIN_NS);
    while (!ra_load_seq_cst(&is_halted) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&is_halted), 1);
}

bool halt_is_on(void) {
    return ra_load_seq_cst(&is_halted) != 0;
}

void halt_end(void) {
    ra_store_seq_cst(&goes_on, 1);
}
