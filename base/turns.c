/* Who waits for room has it in turn. */
#include "base/turns.h"

#include "base/futex.h"

/* What `offered` counts time in: 2^20 ns, some 1.05 ms. */
#define TICK_BITS 20
#define LAPSE_TICKS ((int32_t)(ROTA_TURN_LAPSE_NS >> TICK_BITS))

static _Atomic uint32_t *word_of(rota_turns *turns, uint64_t number) {
    return &turns->words[number % ROTA_TURN_WORDS];
}
static _Atomic uint64_t *left_of(rota_turns *turns, uint64_t number) {
    return &turns->left[number % ROTA_TURN_PLACES];
}

/* From this number to the next one whose waiter did not leave. seq_cst throughout: who leaves says so and
 * then looks whose turn it is; who ends a turn says so and then looks who left. One of the two sees the
 * other. */
static void end_turn(rota_turns *turns, uint64_t number) {
    do {
        uint64_t expected = number;
        if (!ra_cas_seq_cst(&turns->serving, &expected, number + 1)) return; /* somebody else has */
        number++;
    } while (ra_load_seq_cst(left_of(turns, number)) == number + 1);
    (void)ra_fetch_add_seq_cst(word_of(turns, number), 1); /* with rota_turns_sleep */
    rota_futex_wake(word_of(turns, number), INT32_MAX);
}

/* Room was seen for the number whose turn it is, or there is none: its time runs while there is. Of both time
 * and number `offered` has the lower half. A number that it takes for another one has come 2^32 turns later,
 * with nobody between them who waited and saw room; its turn lapses early then, and it waits anew. Times that
 * are up to a lapse ahead are of a thread that asked the clock later; else they are weeks old. */
static void offer(rota_turns *turns, uint64_t number, bool has_room, uint64_t now_ns) {
    uint64_t offered = ra_load_relaxed(&turns->offered);
    const uint32_t now = (uint32_t)(now_ns >> TICK_BITS), mine = (uint32_t)number;
    const int32_t since = (int32_t)(now - (uint32_t)(offered >> 32));
    if (!has_room)
        ra_store_relaxed(&turns->offered, 0);
    else if (offered == 0 || (uint32_t)offered != mine || since < -LAPSE_TICKS)
        (void)ra_cas_acq_rel(&turns->offered, &offered, (uint64_t)now << 32 | mine);
    else if (since > LAPSE_TICKS)
        end_turn(turns, number);
}

bool rota_turns_are_none(rota_turns *turns) {
    const uint64_t next = ra_load_relaxed(&turns->next);
    return ra_load_relaxed(&turns->serving) >= next;
}

bool rota_turns_lapse(rota_turns *turns, uint64_t now_ns) {
    const uint64_t next = ra_load_relaxed(&turns->next), serving = ra_load_seq_cst(&turns->serving);
    if (serving < next) offer(turns, serving, true, now_ns);
    return rota_turns_are_none(turns);
}

uint64_t rota_turns_take(rota_turns *turns) {
    return ra_fetch_add_seq_cst(&turns->next, 1);
}

rota_turn rota_turns_look(rota_turns *turns, uint64_t number, bool has_room, uint64_t now_ns) {
    uint64_t serving = ra_load_seq_cst(&turns->serving);
    if (serving < number) {
        offer(turns, serving, has_room, now_ns);
        serving = ra_load_seq_cst(&turns->serving);
    }
    return serving < number ? ROTA_TURN_LATER : serving == number ? ROTA_TURN_NOW : ROTA_TURN_LAPSED;
}

void rota_turns_leave(rota_turns *turns, uint64_t number) {
    ra_store_seq_cst(left_of(turns, number), number + 1);
    if (ra_load_seq_cst(&turns->serving) == number) end_turn(turns, number);
}

void rota_turns_sleep(rota_turns *turns, uint64_t number, uint64_t deadline_ns) {
    const uint32_t word = ra_load_seq_cst(word_of(turns, number));
    /* With end_turn: it changes `serving` and then the word. */
    if (ra_load_seq_cst(&turns->serving) < number)
        (void)rota_futex_wait(word_of(turns, number), word, deadline_ns);
}

void rota_turns_count(rota_turns *turns) {
    (void)ra_fetch_add_relaxed(&turns->counted, 1);
}

uint64_t rota_turns_counted(rota_turns *turns) {
    return ra_load_relaxed(&turns->counted);
}
