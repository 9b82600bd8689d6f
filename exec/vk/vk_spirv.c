/* The structure of SPIR-V modules ("SPIR-V Specification", sections 2.3, 2.4 and 3). */
#include "exec/vk/vk_spirv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x07230203u
#define HEADER_WORDS 5u
#define BOUND_MAX 0x3FFFFFu /* the specification's universal limit */
#define MINOR_MAX 6u

enum {
    OP_SOURCE_EXTENSION = 4,
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_STRING = 7,
    OP_EXTENSION = 10,
    OP_EXT_INST_IMPORT = 11,
    OP_MEMORY_MODEL = 14,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55,
    OP_FUNCTION_END = 56,
    OP_FUNCTION_CALL = 57,
    OP_DECORATE = 71,
    OP_LOOP_MERGE = 246,
    OP_SELECTION_MERGE = 247,
    OP_LABEL = 248,
    OP_BRANCH = 249,
    OP_BRANCH_CONDITIONAL = 250,
    OP_SWITCH = 251,
    OP_UNREACHABLE = 255,
    OP_LINE = 8,
    OP_NO_LINE = 317,
    OP_EXECUTION_MODE_ID = 331,
    OP_TERMINATE_INVOCATION = 4416
};
enum { MODEL_COMPUTE = 5, MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38 };
enum { DECORATION_BUILT_IN = 11, BUILT_IN_WORKGROUP_SIZE = 25 };

typedef struct module {
    const uint32_t *words;
    size_t count;
    const char *entry;
    uint8_t *ids;             /* FUNCTION, LABEL: by id, of the first pass */
    uint32_t bound, function; /* the entry point's */
    bool has_model, has_size;
} module;

enum { FUNCTION = 1, LABEL = 2 };

typedef struct instruction {
    const uint32_t *words;
    size_t first_word;
    uint32_t code, count;
} instruction;

static rota_status wrong(const instruction *i, const char *what) {
    return rota_fail(ROTA_INVALID_ARGUMENT, "instruction %u at word %zu %s", i->code, i->first_word, what);
}

static rota_status needs(const instruction *i, uint32_t words) {
    if (i->count >= words) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "instruction %u at word %zu has %u words, expected at least %u",
                     i->code, i->first_word, i->count, words);
}

/* Characters are packed from the low byte on; the last word has a zero. */
static bool string_ends(const instruction *i, uint32_t word) {
    for (; word < i->count; word++)
        for (int byte = 0; byte < 4; byte++)
            if ((i->words[word] >> (8 * byte) & 0xffu) == 0) return true;
    return false;
}

static bool string_is(const instruction *i, uint32_t word, const char *text) {
    for (size_t n = 0;; n++) {
        const uint32_t c = i->words[word + n / 4] >> (8 * (n % 4)) & 0xffu;
        if (c != (unsigned char)text[n]) return false;
        if (!c) return true;
    }
}

static bool in_bound(const module *m, uint32_t id) {
    return id > 0 && id < m->bound;
}

static rota_status check_string(const instruction *i) {
    uint32_t word;
    switch (i->code) {
    case OP_SOURCE_EXTENSION:
    case OP_EXTENSION:
        word = 1;
        break;
    case OP_NAME:
    case OP_STRING:
    case OP_EXT_INST_IMPORT:
        word = 2;
        break;
    case OP_MEMBER_NAME:
    case OP_ENTRY_POINT:
        word = 3;
        break;
    default:
        return ROTA_OK;
    }
    return string_ends(i, word) ? ROTA_OK : wrong(i, "has a string that does not end in it");
}

/* What stands before the functions. */
static rota_status check_declaration(module *m, const instruction *i) {
    switch (i->code) {
    case OP_MEMORY_MODEL:
        ROTA_TRY(needs(i, 3));
        if (m->has_model) return wrong(i, "is a second memory model");
        m->has_model = true;
        break;
    case OP_ENTRY_POINT:
        ROTA_TRY(needs(i, 4));
        if (!in_bound(m, i->words[2])) return wrong(i, "names an id that is not below the bound");
        if (i->words[1] == MODEL_COMPUTE && string_is(i, 3, m->entry)) {
            if (m->function) return wrong(i, "names the entry a second time");
            m->function = i->words[2];
        }
        break;
    case OP_EXECUTION_MODE:
    case OP_EXECUTION_MODE_ID:
        ROTA_TRY(needs(i, 3));
        if (i->words[1] != m->function) break;
        if (i->words[2] == MODE_LOCAL_SIZE || i->words[2] == MODE_LOCAL_SIZE_ID) {
            ROTA_TRY(needs(i, 6));
            for (uint32_t k = 3; k < 6; k++)
                if (!i->words[k]) return wrong(i, "gives a workgroup without items");
            m->has_size = true;
        }
        break;
    case OP_DECORATE:
        ROTA_TRY(needs(i, 3));
        if (i->count > 3 && i->words[2] == DECORATION_BUILT_IN && i->words[3] == BUILT_IN_WORKGROUP_SIZE)
            m->has_size = true;
        break;
    default:
        break;
    }
    return ROTA_OK;
}

typedef enum nesting { OUTSIDE, BETWEEN_BLOCKS, IN_BLOCK } nesting;

static bool ends_block(uint32_t code) {
    return (code >= OP_BRANCH && code <= OP_UNREACHABLE) || code == OP_TERMINATE_INVOCATION;
}

