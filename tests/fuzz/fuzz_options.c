/* Command lines: one argument a line, against a table with every kind of option. What is taken lies in its
 * bounds. */
#include <math.h>
#include "bench/options.h"
#include "tests/fuzz/support.h"

#define ARGUMENTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *arguments[ARGUMENTS_MAX];
    FUZZ_CHECK(text);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    int count = 0;
    for (char *line = text; count < ARGUMENTS_MAX && *line;) {
        char *end = strchr(line, '\n');
        arguments[count++] = line;
        if (!end) break;
        *end = 0;
        line = end + 1;
    }
    const char *string = NULL, *output = NULL, *optional = NULL;
    uint64_t small = 7, large = 0;
    double real = 0.5;
    int choice = 1;
    bool flag = false;
    const option options[] = {
        {"--string", OPTION_STRING, &string, "FILE", 0, 0, false, "a value"},
        {"--optional", OPTION_OPTIONAL, &optional, "[TEXT]", 0, 0, false, "a value"},
        {"--output", OPTION_OUTPUT, &output, "FILE", 0, 0, false, "a value"},
        {"--small", OPTION_COUNT, &small, "N", 5, 9, false, "a value"},
        {"--large", OPTION_COUNT, &large, "N", 0, 1e18, false, "a value"},
        {"--real", OPTION_REAL, &real, "P", -1, 1, false, "a value"},
        {"--choice", OPTION_CHOICE, &choice, "one|two|three", 0, 0, false, "a value"},
        {"--flag", OPTION_FLAG, &flag, NULL, 0, 0, false, "a value"},
    };
    const option_table table = {"fuzz", "takes anything", NULL, options, sizeof options / sizeof *options,
                                NULL};
    if (options_parse(&table, count, arguments) == OPTIONS_OK) {
        FUZZ_CHECK(small >= 5 && small <= 9 && large <= (uint64_t)1000000000000000000);
        FUZZ_CHECK(isfinite(real) && real >= -1 && real <= 1 && choice >= 0 && choice <= 2);
        FUZZ_CHECK((!string || *string) && (!output || *output));
    }
    free(text);
    return 0;
}
