/* A time series: any bytes as a CSV file, split as the first five bytes say; every window of it taken. */
#include <math.h>
#include "examples/patchtst/data.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 5) return 0;
    series s;
    const series_source source = {.path = fuzz_file("series.csv", data + 5, size - 5),
                                  .rows = {1 + data[0] % 16u, 1 + data[1] % 16u, 1 + data[2] % 16u},
                                  .look_back = 1 + data[3] % 8u,
                                  .horizon = 1 + data[4] % 8u};
    if (!series_read(&source, &s)) return 0;
    float *window = malloc(s.channels * s.window * sizeof *window);
    FUZZ_CHECK(window);
    for (int p = 0; p < SERIES_PARTS; p++)
        for (uint64_t i = 0; i < s.count[p]; i++) series_window(&s, s.first[p] + i, window);
    free(window);
    series_free(&s);
    return 0;
}
