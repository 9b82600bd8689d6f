/* Bytes from the host into a buffer: sequenced, and prepared by a submit thread. */
#include "sched/runtime/kinds/move.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/kinds/write.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

void rota_kind_write_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                              uint64_t *out_final) {
    rota_host_write *write = &submission->write;
    rota_device *device = write->device;
    rota_hazard_fold(write->residency, write->offset, write->offset + write->size);
    rota_ahead ahead = {.device = device, .queues = 1u << device->io_queue};
    rota_ahead_access(&ahead, write->residency, write->offset, write->offset + write->size, true);
    rota_work *work = rota_work_add_copy(submission, &ahead, ROTA_WORK_WRITE, 0);
    *out_final = rota_work_point(work);
    rota_hazard_write(runtime, wanted, write->residency, write->offset, write->offset + write->size,
                      *out_final, rota_residency_bit(write->residency, device));
    ra_store_relaxed(&write->residency->home_plus_1, device->index + 1);
    rota_work_settle(runtime, wanted, work, &ahead);
    const bool is_kept = rota_siding_keeps(work);
    uint64_t charge = write->staging ? rota_staging_charge(runtime, write->size) : 0;
    if (is_kept) {
        rota_keeping_begin(submission, write->residency, charge);
        /* Release: with fits in hostio.c, which finds it counted there if no longer here. */
        if (charge) (void)ra_fetch_sub_release(&device->staging.uploading, (int64_t)charge);
        charge = 0;
    }
    /* Free once the copy has passed (P1). Release: with the claim. */
    if (write->staging)
        rota_staging_retire(write->staging, write->size, charge, *out_final);
    else
        ra_store_release(&device->upload_slots[write->slot].state,
                         is_kept ? *out_final | ROTA_SLOT_KEPT : *out_final);
}

rota_status rota_kind_write_prepare(rota_work *work, rota_exec_work *out) {
    const rota_host_write *write = &work->submission->write;
    rota_exec_memory *destination = ra_load_acquire(&write->residency->memory[work->device->index]);
    if (write->staging) return rota_staging_copies_out(write->staging, destination, write->offset, out);
    uint64_t begin = write->slot * work->device->runtime->options.staging_slot_bytes;
    rota_exec_copy copy = {destination, work->device->upload_memory, write->offset, begin, write->size};
    return rota_work_one_copy(work, copy, out);
}
