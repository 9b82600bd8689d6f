/* Turns: threads that wait for room get it in the order in which they came. Internal; not installed.
 *
 * Whoever finds no room takes a number; room is for the lowest number that is left, and nobody without one
 * takes any meanwhile. So a waiter is overtaken only by calls that had looked before it took its number, one
 * a thread at most, however many others come after it.
 *
 * A stopped thread keeps nobody waiting: a turn that is not taken ROTA_TURN_LAPSE_NS after somebody saw room
 * for it lapses, and so it costs those behind it that long, once. Who finds that its turn lapsed takes
 * another number. Lock-free; the object is zero to begin with and needs no end. */
#ifndef ROTA_BASE_TURNS_H
#define ROTA_BASE_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"

#define ROTA_TURN_LAPSE_NS 50000000u

enum { ROTA_TURN_WORDS = 64, ROTA_TURN_PLACES = 1024 };

typedef struct rota_turns {
    _Alignas(64) _Atomic uint64_t next; /* number of the next to come */
    _Atomic uint64_t serving;           /* lower ones had their turn, left, or let it lapse */
    _Atomic uint64_t counted;           /* turns that led to something */
    _Atomic uint64_t offered; /* time << 32 | number, both cut: since when there is room for it; 0 */
    _Atomic uint64_t wanted;  /* the callers': how much room whoever's turn it is wants; 0: it has not said */
    _Atomic uint32_t words[ROTA_TURN_WORDS]; /* slept on by number */
    _Atomic uint64_t left[ROTA_TURN_PLACES]; /* by number: 1 + that of who left before its turn */
} rota_turns;

typedef enum rota_turn { ROTA_TURN_LATER, ROTA_TURN_NOW, ROTA_TURN_LAPSED } rota_turn;

/* Whether nobody waits. */
bool rota_turns_are_none(rota_turns *turns);
/* The same, of a call that does not wait but has seen that there is room: turns lapse by it, too. */
bool rota_turns_lapse(rota_turns *turns, uint64_t now_ns);
/* A waiter's number. */
uint64_t rota_turns_take(rota_turns *turns);
/* Whose turn it is. `has_room`, asked after the number was taken: whether whoever's turn it is could go on.
 */
rota_turn rota_turns_look(rota_turns *turns, uint64_t number, bool has_room, uint64_t now_ns);
/* The waiter whose turn it is went on; or a waiter gives up. The next is woken. */
void rota_turns_leave(rota_turns *turns, uint64_t number);
/* A turn led to what its waiter waited for; how many did so far: what counts as progress for those behind. */
void rota_turns_count(rota_turns *turns);
uint64_t rota_turns_counted(rota_turns *turns);
/* Sleeps until it may be the number's turn, or the deadline. */
void rota_turns_sleep(rota_turns *turns, uint64_t number, uint64_t deadline_ns);

#endif
