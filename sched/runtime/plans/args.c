/* Argument sets: the block words, host pointers and bound buffers of one plan's submissions, checked against
 * the record. */
#include "base/atomic.h"
#include "base/given.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/ticket_state.h"

#include <stdlib.h>
#include <string.h>

static rota_status no_memory(const rota_plan *plan) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "arguments of plan '%s': no host memory", plan->name);
}

static uint32_t bound_begin(const rota_executable *executable) {
    return executable->arguments.payload_words - 2 * executable->arguments.slot_buffer_count;
}

rota_status rota_args_create(rota_plan *plan, rota_args **out_args) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(out_args);
    *out_args = NULL;
    const rota_executable *executable = plan->executable;
    if (!executable)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s' takes no arguments: " ROTA_PLAN_ANALYSED, plan->name);
    ROTA_TRY(rota_plan_check(plan));
    rota_args *args = aligned_alloc(_Alignof(rota_args), sizeof *args);
    if (!args) return no_memory(plan);
    memset(args, 0, sizeof *args);
    args->released.kind = ROTA_RELEASED_ARGS;
    args->runtime = plan->runtime;
    args->payload =
        calloc(executable->arguments.payload_words + 1u + ROTA_AFTER_WORDS, sizeof *args->payload);
    args->missing = calloc(executable->arguments.payload_words + 1u, 1);
    args->bound = calloc(executable->arguments.slot_buffer_count + 1u, sizeof(rota_buffer *));
    args->inputs = calloc(plan->input_count + 1u, sizeof *args->inputs);
    if (!args->payload || !args->missing || !args->bound || !args->inputs) {
        free(args->payload);
        free(args->missing);
        free(args->bound);
        free(args->inputs);
        free(args);
        return no_memory(plan);
    }
    args->plan = plan;
    rota_plan_retain(plan);
    memcpy(args->missing, executable->arguments.needed, executable->arguments.payload_words);
    args->missing_count = executable->arguments.needed_count;
    *out_args = args;
    return ROTA_OK;
}

bool rota_args_copies(const rota_args *args) {
    return args->copied_count != 0;
}

void rota_args_ended(rota_args *args) {
    args->ended++;
}

bool rota_args_idle(const rota_args *args) {
    return args->ended == args->submitted;
}

void rota_args_destroy(rota_args *args) {
    for (uint32_t i = 0; i < args->plan->input_count; i++)
        for (int k = 0; k < ROTA_INPUT_COPIES; k++) free(args->inputs[i].copies[k]);
    rota_plan_release(args->plan);
    free(args->payload);
    free(args->missing);
    free(args->bound);
    free(args->inputs);
    free(args);
}

void rota_args_release(rota_args *args) {
    if (!args) return;
    /* Buffers may go at once: submissions on their way are sequenced before what is released now is looked
     * at. */
    for (uint32_t s = 0; s < args->plan->executable->arguments.slot_buffer_count; s++) {
        rota_buffer_release(args->bound[s]);
        args->bound[s] = NULL;
    }
    /* While the runtime closes submissions go on, and this may be one of its callbacks. Once it has closed,
     * its struct may serve another, but for one that was abandoned, which keeps what it is given for ever. */
    const rota_executable *executable = args->plan->executable;
    if ((executable->closed && !executable->abandoned) || rota_runtime_is_forked(args->runtime))
        rota_args_destroy(args);
    else
        rota_reclaim_push(args->runtime, &args->released);
}

static void set_word(rota_args *args, uint32_t word, uint64_t value) {
    args->payload[word] = value;
    args->missing_count -= args->missing[word];
    args->missing[word] = 0;
}

static rota_status set_value(rota_args *args, rota_slot slot, rota_value_type type, uint64_t value) {
    static const char *const names[] = {"any", "f32", "u32", "u64"};
    const uint32_t size_bytes = type == ROTA_VALUE_U64 ? 8 : 4;
    const rota_plan *plan = args->plan;
    ROTA_TRY(rota_plan_check(plan));
    bool found = false;
    for (uint32_t w = 0; w < plan->word_count; w++) {
        const rota_plan_word *word = &plan->words[w];
        if (word->kind != ROTA_WORD_VALUE || word->index != slot.index) continue;
        if (word->size_bytes != size_bytes)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "plan '%s': slot '%s' has %u bytes, the value given has %u", plan->name,
                             word->name, word->size_bytes, size_bytes);
        if (word->type != ROTA_VALUE_ANY && word->type != type)
            return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': slot '%s' is %s, the value given is %s",
                             plan->name, word->name, names[word->type], names[type]);
        set_word(args, w, value);
        found = true;
    }
    if (!found)
        return rota_fail(ROTA_NOT_FOUND, "plan '%s' reads no slot of index %u", plan->name, slot.index);
    return ROTA_OK;
}

