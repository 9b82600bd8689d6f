/* The history of what nodes took: a table of means by key for each device, and its file. */
#include "sched/plan/placing_history.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "graph/conditional_internal.h"
#include "graph/lane_records.h"

/* A file: the header, the device's text with its final 0, the entries, and what is kept: of each its key, its size, and
 * its bytes, up to a multiple of 8. */
#define MAGIC "rotahist"
/* How many measurements a mean is of, at most: devices and drivers change. */
enum { VERSION = 2, COUNT_MAX = 32, DEVICE_MAX = 1024, ENTRIES_MAX = 1 << 22, CELLS_LEAST = 256 };
/* Of what is kept, all together; it is searched one by one. */
enum { KEPT_COUNT_MAX = 1024, KEPT_ALL_MAX = 4 << 20 };
/* How far a noted time goes to a lower one, and to a higher: what disturbs a replay makes it longer. */
#define NOTE_DOWN 0.5
#define NOTE_UP 0.125

typedef struct file_header {
    char magic[8];
    uint32_t version, device_bytes, entry_count, kept_bytes;
    uint64_t check; /* of all that follows */
} file_header;

typedef struct entry {
    uint64_t key; /* 0: free */
    float mean_ns;
    uint32_t count;
} entry;

typedef struct kept {
    struct kept *next;
    uint64_t key, size;
    uint64_t data[]; /* with zeros to a multiple of 8 bytes */
} kept;

