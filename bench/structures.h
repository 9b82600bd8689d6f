/* The structures that rota's threads share, each twice: Concurrency Kit's, and the same in C11. */
#ifndef ROTA_BENCH_STRUCTURES_H
#define ROTA_BENCH_STRUCTURES_H

#include <stdbool.h>
#include <stdint.h>

/* One way to do `rounds` rounds of a structure's work on the calling thread; false: what came out was wrong.
 */
typedef bool structure_fn(void *memory, uint64_t rounds);

typedef struct structure_pair {
    const char *name;
    uint32_t operations; /* of a round: what a time is divided by */
    uint32_t threads;    /* that do it at once */
    structure_fn *kit, *own;
} structure_pair;

enum { STRUCTURE_ENTRIES = 64, STRUCTURE_OBJECTS = 1000, STRUCTURE_CELLS = 2048 };

/* Memory for any of them. */
void *structures_memory(void);
void structures_free(void *memory);

structure_fn structure_stack_kit, structure_stack_own;
structure_fn structure_ring_kit, structure_ring_own;
structure_fn structure_hand_off_kit, structure_hand_off_own;
structure_fn structure_names_kit, structure_names_own;
structure_fn structure_pointers_kit, structure_pointers_own;
structure_fn structure_keys_kit; /* of the same; beside structure_pointers_own */
structure_fn structure_wake_kit, structure_wake_own;

#endif
