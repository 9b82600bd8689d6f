/* The memory and the files of choices found by measuring. */
#include "ops/cuda/choices.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/hash.h"

#define BUCKETS 256u
/* A file: the header, the key with its final 0, the value. */
#define MAGIC "rotachoi"
#define VERSION 1u

typedef struct file_header {
    char magic[8];
    uint32_t version, key_bytes, value_bytes, unused;
    uint64_t check; /* of the key and the value */
} file_header;

typedef struct choice {
    struct choice *next;
    size_t size_bytes;
    bool is_read; /* from a file */
    char key[];   /* with its final 0, and then the value */
} choice;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static choice *buckets[BUCKETS];

static uint64_t hash_key(const char *key) {
    return rota_hash_text(ROTA_HASH_BEGIN, key);
}

bool rota_choices_path(const char *folder, const char *key, char *out_path, size_t capacity) {
    int length = snprintf(out_path, capacity, "%s/choice-%016llx", folder, (unsigned long long)hash_key(key));
    return length > 0 && (size_t)length < capacity;
}

static bool read_file(const char *folder, const char *key, void *out_value, size_t size_bytes) {
    char path[4096], stored_key[ROTA_CHOICE_KEY_MAX];
    if (!folder || !rota_choices_path(folder, key, path, sizeof path)) return false;
    FILE *file = rota_cache_open(path, NULL);
    if (!file) return false;
    file_header header;
    uint8_t value[ROTA_CHOICE_BYTES_MAX];
    const size_t key_bytes = strlen(key) + 1;
    bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, 8) == 0 &&
                header.version == VERSION && header.key_bytes == key_bytes &&
                header.value_bytes == size_bytes && fread(stored_key, key_bytes, 1, file) == 1 &&
                fread(value, size_bytes, 1, file) == 1 && fgetc(file) == EOF;
    fclose(file);
    if (!good || memcmp(stored_key, key, key_bytes) != 0) return false;
    if (header.check != rota_hash_bytes(rota_hash_bytes(ROTA_HASH_BEGIN, key, key_bytes), value, size_bytes))
        return false;
    memcpy(out_value, value, size_bytes);
    return true;
}

static void write_file(const char *folder, const char *key, const void *value, size_t size_bytes) {
    char path[4096];
    uint8_t kept[ROTA_CHOICE_KEY_MAX + ROTA_CHOICE_BYTES_MAX];
    if (!folder || !folder[0] || !rota_choices_path(folder, key, path, sizeof path)) return;
    const size_t key_bytes = strlen(key) + 1;
    memcpy(kept, key, key_bytes);
    memcpy(kept + key_bytes, value, size_bytes);
    const file_header header = {.magic = MAGIC, /* without its final 0 */
                                .version = VERSION,
                                .key_bytes = (uint32_t)key_bytes,
                                .value_bytes = (uint32_t)size_bytes,
                                .check = rota_hash_bytes(ROTA_HASH_BEGIN, kept, key_bytes + size_bytes)};
    (void)rota_cache_write(path, &header, sizeof header, kept, key_bytes + size_bytes);
}

static uint8_t *value_of(choice *c) {
    return (uint8_t *)c->key + strlen(c->key) + 1;
}

/* Under the lock. */
static choice *find_kept(const char *key, size_t size_bytes) {
    for (choice *c = buckets[hash_key(key) % BUCKETS]; c; c = c->next)
        if (c->size_bytes == size_bytes && strcmp(c->key, key) == 0) return c;
    return NULL;
}

/* The value kept in memory under the key: the one that is there, else this one. False: no memory for it. */
static bool keep(const char *key, void *value, size_t size_bytes, bool is_read) {
    bool fresh = false;
    pthread_mutex_lock(&lock);
    choice *kept = find_kept(key, size_bytes);
    if (kept) {
        memcpy(value, value_of(kept), size_bytes);
    } else if ((kept = malloc(sizeof *kept + strlen(key) + 1 + size_bytes))) {
        choice **bucket = &buckets[hash_key(key) % BUCKETS];
        kept->next = *bucket;
        kept->size_bytes = size_bytes;
        kept->is_read = is_read;
        memcpy(kept->key, key, strlen(key) + 1);
        memcpy(value_of(kept), value, size_bytes);
        *bucket = kept;
        fresh = true;
    }
    pthread_mutex_unlock(&lock);
    return fresh;
}

static bool usable(const char *key, size_t size_bytes) {
    return size_bytes <= ROTA_CHOICE_BYTES_MAX && strlen(key) < ROTA_CHOICE_KEY_MAX;
}

bool rota_choices_find(const char *folder, const char *key, void *out_value, size_t size_bytes) {
    if (!usable(key, size_bytes)) return false;
    pthread_mutex_lock(&lock);
    choice *kept = find_kept(key, size_bytes);
    if (kept) memcpy(out_value, value_of(kept), size_bytes);
    pthread_mutex_unlock(&lock);
    if (kept) return true;
    uint8_t value[ROTA_CHOICE_BYTES_MAX];
    if (!read_file(folder, key, value, size_bytes)) return false;
    keep(key, value, size_bytes, true);
    memcpy(out_value, value, size_bytes);
    return true;
}

void rota_choices_remember(const char *folder, const char *key, void *value, size_t size_bytes) {
    if (usable(key, size_bytes) && keep(key, value, size_bytes, false))
        write_file(folder, key, value, size_bytes);
}

bool rota_choices_are_read(const char *key, size_t size_bytes) {
    pthread_mutex_lock(&lock);
    const choice *kept = find_kept(key, size_bytes);
    const bool is_read = kept && kept->is_read;
    pthread_mutex_unlock(&lock);
    return is_read;
}

void rota_choices_forget(void) {
    pthread_mutex_lock(&lock);
    for (uint32_t b = 0; b < BUCKETS; b++)
        while (buckets[b]) {
            choice *gone = buckets[b];
            buckets[b] = gone->next;
            free(gone);
        }
    pthread_mutex_unlock(&lock);
}
