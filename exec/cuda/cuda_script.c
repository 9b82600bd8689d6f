/* Commands that decide, where the driver has no conditional nodes: the host launches what they choose. A segment is cut
 * into graphs at each such command and at the ends of its bodies (cuda_bodies.c), and its *script* says which of them
 * are launched, one after the other: once a step (decide_step.h) has said in pinned memory whether a body runs, the
 * line that asks goes on to the body's graph, or past it.
 *
 *     while:   LAUNCH [ what is before it --> step ]
 *          top: UNLESS answer == 1 GO end
 *              LAUNCH [ commands of the body --> step ]
 *              GO top
 *          end:
 *
 * So an iteration is one launch, one event, and one look at a word of the host's; all that a step knows of limits,
 * failures and ends is on the device, as with conditional nodes.
 *
 * Threads. A script is the completion thread's, from the fence of its work on, and it launches on a stream that each
 * queue has for that: nobody else puts anything on one, and it puts nothing on a queue's own.
 *
 *     submit thread                       completion thread
 *     waits on the queue's stream
 *     event E behind them
 *     fence with E and the script ------> E has come: all that the work waits for is complete
 *     (tail, see set_fence)               launches, looks for its own event, reads answers, launches ...
 *     wait_for_script <------------------ tail moves past the fence: all is complete
 *
 * Nothing orders the two streams but this: what the script launches is launched after the host saw E complete, and the
 * fence is passed after the host saw the script's last event complete. So E does not stand for the work's value, and
 * who would have the device wait for an event at or above it waits for the fence to be passed instead: the submit
 * thread (wait_for_script in cuda_submit.c) before it places such a wait, or begins another script on the queue;
 * whoever asks for a stream of the application's, which has no such event (cuda_stream.c). Other devices of the
 * GPU wait through the host, as no timeline of theirs could be told of the work's value before its works are given to
 * the driver (caps.timeline_queues is 0). The scheduler does not hand over what comes after such a work before that has
 * ended (caps.hosts_decisions), so that of its works none makes the submit thread wait. The completion thread waits for
 * no lock that the submit thread holds meanwhile (submit_lock), so that it gets there.
 *
 * The instance may be in flight more than once, on several queues: its states and answers are those of one launch at a
 * time, so a script begins when all earlier ones of its segment have ended (`finished`). Those were handed over before,
 * and wait for nothing that is behind this one.
 *
 * Loss. The thread launches with `stops.looks` held, and only where it finds the device not lost then. Who loses it
 * says so first, and then takes that lock once (drain in cuda_context.c): what was launched by then is on the stream,
 * where it is waited for, and nothing is launched any more. Instances go only after that, or take it themselves where
 * the context has ended and nobody drains (rota_cuda_instance_free). */
#include "exec/cuda/cuda_script.h"
#include <stdlib.h>
#include "base/clock.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_decide.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_instance.h"
#include "exec/cuda/cuda_names.h"

/* ---- Made ---- */

bool rota_cuda_segment_is_scripted(const rota_cuda_device *device, const rota_cuda_program *program,
                                   uint32_t segment) {
    const rota_cuda_roots *roots = program->segments[segment].roots;
    return device->base.caps.hosts_decisions && roots && roots->decides;
}

static uint32_t count_decisions(const rota_cuda_program *program, uint32_t first, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t c = first; c < first + count; c++) {
        const rota_cuda_decision *decision = program->dispatches[c].decision;
        if (!decision) continue;
        sum++;
        for (uint32_t b = 0; b < decision->desc->body_count; b++)
            if (decision->bodies[b])
                sum += count_decisions(decision->bodies[b], 0, decision->bodies[b]->desc->command_count);
    }
    return sum;
}

rota_status rota_cuda_script_create(rota_cuda_device *device, const rota_cuda_program *program,
                                    uint32_t segment, rota_cuda_segment_instance *own,
                                    rota_cuda_script **out_script) {
    const rota_exec_segment *about = &program->desc->segments[segment];
    const uint32_t decisions = count_decisions(program, about->first_command, about->command_count);
    rota_cuda_script *script = calloc(1, sizeof *script);
    if (!script)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         program->desc->name);
    *script = (rota_cuda_script){.desc = program->desc, .segment = segment, .own = own};
    const rota_status status = rota_cuda_piece_take(
        device, &device->objects.pinned, 2 * sizeof(uint32_t) * (uint64_t)decisions, &script->answers);
    if (status != ROTA_OK) {
        free(script);
        return status;
    }
    *out_script = script;
    return ROTA_OK;
}

void rota_cuda_script_free(rota_cuda_device *device, rota_cuda_script *script) {
    if (!script) return;
    for (uint32_t i = 0; i < script->count; i++)
        if (script->lines[i].exec) (void)device->cu->GraphExecDestroy(script->lines[i].exec);
    rota_cuda_piece_give(device, &device->objects.pinned, &script->answers);
    free(script->lines);
    free(script);
}

uint32_t rota_cuda_script_take_answers(rota_cuda_script *script) {
    const uint32_t first = script->answer_count;
    script->answer_count += 2;
    return first;
}

uint64_t rota_cuda_script_answer_address(const rota_cuda_script *script, uint32_t answer) {
    return script->answers.address + sizeof(uint32_t) * (uint64_t)answer;
}

