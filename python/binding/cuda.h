/* Streams of other libraries on a CUDA device: what cuda.cpp has for others. */
#ifndef ROTA_PYTHON_CUDA_H
#define ROTA_PYTHON_CUDA_H

#include "core.h"

/* A handle of the driver's, as sentences have it. */
std::string hex(uintptr_t handle);

/* Raises WrongState in a child after a fork, where the driver is not to be entered. */
void check_process(const DeviceCore &device);

/* A stream that no work is put on, on the GPU of a CUDA device, in the context that the driver has for all libraries:
 * it is made to wait for what others have begun. Calls raise; any thread's. */
class CudaStream {
  public:
    explicit CudaStream(int ordinal);
    CudaStream(const CudaStream &) = delete;
    CudaStream &operator=(const CudaStream &) = delete;
    ~CudaStream();

    uintptr_t number() const { return reinterpret_cast<uintptr_t>(stream_); }
    /* Until all that it waits for has been done, or the time is over. Lets the interpreter go on meanwhile. */
    void wait(uint64_t timeout_ns) const;
    /* It waits for what an event has recorded by now; `what` begins the sentence of an error. */
    void come_after(uintptr_t event, const std::string &what);
    /* Whether all that it waits for has been done. */
    bool is_idle() const;
    /* An array's DLPack capsule, whose library is told a stream, by a call with this GPU current: a library orders the
     * stream that it uses on the GPU that is current in the thread, and a third may have left another one so. */
    nb::object capsule_of(nb::handle array, int64_t stream) const;
    /* The driver's number of any stream of the GPU's, which no other one of the process ever has. Refuses one of
     * another context. */
    uint64_t id_of(uintptr_t stream, const std::string &what) const;

  private:
    int device_ = 0;
    void *context_ = nullptr, *stream_ = nullptr;
};

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
