/* See faulting.h. */
#include "tests/random/faulting.h"

#include <string.h>
#include "base/atomic.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/random.h"

/* What of the driver fails as a device does: calls that hand something over, and those that see its end. */
static const char *const calls[] = {"GraphLaunch",
                                    "EventRecord",
                                    "EventQuery",
                                    "StreamWaitEvent",
                                    "LaunchKernel",
                                    "MemcpyAsync",
                                    "StreamQuery",
                                    "SignalExternalSemaphoresAsync",
                                    "WaitExternalSemaphoresAsync"};
enum { CALLS = sizeof calls / sizeof *calls, SKIPPED_MOST = 24 };

void faulting_arm(faulting *f, uint64_t *random, bool is_stub, adversary_options *adversary) {
    const uint32_t skip = test_below(random, SKIPPED_MOST), which = test_below(random, CALLS);
    f->armed++;
#ifdef ROTA_HAVE_CUDA
    if (is_stub) {
        cuda_stub_fail(calls[which], skip, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
#endif
    (void)is_stub;
    ra_store_relaxed(which % 2 ? &adversary->faults.lost_in_works : &adversary->faults.submit_fails_in,
                     1 + skip);
}

void faulting_disarm(bool is_stub, adversary_options *adversary) {
    if (is_stub) return; /* a stand-in is not used again */
    ra_store_relaxed(&adversary->faults.lost_in_works, 0);
    ra_store_relaxed(&adversary->faults.submit_fails_in, 0);
}

bool faulting_allows(faulting *f, rota_status status) {
    switch (status) {
    case ROTA_OK:
        f->well++;
        return true;
    case ROTA_DEVICE_LOST:
        f->lost++;
        return strstr(rota_last_error(), "lost") || strstr(rota_last_error(), "CUDA_ERROR");
    case ROTA_NODE_FAILED:
        f->inherited++;
        return strstr(rota_last_error(), "lost") || strstr(rota_last_error(), "CUDA_ERROR");
    case ROTA_UNSUPPORTED: /* of a buffer that the devices had one memory of */
        f->lost++;
        return strstr(rota_last_error(), "since a device was lost") != NULL;
    default:
        return false;
    }
}
