/* Ranks in a sentence: "1, 2, 5", and of many "1, 2, 3, 4, 5, 6, 7, 8 and 12 more". Internal. */
#ifndef ROTA_EXEC_COMM_RANK_LIST_H
#define ROTA_EXEC_COMM_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: none. */
typedef struct rota_rank_list {
    uint32_t count;
    size_t used;
    char text[128]; /* eight numbers of ten digits, and how many more */
} rota_rank_list;

void rota_rank_list_add(rota_rank_list *list, uint32_t rank);
/* The text, once all are added; "": none were. */
const char *rota_rank_list_end(rota_rank_list *list);

#endif
