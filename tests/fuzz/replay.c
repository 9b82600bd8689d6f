/* A harness of bytes without a fuzzer: every file of a folder, in the order of the names, as it is and COUNT times
 * changed, the same each time. replay FOLDER COUNT */
#include "tests/fuzz/support.h"

#include <dirent.h>
#include "tests/kit/random.h"

enum { BYTES_MAX = 1 << 16 };

static uint64_t seed = 1;

static size_t below(size_t bound) {
    return (size_t)(test_random(&seed) % bound);
}

static int is_file(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* A copy of just its size, so that a sanitizer sees what looks beyond it. */
static void give(const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* One to three times: cut, a byte or a bit changed, a part left out, or a part copied to somewhere else. */
static size_t change(uint8_t *bytes, size_t size) {
    for (size_t left = 1 + below(3); left > 0 && size > 0; left--) {
        const size_t begin = below(size), part = 1 + below(size - begin < 64 ? size - begin : 64);
        switch (below(8)) {
        case 0:
            size = begin;
            break;
        case 1:
            memmove(bytes + begin, bytes + begin + part, size - begin - part);
            size -= part;
            break;
        case 2:
            memmove(bytes + below(size - part + 1), bytes + begin, part);
            break;
        case 3:
            bytes[begin] = (uint8_t)below(256);
            break;
        case 4:
            bytes[begin] = (uint8_t)(below(2) ? 0xff : 0);
            break;
        default:
            bytes[begin] ^= (uint8_t)(1u << below(8));
            break;
        }
    }
    return size;
}

static void replay(const char *path, unsigned long count) {
    static uint8_t bytes[BYTES_MAX], changed[BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) fuzz_failed(path, __FILE__, __LINE__);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    if (ferror(file) || !feof(file) || fclose(file) != 0) fuzz_failed(path, __FILE__, __LINE__);
    give(bytes, size);
    for (unsigned long i = 0; i < count; i++) {
        memcpy(changed, bytes, size);
        give(changed, change(changed, size));
    }
}

int main(int argc, char **argv) {
    struct dirent **entries = NULL;
    const int count = argc == 3 ? scandir(argv[1], &entries, is_file, alphasort) : -1;
    if (count <= 0) {
        fprintf(stderr, "replay FOLDER COUNT: a folder with an input at least\n");
        return 2;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        replay(path, strtoul(argv[2], NULL, 10));
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs, and each %s times changed\n", count, argv[2]);
    return 0;
}
