/* A replay as Chrome trace JSON: one process a device, a track a queue, or as many as overlap on it, a slice a node;
 * submissions and waits on tracks of their own; arrows along the plan's edges, and a counter of its arena's memory. */
#include <stdio.h>
#include "base/given.h"
#include "base/output.h"
#include "sched/plan/derived.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/times.h"
#include "sched/runtime/plans/trace_flows.h"
#include "sched/runtime/plans/trace_memory.h"
#include "sched/runtime/plans/trace_parts.h"
#include "sched/runtime/plans/trace_tracks.h"

/* Tracks of queue q, which viewers sort by their numbers: q and q + QUEUES_MAX * i of nodes, then those of waits. */
#define QUEUES_MAX 64u
#define WAIT_TRACKS 1000000u
_Static_assert(QUEUES_MAX >= ROTA_EXEC_QUEUES_MAX, "a queue's tracks are its own");

static void write_track_names(const rota_trace *trace, uint32_t partition, const char *what, uint32_t first,
                              uint32_t queue, uint32_t tracks) {
    for (uint32_t i = 0; i < tracks; i++) {
        const uint32_t process = rota_trace_process(partition), track = first + queue + QUEUES_MAX * i;
        fprintf(trace->file,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u",
                process, track, what, queue);
        if (i) fprintf(trace->file, " (%u)", i + 1);
        fprintf(trace->file,
                "\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%u,\"tid\":%u,\"args\":{\"sort_"
                "index\":%u}},\n",
                process, track, first + queue * 1000 + (i < 999 ? i : 999));
    }
}

static void write_slice(const rota_trace *trace, const char *name, const char *category, uint32_t process,
                        uint32_t track, uint64_t begin_ns, uint64_t end_ns) {
    fputs("{\"ph\":\"X\",\"name\":\"", trace->file);
    rota_output_escape(trace->file, name);
    fprintf(trace->file, "\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f", category,
            process, track, rota_trace_us(trace, begin_ns),
            end_ns > begin_ns ? (double)(end_ns - begin_ns) / 1000.0 : 0.0);
}

static void write_process(const rota_trace *trace, uint32_t partition) {
    const rota_device_info *device = rota_device_get_info(trace->plan->partitions[partition].device);
    fprintf(trace->file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"",
            rota_trace_process(partition));
    rota_output_escape(trace->file, device->id);
    fputs("  ", trace->file);
    rota_output_escape(trace->file, device->name);
    fputs("\"}},\n", trace->file);
}

/* Of a copy between devices, or a half of one: how much, and whose memory. */
static void write_copy(const rota_trace *trace, const rota_operation *it) {
    const rota_compile_info *info = rota_plan_info(trace->plan);
    const char *const ends[] = {"to", "from"};
    fprintf(trace->file, ",\"bytes\":%llu", (unsigned long long)info->accesses[it->first_access].size_bytes);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t part = info->physicals[rota_access_physical(trace->plan, it, i)].part;
        fprintf(trace->file, ",\"%s\":\"", ends[i]);
        rota_output_escape(trace->file, rota_device_get_info(trace->plan->partitions[part].device)->id);
        fputs("\"", trace->file);
    }
}

static void write_node(const rota_trace *trace, uint32_t n) {
    const rota_operation *it = &rota_plan_info(trace->plan)->operations[n];
    const rota_exec_time *time = rota_trace_time(trace, n);
    const rota_exec_command *command = &trace->plan->partitions[it->part].desc.commands[it->command];
    const rota_kernel *kernel = command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel : NULL;
    write_slice(trace, rota_operation_name(trace->plan, n), "node", rota_trace_process(it->part),
                trace->track[n], time->begin_ns, time->end_ns);
    fprintf(trace->file, ",\"args\":{\"node\":%u,\"segment\":%u,\"batch\":%u,\"kernel\":\"", n,
            rota_operation_segment(trace->plan, it), rota_operation_batch(trace->plan, it));
    rota_output_escape(trace->file, kernel ? kernel->name : "");
    fputs("\"", trace->file);
    if (it->kind == ROTA_OPERATION_TRANSFER) write_copy(trace, it);
    fputs("}},\n", trace->file);
}

