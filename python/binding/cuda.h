/* Streams of other libraries on a CUDA device: what cuda.cpp has for others. */
#ifndef ROTA_PYTHON_CUDA_H
#define ROTA_PYTHON_CUDA_H

#include "core.h"

/* Copies on streams of other libraries, between memory of theirs and of one plan's, in groups, each on one stream: a
 * group comes after all that its stream was given before, and after the group before it, on whichever stream that was.
 * For one thread at a time. Calls but the first need no lock of the interpreter's and raise nothing. */
class CudaCopies {
  public:
    /* On the GPU of a CUDA device, in the context that the driver has for all libraries. Raises. */
    explicit CudaCopies(const DeviceCore &device);
    CudaCopies(const CudaCopies &) = delete;
    CudaCopies &operator=(const CudaCopies &) = delete;
    /* What it copied is over (is_over), or what it copied to and from is never freed. */
    ~CudaCopies();

    rota_status begin(void *stream);
    rota_status copy(void *stream, uint64_t to, uint64_t from, uint64_t size_bytes) const;
    /* The group's end, which is_over looks for, and which the next group comes after. */
    rota_status end(void *stream);
    /* Waits, up to so long, until the last group has ended; tells whether it has. */
    bool is_over(uint64_t timeout_ns) const;

  private:
    std::string id_;
    int device_ = 0;
    void *context_ = nullptr, *event_ = nullptr;
    bool has_begun_ = false;
};

#endif