struct rota_history {
    rota_history *next;
    char *path; /* NULL: none */
    char *device;
    entry *cells; /* open addressing; a power of two of them */
    uint32_t cell_count, entry_count;
    kept *kept; /* the latest first */
    uint32_t kept_count;
    size_t kept_bytes; /* in the file */
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

/* The numbers up to that of shares stand for something else. */
static uint64_t key_of(uint64_t hash) {
    return hash > ROTA_HISTORY_SHARE ? hash : ROTA_HISTORY_SHARE + 1;
}

uint64_t rota_history_mix(uint64_t key, uint64_t word) {
    return key_of(mix(key, word));
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

/* Of what a kernel's time depends on, but for its operands. */
static uint64_t mix_kernel(uint64_t hash, const rota_node_record *record) {
    const rota_kernel *kernel = record->u.kernel.kernel;
    uint8_t params[ROTA_KERNEL_PARAM_BYTES_MAX];
    memcpy(params, rota_node_params(record), rota_node_param_bytes(record));
    for (uint32_t i = 0; i < kernel->bindable_count; i++)
        memset(params + kernel->bindables[i].offset_bytes, 0, kernel->bindables[i].size_bytes);
    hash = mix_bytes(hash, kernel->name, strlen(kernel->name));
    hash = mix_bytes(hash, params, rota_node_param_bytes(record));
    return mix_bytes(hash, record->u.kernel.groups, sizeof record->u.kernel.groups);
}

uint64_t rota_history_key(const rota_node_record *record) {
    if (record->is_counted || record->kind == ROTA_NODE_HOST || record->kind == ROTA_NODE_CONDITIONAL)
        return 0;
    uint64_t hash = mix(HASH_START, record->kind);
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++) hash = mix(hash, rota_access_size(&accesses[i]));
    if (record->kind == ROTA_NODE_KERNEL) hash = mix_kernel(hash, record);
    return key_of(hash);
}

static uint64_t mix_bodies(uint64_t hash, const rota_conditional *conditional) {
    hash = mix(mix(hash, conditional->kind), conditional->iterations_max);
    for (uint32_t b = 0; b < conditional->body_count; b++) {
        const rota_graph *body = conditional->bodies[b];
        hash = mix(hash, b);
        for (uint32_t i = 0; body && i < body->lane_count; i++) {
            rota_record_cursor cursor = rota_lane_records(body->lanes[i]);
            for (const rota_node_record *own; (own = rota_record_take(&cursor));)
                hash = rota_history_mix_node(hash, own);
        }
    }
    return hash;
}

uint64_t rota_history_mix_node(uint64_t key, const rota_node_record *record) {
    uint64_t hash = mix(key, record->kind | (uint64_t)record->is_counted << 8);
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++) {
        /* A buffer of the graph's by its index in its lane; of others an address says nothing to another process. */
        const uint64_t stored = rota_access_stored(&accesses[i]), index = stored & 1 ? (uint32_t)stored : 0;
        hash = mix(hash, rota_access_size(&accesses[i]));
        hash = mix(hash, index << 8 | (uint64_t)ROTA_ACCESS_MODE(&accesses[i]));
        hash = mix(hash, ROTA_ACCESS_OFFSET(&accesses[i]));
    }
    if (record->is_counted) hash = mix(hash, rota_node_count_max(record));
    if (record->kind == ROTA_NODE_KERNEL) hash = mix_kernel(hash, record);
    if (record->kind == ROTA_NODE_FILL) hash = mix(hash, record->u.fill.pattern);
    if (record->kind == ROTA_NODE_HOST && record->name)
        hash = mix_bytes(hash, record->name, strlen(record->name));
    if (record->kind == ROTA_NODE_CONDITIONAL) hash = mix_bodies(hash, record->u.conditional);
    return key_of(hash);
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

/* Under the lock. NULL: no room. */
static entry *entry_for(rota_history *history, uint64_t key) {
    entry *it = cell_of(history, key);
    if (!it->key && history->entry_count < ENTRIES_MAX && make_cells(history, history->entry_count + 1)) {
        it = cell_of(history, key);
        it->key = key;
        history->entry_count++;
    }
    if (!it->key) return NULL;
    if (it->count < COUNT_MAX) it->count++;
    history->is_changed = true;
    return it;
}

void rota_history_add(rota_history *history, uint64_t key, double ns) {
    if (!history || key == 0 || !(ns > 0) || !isfinite(ns)) return;
    pthread_mutex_lock(&lock);
    entry *const it = entry_for(history, key);
    if (it) it->mean_ns += (float)((ns - (double)it->mean_ns) / it->count);
    pthread_mutex_unlock(&lock);
}

void rota_history_note(rota_history *history, uint64_t key, double ns, bool anew) {
    if (!history || key == 0 || !(ns > 0) || !isfinite(ns)) return;
    pthread_mutex_lock(&lock);
    entry *const it = entry_for(history, key);
    if (it) {
        const double more = ns - (double)it->mean_ns;
        it->mean_ns += (float)(anew || it->count == 1 ? more : more * (more < 0 ? NOTE_DOWN : NOTE_UP));
    }
    pthread_mutex_unlock(&lock);
}

/* ---- What is kept ---- */

static size_t file_bytes(uint64_t size) {
    return 2 * sizeof(uint64_t) + (size_t)((size + 7) / 8 * 8);
}

static void drop_kept(rota_history *history, kept **link) {
    kept *const gone = *link;
    *link = gone->next;
    history->kept_count--;
    history->kept_bytes -= file_bytes(gone->size);
    free(gone);
}

static kept **find_kept(rota_history *history, uint64_t key) {
    kept **link = &history->kept;
    while (*link && (*link)->key != key) link = &(*link)->next;
    return link;
}

/* At the head, or with `last` at the end, of the list. */
static void put_kept(rota_history *history, uint64_t key, const void *data, size_t size, bool last) {
    if (size > ROTA_HISTORY_KEPT_MAX) return;
    kept *const it = calloc(1, sizeof *it + (size + 7) / 8 * 8);
    if (!it) return;
    it->key = key;
    it->size = size;
    memcpy(it->data, data, size);
    kept **link = &history->kept;
    while (last && *link) link = &(*link)->next;
    it->next = *link;
    *link = it;
    history->kept_count++;
    history->kept_bytes += file_bytes(size);
}

void rota_history_keep(rota_history *history, uint64_t key, const void *data, size_t bytes) {
    if (!history || key == 0 || bytes == 0) return;
    pthread_mutex_lock(&lock);
    kept **link = find_kept(history, key);
    if (*link) drop_kept(history, link);
    put_kept(history, key, data, bytes, false);
    while (history->kept_count > KEPT_COUNT_MAX || history->kept_bytes > KEPT_ALL_MAX) {
        for (link = &history->kept; (*link)->next;) link = &(*link)->next;
        drop_kept(history, link);
    }
    history->is_changed = true;
    pthread_mutex_unlock(&lock);
}

size_t rota_history_kept(rota_history *history, uint64_t key, void *out, size_t capacity) {
    if (!history || key == 0) return 0;
    pthread_mutex_lock(&lock);
    kept *const it = *find_kept(history, key);
    const size_t bytes = it ? (size_t)it->size : 0;
    if (it) memcpy(out, it->data, bytes < capacity ? bytes : capacity);
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* ---- Files ---- */

static uint64_t check_of(const char *device, const uint8_t *rest, size_t bytes) {
    return mix_bytes(mix_bytes(HASH_START, device, strlen(device)), rest, bytes);
}

static void take_entries(rota_history *history, const uint8_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        entry read;
        memcpy(&read, from + i * sizeof read, sizeof read);
        if (!read.key || !(read.mean_ns > 0) || !isfinite(read.mean_ns) || !read.count) continue;
        entry *it = cell_of(history, read.key);
        if (it->key) continue;
        *it = read;
        history->entry_count++;
    }
}

static void take_kept(rota_history *history, const uint8_t *from, size_t bytes) {
    while (bytes >= 2 * sizeof(uint64_t)) {
        uint64_t head[2]; /* key and size */
        memcpy(head, from, sizeof head);
        if (head[0] == 0 || head[1] == 0 || head[1] > ROTA_HISTORY_KEPT_MAX || file_bytes(head[1]) > bytes ||
            history->kept_count == KEPT_COUNT_MAX)
            return;
        put_kept(history, head[0], from + sizeof head, (size_t)head[1], true);
        from += file_bytes(head[1]);
        bytes -= file_bytes(head[1]);
    }
}

static void read_file(rota_history *history) {
    FILE *file = history->path ? rota_cache_open(history->path, NULL) : NULL;
    if (!file) return;
    file_header header;
    char device[DEVICE_MAX];
    const size_t device_bytes = strlen(history->device) + 1;
    uint8_t *rest = NULL;
    size_t entry_bytes = 0;
    bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, 8) == 0 &&
                header.version == VERSION && header.device_bytes == device_bytes &&
                header.entry_count <= ENTRIES_MAX && header.kept_bytes <= KEPT_ALL_MAX;
    if (good) {
        entry_bytes = sizeof(entry) * (size_t)header.entry_count;
        good = rota_file_bytes(file) == sizeof header + device_bytes + entry_bytes + header.kept_bytes &&
               fread(device, device_bytes, 1, file) == 1 &&
               memcmp(device, history->device, device_bytes) == 0;
    }
    if (good) rest = malloc(entry_bytes + header.kept_bytes + 1);
    if (rest && fread(rest, 1, entry_bytes + header.kept_bytes, file) == entry_bytes + header.kept_bytes &&
        header.check == check_of(device, rest, entry_bytes + header.kept_bytes) &&
        make_cells(history, header.entry_count)) {
        take_entries(history, rest, header.entry_count);
        take_kept(history, rest + entry_bytes, header.kept_bytes);
    }
    free(rest);
    fclose(file);
}

