/* Matrices and vectors in Matrix Market files (https://math.nist.gov/MatrixMarket/formats.html). */
#ifndef ROTA_EXAMPLES_CG_MARKET_H
#define ROTA_EXAMPLES_CG_MARKET_H

#include "examples/cg/matrix.h"

/* A matrix that conjugate gradient may solve with: coordinate; real, integer or pattern (each entry is 1); symmetric,
 * of which the file has the lower triangle, or general with both triangles alike. Each entry stands there once, and
 * every diagonal entry, which is above 0. False with one sentence on stderr that names the file and the line. */
bool market_read_matrix(const char *path, sparse_matrix *out);

/* A square matrix as a graph: an edge from each entry's row to its column, of a symmetric file both ways. Coordinate;
 * real, integer or pattern; entries may stand there twice, and be anything. Otherwise as above. */
bool market_read_graph(const char *path, sparse_matrix *out);

/* A vector of `rows` numbers: array, real or integer, general, of one column. From malloc; NULL with one sentence on
 * stderr that names the file and the line. */
double *market_read_vector(const char *path, uint64_t rows);

/* Such a file, to the last bit. False with one sentence on stderr. */
bool market_write_vector(const char *path, const double *values, uint64_t rows);

#endif
