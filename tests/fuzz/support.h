/* What the harnesses share. */
#ifndef ROTA_TESTS_FUZZ_SUPPORT_H
#define ROTA_TESTS_FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A folder of this process, removed when it ends. */
const char *fuzz_folder(void);
/* The path of a file in it with these bytes, for the user only; valid until the next file of that name. */
const char *fuzz_file(const char *name, const void *data, size_t size);

/* Cuts `size` bytes at the first one of value 0xff, which stands in neither text nor JSON: the part before,
 * and *data, *size become what follows. */
size_t fuzz_part(const uint8_t **data, size_t *size);

/* What must hold of any input. */
#define FUZZ_CHECK(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fuzz_failed(#condition, __FILE__, __LINE__);                                                     \
        }                                                                                                    \
    } while (0)
_Noreturn void fuzz_failed(const char *condition, const char *file, int line);

#endif
