/* The adversarial executor's semaphores, which stand for those that others signal too: words, and a thread that looks
 * at those that are known, when it is told to, and for as long as one is wanted. It looks by itself never, so that a
 * look that nobody asked for is not made up for. */
#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "tests/adversary/adversary_internal.h"

#define WANTED_NS 200000u
#define LONG_NS 600000000000u
#define CUT_NS 100000000u

typedef struct word {
    struct word *next;
    _Atomic uint64_t value;
} word;

struct adversary_semaphores {
    pthread_mutex_t lock; /* of the lists, held only briefly */
    word *words;
    rota_exec_semaphore *first;
    _Atomic uint32_t looks; /* futex of the thread: how often it was told to look */
    _Atomic bool stop, gives_up, has_ended;
    pthread_t thread;
};

static void add(adversary_semaphores *all, rota_exec_semaphore *semaphore) {
    pthread_mutex_lock(&all->lock);
    semaphore->next = all->first;
    all->first = semaphore;
    pthread_mutex_unlock(&all->lock);
}

static bool forget(adversary_semaphores *all, rota_exec_semaphore *semaphore) {
    pthread_mutex_lock(&all->lock);
    rota_exec_semaphore **link = &all->first;
    while (*link != semaphore) link = &(*link)->next;
    *link = semaphore->next;
    pthread_mutex_unlock(&all->lock);
    if (semaphore->forget(semaphore)) return true;
    add(all, semaphore);
    return false;
}

static rota_exec_semaphore *first_of(adversary_semaphores *all) {
    pthread_mutex_lock(&all->lock);
    rota_exec_semaphore *first = all->first;
    pthread_mutex_unlock(&all->lock);
    return first;
}

/* Whether one of them is to be looked at again. */
static bool look_at_all(adversary_semaphores *all) {
    bool is_wanted = false;
    for (rota_exec_semaphore *semaphore = first_of(all), *next; semaphore; semaphore = next) {
        next = semaphore->next;
        const rota_exec_look look = semaphore->begin(semaphore);
        if (look == ROTA_EXEC_LOOK_NOT || (look == ROTA_EXEC_LOOK_NEVER && forget(all, semaphore))) continue;
        is_wanted = true;
        if (look == ROTA_EXEC_LOOK)
            semaphore->end(semaphore, atomic_load(&((word *)semaphore->handle)->value));
    }
    return is_wanted;
}

static void *thread_main(void *user) {
    adversary_semaphores *all = user;
    while (!atomic_load(&all->stop)) {
        const uint32_t looks = atomic_load(&all->looks);
        const bool is_wanted = look_at_all(all);
        (void)rota_futex_wait(&all->looks, looks, rota_deadline_after(is_wanted ? WANTED_NS : LONG_NS));
    }
    for (bool is_last = false; first_of(all) && !is_last; rota_nap_until(rota_deadline_after(WANTED_NS))) {
        is_last = atomic_load(&all->gives_up);
        for (rota_exec_semaphore *semaphore = first_of(all), *next; semaphore; semaphore = next) {
            next = semaphore->next;
            (void)forget(all, semaphore);
        }
    }
    atomic_store(&all->has_ended, true);
    return NULL;
}

/* Made with the first one; under the device's lock. */
static adversary_semaphores *semaphores_of(adversary_device *device) {
    if (device->semaphores) return device->semaphores;
    adversary_semaphores *all = calloc(1, sizeof *all);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    if (pthread_create(&all->thread, NULL, thread_main, all) == 0) return device->semaphores = all;
    pthread_mutex_destroy(&all->lock);
    free(all);
    return NULL;
}

rota_status adversary_semaphore_import(rota_exec_device *base, int fd, void **out_handle) {
    adversary_device *device = (adversary_device *)base;
    if (fd >= 0) return rota_fail(ROTA_UNSUPPORTED, "%s: takes no descriptors", base->info.id);
    word *made = calloc(1, sizeof *made);
    pthread_mutex_lock(&device->lock);
    adversary_semaphores *all = made ? semaphores_of(device) : NULL;
    if (all) {
        made->next = all->words;
        all->words = made;
    }
    pthread_mutex_unlock(&device->lock);
    if (!all) {
        free(made);
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no semaphore", base->info.id);
    }
    *out_handle = made;
    return ROTA_OK;
}

void adversary_semaphore_adopt(rota_exec_device *base, rota_exec_semaphore *semaphore) {
    add(((adversary_device *)base)->semaphores, semaphore);
}

void adversary_semaphore_look(rota_exec_device *base) {
    adversary_semaphores *all = ((adversary_device *)base)->semaphores;
    (void)ra_fetch_add_seq_cst(&all->looks, 1); /* a stop, as it is where a driver is told so */
    rota_futex_wake(&all->looks, 1);
}

rota_status adversary_semaphore_export(rota_exec_device *base, void *handle, int *out_fd) {
    (void)handle, (void)out_fd;
    return rota_fail(ROTA_UNSUPPORTED, "%s: gives no descriptors", base->info.id);
}

rota_status adversary_semaphore_signal(rota_exec_device *base, void *handle, uint64_t value) {
    adversary_options *options = ((adversary_device *)base)->options;
    word *signalled = handle;
    (void)atomic_fetch_add(&options->signals, 1);
    while (atomic_load(&options->faults.signals_stay)) rota_nap_until(rota_deadline_after(WANTED_NS));
    if (atomic_load(&signalled->value) < value) atomic_store(&signalled->value, value);
    return ROTA_OK;
}

uint64_t adversary_semaphore_value(const void *handle) {
    return atomic_load(&((const word *)handle)->value);
}

bool adversary_semaphores_end(adversary_device *device, uint64_t deadline_ns) {
    adversary_semaphores *all = device->semaphores;
    if (!all) return true;
    atomic_store(&all->stop, true);
    adversary_semaphore_look(&device->base);
    while (!atomic_load(&all->has_ended)) {
        if (rota_clock_ns() >= deadline_ns) atomic_store(&all->gives_up, true);
        if (rota_clock_ns() >= deadline_ns + CUT_NS) {
            pthread_detach(all->thread);
            return false;
        }
        rota_nap_until(rota_deadline_after(WANTED_NS));
    }
    pthread_join(all->thread, NULL);
    if (all->first) return false;
    while (all->words) {
        word *ended = all->words;
        all->words = ended->next;
        free(ended);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
    device->semaphores = NULL;
    return true;
}
