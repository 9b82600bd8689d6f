/* Choices found by measuring: a few bytes by a key that says all that they depend on. Kept in memory for the
 * life of the process and, where there is a folder, in a file each. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CHOICES_H
#define ROTA_OPS_CUDA_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include "graph/kernel.h"

#define ROTA_CHOICE_BYTES_MAX 16384
#define ROTA_CHOICE_KEY_MAX 512

/* Finds what was remembered under `key` (a string shorter than ROTA_CHOICE_KEY_MAX) with exactly this size,
 * in memory, then in `folder` (may be NULL). A file that is damaged, cut short, of another version, size or
 * key, or that another user may have written, counts as none. Any thread; may block. */
bool rota_choices_find(const char *folder, const char *key, void *out_value, size_t size_bytes);

/* Remembers. The first value of a key stays for the life of the process, so that whoever asks gets the same
 * answer; *value becomes that one. A reader sees a whole file or none. What can't be written is not kept, and
 * that is no error. Any thread; may block. */
void rota_choices_remember(const char *folder, const char *key, void *value, size_t size_bytes);

/* Whether a value of this size that is in memory was read from a file, which an earlier process wrote. False: it was
 * found out by this process, or is not there. Any thread. */
bool rota_choices_are_read(const char *key, size_t size_bytes);

/* Ends the first word of a key. Choices of plans that are deterministic are apart from those that were measured, and
 * their target has no folder. */
static inline const char *rota_choices_mark(const rota_cuda_target *target) {
    return target->by_table ? " by table" : "";
}

/* The path of a key's file; false: longer than `capacity`. For tests. */
bool rota_choices_path(const char *folder, const char *key, char *out_path, size_t capacity);

/* Forgets what is in memory. For tests. */
void rota_choices_forget(void);

#endif
