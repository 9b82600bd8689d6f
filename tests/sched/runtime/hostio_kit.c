#include "tests/sched/runtime/hostio_kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "tests/kit/nap.h"

uint64_t submissions(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats.submissions;
}

uint64_t memory_bytes(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats.memory_bytes;
}

uint8_t *bytes_of(uint64_t size, uint8_t value) {
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, value, size);
    return bytes;
}

bool all_are(const uint8_t *bytes, uint64_t size, uint8_t value) {
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != value) return false;
    return true;
}

bool open_rig(rig *p, device_kind kind, const rota_runtime_options *wanted) {
    rota_runtime_options options = *wanted;
    if (options.timeout_ns == 0) options.timeout_ns = PATIENCE_NS;
    memset(p, 0, sizeof *p);
    p->options.unified_host = kind == ON_UNIFIED_ADVERSARY;
    p->options.submit_never_blocks = kind == ON_UNIFIED_ADVERSARY;
    p->options.seed = 77;
    p->options.quiet_ns = 1;
    assert_ok(adversary_runtime_open(&p->options, &options, &p->runtime));
    static const char *const ids[] = {"cpu", "adversary", "adversary", "vk:0"};
    rota_status status = rota_device_open(p->runtime, ids[kind], &p->device);
    if (kind == ON_VULKAN && status != ROTA_OK) {
        print_message("no Vulkan device: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(p->runtime, 0));
        return false;
    }
    assert_int_equal(status, ROTA_OK);
    return true;
}

void close_rig(rig *p) {
    assert_ok(rota_runtime_close(p->runtime, 0));
    if (p->options.violations) fail_msg("%s", p->options.violation);
    assert_int_equal(p->options.live_memories, 0);
}

uint64_t number_of(rota_ticket ticket) {
    uint64_t number = 0, deadline = rota_deadline_after(PATIENCE_NS);
    while (rota_ticket_number(ticket, &number) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap_us(50);
    assert_ok(rota_ticket_number(ticket, &number));
    return number;
}

void wait_for_submissions(rota_runtime *runtime, uint64_t count, const _Atomic bool *done) {
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (submissions(runtime) < count && !(done && atomic_load(done)) && rota_clock_ns() < deadline)
        test_nap_us(50);
    assert_true(submissions(runtime) >= count || (done && atomic_load(done)));
}
