/* What the environment may say of NCCL's algorithm and protocol, and whether that pins both, so that sums are the same
 * bits in every run (rota_communicator_options.deterministic). */
#ifndef ROTA_TESTS_NCCL_PINS_H
#define ROTA_TESTS_NCCL_PINS_H

#include <stdlib.h>

typedef struct nccl_pin {
    const char *algorithm, *protocol; /* NULL: not set */
    const char *said; /* why it pins nothing; NULL: it pins both, each such row another pair */
} nccl_pin;

static const nccl_pin nccl_pins[] = {{NULL, NULL, "NCCL_ALGO is not set"},
                                     {"Ring,Tree", "Simple", "NCCL_ALGO is 'Ring,Tree'"},
                                     {"Ring", NULL, "NCCL_PROTO is not set"},
                                     {"Ring", "^LL", "NCCL_PROTO is '^LL'"},
                                     {"NVLS", "Simple", "NCCL_ALGO is 'NVLS'"},
                                     {"ring", "Simple", NULL},
                                     {"Tree", "LL128", NULL}};
enum { NCCL_PINS = sizeof nccl_pins / sizeof *nccl_pins };

static inline void nccl_pin_set(const nccl_pin *pin) {
    if (pin->algorithm) (void)setenv("NCCL_ALGO", pin->algorithm, 1);
    if (pin->protocol) (void)setenv("NCCL_PROTO", pin->protocol, 1);
}

static inline void nccl_pin_unset(void) {
    (void)unsetenv("NCCL_ALGO");
    (void)unsetenv("NCCL_PROTO");
}

#endif
