/* The sources of the built-in elementwise kernels, embedded by the build: fused kernels are compiled from the
 * same functions at run time. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_FUSED_TEXTS_H
#define ROTA_OPS_CUDA_FUSED_TEXTS_H

typedef struct rota_fused_text {
    const char *path; /* as sources include it; NULL ends the table */
    const unsigned char *text;
} rota_fused_text;

extern const rota_fused_text rota_fused_texts[];

#endif