rota_status rota_args_set_f32(rota_args *args, rota_slot slot, float value) {
    ROTA_GIVEN(args);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return set_value(args, slot, ROTA_VALUE_F32, bits);
}
rota_status rota_args_set_u32(rota_args *args, rota_slot slot, uint32_t value) {
    ROTA_GIVEN(args);
    return set_value(args, slot, ROTA_VALUE_U32, value);
}
rota_status rota_args_set_u64(rota_args *args, rota_slot slot, uint64_t value) {
    ROTA_GIVEN(args);
    return set_value(args, slot, ROTA_VALUE_U64, value);
}

/* How the plan's segments use a buffer: rota_external_flags of all its ranges. */
static uint32_t usage(const rota_plan *plan, uint32_t buffer) {
    uint32_t flags = 0;
    for (uint32_t e = 0; e < plan->external_count; e++)
        if (plan->externals[e].buffer == buffer) flags |= plan->externals[e].flags;
    return flags;
}

/* The plan orders accesses by buffer, so what it writes must not be reached under two names. */
static rota_status check_alias(const rota_args *args, uint32_t slot_entry, const rota_buffer *buffer) {
    const rota_plan *plan = args->plan;
    const rota_executable *executable = plan->executable;
    uint32_t own = executable->arguments.slot_buffers[slot_entry];
    uint64_t begin = buffer->root_offset, end = begin + plan->buffers[own].buffer->size_bytes;
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const rota_buffer *other = plan->buffers[b].buffer;
        if (b == own) continue;
        uint64_t other_begin = 0, other_end = other->size_bytes;
        const char *name = other->name;
        if (executable->arguments.slot_of_buffer[b] != ROTA_NONE) {
            const rota_buffer *bound = args->bound[executable->arguments.slot_of_buffer[b]];
            if (!bound || bound->root != buffer->root) continue;
            other_begin = bound->root_offset;
            other_end += other_begin;
        } else if (other != buffer->root) {
            continue;
        }
        if (other_begin >= end || begin >= other_end) continue;
        if (!((usage(plan, own) | usage(plan, b)) & ROTA_EXTERNAL_WRITE)) continue;
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "plan '%s': buffer '%s' bound to '%s' overlaps '%s', and one of them is written",
                         plan->name, rota_buffer_name(buffer), plan->buffers[own].buffer->name, name);
    }
    return ROTA_OK;
}

/* Whether the buffer is of the plan's graph, though no node of the plan uses it: asked of those that are not
 * among the plan's arguments. */
static bool is_of_graph(const rota_plan *plan, const rota_buffer *buffer, rota_buffer_kind kind) {
    return buffer->graph == plan->graph && buffer->kind == kind && !buffer->is_view;
}

/* Which of the plan's slot buffers it is; their count: none that a node uses. */
static uint32_t entry_of(const rota_plan *plan, const rota_buffer *slot_buffer) {
    const rota_executable_arguments *slots = &plan->executable->arguments;
    uint32_t entry = 0;
    while (entry < slots->slot_buffer_count &&
           plan->buffers[slots->slot_buffers[entry]].buffer != slot_buffer)
        entry++;
    return entry;
}

/* Whether a buffer of the runtime's fits the slot, and what the plan does with it. */
static rota_status check_bindable(const rota_plan *plan, uint32_t entry, const rota_buffer *slot_buffer,
                                  const rota_buffer *buffer) {
    const rota_executable_arguments *slots = &plan->executable->arguments;
    if (buffer->size_bytes < slot_buffer->size_bytes)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "plan '%s': buffer '%s' of %llu bytes bound to '%s', which needs %llu", plan->name,
                         rota_buffer_name(buffer), (unsigned long long)buffer->size_bytes,
                         rota_buffer_name(slot_buffer), (unsigned long long)slot_buffer->size_bytes);
    if (buffer->is_read_only && entry != slots->slot_buffer_count &&
        usage(plan, slots->slot_buffers[entry]) & ROTA_EXTERNAL_WRITE)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "plan '%s': read-only buffer '%s' bound to '%s', which the plan writes", plan->name,
                         rota_buffer_name(buffer), rota_buffer_name(slot_buffer));
    if (buffer->root_offset % 4 != 0)
        return rota_fail(ROTA_MISALIGNED,
                         "plan '%s': view of '%s' at byte %llu bound to '%s', expected a multiple of 4",
                         plan->name, rota_buffer_name(buffer), (unsigned long long)buffer->root_offset,
                         rota_buffer_name(slot_buffer));
    return ROTA_OK;
}

