/* Matrix Market files: any bytes as a matrix, and what comes of it is one that conjugate gradient may use; or, where
 * the first byte is odd, as a vector of as many rows as the second says. */
#include "examples/cg/market.h"
#include "tests/fuzz/support.h"

static void check(const sparse_matrix *m) {
    FUZZ_CHECK(m->starts[0] == 0 && m->starts[m->rows] == m->entries);
    for (uint64_t row = 0; row < m->rows; row++) {
        bool has_diagonal = false;
        for (uint64_t i = m->starts[row]; i < m->starts[row + 1]; i++) {
            FUZZ_CHECK(m->columns[i] < m->rows && (i == m->starts[row] || m->columns[i - 1] < m->columns[i]));
            has_diagonal |= m->columns[i] == row && m->values[i] > 0;
            bool is_mirrored = false;
            for (uint64_t j = m->starts[m->columns[i]]; j < m->starts[m->columns[i] + 1]; j++)
                is_mirrored |= m->columns[j] == row && m->values[j] == m->values[i];
            FUZZ_CHECK(is_mirrored);
        }
        FUZZ_CHECK(has_diagonal);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const char *path = fuzz_file("matrix.mtx", data + 2, size - 2);
    sparse_matrix m;
    if (data[0] % 2) {
        free(market_read_vector(path, 1 + data[1] % 16u));
    } else if (market_read_matrix(path, &m)) {
        check(&m);
        matrix_free(&m);
    }
    return 0;
}
