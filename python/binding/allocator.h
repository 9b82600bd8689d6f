/* Device memory from an allocator of Python's. */
#ifndef ROTA_PYTHON_ALLOCATOR_H
#define ROTA_PYTHON_ALLOCATOR_H

#include "core.h"

/* What a device's memory comes from and goes back to. It is held until the device is closed, and for good where that
 * gives the device up.
 *
 * Its functions are called with the interpreter's lock, on threads whose calls have let go of it and on the library's,
 * which may have a buffer's lock then. Nobody waits for such a one with the interpreter's: a tensor of a device's has
 * memory from when it is made, so that only compiling and such calls make any. */
class Allocator {
  public:
    /* Of an object with `allocate` and `free`, for the GPU of a number. Raises. */
    Allocator(nb::handle object, uint32_t device);
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;

    /* A runtime with the device. As of rota_open; without the interpreter's lock. */
    rota_status open(const rota_runtime_options *options, rota_device **out_device);
    uint32_t device() const { return device_; }
    /* The number of "cuda:2"; raises where the id is of another kind. */
    static uint32_t device_of(const std::optional<std::string> &id);

  private:
    static void *allocate(void *user, uint64_t size_bytes, void *stream);
    static void free(void *user, void *memory, uint64_t size_bytes, void *stream);

    nb::object allocate_, free_;
    std::string name_; /* of its type */
    uint32_t device_;
};

#endif
