/* The history of what nodes took: a table of means by key for each device, and its file. */
#include "sched/plan/placing_history.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"

/* A file: the header, the device's text with its final 0, the entries. */
#define MAGIC "rotahist"
/* How many measurements a mean is of, at most: devices and drivers change. */
enum { VERSION = 1, COUNT_MAX = 32, DEVICE_MAX = 1024, ENTRIES_MAX = 1 << 22, CELLS_LEAST = 256 };

typedef struct file_header {
    char magic[8];
    uint32_t version, device_bytes, entry_count, unused;
    uint64_t check; /* of the text and the entries */
} file_header;

typedef struct entry {
    uint64_t key; /* 0: free */
    float mean_ns;
    uint32_t count;
} entry;

struct rota_history {
    rota_history *next;
    char *path; /* NULL: none */
    char *device;
    entry *cells; /* open addressing; a power of two of them */
    uint32_t cell_count, entry_count;
    bool is_changed;
};

/* All of them, and what is in them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rota_history *all;

/* ---- Keys ---- */

#define HASH_START UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

uint64_t rota_history_mix(uint64_t key, uint64_t word) {
    const uint64_t mixed = mix(key, word);
    return mixed > ROTA_HISTORY_SHARE ? mixed : ROTA_HISTORY_SHARE + 1;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *from = data;
    for (; bytes >= 8; bytes -= 8, from += 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        hash = mix(hash, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, from, bytes);
    return mix(hash, rest ^ (uint64_t)bytes << 56);
}

uint64_t rota_history_key(const rota_node_record *record) {
    if (record->is_counted || record->kind == ROTA_NODE_HOST || record->kind == ROTA_NODE_CONDITIONAL)
        return 0;
    uint64_t hash = mix(HASH_START, record->kind);
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++) hash = mix(hash, accesses[i].size_bytes);
    if (record->kind == ROTA_NODE_KERNEL) {
        const rota_kernel *kernel = record->u.kernel.kernel;
        uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX];
        memcpy(params, rota_node_params(record), record->param_bytes);
        for (uint32_t i = 0; i < kernel->bindable_count; i++)
            memset(params + kernel->bindables[i].offset_bytes, 0, kernel->bindables[i].size_bytes);
        hash = mix_bytes(hash, kernel->name, strlen(kernel->name));
        hash = mix_bytes(hash, params, record->param_bytes);
        hash = mix_bytes(hash, record->u.kernel.groups, sizeof record->u.kernel.groups);
    }
    return hash > ROTA_HISTORY_SHARE ? hash : ROTA_HISTORY_SHARE + 1;
}

/* ---- The table ---- */

static entry *cell_of(const rota_history *history, uint64_t key) {
    uint32_t cell = (uint32_t)(key >> 20) & (history->cell_count - 1);
    while (history->cells[cell].key && history->cells[cell].key != key)
        cell = (cell + 1) & (history->cell_count - 1);
    return &history->cells[cell];
}

static bool make_cells(rota_history *history, uint32_t entries) {
    uint32_t count = CELLS_LEAST;
    while (count < 2 * entries) count *= 2;
    if (count <= history->cell_count) return true;
    entry *const before = history->cells;
    const uint32_t before_count = history->cell_count;
    entry *cells = calloc(count, sizeof *cells);
    if (!cells) return false;
    history->cells = cells;
    history->cell_count = count;
    for (uint32_t i = 0; i < before_count; i++)
        if (before[i].key) *cell_of(history, before[i].key) = before[i];
    free(before);
    return true;
}

bool rota_history_has_any(rota_history *history) {
    if (!history) return false;
    pthread_mutex_lock(&lock);
    const bool any = history->entry_count > 0;
    pthread_mutex_unlock(&lock);
    return any;
}

bool rota_history_find(rota_history *history, uint64_t key, double *out_ns) {
    if (!history || key == 0) return false;
    pthread_mutex_lock(&lock);
    const entry *it = cell_of(history, key);
    const bool there = it->key != 0;
    if (there) *out_ns = (double)it->mean_ns;
    pthread_mutex_unlock(&lock);
    return there;
}

