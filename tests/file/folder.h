/* A folder of a test program's own, for graph files; in memory, where the machine has one there. */
#ifndef ROTA_TESTS_FILE_FOLDER_H
#define ROTA_TESTS_FILE_FOLDER_H

#include "tests/kit/files_kit.h"

static char folder[] = FILES_FOLDER;

/* For cmocka's groups. */
static inline int folder_set_up(void **state) {
    (void)state;
    files_make_in_memory(folder);
    return 0;
}

static inline int folder_tear_down(void **state) {
    (void)state;
    files_remove(folder);
    return 0;
}

/* Of a file in it, until the fourth call from here. */
static inline const char *path_of(const char *name) {
    static char paths[4][64];
    static uint32_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* What is in the file, and room for one byte more; to be freed. */
static inline uint8_t *bytes_of(const char *name, size_t *out_size) {
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *out_size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*out_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *out_size, file), *out_size);
    (void)fclose(file);
    return bytes;
}

#endif
