/* A kernel node of a plan with check_kernels as the records that run and watch it (check.h). */
#include "sched/plan/check.h"

#include <string.h>
#include "graph/buffer_internal.h"
#include "graph/kernel_calls.h"
#include "graph/record.h"
#include "sched/plan/check_compare.h"

/* One of an operand's two shadows, as access records name it. */
typedef struct shadow {
    uint64_t reference, size_bytes;
} shadow;

typedef struct maker {
    rota_compiler *c;
    const rota_node_record *node;
    const rota_access_record *accesses; /* of it */
    rota_check_operand *operands;
    rota_wide_range *wide; /* by run and operand: of all of a shadow, and of what is the operand there */
    shadow shadows[2][ROTA_KERNEL_OPERANDS_MAX];
    uint32_t written[ROTA_KERNEL_OPERANDS_MAX], written_count; /* operands that it does not only read */
    rota_check_records *out;
} maker;

static bool is_read(const maker *m, uint32_t operand) {
    return m->operands[operand].mode == ROTA_READ;
}

/* A record behind the others, whose accesses are to be filled in. */
static rota_node_record *add_record(maker *m, rota_node_kind kind, uint32_t access_count) {
    const size_t bytes = sizeof(rota_node_record) + sizeof(rota_access_record) * access_count;
    rota_node_record *made = rota_arena_alloc(&m->c->plan->arena, bytes, 8);
    if (!made) return NULL;
    *made = (rota_node_record){.record_words = rota_record_words(bytes) & 0x3fffu,
                               .kind = (unsigned)kind & 7u,
                               .access_count = (uint8_t)access_count,
                               .device_plus_1 = m->node->device_plus_1,
                               .queue_plus_1 = m->node->queue_plus_1,
                               .name = rota_node_record_name(m->node)};
    m->out->list[m->out->count++] = made;
    return made;
}

static rota_access_record *accesses_of(rota_node_record *record) {
    return (rota_access_record *)(record + 1);
}

static rota_wide_range *wide_of(const maker *m, int run, uint32_t operand) {
    return m->wide + 2 * ((size_t)run * m->node->access_count + operand);
}
static rota_access_record whole_shadow(const maker *m, int run, uint32_t operand, rota_access_mode mode) {
    const shadow *s = &m->shadows[run][operand];
    const bool is_wide = rota_access_is_wide(0, s->size_bytes);
    return rota_access_record_of(s->reference, 0, s->size_bytes, mode,
                                 is_wide ? wide_of(m, run, operand) : NULL);
}
static rota_access_record in_shadow(const maker *m, int run, uint32_t operand, rota_access_mode mode) {
    const rota_check_operand *it = &m->operands[operand];
    const bool is_wide = rota_access_is_wide(it->lead_bytes, it->size_bytes);
    return rota_access_record_of(m->shadows[run][operand].reference, it->lead_bytes, it->size_bytes, mode,
                                 is_wide ? wide_of(m, run, operand) + 1 : NULL);
}
static rota_access_record at_original(const maker *m, uint32_t operand, rota_access_mode mode) {
    const rota_access_record *access = &m->accesses[operand];
    return rota_access_record_like(access, rota_access_stored(access), mode);
}

/* An operand keeps its place modulo a buffer's alignment: what its kernel was promised of it stays true. */
static rota_status describe(maker *m, uint32_t operand) {
    const rota_access_record *access = &m->accesses[operand];
    uint32_t buffer = ROTA_NONE;
    ROTA_TRY(rota_compile_buffer_index(m->c, rota_access_stored(access), &buffer));
    m->operands[operand] = (rota_check_operand){
        .buffer = ((const rota_plan_buffer *)m->c->buffers.data)[buffer].buffer->name,
        .offset_bytes = ROTA_ACCESS_OFFSET(access),
        .lead_bytes = ROTA_CHECK_BAND + ROTA_ACCESS_OFFSET(access) % ROTA_BUFFER_ALIGNMENT,
        .size_bytes = rota_access_size(access),
        .mode = ROTA_ACCESS_MODE(access),
        .number = operand,
    };
    if (!is_read(m, operand)) m->written[m->written_count++] = operand;
    return ROTA_OK;
}

/* The operands that some part has which the kernel has on a device of this kind; into *out_handed those that they hand
 * to one another: what the last of them that has it reads. */
