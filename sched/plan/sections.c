/* Sections of a plan: operations in a row whose names begin alike. */
#include "sched/plan/sections.h"

#include <string.h>
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

size_t rota_section_name_bytes(const char *name) {
    size_t first_part = 0, length = 0;
    for (; name[length]; length++) {
        const char c = name[length];
        if (!strchr(" ./:", c)) continue;
        if (length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9') return length;
        if (c != ' ' && !first_part) first_part = length;
    }
    return first_part ? first_part : length;
}

static bool begins_with(const char *name, const rota_section *section) {
    const size_t length = rota_section_name_bytes(name);
    return length == section->name_bytes && memcmp(name, section->name, length) == 0;
}

bool rota_sections_find(const rota_plan *plan, rota_arena *arena, rota_sections *out) {
    const rota_compile_info *info = rota_plan_info(plan);
    const size_t room = (size_t)info->operation_count + 1;
    *out = (rota_sections){.list = rota_arena_alloc(arena, room * sizeof *out->list, 8),
                           .of_operation = rota_arena_alloc(arena, room * sizeof *out->of_operation, 4)};
    if (!out->list || !out->of_operation) return false;
    rota_section *last = NULL;
    bool named = false; /* a node of the last section, and not copies alone, has given it its name */
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const bool is_node = info->operations[n].kind == ROTA_OPERATION_NODE;
        const char *name = rota_operation_name(plan, n);
        if (!last || (is_node && named && !begins_with(name, last))) {
            last = &out->list[out->count++];
            *last = (rota_section){.first = n};
            named = false;
        }
        if (!named) {
            last->name = name;
            last->name_bytes = rota_section_name_bytes(name);
            named = is_node;
        }
        last->count++;
        out->of_operation[n] = out->count - 1;
    }
    return true;
}
