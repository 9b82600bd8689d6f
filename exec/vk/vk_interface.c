/* The push constants that a SPIR-V module declares ("SPIR-V Specification", section 3). */
#include "exec/vk/vk_interface.h"

#include <stdbool.h>
#include <stdlib.h>

#define HEADER_WORDS 5u

enum {
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72
};
enum { CLASS_PUSH_CONSTANT = 9, DECORATION_ARRAY_STRIDE = 6, DECORATION_OFFSET = 35 };

typedef struct module {
    const uint32_t *words;
    size_t count;
    uint32_t bound;
    uint32_t *defined; /* by id: where its type or constant stands; 0: none of what is looked at */
    uint32_t *stride;  /* by id of an array */
    uint32_t block;    /* the struct of the push constants; 0: none */
} module;

static uint32_t code_at(const module *m, size_t word) {
    return m->words[word] & 0xffffu;
}
static uint32_t words_at(const module *m, size_t word) {
    return m->words[word] >> 16;
}

/* Where a type or constant of this kind stands; 0: that id is none. */
static uint32_t find(const module *m, uint32_t id, uint32_t code, uint32_t words) {
    const uint32_t word = id < m->bound ? m->defined[id] : 0;
    return word && code_at(m, word) == code && words_at(m, word) >= words ? word : 0;
}

static void see(module *m, size_t word) {
    const uint32_t count = words_at(m, word), *w = m->words + word;
    switch (code_at(m, word)) {
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
    case OP_TYPE_VECTOR:
    case OP_TYPE_ARRAY:
    case OP_TYPE_STRUCT:
    case OP_TYPE_POINTER:
        if (count > 1 && w[1] < m->bound) m->defined[w[1]] = (uint32_t)word;
        break;
    case OP_CONSTANT:
        if (count > 3 && w[2] < m->bound) m->defined[w[2]] = (uint32_t)word;
        break;
    case OP_DECORATE:
        if (count > 3 && w[2] == DECORATION_ARRAY_STRIDE && w[1] < m->bound) m->stride[w[1]] = w[3];
        break;
    case OP_VARIABLE: {
        const uint32_t pointer =
            count > 3 && w[3] == CLASS_PUSH_CONSTANT ? find(m, w[1], OP_TYPE_POINTER, 4) : 0;
        if (pointer) m->block = m->words[pointer + 3];
        break;
    }
    default:
        break;
    }
}

/* Elements of an array; 0: it is none, or its length is no plain constant. */
static uint32_t length_of(const module *m, uint32_t type) {
    const uint32_t array = find(m, type, OP_TYPE_ARRAY, 4);
    const uint32_t constant = array ? find(m, m->words[array + 3], OP_CONSTANT, 4) : 0;
    return constant ? m->words[constant + 3] : 0;
}

/* Bytes of a type of numbers; 0: of another. */
static uint64_t bytes_of(const module *m, uint32_t type) {
    uint32_t word = find(m, type, OP_TYPE_INT, 3);
    if (!word) word = find(m, type, OP_TYPE_FLOAT, 3);
    if (word) return m->words[word + 2] / 8;
    const uint32_t length = length_of(m, type);
    if (length) return (uint64_t)length * m->stride[type];
    word = find(m, type, OP_TYPE_VECTOR, 4);
    const uint32_t element = word ? find(m, m->words[word + 2], OP_TYPE_FLOAT, 3) : 0;
    const uint32_t integer = word && !element ? find(m, m->words[word + 2], OP_TYPE_INT, 3) : element;
    return integer ? (uint64_t)(m->words[integer + 2] / 8) * m->words[word + 3] : 0;
}

static bool is_u64(const module *m, uint32_t type) {
    return find(m, type, OP_TYPE_INT, 3) && bytes_of(m, type) == 8;
}

/* The offset of a member; UINT32_MAX: none is said. */
static uint32_t offset_of(const module *m, uint32_t member) {
    for (size_t word = HEADER_WORDS; word < m->count; word += words_at(m, word))
        if (code_at(m, word) == OP_MEMBER_DECORATE && words_at(m, word) > 4 &&
            m->words[word + 1] == m->block && m->words[word + 2] == member &&
            m->words[word + 3] == DECORATION_OFFSET)
            return m->words[word + 4];
    return UINT32_MAX;
}

/* The block's address, the operands', then the parameters. */
static rota_status check(const module *m, uint32_t operand_count, uint32_t param_bytes) {
    const uint32_t block = find(m, m->block, OP_TYPE_STRUCT, 4); /* of two members at least */
    if (!block) return ROTA_OK;
    const uint32_t *members = m->words + block + 2, count = words_at(m, block) - 2;
    const uint32_t array = find(m, members[1], OP_TYPE_ARRAY, 4), operands = length_of(m, members[1]);
    if (!operands || !is_u64(m, members[0]) || !is_u64(m, m->words[array + 2]) || offset_of(m, 1) != 8)
        return ROTA_OK;
    /* What takes the operands behind the first as words, since their number is not known to it (fused.comp).
     */
    if (operands == 1 && count == 3 && length_of(m, members[2])) return ROTA_OK;
    if (operands > operand_count || (operands < operand_count && count > 2))
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "its push constants have %u operands, and the kernel has %u: expected ROTA_KERNEL_BEGIN(%u)",
            operands, operand_count, operand_count);
    const uint32_t last = offset_of(m, count - 1);
    const uint64_t end = last == UINT32_MAX ? 0 : last + bytes_of(m, members[count - 1]);
    const uint64_t given = 8 + 8 * (uint64_t)operand_count + param_bytes;
    if (count > 2 && end > given)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "its push constants have %llu bytes, and the kernel's %llu: 8, 8 for each of %u operands, and %u "
            "of parameters",
            (unsigned long long)end, (unsigned long long)given, operand_count, param_bytes);
    return ROTA_OK;
}

rota_status rota_spirv_check_interface(const uint32_t *words, size_t size_bytes, uint32_t operand_count,
                                       uint32_t param_bytes) {
    module m = {.words = words, .count = size_bytes / 4, .bound = words[3]};
    m.defined = calloc(2 * (size_t)m.bound, sizeof *m.defined);
    if (!m.defined) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u ids", m.bound);
    m.stride = m.defined + m.bound;
    for (size_t word = HEADER_WORDS; word < m.count; word += words_at(&m, word)) see(&m, word);
    const rota_status status = m.block < m.bound ? check(&m, operand_count, param_bytes) : ROTA_OK;
    free(m.defined);
    return status;
}