static uint32_t operands_of_parts(const maker *m, rota_exec_kind kind, const rota_cuda_target *target,
                                  uint32_t *out_handed) {
    const rota_node_record *node = m->node;
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < node->access_count; i++) bytes[i] = m->operands[i].size_bytes;
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {{0}};
    const uint32_t count =
        rota_kernel_parts(node->u.kernel.kernel, kind, rota_node_params(node), bytes, 0, target, parts);
    uint32_t found = 0, handed = 0;
    for (uint32_t p = 0; p < count; p++)
        for (uint32_t i = 0; i < parts[p].operand_count; i++) {
            if (parts[p].operand[i] >= node->access_count) continue;
            const uint32_t bit = 1u << parts[p].operand[i];
            found |= bit;
            handed = parts[p].mode[i] == ROTA_READ ? handed | bit : handed & ~bit;
        }
    *out_handed = handed;
    return found;
}

/* A kernel that is several on other devices, and fewer or one here, may leave what those hand to one another. */
static void find_scratch(maker *m, const rota_device_traits *device) {
    if (!rota_kernel_has_parts(m->node->u.kernel.kernel) || !device) return;
    uint32_t handed, on_cpu, on_vulkan;
    const uint32_t here = operands_of_parts(m, device->kind, device->cuda, &handed);
    (void)operands_of_parts(m, ROTA_EXEC_CPU, NULL, &on_cpu);
    (void)operands_of_parts(m, ROTA_EXEC_VK, NULL, &on_vulkan);
    for (uint32_t i = 0; i < m->node->access_count; i++)
        m->operands[i].is_scratch =
            m->operands[i].mode == ROTA_WRITE && ((on_cpu | on_vulkan) & ~here) >> i & 1;
}

/* The shadows of one run, with their pattern, and what the kernel may read. */
static rota_status prepare_run(maker *m, int run, uint32_t pattern) {
    for (uint32_t i = 0; i < m->node->access_count; i++) {
        const rota_check_operand *operand = &m->operands[i];
        const uint64_t bytes =
            (operand->lead_bytes + operand->size_bytes + ROTA_CHECK_BAND + 3) & ~(uint64_t)3;
        rota_buffer *buffer = rota_buffer_new(ROTA_BUFFER_TRANSIENT, "checked operand", bytes);
        if (!buffer) return rota_compile_no_memory(m->c);
        uint32_t index = ROTA_NONE;
        ROTA_TRY(rota_compile_own_buffer(m->c, buffer, &index));
        m->shadows[run][i] = (shadow){rota_compile_own_reference(m->c, index), bytes};
        rota_node_record *fill = add_record(m, ROTA_NODE_FILL, 1);
        if (!fill) return rota_compile_no_memory(m->c);
        fill->u.fill.pattern = pattern;
        accesses_of(fill)[0] = whole_shadow(m, run, i, ROTA_WRITE);
        if (operand->mode == ROTA_WRITE) continue;
        rota_node_record *copy = add_record(m, ROTA_NODE_COPY, 2);
        if (!copy) return rota_compile_no_memory(m->c);
        accesses_of(copy)[0] = in_shadow(m, run, i, ROTA_WRITE);
        accesses_of(copy)[1] = at_original(m, i, ROTA_READ);
    }
    return ROTA_OK;
}

static rota_status add_run(maker *m, int run) {
    rota_node_record *made = rota_arena_alloc(&m->c->plan->arena, rota_record_bytes(m->node), 8);
    if (!made) return rota_compile_no_memory(m->c);
    memcpy(made, m->node, rota_record_bytes(m->node));
    for (uint32_t i = 0; i < made->access_count; i++)
        accesses_of(made)[i] = in_shadow(m, run, i, m->operands[i].mode);
    m->out->list[m->out->count++] = made;
    return ROTA_OK;
}

/* A host node has all that was written in its first run, as READWRITE, so that nothing of it is copied out
 * where a comparison fails; then the rest of operands [from, to). */