rota_status rota_args_set_buffer(rota_args *args, rota_buffer *slot_buffer, rota_buffer *buffer) {
    ROTA_GIVEN(args);
    const rota_plan *plan = args->plan;
    ROTA_TRY(rota_plan_check(plan)); /* what is read of `run` is gone with the runtime */
    const rota_executable *executable = plan->executable;
    const rota_executable_arguments *slots = &executable->arguments;
    if (!slot_buffer || !buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': a buffer is NULL", plan->name);
    const uint32_t entry = entry_of(plan, slot_buffer);
    if (entry == slots->slot_buffer_count && !is_of_graph(plan, slot_buffer, ROTA_BUFFER_SLOT))
        return rota_fail(ROTA_NOT_FOUND, "plan '%s' has no SLOT buffer '%s'", plan->name,
                         rota_buffer_name(slot_buffer));
    rota_residency *residency = buffer->root->residency;
    if (buffer->kind != ROTA_BUFFER_PERSISTENT || !residency || residency->closed ||
        residency->runtime != args->runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "plan '%s': '%s' bound to '%s' is not a persistent buffer of the runtime",
                         plan->name, rota_buffer_name(buffer), rota_buffer_name(slot_buffer));
    ROTA_TRY(check_bindable(plan, entry, slot_buffer, buffer));
    if (entry == slots->slot_buffer_count) return ROTA_OK; /* no node uses it */
    rota_copies bits = 0;
    uint64_t domains = 0;
    /* Memory on all devices first: if it fails on one, what was bound before still is, on all of them. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t w = 0; w < plan->word_count; w++) {
            const rota_plan_word *word = &plan->words[w];
            if (word->kind != ROTA_WORD_BUFFER || word->index != slots->slot_buffers[entry]) continue;
            rota_device *device = plan->partitions[word->part].device;
            if (pass == 1) {
                set_word(args, w,
                         ra_load_acquire(&residency->memory[device->index])->address + buffer->root_offset);
                continue;
            }
            ROTA_TRY(rota_residency_prepare(residency, device));
            bits |= rota_residency_bit(residency, device);
            domains |= (uint64_t)1 << device->domain;
            if (__builtin_popcountll((uint64_t)bits) + __builtin_popcountll((uint64_t)(bits >> 64)) !=
                __builtin_popcountll(domains))
                return rota_fail(
                    ROTA_UNSUPPORTED,
                    "plan '%s': buffer '%s' has memory of its own on '%s' since a device was lost",
                    plan->name, rota_buffer_name(buffer), device->id);
        }
    rota_buffer_retain(buffer);
    rota_buffer_release(args->bound[entry]);
    args->bound[entry] = buffer;
    args->rebound = true;
    set_word(args, bound_begin(executable) + 2 * entry, (uint64_t)(uintptr_t)buffer->root);
    set_word(args, bound_begin(executable) + 2 * entry + 1, buffer->root_offset);
    return ROTA_OK;
}

/* The transfers of a buffer get the pointer. */
static void set_transfers(rota_args *args, uint32_t buffer, const void *data) {
    const rota_plan *plan = args->plan;
    for (uint32_t t = 0; t < plan->transfer_count; t++) {
        if (plan->transfers[t].buffer != buffer) continue;
        if (plan->executable->has_staging) set_word(args, plan->word_count + t, (uint64_t)(uintptr_t)data);
        if (plan->transfers[t].word != ROTA_NONE)
            set_word(args, plan->transfers[t].word, (uint64_t)(uintptr_t)data);
    }
}

/* The first transfer of the buffer; ROTA_NONE: no node uses it. */
static rota_status find_transfer(const rota_args *args, const rota_buffer *buffer, bool output,
                                 const void *data, uint64_t size_bytes, uint32_t *out_transfer) {
    const rota_plan *plan = args->plan;
    const char *kind = output ? "OUTPUT" : "INPUT";
    ROTA_TRY(rota_plan_check(plan));
    if (!buffer || !data)
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': %s or its memory is NULL", plan->name, kind);
    uint32_t t = output ? plan->input_count : 0, end = output ? plan->transfer_count : plan->input_count;
    while (t < end && plan->buffers[plan->transfers[t].buffer].buffer != buffer) t++;
    if (t == end && !is_of_graph(plan, buffer, output ? ROTA_BUFFER_OUTPUT : ROTA_BUFFER_INPUT))
        return rota_fail(ROTA_NOT_FOUND, "plan '%s' has no %s buffer '%s'", plan->name, kind,
                         rota_buffer_name(buffer));
    if (size_bytes != buffer->size_bytes)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "plan '%s': %s '%s' has %llu bytes, the memory given has %llu", plan->name, kind,
                         rota_buffer_name(buffer), (unsigned long long)buffer->size_bytes,
                         (unsigned long long)size_bytes);
    *out_transfer = t == end ? ROTA_NONE : t;
    return ROTA_OK;
}

rota_status rota_args_set_input(rota_args *args, rota_buffer *input, const void *data, uint64_t size_bytes,
                                bool copy) {
    ROTA_GIVEN(args);
    uint32_t t;
    ROTA_TRY(find_transfer(args, input, false, data, size_bytes, &t));
    if (t == ROTA_NONE) return ROTA_OK;
    rota_input_copies *copies = &args->inputs[t];
    for (int k = 0; copy && k < ROTA_INPUT_COPIES; k++)
        if (!copies->copies[k]) {
            copies->copies[k] = malloc(size_bytes);
            if (!copies->copies[k]) return no_memory(args->plan);
        }
    args->copied_count += (copy ? 1u : 0u) - (copies->source ? 1u : 0u);
    copies->source = copy ? data : NULL;
    set_transfers(args, args->plan->transfers[t].buffer, data);
    return ROTA_OK;
}

rota_status rota_args_set_output(rota_args *args, rota_buffer *output, void *data, uint64_t size_bytes) {
    ROTA_GIVEN(args);
    uint32_t t;
    ROTA_TRY(find_transfer(args, output, true, data, size_bytes, &t));
    if (t != ROTA_NONE) set_transfers(args, args->plan->transfers[t].buffer, data);
    return ROTA_OK;
}

static rota_status name_missing(const rota_plan *plan, const rota_args *args) {
    const rota_executable *executable = plan->executable;
    const uint8_t *missing = args ? args->missing : executable->arguments.needed;
    uint32_t word = 0;
    while (word < executable->arguments.payload_words && !missing[word]) word++;
    const char *kind = "argument", *name = "";
    if (word < plan->word_count) {
        const rota_plan_word *described = &plan->words[word];
        kind = described->kind == ROTA_WORD_VALUE ? "slot" : "buffer";
        name = described->kind == ROTA_WORD_VALUE ? described->name
               : described->kind == ROTA_WORD_BUFFER
                   ? plan->buffers[described->index].buffer->name
                   : plan->buffers[plan->transfers[described->index].buffer].buffer->name;
    } else if (word >= bound_begin(executable)) {
        kind = "buffer";
        name = plan->buffers[executable->arguments.slot_buffers[(word - bound_begin(executable)) / 2]]
                   .buffer->name;
    } else {
        kind = "buffer";
        name = plan->buffers[plan->transfers[word - plan->word_count].buffer].buffer->name;
    }
    return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s': %s '%s' was never set", plan->name, kind,
                     name ? name : "");
}

