/* Graphs of a program that was not written for it: each becomes a file when it is compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/file.h"
#include "base/given.h"
#include "file/graph_file.h"
#include "graph/graph_internal.h" /* IWYU pragma: keep */

enum { NAME_MAX_BYTES = 80 };

/* A graph's name as a file's: of letters, digits, '-', '_' and, but in front, '.'. */
static void name_of(const rota_graph *graph, char out[NAME_MAX_BYTES]) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    (void)snprintf(out, NAME_MAX_BYTES, "%s", graph->name);
    for (char *next = out; *next; next++)
        if (!strchr(good, *next) || (*next == '.' && next == out)) *next = '_';
}

static rota_status capture(const char *folder, rota_graph *graph, bool contents) {
    static _Atomic uint32_t count; /* relaxed: numbers that differ are all that is wanted of it */
    char name[NAME_MAX_BYTES];
    name_of(graph, name);
    const size_t size = strlen(folder) + sizeof name + 40;
    char *path = malloc(size);
    if (!path) return rota_fail(ROTA_OUT_OF_MEMORY, "graph '%s' to be captured: no host memory", graph->name);
    rota_cache_make_folder(folder);
    (void)snprintf(path, size, "%s/%s-%ld-%u.rota", folder, name, (long)getpid(),
                   ra_fetch_add_relaxed(&count, 1) + 1);
    const rota_status status =
        rota_graph_save(graph, &ROTA_GRAPH_SAVE_OPTIONS(.contents = contents, .name_hosts = true), path);
    free(path);
    return status;
}

rota_status rota_capture(void *user, rota_graph *graph, rota_plan *plan) {
    (void)plan;
    ROTA_GIVEN(user);
    ROTA_GIVEN(graph);
    return capture(user, graph, false);
}

rota_status rota_capture_contents(void *user, rota_graph *graph, rota_plan *plan) {
    (void)plan;
    ROTA_GIVEN(user);
    ROTA_GIVEN(graph);
    return capture(user, graph, true);
}
