/* Ranks in a sentence: see rank_list.h. */
#include "exec/comm/rank_list.h"

#include <stdio.h>

enum { NAMED_MOST = 8 };

static void append(rota_rank_list *list, const char *before, uint32_t number, const char *after) {
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used, "%s%u%s", before,
                                   number, after);
}

void rota_rank_list_add(rota_rank_list *list, uint32_t rank) {
    if (list->count++ < NAMED_MOST) append(list, list->count > 1 ? ", " : "", rank, "");
}

const char *rota_rank_list_end(rota_rank_list *list) {
    if (list->count > NAMED_MOST) append(list, " and ", list->count - NAMED_MOST, " more");
    return list->text;
}
