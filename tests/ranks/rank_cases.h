/* What each rank of a communicator does in the tests of collectives: the same cases for ranks that are threads and for
 * processes under MPI, or that meet by an address. */
#ifndef ROTA_TESTS_RANK_CASES_H
#define ROTA_TESTS_RANK_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include "rota.h"

/* On any thread: cmocka's assertions are for the one that runs the tests. */
#define rank_want(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                            \
            (void)fprintf(stderr, __VA_ARGS__);                                                              \
            (void)fprintf(stderr, "\n");                                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)
#define rank_ok(expression)                                                                                  \
    do {                                                                                                     \
        const rota_status status_ = (expression);                                                            \
        rank_want(status_ == ROTA_OK, "%s: %s", rota_status_name(status_), rota_last_error());               \
    } while (0)

/* Of programs that are started as ranks: by torchrun's variables (tcprun.sh) or by mpirun. */
static inline const char *rank_transport(void) {
    return getenv("MASTER_PORT") ? "tcp" : "mpi";
}

typedef struct rank_case {
    const char *name;
    uint32_t most; /* ranks; 0: any number */
    uint32_t least;
    uint64_t timeout_ns; /* of the communicator, where the case is about waiting; 0: any */
    void (*run)(rota_runtime *runtime, rota_communicator *communicator);
} rank_case;

/* Of rank_declared.c. */
void rank_declared(rota_runtime *runtime, rota_communicator *communicator);
void rank_undeclared(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_sums.c. */
void rank_order_of_sums(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_training.c. */
void rank_data_parallel(rota_runtime *runtime, rota_communicator *communicator);
void rank_last_bucket(rota_runtime *runtime, rota_communicator *communicator);
void rank_gradients_elsewhere(rota_runtime *runtime, rota_communicator *communicator);
void rank_gradients_overlap(rota_runtime *runtime, rota_communicator *communicator);
void rank_many_parameters(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_sharding.c. */
void rank_shards(rota_runtime *runtime, rota_communicator *communicator);
void rank_shards_refused(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_unshard.c. */
void rank_unshards(rota_runtime *runtime, rota_communicator *communicator);
void rank_unshards_need_less(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_unshard_kinds.c. */
void rank_unshard_kinds(rota_runtime *runtime, rota_communicator *communicator);
void rank_unshard_reduces(rota_runtime *runtime, rota_communicator *communicator);
void rank_unshard_refused(rota_runtime *runtime, rota_communicator *communicator);

/* Of rank_tensor_parallel.c. */
void rank_parts(rota_runtime *runtime, rota_communicator *communicator);
void rank_tensor_parallel(rota_runtime *runtime, rota_communicator *communicator);
void rank_tensor_parallel_refused(rota_runtime *runtime, rota_communicator *communicator);
void rank_dropout_parts(rota_runtime *runtime, rota_communicator *communicator);
void rank_masked_classes(rota_runtime *runtime, rota_communicator *communicator);
void rank_labels_outside(rota_runtime *runtime, rota_communicator *communicator);

/* Ended by one without name. */
extern const rank_case rank_cases[];

#endif