void rota_history_add(rota_history *history, uint64_t key, double ns) {
    if (!history || key == 0 || !(ns > 0) || !isfinite(ns)) return;
    pthread_mutex_lock(&lock);
    entry *it = cell_of(history, key);
    if (!it->key && history->entry_count < ENTRIES_MAX && make_cells(history, history->entry_count + 1)) {
        it = cell_of(history, key);
        it->key = key;
        history->entry_count++;
    }
    if (it->key) {
        if (it->count < COUNT_MAX) it->count++;
        it->mean_ns += (float)((ns - (double)it->mean_ns) / it->count);
        history->is_changed = true;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Files ---- */

static uint64_t check_of(const char *device, const entry *entries, uint32_t count) {
    return mix_bytes(mix_bytes(HASH_START, device, strlen(device)), entries, sizeof *entries * count);
}

static void read_file(rota_history *history) {
    FILE *file = history->path ? rota_cache_open(history->path, NULL) : NULL;
    if (!file) return;
    file_header header;
    char device[DEVICE_MAX];
    const size_t device_bytes = strlen(history->device) + 1;
    entry *entries = NULL;
    bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, 8) == 0 &&
                header.version == VERSION && header.device_bytes == device_bytes &&
                header.entry_count <= ENTRIES_MAX &&
                rota_file_bytes(file) ==
                    sizeof header + device_bytes + sizeof *entries * (uint64_t)header.entry_count &&
                fread(device, device_bytes, 1, file) == 1 &&
                memcmp(device, history->device, device_bytes) == 0;
    if (good) entries = malloc(sizeof *entries * ((size_t)header.entry_count + 1));
    good = good && entries &&
           fread(entries, sizeof *entries, header.entry_count, file) == header.entry_count &&
           header.check == check_of(device, entries, header.entry_count) &&
           make_cells(history, header.entry_count);
    for (uint32_t i = 0; good && i < header.entry_count; i++) {
        if (!entries[i].key || !(entries[i].mean_ns > 0) || !isfinite(entries[i].mean_ns) ||
            !entries[i].count)
            continue;
        entry *it = cell_of(history, entries[i].key);
        if (it->key) continue;
        *it = entries[i];
        history->entry_count++;
    }
    free(entries);
    fclose(file);
}

static void write_file(const rota_history *history) {
    const size_t device_bytes = strlen(history->device) + 1,
                 entry_bytes = sizeof(entry) * history->entry_count;
    uint8_t *kept = malloc(device_bytes + entry_bytes + sizeof(entry));
    entry *entries = malloc(entry_bytes + sizeof(entry));
    if (kept && entries) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < history->cell_count; i++)
            if (history->cells[i].key) entries[count++] = history->cells[i];
        const file_header header = {.magic = MAGIC, /* without its final 0 */
                                    .version = VERSION,
                                    .device_bytes = (uint32_t)device_bytes,
                                    .entry_count = count,
                                    .check = check_of(history->device, entries, count)};
        memcpy(kept, history->device, device_bytes);
        memcpy(kept + device_bytes, entries, entry_bytes);
        (void)rota_cache_write(history->path, &header, sizeof header, kept, device_bytes + entry_bytes);
    }
    free(kept);
    free(entries);
}

void rota_history_save(rota_history *history) {
    if (!history) return;
    pthread_mutex_lock(&lock);
    if (history->is_changed && history->path) write_file(history);
    history->is_changed = false;
    pthread_mutex_unlock(&lock);
}

static void free_history(rota_history *history) {
    free(history->path);
    free(history->device);
    free(history->cells);
    free(history);
}

static rota_history *make_history(const char *path, const char *device) {
    rota_history *history = calloc(1, sizeof *history);
    if (!history) return NULL;
    history->path = path ? strdup(path) : NULL;
    history->device = strdup(device);
    if ((path && !history->path) || !history->device || !make_cells(history, 0)) {
        free_history(history);
        return NULL;
    }
    read_file(history);
    return history;
}

rota_history *rota_history_open(const char *folder, const char *device) {
    char path[4096], text[DEVICE_MAX];
    snprintf(text, sizeof text, "%s", device); /* what is longer is told apart by its begin */
    if (folder) {
        const int length = snprintf(path, sizeof path, "%s/costs-%016llx", folder,
                                    (unsigned long long)mix_bytes(HASH_START, text, strlen(text)));
        if (length < 0 || (size_t)length >= sizeof path) folder = NULL;
    }
    pthread_mutex_lock(&lock);
    rota_history *history = all;
    while (history && (strcmp(history->device, text) != 0 || !history->path != !folder ||
                       (folder && strcmp(history->path, path) != 0)))
        history = history->next;
    if (!history && (history = make_history(folder ? path : NULL, text))) {
        history->next = all;
        all = history;
    }
    pthread_mutex_unlock(&lock);
    return history;
}

void rota_history_forget(void) {
    pthread_mutex_lock(&lock);
    while (all) {
        rota_history *gone = all;
        all = gone->next;
        free_history(gone);
    }
    pthread_mutex_unlock(&lock);
}
