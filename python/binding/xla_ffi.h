/* What handlers of XLA's foreign function interface see, of its version 0.3: the layouts and numbers that its header
 * documents, as far as xla.cpp needs them. The package is built without XLA. Every struct begins with its size as the
 * caller has it, which tells how much of it there is. */
#ifndef ROTA_PYTHON_XLA_FFI_H
#define ROTA_PYTHON_XLA_FFI_H

#include <cstddef>
#include <cstdint>

enum { XLA_MAJOR = 0, XLA_MINOR = 3 };
enum { XLA_EXTENSION_METADATA = 1 };
enum { XLA_STAGE_INSTANTIATE = 0, XLA_STAGE_EXECUTE = 3 };
enum { XLA_ATTRIBUTE_SCALAR = 3 };
enum {
    XLA_S32 = 4,
    XLA_S64 = 5,
    XLA_U32 = 8,
    XLA_F16 = 10,
    XLA_F32 = 11,
    XLA_BF16 = 16,
    XLA_F8_E5M2 = 19,
    XLA_F8_E4M3FN = 20
};
enum {
    XLA_INVALID_ARGUMENT = 3,
    XLA_DEADLINE_EXCEEDED = 4,
    XLA_RESOURCE_EXHAUSTED = 8,
    XLA_FAILED_PRECONDITION = 9,
    XLA_UNIMPLEMENTED = 12,
    XLA_INTERNAL = 13,
    XLA_UNAVAILABLE = 14
};

struct XlaError;   /* the caller's own; given to XLA by whoever returns it */
struct XlaContext; /* the caller's own */

struct XlaExtension {
    size_t struct_size;
    int type;
    XlaExtension *next;
};

struct XlaHead {
    size_t struct_size;
    XlaExtension *extensions;
};

struct XlaVersion {
    XlaHead head;
    int major, minor;
};

struct XlaTypeId {
    int64_t id; /* 0: XLA chooses one when the type is registered */
};

struct XlaTypeInfo {
    XlaHead head;
    void (*destroy)(void *object);
};

struct XlaErrorArgs {
    XlaHead head;
    const char *message; /* copied */
    int code;
};

/* An executable's own object of a type, which is destroyed with it. */
struct XlaStateArgs {
    XlaHead head;
    XlaContext *context;
    int stage; /* that set it */
    XlaTypeId *type;
    void *state; /* given by set, returned by get */
};

struct XlaStreamArgs {
    XlaHead head;
    XlaContext *context;
    void *stream; /* returned: of a CUDA device a CUstream */
};

struct XlaApi {
    XlaHead head;
    XlaVersion version;
    const void *internal;
    XlaError *(*error_create)(XlaErrorArgs *args);
    void *unused[3];
    XlaError *(*stream_get)(XlaStreamArgs *args);
    void *unused_too[2];
    XlaError *(*state_set)(XlaStateArgs *args);
    XlaError *(*state_get)(XlaStateArgs *args);
};

struct XlaBuffer {
    XlaHead head;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *extents;
};

/* Operands, or results: of each its type, which is a buffer, and the buffer. */
struct XlaBuffers {
    XlaHead head;
    int64_t count;
    int *types;
    XlaBuffer **buffers;
};

struct XlaText {
    const char *begin;
    size_t length;
};

struct XlaScalar {
    int dtype;
    void *value;
};

struct XlaAttributes {
    XlaHead head;
    int64_t count;
    int *types;
    XlaText **names;
    void **values;
};

struct XlaFrame {
    XlaHead head;
    const XlaApi *api;
    XlaContext *context;
    int stage;
    XlaBuffers operands, results;
    XlaAttributes attributes;
};

struct XlaMetadata {
    size_t struct_size;
    XlaVersion version;
    uint32_t traits;
    XlaTypeId state;
};

struct XlaMetadataExtension {
    XlaExtension base;
    XlaMetadata *metadata;
};

#endif
