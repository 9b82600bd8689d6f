/* Dividing a Hopper product's last round of tiles along the sum: how much each block gets, and the memory for it. */
#include "ops/cuda/matmul_shares_sm90.h"

#include <pthread.h>
#include "base/divide.h"

/* Stages that a block adds up of a shared tile, at the least. */
#define OWN_MIN 4u
/* What it costs to write a part, and an owner to fetch one, in stages. */
#define GIVE_STAGES 3u
#define FETCH_STAGES 4u
#define WARPGROUPS_MAX 3u /* that multiply */

/* Of `shared` tiles by so many blocks, helpers among them where that isn't even: stages of a stretch, and how many it
 * takes in time; 0: not possible. */
static uint64_t own_of(uint64_t shared, uint64_t steps, uint64_t blocks, uint64_t *out_time) {
    const uint64_t levels = blocks / shared, helpers = blocks - levels * shared;
    uint64_t fetched = levels - 1, own = rota_divide_up(steps, levels);
    if (helpers > 0) {
        own = rota_divide_up(shared * (steps + GIVE_STAGES), blocks);
        if (levels * own >= steps || shared * (steps - levels * own) < helpers) return 0;
        fetched += rota_divide_up(helpers, shared) + 1;
    } else if (levels < 2 || (levels - 1) * own >= steps) {
        return 0;
    }
    *out_time = own + GIVE_STAGES + fetched * FETCH_STAGES;
    return own >= OWN_MIN ? own : 0;
}

bool rota_matmul_share(const rota_matmul_params *p, uint32_t rows, uint32_t columns, uint32_t multiprocessors,
                       rota_matmul_shares *out) {
    const uint64_t tiles = rota_divide_up(p->m, rows) * rota_divide_up(p->n, columns);
    const uint64_t steps = rota_divide_up(p->k, ROTA_MATMUL_SM90_STEP), most = tiles * steps / OWN_MIN;
    const uint64_t blocks = most < multiprocessors ? most : multiprocessors;
    if (blocks == 0 || tiles > UINT32_MAX || tiles % blocks == 0) return false;
    const uint64_t shared = tiles % blocks, even = blocks / shared * shared;
    if (shared * (steps + GIVE_STAGES) > UINT32_MAX) return false;
    uint64_t time = 0, even_time = 0, own = own_of(shared, steps, blocks, &time);
    *out = (rota_matmul_shares){(uint32_t)blocks, (uint32_t)own, 0};
    /* Without helpers there are fewer parts, and all blocks go along the sum together. */
    if (tiles < blocks && even < blocks) {
        const uint64_t even_own = own_of(shared, steps, even, &even_time);
        if (even_own > 0 && (own == 0 || even_time < time)) {
            own = even_own, time = even_time;
            out->blocks = (uint32_t)even, out->own = (uint32_t)own;
        }
    }
    out->rounds = (double)(tiles / blocks) + (double)time / (double)steps;
    return own > 0;
}

uint64_t rota_matmul_shares_bytes(uint32_t blocks, uint32_t rows, uint32_t columns) {
    return (uint64_t)blocks * rows * columns * sizeof(float);
}

uint32_t rota_matmul_shares_words(uint32_t blocks) {
    return blocks * WARPGROUPS_MAX;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t addresses[ROTA_MATMUL_SHARES_ROWS]; /* by row; 0: nobody's yet */

uint32_t rota_matmul_shares_row(uint64_t address) {
    uint32_t found = ROTA_MATMUL_SHARES_ROWS;
    const uint32_t first = (uint32_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) % ROTA_MATMUL_SHARES_ROWS;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < ROTA_MATMUL_SHARES_ROWS && found == ROTA_MATMUL_SHARES_ROWS; i++) {
        const uint32_t row = (first + i) % ROTA_MATMUL_SHARES_ROWS;
        if (addresses[row] == 0) addresses[row] = address;
        if (addresses[row] == address) found = row;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