static void write_file(const rota_history *history) {
    const size_t device_bytes = strlen(history->device) + 1,
                 entry_bytes = sizeof(entry) * history->entry_count,
                 bytes = device_bytes + entry_bytes + history->kept_bytes;
    uint8_t *const all_bytes = malloc(bytes + 1);
    if (!all_bytes) return;
    memcpy(all_bytes, history->device, device_bytes);
    uint8_t *to = all_bytes + device_bytes;
    for (uint32_t i = 0; i < history->cell_count; i++) {
        if (!history->cells[i].key) continue;
        memcpy(to, &history->cells[i], sizeof(entry));
        to += sizeof(entry);
    }
    for (const kept *it = history->kept; it; it = it->next) {
        const uint64_t head[2] = {it->key, it->size};
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, it->data, file_bytes(it->size) - sizeof head);
        to += file_bytes(it->size);
    }
    const file_header header = {
        .magic = MAGIC, /* without its final 0 */
        .version = VERSION,
        .device_bytes = (uint32_t)device_bytes,
        .entry_count = history->entry_count,
        .kept_bytes = (uint32_t)history->kept_bytes,
        .check = check_of(history->device, all_bytes + device_bytes, entry_bytes + history->kept_bytes)};
    (void)rota_cache_write(history->path, &header, sizeof header, all_bytes, bytes);
    free(all_bytes);
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
    while (history->kept) drop_kept(history, &history->kept);
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
