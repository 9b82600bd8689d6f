/* Elements of several ranks combined to one: see elements.c. Internal. */
#ifndef ROTA_EXEC_COMM_ELEMENTS_H
#define ROTA_EXEC_COMM_ELEMENTS_H

#include "exec/comm/transport.h"

/* out[i] of sources[0][i], sources[1][i] and so on, in that order, for i below count. `out` may be one of the sources.
 */
void rota_elements_combine(rota_collective_type type, rota_collective_reduction reduction,
                           const void *const *sources, uint32_t source_count, uint64_t count, void *out);

#endif