/* Copies the inputs given with `copy` into memory that no submission uses. */
static rota_status copy_inputs(rota_args *args) {
    const rota_plan *plan = args->plan;
    for (uint32_t i = 0; i < plan->input_count; i++) {
        rota_input_copies *copies = &args->inputs[i];
        if (!copies->source) continue;
        uint32_t k = copies->next % ROTA_INPUT_COPIES;
        if (copies->users[k].id != 0 && !rota_ticket_taken(copies->users[k]))
            return rota_fail(ROTA_BUSY, "plan '%s': all %d copies of input '%s' are in flight", plan->name,
                             ROTA_INPUT_COPIES, plan->buffers[plan->transfers[i].buffer].buffer->name);
        copies->chosen = k;
    }
    for (uint32_t i = 0; i < plan->input_count; i++) {
        rota_input_copies *copies = &args->inputs[i];
        if (!copies->source) continue;
        uint32_t buffer = plan->transfers[i].buffer;
        memcpy(copies->copies[copies->chosen], copies->source, plan->buffers[buffer].buffer->size_bytes);
        set_transfers(args, buffer, copies->copies[copies->chosen]);
    }
    return ROTA_OK;
}

rota_status rota_args_payload(rota_plan *plan, rota_args *args, const uint64_t **out_payload) {
    const rota_executable *executable = plan->executable;
    *out_payload = NULL;
    if (!args) {
        *out_payload = executable->arguments.no_arguments;
        return executable->arguments.needed_count ? name_missing(plan, NULL) : ROTA_OK;
    }
    if (args->plan != plan)
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s' is given the arguments of plan '%s'", plan->name,
                         args->plan->name);
    if (args->missing_count) return name_missing(plan, args);
    /* Here and not when a slot is set, so that two slots can exchange their buffers. */
    for (uint32_t entry = 0; args->rebound && entry < executable->arguments.slot_buffer_count; entry++)
        ROTA_TRY(check_alias(args, entry, args->bound[entry]));
    args->rebound = false;
    if (args->copied_count) ROTA_TRY(copy_inputs(args));
    *out_payload = args->payload;
    return ROTA_OK;
}

void rota_args_submitted(rota_args *args, rota_ticket ticket) {
    if (args->copied_count == 0) return;
    args->submitted++;
    for (uint32_t i = 0; i < args->plan->input_count; i++) {
        rota_input_copies *copies = &args->inputs[i];
        if (!copies->source) continue;
        copies->users[copies->chosen] = ticket;
        copies->next = copies->chosen + 1;
    }
}
