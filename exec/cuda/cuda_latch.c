/* Latches: a stream of the application's waits on the GPU, and the host lets it go on.
 *
 * A latch is a word in pinned memory, which the stream waits for to be at least a number, and whoever opens the latch
 * stores that. The number rises with each use: so a word serves again as soon as its latch was opened, though the
 * stream may look at it later; it finds the number, or a later one. Behind the wait is an event, by which is seen that
 * the stream has looked: only then is the word's page freed. A page that is looked at still when the device closes is
 * left in the context.
 *
 * Opening enters no driver and takes no lock, as it is the completer's, which callers that are stopped must not keep.
 * The driver knows nothing of who opens a latch, and may have put the stream's wait before works on the same channel of
 * the GPU: so no latch is closed for what depends on works that the driver was not given before (rota_stream_wait). */
#include "exec/cuda/cuda_latch.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cuda_timeline.h"

#define LATCHES_PER_PAGE 64
#define LOOKS_MAX 4 /* at latches that are open, for one that its stream has looked at */
#define LOOKED_NS 100000000u
#define LOOKED_NAP_NS 50000u

/* In a cache line of its own: the GPU looks at it again and again. */
typedef struct word {
    _Alignas(64) _Atomic uint64_t value;
} word;

struct rota_cuda_latch {
    rota_exec_stream_latch base; /* first: the contract's part */
    rota_stack_entry entry;
    rota_cuda_latch *newer; /* of those that are open */
    word *word;
    uint64_t address; /* the word as the device sees it */
    uint64_t number;  /* of its last use, under the lock */
    _Atomic uint32_t is_closed;
    CUevent looked; /* recorded behind the last wait; NULL: none yet */
};

struct rota_cuda_latch_page {
    rota_cuda_latch_page *next;
    word *words;
    rota_cuda_latch latches[LATCHES_PER_PAGE];
};

static void add_open(rota_cuda_latches_shared *all, rota_cuda_latch *latch) {
    latch->newer = NULL;
    if (all->newest)
        all->newest->newer = latch;
    else
        all->oldest = latch;
    all->newest = latch;
}

static rota_cuda_latch *take_oldest(rota_cuda_latches_shared *all) {
    rota_cuda_latch *latch = all->oldest;
    if (!latch) return NULL;
    all->oldest = latch->newer;
    if (!all->oldest) all->newest = NULL;
    return latch;
}

/* With the lock, in the context. */
static rota_status add_page(rota_cuda_device *device) {
    rota_cuda_latches_shared *all = &device->timelines.latches;
    rota_cuda_latch_page *page = calloc(1, sizeof *page);
    if (!page) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for streams", device->base.info.id);
    void *host;
    uint64_t address;
    const rota_status status =
        rota_cuda_pin(device, LATCHES_PER_PAGE * sizeof(word), "words of streams", &host, &address);
    if (status != ROTA_OK) {
        free(page);
        return status;
    }
    page->words = host;
    for (uint32_t i = 0; i < LATCHES_PER_PAGE; i++) {
        ra_store_relaxed(&page->words[i].value, 0);
        page->latches[i].word = &page->words[i];
        page->latches[i].address = address + i * sizeof(word);
        add_open(all, &page->latches[i]);
    }
    page->next = ra_load_relaxed(&all->pages);
    ra_store_seq_cst(&all->pages, page); /* before is_over is looked at: with latches_open */
    return ROTA_OK;
}

/* Also of one whose context has failed: nobody looks there any more. */
static bool was_looked_at(const rota_cuda_device *device, const rota_cuda_latch *latch) {
    return !latch->looked || device->cu->EventQuery(latch->looked) != CUDA_ERROR_NOT_READY;
}

/* With the lock, in the context: one whose event is nobody's. Those of streams that stand for long are left behind. */
static rota_status take(rota_cuda_device *device, rota_cuda_latch **out_latch) {
    rota_cuda_latches_shared *all = &device->timelines.latches;
    rota_stack_entry *opened = rota_stack_turned(rota_stack_take_upmc(&all->opened)); /* with open */
    while (opened) {
        rota_cuda_latch *latch = ROTA_STACK_OBJECT(opened, rota_cuda_latch, entry);
        opened = opened->next;
        add_open(all, latch);
    }
    for (uint32_t i = 0; i < LOOKS_MAX && all->oldest; i++) {
        rota_cuda_latch *latch = take_oldest(all);
        if (was_looked_at(device, latch)) {
            *out_latch = latch;
            return ROTA_OK;
        }
        add_open(all, latch);
    }
    /* None of the new page's was in use: they are put before the others. */
    rota_cuda_latch *others = all->oldest, *last = all->newest;
    all->oldest = all->newest = NULL;
    const rota_status status = add_page(device);
    if (status == ROTA_OK) *out_latch = take_oldest(all);
    if (others) {
        if (all->newest)
            all->newest->newer = others;
        else
            all->oldest = others;
        all->newest = last;
    }
    return status;
}

