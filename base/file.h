/* Files that appear whole or not at all, and files of a cache. Internal; not installed.
 *
 * What is written goes to a file of its own beside the one that it is to become: made by O_EXCL under a
 * random name, so that nothing that somebody else put there is opened; then fsync, then rename. A device, a
 * pipe, or an open file by its number (/dev/stdout) is written directly: renaming would replace it. */
#ifndef ROTA_BASE_FILE_H
#define ROTA_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct rota_file {
    FILE *stream;       /* to be written; its error flag is looked at by rota_file_commit */
    char *name;         /* in `folder`; NULL: written directly */
    int folder;         /* where the file is to be */
    char temporary[40]; /* in `folder` */
} rota_file;

/* Opens for writing. A new file has `mode` less the umask. 0, or an errno: nothing is left behind then.
 * Any thread; may block. A link at `path` itself is replaced and not followed, but to a device or pipe. */
int rota_file_open(rota_file *file, const char *path, mode_t mode);

/* Flushes to disk and renames. 0, or the errno of what failed first, a write included: what was there before
 * stays. Ends `file` either way. */
int rota_file_commit(rota_file *file);

/* Drops what was written. */
void rota_file_abandon(rota_file *file);

/* ---- Caches ---- */

/* The folder of rota's caches, from malloc: `given` as it is, where it isn't NULL; else $XDG_CACHE_HOME/rota;
 * else $HOME/.cache/rota. A variable that is no absolute path counts as none, as the XDG specification asks.
 * NULL: there is none ("" was given, or no variable), or no memory. */
char *rota_cache_folder(const char *given);

/* "folder/name", from malloc; NULL: no memory. */
char *rota_cache_path(const char *folder, const char *name);

/* Makes the folder (mode 0700) and those above it; what can't be made shows when a file can't. */
void rota_cache_make_folder(const char *folder);

/* Opens a cache file for reading, if only the user can have written it: a regular file and no link, owned by
 * the user or root, and writable by nobody else. NULL: there is none such, and *out_why, where it isn't NULL,
 * is NULL or says what is wrong with the one that is there (static storage). */
FILE *rota_cache_open(const char *path, const char **out_why);

/* The size of an open file; 0: it can't be told. What a file says of its own size is believed only as far as
 * it agrees. */
uint64_t rota_file_bytes(FILE *file);

/* Writes a cache file of two pieces, for the user only, as rota_file_open does; the folder is made. 0 or an
 * errno. */
int rota_cache_write(const char *path, const void *first, size_t first_bytes, const void *second,
                     size_t second_bytes);

#endif
