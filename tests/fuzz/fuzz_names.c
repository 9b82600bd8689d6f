/* Names of plans, nodes and devices, which may be any bytes, inside quotes: what is written is UTF-8 and has
 * no quote of its own. */
#include <iconv.h>
#include "base/output.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *name = malloc(size + 1), *written = NULL, *wide;
    size_t length;
    FUZZ_CHECK(name);
    if (size) memcpy(name, data, size);
    name[size] = 0;
    FILE *stream = open_memstream(&written, &length);
    FUZZ_CHECK(stream);
    rota_output_escape(stream, name);
    fclose(stream);
    for (size_t i = 0; i < length; i++) {
        FUZZ_CHECK(written[i] != '"' && (unsigned char)written[i] >= 0x20);
        if (written[i] == '\\') i++; /* what follows is part of it */
    }
    iconv_t check = iconv_open("UTF-32LE", "UTF-8");
    FUZZ_CHECK(check != (iconv_t)-1 && (wide = malloc(4 * length + 4)));
    char *in = written, *out = wide;
    size_t in_left = length, out_left = 4 * length + 4;
    FUZZ_CHECK(iconv(check, &in, &in_left, &out, &out_left) == 0 && in_left == 0);
    iconv_close(check);
    free(wide);
    free(written);
    free(name);
    return 0;
}