static rota_status no_memory(const rota_trace *trace) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "trace of plan '%s': no host memory", trace->plan->name);
}

/* What ran on one queue of a partition: `slices` has room for all its commands. */
static rota_status write_queue(rota_trace *trace, uint32_t partition, uint32_t queue,
                               rota_trace_slice *slices) {
    const rota_partition *part = &trace->plan->partitions[partition];
    uint32_t count = 0, tracks;
    for (uint32_t i = 0; i < part->desc.command_count; i++) {
        const rota_exec_time *time = &trace->times[partition][i];
        const uint32_t n = part->desc.commands[i].node;
        if (!time->end_ns || rota_plan_info(trace->plan)->operations[n].queue != queue) continue;
        slices[count++] = (rota_trace_slice){time->begin_ns, time->end_ns, n, 0};
    }
    if (!rota_trace_spread(&trace->arena, slices, count, &tracks)) return no_memory(trace);
    write_track_names(trace, partition, "queue", 0, queue, tracks ? tracks : 1);
    for (uint32_t i = 0; i < count; i++) {
        trace->track[slices[i].index] = queue + QUEUES_MAX * slices[i].track;
        write_node(trace, slices[i].index);
    }
    return ROTA_OK;
}

/* A wait reaches from the end of what it waits for to the first node of the segment that waits. */
static void find_waits(const rota_trace *trace, uint32_t partition, uint32_t queue, rota_trace_slice *slices,
                       uint32_t *out_count) {
    const rota_plan *plan = trace->plan;
    *out_count = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const rota_plan_segment *segment = &plan->segments[i];
        const rota_exec_segment *lowered = &plan->partitions[segment->part].desc.segments[segment->index];
        if (segment->part != partition || segment->queue != queue || !lowered->command_count) continue;
        for (uint32_t k = 0; k < segment->wait_count; k++) {
            const uint32_t index = plan->segment_waits[segment->first_wait + k];
            const rota_plan_segment *other = &plan->segments[index];
            const rota_exec_segment *before = &plan->partitions[other->part].desc.segments[other->index];
            if (!before->command_count) continue;
            const uint64_t from =
                trace->times[other->part][before->first_command + before->command_count - 1].end_ns;
            const uint64_t to = trace->times[partition][lowered->first_command].begin_ns;
            if (from && to >= from) slices[(*out_count)++] = (rota_trace_slice){from, to, index, 0};
        }
    }
}

static rota_status write_waits(rota_trace *trace, uint32_t partition, uint32_t queue,
                               rota_trace_slice *slices) {
    uint32_t count, tracks;
    find_waits(trace, partition, queue, slices, &count);
    if (!rota_trace_spread(&trace->arena, slices, count, &tracks)) return no_memory(trace);
    write_track_names(trace, partition, "waits of queue", WAIT_TRACKS, queue, tracks);
    for (uint32_t i = 0; i < count; i++) {
        const rota_plan_segment *other = &trace->plan->segments[slices[i].index];
        write_slice(trace, "wait", "wait", rota_trace_process(partition),
                    WAIT_TRACKS + queue + QUEUES_MAX * slices[i].track, slices[i].begin_ns, slices[i].end_ns);
        fprintf(trace->file, ",\"args\":{\"for_device\":%u,\"for_queue\":%u,\"for_segment\":%u,\"for\":\"",
                other->part, other->queue, slices[i].index);
        rota_output_escape(trace->file,
                           rota_device_get_info(trace->plan->partitions[other->part].device)->id);
        fputs("\"}},\n", trace->file);
    }
    return ROTA_OK;
}

