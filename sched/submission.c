/* What a submission comes to. */
#include "sched/runtime_internal.h"

const rota_extent *rota_host_read_extents(const rota_work *work, uint32_t *out_count) {
    const rota_host_read *read = work->submission->read;
    *out_count = read->parts[work->segment].extent_count;
    return &read->extents[read->parts[work->segment].first_extent];
}
