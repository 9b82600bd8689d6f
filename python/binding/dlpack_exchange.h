/* DLPack's functions in C for arrays of Python's, as its specification 1.x lays them out, as far as array.cpp needs
 * them: what `__dlpack_c_exchange_api__` of an array's type has, a capsule of this name. */
#ifndef ROTA_PYTHON_DLPACK_EXCHANGE_H
#define ROTA_PYTHON_DLPACK_EXCHANGE_H

#include <nanobind/ndarray.h>

#include <cstdint>

#define DLPACK_EXCHANGE_NAME "dlpack_exchange_api"
enum { DLPACK_MAJOR = 1, DLPACK_CPU = 1 };
static const uint64_t DLPACK_READ_ONLY = 1;

struct DlpackTensor {
    void *data;
    int32_t device, ordinal;
    int32_t rank;
    nanobind::dlpack::dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense, row-major */
    uint64_t offset_bytes;
};

struct DlpackManaged {
    uint32_t major, minor; /* of another major version only the deleter is known */
    void *context;
    void (*deleter)(DlpackManaged *self);
    uint64_t flags;
    DlpackTensor tensor;
};

/* Each returns 0, or something else with an exception raised. They wait for no stream. */
struct DlpackExchange {
    uint32_t major, minor;
    const DlpackExchange *previous; /* of an older version, or NULL */
    int (*allocate)(DlpackTensor *, DlpackManaged **, void *, void (*)(void *, const char *, const char *));
    int (*from_array)(void *array, DlpackManaged **out);
};

static_assert(sizeof(void *) != 8 || (sizeof(DlpackTensor) == 48 && sizeof(DlpackManaged) == 80),
              "as others have them");

#endif