/* Where the next instruction is, after this one; marks the ids of functions and labels. */
static rota_status step(module *m, const instruction *i, nesting *depth) {
    if (i->code == OP_LINE || i->code == OP_NO_LINE) return ROTA_OK;
    switch (i->code) {
    case OP_FUNCTION:
        ROTA_TRY(needs(i, 5));
        if (*depth != OUTSIDE) return wrong(i, "begins a function inside another");
        break;
    case OP_FUNCTION_END:
        if (*depth != BETWEEN_BLOCKS) return wrong(i, "ends a function that is not there, or inside a block");
        *depth = OUTSIDE;
        return ROTA_OK;
    case OP_LABEL:
        ROTA_TRY(needs(i, 2));
        if (*depth != BETWEEN_BLOCKS)
            return wrong(i, "begins a block outside a function, or inside another block");
        break;
    case OP_FUNCTION_PARAMETER:
        if (*depth != BETWEEN_BLOCKS) return wrong(i, "is not at the beginning of a function");
        return ROTA_OK;
    default:
        if (*depth == BETWEEN_BLOCKS) return wrong(i, "is in a function, but in none of its blocks");
        if (*depth == OUTSIDE) return check_declaration(m, i);
        if (ends_block(i->code)) *depth = BETWEEN_BLOCKS;
        return ROTA_OK;
    }
    const bool is_function = i->code == OP_FUNCTION;
    const uint32_t id = i->words[is_function ? 2 : 1];
    if (!in_bound(m, id)) return wrong(i, "has an id that is not below the bound");
    if (m->ids[id]) return wrong(i, "has an id that is another's");
    m->ids[id] = is_function ? FUNCTION : LABEL;
    *depth = is_function ? BETWEEN_BLOCKS : IN_BLOCK;
    return ROTA_OK;
}

static rota_status target(const module *m, const instruction *i, uint32_t word, uint8_t kind) {
    ROTA_TRY(needs(i, word + 1));
    if (in_bound(m, i->words[word]) && m->ids[i->words[word]] == kind) return ROTA_OK;
    return wrong(i,
                 kind == LABEL ? "goes to a block that is not there" : "calls a function that is not there");
}

/* With all functions and labels known. */
static rota_status check_targets(module *m, const instruction *i, nesting *depth) {
    (void)depth;
    switch (i->code) {
    case OP_FUNCTION_CALL:
        return target(m, i, 3, FUNCTION);
    case OP_LOOP_MERGE:
        ROTA_TRY(target(m, i, 2, LABEL));
        return target(m, i, 1, LABEL);
    case OP_SELECTION_MERGE:
    case OP_BRANCH:
        return target(m, i, 1, LABEL);
    case OP_BRANCH_CONDITIONAL:
        ROTA_TRY(target(m, i, 2, LABEL));
        return target(m, i, 3, LABEL);
    case OP_SWITCH:
        return target(m, i, 2, LABEL);
    default:
        return ROTA_OK;
    }
}

static rota_status each(module *m, rota_status (*fn)(module *m, const instruction *i, nesting *depth),
                        bool strings) {
    nesting depth = OUTSIDE;
    for (size_t w = HEADER_WORDS; w < m->count;) {
        const instruction i = {m->words + w, w, m->words[w] & 0xffffu, m->words[w] >> 16};
        if (!i.count || i.count > m->count - w)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "instruction %u at word %zu has %u words, of which %zu are there", i.code, w,
                             i.count, m->count - w);
        if (strings) ROTA_TRY(check_string(&i));
        ROTA_TRY(fn(m, &i, &depth));
        w += i.count;
    }
    if (depth != OUTSIDE) return rota_fail(ROTA_INVALID_ARGUMENT, "the last function does not end");
    return ROTA_OK;
}

static rota_status check(module *m) {
    ROTA_TRY(each(m, step, true));
    if (!m->has_model) return rota_fail(ROTA_INVALID_ARGUMENT, "there is no memory model");
    if (!m->function || m->ids[m->function] != FUNCTION)
        return rota_fail(ROTA_INVALID_ARGUMENT, "there is no entry point '%s' for compute", m->entry);
    if (!m->has_size)
        return rota_fail(ROTA_INVALID_ARGUMENT, "the entry point '%s' has no size of a workgroup", m->entry);
    return each(m, check_targets, false);
}

rota_status rota_spirv_check(const uint32_t *words, size_t size_bytes, const char *entry) {
    if (size_bytes % 4 || size_bytes / 4 < HEADER_WORDS)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "%zu bytes are no module: expected words of 4 bytes, and 5 of a header", size_bytes);
    if (words[0] != MAGIC)
        return rota_fail(ROTA_INVALID_ARGUMENT, "it begins with 0x%08x, expected 0x%08x", words[0], MAGIC);
    if (words[1] & 0xff0000ffu || words[1] >> 16 != 1 || (words[1] >> 8 & 0xffu) > MINOR_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "its version is 0x%08x, expected 1.0 to 1.%u", words[1],
                         MINOR_MAX);
    if (words[3] < 2 || words[3] > BOUND_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "its ids are below %u, expected a bound of 2 to %u", words[3],
                         BOUND_MAX);
    if (words[4]) return rota_fail(ROTA_INVALID_ARGUMENT, "word 4 is %u, expected 0", words[4]);
    module m = {.words = words, .count = size_bytes / 4, .entry = entry, .bound = words[3]};
    m.ids = calloc(m.bound, 1);
    if (!m.ids) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %u ids", m.bound);
    const rota_status status = check(&m);
    free(m.ids);
    return status;
}
