/* Stand-ins for cuBLASLt and the driver, in the place of ops/cuda/libraries.c: products are made on host memory as
 * they are described, matrices by columns, of f32 or bf16, or of 8-bit floats with one scale each, or one for each row
 * of the first and each column of the second; a kernel is its name, and launching one is left to the test. All of it is
 * to be on one stream. For one thread. */
#ifndef ROTA_TESTS_CUBLASLT_STANDIN_H
#define ROTA_TESTS_CUBLASLT_STANDIN_H

#include <stdint.h>

#define CUBLASLT_STANDIN_STREAM 0x5eed

typedef struct cublaslt_standin_state {
    uint32_t products;   /* so many were made */
    uint32_t alive;      /* descriptions that are not destroyed */
    uint32_t algorithms; /* that its heuristics name; 0: one */
    uint32_t parts_most; /* into which they divide sums */
    float run_ms;        /* that each timing says; 0: none */
    int32_t refused;     /* the epilogue that no algorithm has; -1: none */
    /* A kernel was launched; `args` is what its first parameter points to. */
    void (*launched)(const char *kernel, const void *args);
} cublaslt_standin_state;
extern cublaslt_standin_state cublaslt_standin;

float cublaslt_of_bf16(uint16_t bits);
uint16_t cublaslt_to_bf16(float value);

#endif
