/* Diagnostics: per-command times from timestamp queries, and which command a hung device is at. */
#include "exec/vk/vk_times.h"
#include "base/clock.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"
#include <stdlib.h>
#include <string.h>

typedef rota_vk_timestamp timestamp;

/* Reads all queries of an instance without waiting; of one that runs again some may be of that run. */
static bool read_queries(rota_vk_device *device, const rota_vk_recorded *recorded,
                         timestamp *out_timestamps) {
    uint32_t count = 2 * recorded->program->desc->command_count;
    if (recorded->results) {
        memcpy(out_timestamps, recorded->results->base.host, count * sizeof *out_timestamps);
        return true;
    }
    VkResult result = device->vk.GetQueryPoolResults(
        device->handle, recorded->queries, 0, count, count * sizeof *out_timestamps, out_timestamps,
        sizeof *out_timestamps, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
    if (result == VK_SUCCESS || result == VK_NOT_READY) return true;
    rota_vk_fail(result, "vkGetQueryPoolResults");
    return false;
}

/* The same; NULL with a sentence. */
static timestamp *read_timestamps(rota_vk_device *device, const rota_vk_recorded *recorded) {
    if (!recorded->queries) {
        rota_fail(ROTA_UNSUPPORTED, "%s was opened without diagnostics, or has no timestamps",
                  device->base.info.id);
        return NULL;
    }
    uint32_t count = 2 * recorded->program->desc->command_count;
    timestamp *timestamps = calloc(count, sizeof *timestamps);
    if (!timestamps) {
        rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for the times of %u commands", count / 2);
        return NULL;
    }
    if (read_queries(device, recorded, timestamps)) return timestamps;
    free(timestamps);
    return NULL;
}

#define CALIBRATIONS 8u
/* Between looks at the host's clock before and after: good enough. */
#define CALIBRATED_NS 20000u

/* A moment on both clocks: of several tries the one that took the least, as a thread may be held between the two. */
static bool compare_clocks(rota_vk_device *device, uint64_t *out_ticks, uint64_t *out_ns) {
    const VkCalibratedTimestampInfoEXT infos[2] = {
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
         .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT}};
    uint64_t best = UINT64_MAX;
    if (!device->physical.calibrated_timestamps || !device->vk.GetCalibratedTimestampsEXT) return false;
    for (uint32_t i = 0; i < CALIBRATIONS && best > CALIBRATED_NS; i++) {
        uint64_t values[2], deviation;
        const uint64_t before = rota_clock_ns();
        if (device->vk.GetCalibratedTimestampsEXT(device->handle, 2, infos, values, &deviation) != VK_SUCCESS)
            break;
        const uint64_t took = rota_clock_ns() - before;
        if (took >= best) continue;
        best = took;
        *out_ticks = values[0];
        *out_ns = values[1];
    }
    return best != UINT64_MAX;
}

/* Without calibrated timestamps the newest timestamp is taken to be now: right for what has just finished, and
 * differences stay right. */
static void calibrate(rota_vk_device *device, const timestamp *timestamps, uint32_t count,
                      uint64_t *out_ticks, uint64_t *out_ns) {
    if (compare_clocks(device, out_ticks, out_ns)) return;
    *out_ticks = 0;
    for (uint32_t i = 0; i < count; i++)
        if (timestamps[i].available && timestamps[i].ticks > *out_ticks) *out_ticks = timestamps[i].ticks;
    *out_ns = rota_clock_ns();
}

