/* A replay as Chrome trace JSON: one process a device, one track a queue, one slice a node; submissions and
 * waits on tracks of their own. */
#include <stdio.h>
#include "base/given.h"
#include "base/output.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/times.h"

static double microseconds(uint64_t ns, uint64_t origin) {
    return ((double)ns - (double)origin) / 1000.0;
}

static void write_track_name(FILE *file, uint32_t process, uint32_t track, const char *what,
                             uint32_t number) {
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}},\n",
            process, track, what, number);
}

static void write_slice(FILE *file, const char *name, const char *category, uint32_t process, uint32_t track,
                        double begin, double end) {
    fputs("{\"ph\":\"X\",\"name\":\"", file);
    rota_output_escape(file, name);
    fprintf(file, "\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f", category, process,
            track, begin, end > begin ? end - begin : 0.0);
}

static void write_part(FILE *file, const rota_plan *plan, uint32_t index, const rota_exec_time *times,
                       uint64_t origin) {
    const rota_compile_info *info = plan->compile_info;
    const rota_partition *part = &plan->partitions[index];
    const rota_device_info *device = rota_device_get_info(part->device);
    uint32_t process = index + 1;
    fprintf(file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"", process);
    rota_output_escape(file, device->id);
    fputs("  ", file);
    rota_output_escape(file, device->name);
    fputs("\"}},\n", file);
    for (uint32_t q = 0; q < part->desc.queue_count; q++) write_track_name(file, process, q, "queue", q);
    for (uint32_t i = 0; i < part->desc.command_count; i++) {
        uint32_t n = part->desc.commands[i].node;
        const rota_operation *it = &info->operations[n];
        if (!times[i].end_ns) continue;
        write_slice(file, rota_operation_name(plan, n), "node", process, it->queue,
                    microseconds(times[i].begin_ns, origin), microseconds(times[i].end_ns, origin));
        const rota_exec_command *command = &part->desc.commands[i];
        const rota_kernel *kernel =
            command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel : NULL;
        fprintf(file, ",\"args\":{\"node\":%u,\"segment\":%u,\"batch\":%u,\"kernel\":\"", n, it->segment,
                it->level);
        rota_output_escape(file, kernel ? kernel->name : "");
        fputs("\"}},\n", file);
    }
    /* A wait reaches from the end of what it waits for to the first node of the segment that waits. */
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const rota_plan_segment *segment = &plan->segments[i];
        if (segment->part != index) continue;
        const rota_exec_segment *lowered = &part->desc.segments[segment->index];
        if (!lowered->command_count) continue;
        for (uint32_t k = 0; k < segment->wait_count; k++) {
            const rota_plan_segment *other = &plan->segments[plan->segment_waits[segment->first_wait + k]];
            if (other->part != index) continue;
            const rota_exec_segment *before = &part->desc.segments[other->index];
            if (!before->command_count) continue;
            uint64_t from = times[before->first_command + before->command_count - 1].end_ns;
            uint64_t to = times[lowered->first_command].begin_ns;
            if (!from || to < from) continue;
            write_slice(file, "wait", "wait", process, 100 + segment->queue, microseconds(from, origin),
                        microseconds(to, origin));
            fprintf(file, ",\"args\":{\"for_queue\":%u,\"for_segment\":%u}},\n", other->queue,
                    plan->segment_waits[segment->first_wait + k]);
        }
    }
    for (uint32_t q = 0; q < part->desc.queue_count; q++)
        write_track_name(file, process, 100 + q, "waits of queue", q);
}

static rota_status write_parts(FILE *file, rota_plan *plan, uint64_t origin) {
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < plan->partition_count && status == ROTA_OK; i++) {
        rota_arena arena = ROTA_ARENA_INIT;
        rota_exec_time *times =
            rota_arena_calloc(&arena, sizeof *times * (plan->partitions[i].desc.command_count + 1u), 8);
        status = times ? rota_executable_times(plan, i, times)
                       : rota_fail(ROTA_OUT_OF_MEMORY, "trace of plan '%s': no host memory", plan->name);
        if (status == ROTA_OK) write_part(file, plan, i, times, origin);
        rota_arena_free(&arena);
    }
    return status;
}

rota_status rota_plan_write_trace(rota_plan *plan, const char *path) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(path);
    rota_plan_replay_times replay;
    ROTA_TRY(rota_executable_replay_times(plan, &replay));
    rota_output output;
    ROTA_TRY(rota_output_open(&output, path));
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", output.file);
    fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"submission\"}},\n",
          output.file);
    uint64_t origin = replay.submitted_ns;
    const struct {
        const char *name;
        uint64_t begin, end;
    } stages[] = {{"submit to sequenced", replay.submitted_ns, replay.sequenced_ns},
                  {"sequenced to handed over", replay.sequenced_ns, replay.handed_over_ns},
                  {"handed over to complete", replay.handed_over_ns, replay.completed_ns}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        write_slice(output.file, stages[i].name, "submission", 0, 0, microseconds(stages[i].begin, origin),
                    microseconds(stages[i].end, origin));
        fprintf(output.file, ",\"args\":{\"number\":%llu}},\n", (unsigned long long)replay.number);
    }
    rota_status status = write_parts(output.file, plan, origin);
    /* The last event ends the list without a comma. */
    fputs("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"replay\"}}\n]}\n",
          output.file);
    return rota_output_close(&output, status);
}
