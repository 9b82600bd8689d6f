/* An application's stream, with memory of its own that it copies, on the first GPU of the stand-in for the CUDA driver:
 * for tests of what comes before and after streams. */
#ifndef ROTA_TESTS_STREAM_KIT_H
#define ROTA_TESTS_STREAM_KIT_H

#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/runtime_support.h"

#ifdef ROTA_HAVE_CUDA
enum { STREAM_WORDS = 256, STREAM_BYTES = 4 * STREAM_WORDS };
#define STREAM_PATIENCE_NS 20000000000u
#define STREAM_MOMENT_NS 20000000u

typedef struct application_stream {
    const rota_cuda_api *cu;
    CUcontext context;
    CUstream stream;
    CUdeviceptr theirs, from; /* STREAM_BYTES each; what is put into theirs, which begins with zeros */
} application_stream;

/* The stand-in runs already. Its context is the thread's current one from then on. */
void stream_open(application_stream *a);
/* In nobody's context, until it enters again: where rota is closed, which the stand-in would take for the thread's. */
void stream_leave(const application_stream *a);
void stream_enter(const application_stream *a);
/* Waits for the stream, gives all back, wants no rule of the driver's broken and, if it is `clean`, nothing left in it,
 * and stops the stand-in. */
void stream_close(application_stream *a, bool clean);
/* The same where the context has failed, and so may every call. */
void stream_close_failed(application_stream *a);

/* Waits until the submission is sequenced, and the drivers were given all works that were sequenced by then: none may
 * be held. What they were not given within a second rota_stream_wait waits for to its end, which does not come while
 * the stand-in is paused. */
void stream_expect_given(rota_ticket ticket);

/* What the stream copies next. */
void stream_fill(const application_stream *a, uint32_t value);
/* The stream's next copy, of `from` into `theirs`. */
void stream_copy(const application_stream *a);
/* `theirs` as it is now. */
uint32_t stream_word(const application_stream *a);
/* Waits for the stream, and wants every word of `theirs` to be `value`. */
void stream_expect(const application_stream *a, uint32_t value);
#endif

#endif