rota_status rota_vk_times(rota_exec_device *base, rota_exec_instance *instance, rota_exec_time *out) {
    rota_vk_device *device = (rota_vk_device *)base;
    const rota_vk_recorded *recorded = (const rota_vk_recorded *)instance;
    const rota_exec_program_desc *desc = recorded->program->desc;
    memset(out, 0, desc->command_count * sizeof *out);
    timestamp *timestamps = read_timestamps(device, recorded);
    if (!timestamps) return desc->command_count ? ROTA_UNSUPPORTED : ROTA_OK;
    uint64_t now_ticks, now_ns;
    calibrate(device, timestamps, 2 * desc->command_count, &now_ticks, &now_ns);
    uint32_t bits = device->physical.timestamp_bits;
    uint64_t mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    double period = (double)device->physical.properties.limits.timestampPeriod;
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        uint64_t batch_begin = 0; /* no command begins before the batch before its own ended */
        for (uint32_t b = 0; b < segment->batch_count; b++) {
            const rota_exec_batch *batch = &desc->batches[segment->first_batch + b];
            uint64_t batch_end = batch_begin;
            for (uint32_t c = batch->first_command; c < batch->first_command + batch->command_count; c++) {
                const timestamp *begin = &timestamps[(size_t)2 * c], *end = &timestamps[2 * c + 1];
                if (!begin->available || !end->available) continue;
                /* Differences modulo the counter's width. */
                uint64_t begin_ago = (now_ticks - begin->ticks) & mask,
                         end_ago = (now_ticks - end->ticks) & mask;
                if (begin_ago > mask / 2)
                    begin_ago = 0; /* a timestamp lies in the past, but for the calibration's error */
                if (end_ago > mask / 2) end_ago = 0;
                out[c].begin_ns = now_ns - (uint64_t)((double)begin_ago * period);
                out[c].end_ns = now_ns - (uint64_t)((double)end_ago * period);
                if (out[c].begin_ns < batch_begin) out[c].begin_ns = batch_begin;
                if (out[c].end_ns < out[c].begin_ns) out[c].end_ns = out[c].begin_ns;
                if (out[c].end_ns > batch_end) batch_end = out[c].end_ns;
            }
            batch_begin = batch_end;
        }
    }
    free(timestamps);
    return ROTA_OK;
}

/* The first command of a begun segment that did not end. Beginnings run ahead of barriers, so ends decide. */
static bool find_stuck(const rota_exec_program_desc *desc, const timestamp *timestamps, uint32_t *out_node) {
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        uint32_t first = segment->first_command;
        if (segment->command_count == 0 || !timestamps[(size_t)2 * first].available) continue;
        for (uint32_t c = first; c < first + segment->command_count; c++) {
            if (timestamps[2 * c + 1].available) continue;
            *out_node = desc->commands[c].node;
            return true;
        }
    }
    return false;
}

void rota_vk_look_for_stuck(rota_vk_device *device) {
    /* Whoever has the lock makes or destroys objects: there will be another look. */
    if (pthread_mutex_trylock(&device->objects.lock) != 0) return;
    const uint64_t moves = ra_load_relaxed(&device->moves);
    for (rota_link *link = device->objects.instances.next; link != &device->objects.instances;
         link = link->next) {
        rota_vk_recorded *recorded = ROTA_LINKED(link, rota_vk_recorded, link);
        uint32_t node;
        if (!recorded->looked_at || !read_queries(device, recorded, recorded->looked_at)) continue;
        const bool found = find_stuck(recorded->program->desc, recorded->looked_at, &node);
        ra_store_relaxed(&recorded->stuck, moves << 32 | (found ? 1u + node : 0u));
    }
    pthread_mutex_unlock(&device->objects.lock);
}

bool rota_vk_stuck_node(rota_exec_device *base, rota_exec_instance *instance, rota_exec_stuck *out_stuck) {
    rota_vk_device *device = (rota_vk_device *)base;
    const rota_vk_recorded *recorded = (const rota_vk_recorded *)instance;
    const uint64_t stuck = ra_load_relaxed(&recorded->stuck);
    if (rota_vk_going_where(recorded, out_stuck)) return true;
    /* What was found before something completed says nothing. */
    if ((uint32_t)stuck == 0 || stuck >> 32 != ra_load_relaxed(&device->moves)) return false;
    out_stuck->node = (uint32_t)stuck - 1;
    return true;
}