rota_status rota_cuda_script_add(rota_cuda_script *script, const rota_cuda_line *line) {
    if (script->count == script->capacity) {
        const uint32_t capacity = script->capacity ? 2 * script->capacity : 16;
        rota_cuda_line *lines = realloc(script->lines, capacity * sizeof *lines);
        if (!lines)
            return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a script of %u lines", capacity);
        script->lines = lines;
        script->capacity = capacity;
    }
    script->lines[script->count++] = *line;
    return ROTA_OK;
}

void rota_cuda_script_end(rota_cuda_script *script, uint32_t first) {
    for (uint32_t i = first; i < script->count; i++)
        if (script->lines[i].kind != ROTA_CUDA_LINE_LAUNCH && script->lines[i].target == UINT32_MAX)
            script->lines[i].target = script->count;
}

/* ---- The completion thread's ---- */

static uint32_t read_answer(const rota_cuda_script *script, uint32_t answer) {
    /* Written by a kernel that the host has seen complete. */
    return ((const volatile uint32_t *)(const void *)script->answers.host)[answer];
}

static rota_status launch(rota_cuda_device *device, const rota_cuda_queue *queue,
                          const rota_cuda_script *script, CUgraphExec exec) {
    rota_cuda_range_segment(device->names, script->desc, script->segment);
    const CUresult result = device->cu->GraphLaunch(exec, queue->scripts);
    rota_cuda_range_end(device->names);
    return rota_cuda_check(device, result, "cuGraphLaunch");
}

static rota_status record(rota_cuda_device *device, rota_cuda_queue *queue) {
    rota_cuda_script_state *state = &queue->script_state;
    ROTA_TRY(
        rota_cuda_check(device, device->cu->EventRecord(queue->scripted, queue->scripts), "cuEventRecord"));
    state->has_launched = false;
    state->is_awaited = true;
    state->since_ns = rota_clock_ns();
    return ROTA_OK;
}

/* Up to the next line that needs what was launched complete. The lines before it are finitely many: each way round a
 * loop passes one that asks, behind a launch. */
static rota_status go_on(rota_cuda_device *device, rota_cuda_queue *queue, const rota_cuda_script *script) {
    rota_cuda_script_state *state = &queue->script_state;
    while (state->line < script->count) {
        const rota_cuda_line *line = &script->lines[state->line];
        if (line->kind == ROTA_CUDA_LINE_LAUNCH) {
            ROTA_TRY(launch(device, queue, script, line->exec));
            state->has_launched = true;
            state->line++;
        } else if (line->kind == ROTA_CUDA_LINE_GO) {
            state->line = line->target;
        } else if (state->has_launched) {
            return record(device, queue);
        } else {
            state->line = read_answer(script, line->answer) == line->value ? state->line + 1 : line->target;
        }
    }
    return ROTA_OK;
}

/* Whether what the thread waits for has come. */
static rota_status look(rota_cuda_device *device, rota_cuda_queue *queue, const rota_cuda_fence *fence,
                        bool *out_came) {
    rota_cuda_script_state *state = &queue->script_state;
    *out_came = false;
    if (!state->has_begun && fence->script->own->finished + 1 != fence->script_launch) return ROTA_OK;
    const CUresult result = device->cu->EventQuery(state->has_begun ? queue->scripted : fence->event);
    if (result == CUDA_ERROR_NOT_READY) return ROTA_OK;
    ROTA_TRY(rota_cuda_check(device, result, "cuEventQuery"));
    *out_came = true;
    if (!state->has_begun) {
        *state = (rota_cuda_script_state){.has_begun = true, .each_ns = state->each_ns};
        return ROTA_OK;
    }
    const uint64_t took = rota_clock_ns() - state->since_ns;
    state->each_ns = took < state->each_ns || !state->each_ns ? took : (state->each_ns * 3 + took) / 4;
    state->is_awaited = false;
    return ROTA_OK;
}

static rota_status advance(rota_cuda_device *device, rota_cuda_queue *queue, const rota_cuda_fence *fence,
                           bool *out_moved, bool *out_done) {
    rota_cuda_script_state *state = &queue->script_state;
    const rota_cuda_script *script = fence->script;
    bool came;
    ROTA_TRY(look(device, queue, fence, &came));
    if (!came) return ROTA_OK;
    *out_moved = true;
    if (state->line < script->count) ROTA_TRY(go_on(device, queue, script));
    if (state->is_awaited) return ROTA_OK;
    if (state->has_launched) return record(device, queue);
    state->has_begun = false;
    state->since_ns = 0;
    script->own->finished++;
    *out_done = true;
    return ROTA_OK;
}

rota_status rota_cuda_script_advance(rota_cuda_device *device, rota_cuda_queue *queue,
                                     const rota_cuda_fence *fence, bool *out_moved, bool *out_done) {
    *out_done = false;
    pthread_mutex_lock(&device->stops.looks);
    /* Pairs with rota_cuda_give_up, which then takes the lock: either it is seen here, or what is launched is seen
     * there. */
    const bool is_lost = ra_load_acquire(&device->lost);
    const rota_status status = is_lost ? ROTA_OK : advance(device, queue, fence, out_moved, out_done);
    pthread_mutex_unlock(&device->stops.looks);
    return status;
}
