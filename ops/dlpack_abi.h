/* The structs of DLPack, as its specification lays them out: unversioned, and versioned from 1.0 on. Internal; not
 * installed. */
#ifndef ROTA_OPS_DLPACK_ABI_H
#define ROTA_OPS_DLPACK_ABI_H

#include <stddef.h>
#include <stdint.h>

#define ROTA_DLPACK_MAJOR 1u
#define ROTA_DLPACK_MINOR 0u

/* Device types, of which an int32_t is one: those known here. */
enum {
    ROTA_DLPACK_CPU = 1,
    ROTA_DLPACK_CUDA = 2,
    ROTA_DLPACK_CUDA_HOST = 3, /* pinned */
    ROTA_DLPACK_CUDA_MANAGED = 13
};

/* Codes of dtypes. */
enum {
    ROTA_DLPACK_INT,
    ROTA_DLPACK_UINT,
    ROTA_DLPACK_FLOAT,
    ROTA_DLPACK_OPAQUE,
    ROTA_DLPACK_BFLOAT,
    ROTA_DLPACK_F8_E4M3FN = 10, /* from 1.1 on, as the other */
    ROTA_DLPACK_F8_E5M2 = 12
};

typedef struct rota_dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes; /* of a vector, which is one element */
    int64_t *shape;
    int64_t *stride; /* in elements; NULL: dense, row-major */
    uint64_t offset_bytes;
} rota_dlpack_tensor;

typedef struct rota_dlpack_unversioned {
    rota_dlpack_tensor tensor;
    void *user;
    void (*deleter)(struct rota_dlpack_unversioned *self); /* NULL: nothing is to be done */
} rota_dlpack_unversioned;

#define ROTA_DLPACK_READ_ONLY ((uint64_t)1)

typedef struct rota_dlpack_versioned {
    uint32_t major, minor; /* of another major version only the deleter is known */
    void *user;
    void (*deleter)(struct rota_dlpack_versioned *self);
    uint64_t flags;
    rota_dlpack_tensor tensor;
} rota_dlpack_versioned;

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(rota_dlpack_tensor) == 48 && sizeof(rota_dlpack_unversioned) == 64 &&
                    sizeof(rota_dlpack_versioned) == 80),
               "as every library has them");
_Static_assert(offsetof(rota_dlpack_tensor, rank) == sizeof(void *) + 8 &&
                   offsetof(rota_dlpack_tensor, code) == sizeof(void *) + 12,
               "likewise");

#endif