static rota_status add_comparison(maker *m, uint32_t from, uint32_t to, uint32_t access_count) {
    rota_check *check = rota_arena_alloc(&m->c->plan->arena, sizeof *check, 8);
    rota_node_record *host = add_record(m, ROTA_NODE_HOST, access_count);
    if (!check || !host) return rota_compile_no_memory(m->c);
    *check = (rota_check){m->node->u.kernel.kernel, m->operands + from, to - from};
    host->u.host.fn = rota_check_compare;
    host->u.host.user = check;
    host->u.host.later = NULL;
    rota_access_record *accesses = accesses_of(host);
    uint32_t used = 0;
    for (uint32_t w = 0; w < m->written_count; w++) {
        m->operands[m->written[w]].first = used;
        accesses[used++] = whole_shadow(m, 0, m->written[w], ROTA_READWRITE);
    }
    for (uint32_t i = from; i < to; i++) {
        rota_check_operand *operand = &m->operands[i];
        if (is_read(m, i)) {
            operand->first = used;
            accesses[used++] = whole_shadow(m, 0, i, ROTA_READ);
            operand->original = used;
            accesses[used++] = at_original(m, i, ROTA_READ);
        }
        operand->second = used;
        accesses[used++] = whole_shadow(m, 1, i, ROTA_READ);
    }
    return ROTA_OK;
}

/* As many host nodes as it takes for none to have too many accesses. */
static rota_status add_comparisons(maker *m) {
    uint32_t from = 0, used = m->written_count;
    for (uint32_t i = 0; i < m->node->access_count; i++) {
        const uint32_t needs = is_read(m, i) ? 3 : 1;
        if (used + needs > ROTA_KERNEL_OPERANDS_MAX && i > from) {
            ROTA_TRY(add_comparison(m, from, i, used));
            from = i;
            used = m->written_count;
        }
        used += needs;
    }
    return add_comparison(m, from, m->node->access_count, used);
}

static rota_status copy_out(maker *m) {
    for (uint32_t w = 0; w < m->written_count; w++) {
        rota_node_record *copy = add_record(m, ROTA_NODE_COPY, 2);
        if (!copy) return rota_compile_no_memory(m->c);
        accesses_of(copy)[0] = at_original(m, m->written[w], ROTA_WRITE);
        accesses_of(copy)[1] = in_shadow(m, 0, m->written[w], ROTA_READ);
    }
    return ROTA_OK;
}

bool rota_compile_can_check(const rota_node_record *record) {
    if (!(record->u.kernel.kernel->flags & ROTA_KERNEL_INTERLEAVED)) return true;
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t j = 1; j < record->access_count; j++)
        for (uint32_t i = 0; i < j; i++) {
            const rota_access_record *a = &accesses[i], *b = &accesses[j];
            if (ROTA_ACCESS_MODE(a) == ROTA_READ || ROTA_ACCESS_MODE(b) == ROTA_READ ||
                rota_access_stored(a) != rota_access_stored(b))
                continue;
            if (ROTA_ACCESS_OFFSET(a) < ROTA_ACCESS_OFFSET(b) + rota_access_size(b) &&
                ROTA_ACCESS_OFFSET(b) < ROTA_ACCESS_OFFSET(a) + rota_access_size(a))
                return false;
        }
    return true;
}

rota_status rota_compile_check(rota_compiler *c, uint32_t part, const rota_node_record *record,
                               rota_check_records *out_records) {
    const uint32_t count = record->access_count;
    maker m = {.c = c, .node = record, .accesses = rota_node_accesses(record), .out = out_records};
    /* Of each operand two fills, two copies in, a comparison and a copy out at most, and two runs. */
    *out_records = (rota_check_records){
        .list = rota_arena_alloc(&c->scratch, sizeof *out_records->list * (6 * (size_t)count + 3), 8)};
    m.operands = rota_arena_alloc(&c->plan->arena, sizeof *m.operands * (count + (size_t)1), 8);
    m.wide = rota_arena_alloc(&c->plan->arena, sizeof *m.wide * (4 * (size_t)count + 1), 8);
    if (!out_records->list || !m.operands || !m.wide) return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(describe(&m, i));
    find_scratch(&m, c->partitions.device[part]);
    if (m.written_count + 3 > ROTA_KERNEL_OPERANDS_MAX)
        return rota_fail(ROTA_UNSUPPORTED,
                         "check_kernels: node '%s' writes %u operands, at most %d can be watched",
                         rota_node_record_name(record), m.written_count, ROTA_KERNEL_OPERANDS_MAX - 3);
    ROTA_TRY(prepare_run(&m, 0, ROTA_CHECK_PATTERN_A));
    ROTA_TRY(prepare_run(&m, 1, ROTA_CHECK_PATTERN_B));
    ROTA_TRY(add_run(&m, 0));
    ROTA_TRY(add_run(&m, 1));
    ROTA_TRY(add_comparisons(&m));
    return copy_out(&m);
}
