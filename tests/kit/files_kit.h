/* Folders and files of the tests. */
#ifndef ROTA_TESTS_FILES_KIT_H
#define ROTA_TESTS_FILES_KIT_H

#include "tests/kit/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* To be made by files_make. */
#define FILES_FOLDER "/tmp/rota-files-XXXXXX"

static inline void files_make(char *folder) {
    assert_non_null(mkdtemp(folder));
}

/* The same in memory, where the machine has a folder for that: what is written there waits for no disk. */
static inline void files_make_in_memory(char *folder) {
    char memory[] = "/dev/shm/rota-XXXXXX";
    if (mkdtemp(memory))
        memcpy(folder, memory, sizeof memory);
    else
        files_make(folder);
}

static inline void files_remove(const char *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static inline void files_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Up to `capacity` bytes of the file; how many. */
static inline size_t files_read(const char *path, void *out, size_t capacity) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(out, 1, capacity, file);
    assert_int_equal(fclose(file), 0);
    return size;
}

/* How many there are, hidden ones too; `out_name`, where it isn't NULL, gets the last one's path. */
static inline int files_list(const char *folder, char *out_name, size_t capacity) {
    DIR *list = opendir(folder);
    int count = 0;
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (out_name)
            assert_true(snprintf(out_name, capacity, "%s/%s", folder, entry->d_name) < (int)capacity);
        count++;
    }
    closedir(list);
    return count;
}

static inline int files_count(const char *folder) {
    return files_list(folder, NULL, 0);
}

/* The path of the only file in the folder. */
static inline void files_only(const char *folder, char *out_path, size_t capacity) {
    assert_int_equal(files_list(folder, out_path, capacity), 1);
}

#endif