static rota_status put(rota_cuda_device *device, CUstream stream, rota_cuda_latch *latch) {
    if (!latch->looked)
        ROTA_TRY(rota_cuda_check(device, device->cu->EventCreate(&latch->looked, CU_EVENT_DISABLE_TIMING),
                                 "cuEventCreate"));
    ROTA_TRY(rota_cuda_check(
        device,
        device->cu->StreamWaitValue64(stream, latch->address, latch->number, CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue64"));
    return rota_cuda_check(device, device->cu->EventRecord(latch->looked, stream), "cuEventRecord");
}

rota_status rota_cuda_latch_close(rota_cuda_device *device, CUstream stream,
                                  rota_exec_stream_latch **out_latch) {
    rota_cuda_latches_shared *all = &device->timelines.latches;
    rota_cuda_latch *latch = NULL;
    if (!rota_cuda_has_words(device->cu, device->handle))
        return rota_fail(ROTA_UNSUPPORTED, "%s: its streams don't wait for words in memory",
                         device->base.info.id);
    pthread_mutex_lock(&all->lock);
    rota_status status = take(device, &latch);
    if (status == ROTA_OK) {
        latch->number++;
        ra_store_seq_cst(&latch->is_closed, 1); /* releases the number: with open */
        status = put(device, stream, latch);
    }
    pthread_mutex_unlock(&all->lock);
    if (status == ROTA_OK) *out_latch = &latch->base;
    /* Its wait may be there. Of a device that closes beside this call latches_open has seen the latch closed, or this
     * sees that it is over: both seq_cst. */
    if (latch && (status != ROTA_OK || ra_load_seq_cst(&all->is_over)))
        rota_cuda_latch_open(&device->base, &latch->base);
    return status;
}

void rota_cuda_latch_open(rota_exec_device *base, rota_exec_stream_latch *latch_base) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_latch *latch = (rota_cuda_latch *)latch_base;
    /* Once, also where the device closes meanwhile; acquires the number: with close. */
    if (!ra_exchange_seq_cst(&latch->is_closed, 0)) return;
    /* Releases what the host wrote to what the stream does. */
    ra_store_release(&latch->word->value, latch->number);
    rota_stack_push_upmc(&device->timelines.latches.opened, &latch->entry); /* to take */
}

void rota_cuda_latches_open(rota_exec_device *base) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_latches_shared *all = &device->timelines.latches;
    ra_store_seq_cst(&all->is_over, 1); /* with close */
    /* Without the lock, which a caller may have in the driver; seq_cst: with add_page. */
    for (rota_cuda_latch_page *page = ra_load_seq_cst(&all->pages); page; page = page->next)
        for (uint32_t i = 0; i < LATCHES_PER_PAGE; i++)
            rota_cuda_latch_open(&device->base, &page->latches[i].base);
}

static bool page_was_looked_at(const rota_cuda_device *device, const rota_cuda_latch_page *page,
                               uint64_t until) {
    for (uint32_t i = 0; i < LATCHES_PER_PAGE; i++)
        while (!was_looked_at(device, &page->latches[i])) {
            if (rota_clock_ns() >= until) return false;
            rota_nap_until(rota_deadline_after(LOOKED_NAP_NS));
        }
    return true;
}

void rota_cuda_latches_free(rota_cuda_device *device) {
    const uint64_t until = rota_deadline_after(LOOKED_NS);
    rota_cuda_latch_page *page = ra_load_acquire(&device->timelines.latches.pages); /* with add_page */
    ra_store_relaxed(&device->timelines.latches.pages, NULL);
    while (page) {
        rota_cuda_latch_page *next = page->next;
        const bool is_over = page_was_looked_at(device, page, until);
        for (uint32_t i = 0; i < LATCHES_PER_PAGE; i++)
            if (page->latches[i].looked) (void)device->cu->EventDestroy(page->latches[i].looked);
        if (is_over)
            (void)device->cu->MemFreeHost(page->words);
        else
            rota_log_write(
                &device->host.log, ROTA_LOG_INFO,
                "%s: a stream of the application's has not come to its wait for a ticket: %zu bytes "
                "of pinned memory stay in the context",
                device->base.info.id, LATCHES_PER_PAGE * sizeof(word));
        free(page);
        page = next;
    }
}