static rota_status write_parts(rota_trace *trace) {
    const rota_plan *plan = trace->plan;
    uint64_t most = 0; /* slices at once */
    for (uint32_t i = 0; i < plan->segment_count; i++) most += plan->segments[i].wait_count;
    for (uint32_t i = 0; i < plan->partition_count; i++)
        if (plan->partitions[i].desc.command_count > most) most = plan->partitions[i].desc.command_count;
    rota_trace_slice *slices = rota_arena_alloc(&trace->arena, (size_t)(most + 1) * sizeof *slices, 8);
    if (!slices) return no_memory(trace);
    for (uint32_t i = 0; i < plan->partition_count; i++) {
        write_process(trace, i);
        for (uint32_t q = 0; q < plan->partitions[i].desc.queue_count; q++) {
            ROTA_TRY(write_queue(trace, i, q, slices));
            ROTA_TRY(write_waits(trace, i, q, slices));
        }
    }
    ROTA_TRY(rota_trace_write_flows(trace));
    return rota_trace_write_memory(trace);
}

static void write_submission(const rota_trace *trace, const rota_plan_replay_times *replay) {
    const struct {
        const char *name;
        uint64_t begin, end;
    } stages[] = {{"submit to sequenced", replay->submitted_ns, replay->sequenced_ns},
                  {"sequenced to handed over", replay->sequenced_ns, replay->handed_over_ns},
                  {"handed over to complete", replay->handed_over_ns, replay->completed_ns}};
    fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"submission\"}},\n",
          trace->file);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        write_slice(trace, stages[i].name, "submission", 0, 0, stages[i].begin, stages[i].end);
        fprintf(trace->file, ",\"args\":{\"number\":%llu}},\n", (unsigned long long)replay->number);
    }
    /* Of what was left out there is no slice: the reader is told why. */
    if (replay->status != ROTA_OK)
        fprintf(trace->file,
                "{\"ph\":\"i\",\"s\":\"p\",\"name\":\"%s\",\"cat\":\"submission\",\"pid\":0,\"tid\":0,"
                "\"ts\":%.3f},\n",
                rota_status_name(replay->status), rota_trace_us(trace, replay->completed_ns));
}

/* What a replay left out has times of an earlier one. */
static void forget_earlier(const rota_trace *trace, uint32_t partition) {
    for (uint32_t i = 0; i < trace->plan->partitions[partition].desc.command_count; i++)
        if (trace->times[partition][i].begin_ns < trace->origin_ns)
            trace->times[partition][i] = (rota_exec_time){0, 0};
}

static rota_status take_times(rota_trace *trace, rota_plan *plan, rota_status ended_with) {
    trace->times = rota_arena_alloc(&trace->arena, plan->partition_count * sizeof *trace->times, 8);
    trace->track = rota_arena_calloc(
        &trace->arena, ((size_t)rota_plan_info(plan)->operation_count + 1) * sizeof *trace->track, 4);
    if (!trace->times || !trace->track) return no_memory(trace);
    for (uint32_t i = 0; i < plan->partition_count; i++) {
        trace->times[i] = rota_arena_calloc(
            &trace->arena, sizeof **trace->times * (plan->partitions[i].desc.command_count + 1u), 8);
        if (!trace->times[i]) return no_memory(trace);
        ROTA_TRY(rota_executable_times(plan, i, trace->times[i]));
        if (ended_with != ROTA_OK) forget_earlier(trace, i);
    }
    return ROTA_OK;
}

static rota_status write_trace(rota_trace *trace, const rota_plan_replay_times *replay, const char *path) {
    rota_output output;
    ROTA_TRY(rota_output_open(&output, path));
    trace->file = output.file;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", output.file);
    write_submission(trace, replay);
    rota_status status = write_parts(trace);
    /* The last event ends the list without a comma. */
    fputs("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"replay\"}}\n]}\n",
          output.file);
    return rota_output_close(&output, status);
}

rota_status rota_plan_write_trace(rota_plan *plan, const char *path) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(path);
    rota_plan_replay_times replay;
    ROTA_TRY(rota_executable_replay_times(plan, &replay));
    rota_trace trace = {.plan = plan, .origin_ns = replay.submitted_ns};
    rota_status status = take_times(&trace, plan, replay.status);
    if (status == ROTA_OK) status = write_trace(&trace, &replay, path);
    rota_arena_free(&trace.arena);
    return status;
}
