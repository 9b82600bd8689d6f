/* The adversarial executor's timelines: a word in a file in memory, which every device that has the
 * descriptor maps for itself. Its second word is the newest value whose signal some device was given, so that
 * a wait for one that nobody was given is a violation. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/adversary/adversary_internal.h"
#include "tests/adversary/adversary_peer.h"

#define FILE_BYTES 4096

/* Of peers: the same words at the same address for all, by which a thread sanitizer sees that one waits for another. */
typedef struct peer_words {
    _Atomic uint32_t references;
    _Atomic uint64_t words[2];
} peer_words;

struct rota_exec_timeline {
    rota_exec_timeline *next; /* of the device's */
    peer_words *of_peers;     /* NULL: of others */
    int fd;
    _Atomic uint64_t
        *words; /* the value, and what was promised of it; 0 where others than adversaries signal */
};

rota_status adversary_timeline_create(rota_exec_device *base, int fd, rota_exec_timeline **out_timeline) {
    adversary_device *device = (adversary_device *)base;
    bool fail = adversary_strikes(&device->options->faults.timeline_fails_in);
    rota_exec_timeline *timeline = fail ? NULL : calloc(1, sizeof *timeline);
    if (timeline) {
        timeline->fd = fd < 0 ? memfd_create("adversary", MFD_CLOEXEC) : dup(fd);
        void *words = MAP_FAILED;
        if (timeline->fd >= 0 && (fd >= 0 || ftruncate(timeline->fd, FILE_BYTES) == 0))
            words = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, timeline->fd, 0);
        if (words != MAP_FAILED) {
            timeline->words = words;
            timeline->next = device->timelines;
            device->timelines = timeline;
            *out_timeline = timeline;
            return ROTA_OK;
        }
        if (timeline->fd >= 0) (void)close(timeline->fd);
        free(timeline);
    }
    return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no timeline", base->info.id);
}

static rota_status take(adversary_device *device, peer_words *words, rota_exec_timeline **out_timeline) {
    const bool fail = adversary_strikes(&device->options->faults.timeline_fails_in);
    rota_exec_timeline *timeline = fail ? NULL : calloc(1, sizeof *timeline);
    if (!timeline) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no timeline", device->base.info.id);
    (void)atomic_fetch_add(&words->references, 1);
    *timeline = (rota_exec_timeline){.next = device->timelines, .of_peers = words, .words = words->words};
    *out_timeline = device->timelines = timeline;
    return ROTA_OK;
}

rota_status adversary_timeline_open(rota_exec_device *base, rota_exec_timeline **out_timeline) {
    peer_words *words = calloc(1, sizeof *words);
    const rota_status status = words ? take((adversary_device *)base, words, out_timeline)
                                     : rota_fail(ROTA_OUT_OF_MEMORY, "%s: no timeline", base->info.id);
    if (status != ROTA_OK) free(words);
    return status;
}

rota_status adversary_timeline_meet(rota_exec_device *base, const rota_exec_timeline *other,
                                    rota_exec_timeline **out_timeline) {
    return take((adversary_device *)base, other->of_peers, out_timeline);
}

rota_status adversary_timeline_export(rota_exec_device *base, rota_exec_timeline *timeline, int *out_fd) {
    *out_fd = dup(timeline->fd);
    return *out_fd >= 0 ? ROTA_OK : rota_fail(ROTA_SYSTEM, "%s: no descriptor", base->info.id);
}

rota_status adversary_timeline_signal(rota_exec_device *base, rota_exec_timeline *timeline, uint64_t value) {
    adversary_device *device = (adversary_device *)base;
    atomic_fetch_add(&device->options->rescues, 1);
    /* Of a lost one: as a driver that answers nothing more. */
    if (atomic_load(&device->lost)) return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    if (atomic_load(&timeline->words[0]) < value) atomic_store(&timeline->words[0], value);
    return ROTA_OK;
}

void adversary_timeline_reach(rota_exec_timeline *timeline, uint64_t value) {
    atomic_store(&timeline->words[0], value);
}

uint64_t adversary_timeline_value(const rota_exec_timeline *timeline) {
    return atomic_load(&timeline->words[0]);
}

void adversary_timeline_promise(adversary_device *device, rota_exec_timeline *timeline, uint64_t value) {
    if (atomic_exchange(&timeline->words[1], value) >= value)
        adversary_violation(device, "a timeline is to be signalled with %llu, which it was before",
                            (unsigned long long)value);
}

void adversary_timeline_check(adversary_device *device, const rota_exec_timeline_wait *wait) {
    if (!wait->timeline) {
        adversary_violation(device, "a wait for value %llu of a semaphore, which it has no waits for",
                            (unsigned long long)wait->value);
        return;
    }
    uint64_t promised = atomic_load(&wait->timeline->words[1]);
    if (promised ? wait->value > promised : !device->options->foreign)
        adversary_violation(device, "a wait for value %llu of a timeline, of which %llu is promised",
                            (unsigned long long)wait->value, (unsigned long long)promised);
}

void adversary_timelines_free(adversary_device *device) {
    while (device->timelines) {
        rota_exec_timeline *timeline = device->timelines;
        device->timelines = timeline->next;
        if (!timeline->of_peers) {
            (void)munmap((void *)(uintptr_t)timeline->words, FILE_BYTES);
            (void)close(timeline->fd);
        } else if (atomic_fetch_sub(&timeline->of_peers->references, 1) == 1) {
            free(timeline->of_peers);
        }
        free(timeline);
    }
}
