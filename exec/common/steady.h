/* Argument words that stay the same from launch to launch: which of them an executor writes into its commands,
 * so that kernels need not read them from the argument block. The policy, with no driver in it. Internal to the
 * executors; one thread at a time.
 *
 * A word becomes steady when some launches in a row gave it the same value, and loose again with the launch that
 * gives another. What reads it is then to be written anew: CUDA rewrites those nodes of the graph that read the word,
 * at both times; Vulkan goes back to the command buffer that reads the whole block, and records another once words
 * have been quiet. A word that did not stay steady for long enough to be worth that has to keep its value for twice
 * as long the next time. */
#ifndef ROTA_EXEC_COMMON_STEADY_H
#define ROTA_EXEC_COMMON_STEADY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "exec/exec.h"

/* A segment's commands by the words that they read, by their places in it. */
typedef struct rota_readers {
    uint32_t *first; /* of a word: reader[first[word] .. first[word + 1]) */
    uint32_t *reader;
} rota_readers;

/* OUT_OF_MEMORY leaves what rota_readers_free takes. */
rota_status rota_readers_create(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                                rota_readers *out_readers);
void rota_readers_free(rota_readers *readers);

/* By what rewriting costs an executor. */
typedef struct rota_steady_rules {
    uint32_t patience; /* launches that must follow with the same value before a word is steady */
    uint32_t pays;     /* launches for which it is worth it to have been */
    uint32_t readers_least, readers_share; /* made to know values at one launch: so many, or a share of all */
} rota_steady_rules;

typedef struct rota_steady_word {
    uint64_t since;    /* the launch that first gave its value */
    uint64_t turned;   /* the launch that made it steady */
    uint32_t patience; /* how many launches must follow with the same value */
    bool steady;
} rota_steady_word;

typedef struct rota_steady {
    uint32_t word_count;
    uint32_t read_count, loose_count; /* words that something reads; those of them that are not steady */
    rota_steady_rules rules;
    const uint32_t *first_reader; /* of rota_readers, borrowed */
    uint64_t launches;
    uint64_t *values; /* of the last launch */
    rota_steady_word *words;
    uint32_t *turned; /* words that the last launch made steady or loose */
    uint32_t turned_count;
} rota_steady;

/* Words that nothing reads are steady, whatever they hold. OUT_OF_MEMORY. */
rota_status rota_steady_create(uint32_t word_count, const uint32_t *first_reader,
                               const rota_steady_rules *rules, rota_steady *out_steady);
void rota_steady_free(rota_steady *steady);

/* Counts a launch with this block, and sets `turned`: before the launch no command may hold another value. Steady
 * words become loose whenever they must, others steady for a share of all readers at a launch. O(words), and no
 * more than a comparison where nothing changes any more. */
void rota_steady_look(rota_steady *steady, const uint64_t *block);

static inline bool rota_steady_is(const rota_steady *steady, uint32_t word) {
    return steady->words[word].steady;
}

#endif
