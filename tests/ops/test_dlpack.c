/* DLPack (ops/dlpack.h): memory of other libraries as tensors, tensors' memory for other libraries, whose structs are
 * here as the specification has them, apart from rota's own. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/runtime_support.h"

/* ---- As another library has them ---- */

typedef struct DLTensor {
    void *data;
    struct {
        int device_type;
        int32_t device_id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

enum { KDL_CPU = 1, KDL_CUDA = 2, KDL_CUDA_HOST = 3, KDL_VULKAN = 7, KDL_CUDA_MANAGED = 13 };
enum { KDL_INT, KDL_UINT, KDL_FLOAT, KDL_OPAQUE, KDL_BFLOAT, KDL_COMPLEX, KDL_BOOL };
#define PATIENCE_NS 20000000000u

/* One of theirs, in both forms. */
typedef struct foreign {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
    _Alignas(64) float data[64];
    int64_t shape[9], strides[9];
    _Atomic uint32_t deleted;
} foreign;

static void note_deleted(foreign *f) {
    (void)atomic_fetch_add(&f->deleted, 1);
}
static void delete_plain(DLManagedTensor *self) {
    note_deleted(self->manager_ctx);
}
static void delete_versioned(DLManagedTensorVersioned *self) {
    note_deleted(self->manager_ctx);
}

/* f32, dense, of the CPU; element i is i. */
static DLTensor *make(foreign *f, int32_t rank, const int64_t *shape) {
    memset(f, 0, sizeof *f);
    DLTensor t = {.data = f->data, .ndim = rank};
    t.device.device_type = KDL_CPU;
    t.dtype.code = KDL_FLOAT, t.dtype.bits = 32, t.dtype.lanes = 1;
    t.shape = f->shape;
    for (int32_t i = 0; i < rank; i++) f->shape[i] = shape[i];
    for (uint32_t i = 0; i < 64; i++) f->data[i] = (float)i;
    f->plain = (DLManagedTensor){t, f, delete_plain};
    f->versioned = (DLManagedTensorVersioned){{1, 1}, f, delete_versioned, 0, t};
    return &f->plain.dl_tensor;
}

static void expect_deleted(foreign *f, uint32_t count) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (atomic_load(&f->deleted) < count && rota_clock_ns() < deadline) (void)sched_yield();
    assert_int_equal(atomic_load(&f->deleted), count);
}

static rota_device *device_of(void **state) {
    return ((runtime_fixture *)*state)->device;
}

static rota_tensor take(rota_device *device, void *managed, rota_dlpack_form form) {
    rota_tensor x;
    assert_ok(rota_tensor_from_dlpack(device, "theirs", managed, form, &x));
    return x;
}

static void expect_values(const rota_tensor *x, uint32_t count, const float *expected) {
    float got[64];
    assert_ok(rota_tensor_read(x, got, count * sizeof *got));
    for (uint32_t i = 0; i < count; i++) assert_true(got[i] == expected[i]);
}

/* y = 2 x, in place. */
static void scale(rota_device *device, rota_tensor x) {
    rota_tape *tape;
    rota_ticket ticket;
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_op_scale_into(tape, x, ROTA_CONSTANT(2), x));
    assert_ok(rota_tape_submit(tape, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_tape_destroy(tape);
}

/* ---- From others ---- */

static void memory_is_not_copied(void **state) {
    rota_device *device = device_of(state);
    for (uint32_t form = 0; form < ROTA_DLPACK_FORM_COUNT; form++) {
        foreign f;
        (void)make(&f, 2, (int64_t[]){3, 4});
        rota_tensor x =
            take(device, form == ROTA_DLPACK_FORM_VERSIONED ? (void *)&f.versioned : (void *)&f.plain, form);
        assert_int_equal(x.rank, 2);
        assert_int_equal(x.stride[0], 4);
        assert_string_equal(rota_buffer_name(x.buffer), "theirs");
        scale(device, x);
        for (uint32_t i = 0; i < 64; i++) assert_true(f.data[i] == (float)(i < 12 ? 2 * i : i));
        assert_int_equal(atomic_load(&f.deleted), 0);
        rota_buffer_release(x.buffer);
        expect_deleted(&f, 1);
    }
}

/* Transposed, repeated, from an element that no allocation begins at; strides along one element mean nothing. */
static void places_and_strides(void **state) {
    rota_device *device = device_of(state);
    foreign f;
    DLTensor *t = make(&f, 3, (int64_t[]){2, 1, 3});
    t->strides = f.strides;
    f.strides[0] = 1, f.strides[1] = -77, f.strides[2] = 5;
    t->data = f.data + 1;
    t->byte_offset = 2 * sizeof(float);
    rota_tensor x = take(device, &f.plain, ROTA_DLPACK_FORM_UNVERSIONED);
    expect_values(&x, 6, (float[]){3, 8, 13, 4, 9, 14});
    rota_buffer_release(x.buffer);
    expect_deleted(&f, 1);
    t = make(&f, 2, (int64_t[]){2, 2});
    t->strides = f.strides;
    f.strides[0] = 0, f.strides[1] = 1;
    x = take(device, &f.plain, ROTA_DLPACK_FORM_UNVERSIONED);
    expect_values(&x, 4, (float[]){0, 1, 0, 1});
    rota_buffer_release(x.buffer);
    expect_deleted(&f, 1);
    t = make(&f, 0, NULL); /* one element */
    t->shape = NULL;
    t->byte_offset = 7 * sizeof(float);
    t->device.device_type = KDL_CUDA_HOST;
    x = take(device, &f.plain, ROTA_DLPACK_FORM_UNVERSIONED);
    expect_values(&x, 1, (float[]){7});
    rota_buffer_release(x.buffer);
    expect_deleted(&f, 1);
}

static void nothing_to_take(void **state) {
    rota_device *device = device_of(state);
    foreign f;
    (void)make(&f, 2, (int64_t[]){3, 0});
    f.versioned.dl_tensor.data = NULL;
    rota_tensor x = take(device, &f.versioned, ROTA_DLPACK_FORM_VERSIONED);
    assert_true(rota_tensor_is_empty(&x));
    assert_int_equal(atomic_load(&f.deleted), 1);
    rota_buffer_release(x.buffer);
    static foreign undeleted; /* nobody is told when it is not used any more */
    (void)make(&undeleted, 1, (int64_t[]){4});
    undeleted.plain.deleter = NULL;
    x = take(device, &undeleted.plain, ROTA_DLPACK_FORM_UNVERSIONED);
    rota_buffer_release(x.buffer);
    /* Of what the closing runtime still has. */
    runtime_fixture own;
    assert_ok(rota_runtime_open(NULL, &own.runtime));
    assert_ok(rota_device_open(own.runtime, "cpu", &own.device));
    (void)make(&f, 1, (int64_t[]){4});
    x = take(own.device, &f.versioned, ROTA_DLPACK_FORM_VERSIONED);
    assert_ok(rota_runtime_close(own.runtime, 0));
    assert_int_equal(atomic_load(&f.deleted), 1);
    rota_buffer_release(x.buffer);
    assert_int_equal(atomic_load(&f.deleted), 1);
}

static void dtypes(void **state) {
    rota_device *device = device_of(state);
    static const struct {
        uint8_t code, bits;
        rota_dtype dtype; /* ROTA_DTYPE_COUNT: none */
    } cases[] = {{KDL_FLOAT, 32, ROTA_F32},
                 {KDL_FLOAT, 16, ROTA_F16},
                 {KDL_BFLOAT, 16, ROTA_BF16},
                 {KDL_INT, 32, ROTA_I32},
                 {KDL_UINT, 32, ROTA_U32},
                 {10, 8, ROTA_F8_E4M3FN}, /* kDLFloat8_e4m3fn */
                 {12, 8, ROTA_F8_E5M2},   /* kDLFloat8_e5m2 */
                 {13, 8, ROTA_DTYPE_COUNT},
                 {KDL_FLOAT, 64, ROTA_DTYPE_COUNT},
                 {KDL_INT, 8, ROTA_DTYPE_COUNT},
                 {KDL_BOOL, 8, ROTA_DTYPE_COUNT},
                 {KDL_COMPLEX, 64, ROTA_DTYPE_COUNT},
                 {KDL_OPAQUE, 32, ROTA_DTYPE_COUNT},
                 {KDL_BFLOAT, 32, ROTA_DTYPE_COUNT}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign f;
        DLTensor *t = make(&f, 1, (int64_t[]){8});
        t->dtype.code = cases[i].code, t->dtype.bits = cases[i].bits;
        rota_tensor x;
        const rota_status status =
            rota_tensor_from_dlpack(device, NULL, &f.plain, ROTA_DLPACK_FORM_UNVERSIONED, &x);
        if (cases[i].dtype == ROTA_DTYPE_COUNT) {
            assert_int_equal(status, ROTA_UNSUPPORTED);
            expect_said("bits, expected f32");
            assert_null(x.buffer);
            assert_int_equal(atomic_load(&f.deleted), 0);
            continue;
        }
        assert_ok(status);
        assert_int_equal(x.dtype, cases[i].dtype);
        rota_buffer_release(x.buffer);
        expect_deleted(&f, 1);
    }
}

static void refuses(rota_device *device, foreign *f, rota_status expected, const char *said) {
    rota_tensor x;
    f->versioned.dl_tensor = f->plain.dl_tensor;
    assert_status(rota_tensor_from_dlpack(device, "x", &f->versioned, ROTA_DLPACK_FORM_VERSIONED, &x),
                  expected);
    expect_said(said);
    assert_null(x.buffer);
    assert_int_equal(atomic_load(&f->deleted), 0);
}

static void refused(void **state) {
    rota_device *device = device_of(state);
    foreign f;
    DLTensor *t = make(&f, 1, (int64_t[]){8});
    f.versioned.version.major = 2;
    refuses(device, &f, ROTA_UNSUPPORTED, "version 2.1, expected 1");
    f.versioned.version.major = 0;
    refuses(device, &f, ROTA_UNSUPPORTED, "version 0.1");
    t = make(&f, 1, (int64_t[]){8});
    t->dtype.lanes = 4;
    refuses(device, &f, ROTA_UNSUPPORTED, "vectors of 4 lanes");
    t = make(&f, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "rank 9");
    t = make(&f, 1, (int64_t[]){8});
    t->ndim = -1;
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "rank -1");
    t = make(&f, 1, (int64_t[]){8});
    t->shape = NULL;
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "rank 1 with the shape at");
    t = make(&f, 2, (int64_t[]){8, -3});
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "extent -3 along axis 1");
    t = make(&f, 2, (int64_t[]){1 << 20, 1 << 20});
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "more than 4294967295 elements");
    t = make(&f, 1, (int64_t[]){8});
    t->strides = f.strides;
    f.strides[0] = -1;
    refuses(device, &f, ROTA_UNSUPPORTED, "stride -1 along axis 0");
    f.strides[0] = INT64_MAX;
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "is beyond all memory");
    t = make(&f, 1, (int64_t[]){8});
    t->data = NULL;
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "data at");
    t = make(&f, 1, (int64_t[]){8});
    t->byte_offset = UINT64_MAX;
    refuses(device, &f, ROTA_INVALID_ARGUMENT, "data at");
    t->byte_offset = 2;
    refuses(device, &f, ROTA_MISALIGNED, "multiple of f32's 4 bytes");
    t = make(&f, 1, (int64_t[]){8});
    t->device.device_type = KDL_VULKAN;
    refuses(device, &f, ROTA_UNSUPPORTED, "device type 7");
    t->device.device_type = KDL_CUDA;
    refuses(device, &f, ROTA_UNSUPPORTED, "device 'cpu' is none");
    rota_tensor x;
    assert_status(rota_tensor_from_dlpack(device, "x", &f.plain, (rota_dlpack_form)2, &x),
                  ROTA_INVALID_ARGUMENT);
}

/* ---- To others ---- */

static void lent(void **state) {
    rota_device *device = device_of(state);
    rota_tensor x, y;
    uint64_t address;
    float data[12];
    void *managed;
    for (uint32_t i = 0; i < 12; i++) data[i] = (float)i;
    assert_ok(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(3, 4), data, &x));
    assert_ok(rota_tensor_slice(&x, 1, 1, 2, &y));
    expect_values(&y, 6, (float[]){1, 2, 5, 6, 9, 10}); /* which has waited for it */
    assert_ok(rota_buffer_address(x.buffer, device, &address));
    for (uint32_t form = 0; form < ROTA_DLPACK_FORM_COUNT; form++) {
        assert_ok(rota_tensor_to_dlpack(&y, device, (rota_dlpack_form)form, &managed));
        DLManagedTensor *plain = managed;
        DLManagedTensorVersioned *versioned = managed;
        const DLTensor *t = form == ROTA_DLPACK_FORM_VERSIONED ? &versioned->dl_tensor : &plain->dl_tensor;
        assert_int_equal((uint64_t)(uintptr_t)t->data + t->byte_offset, address + 4);
        assert_int_equal(t->device.device_type, KDL_CPU);
        assert_int_equal(t->device.device_id, 0);
        assert_int_equal(t->ndim, 2);
        assert_int_equal(t->dtype.code, KDL_FLOAT);
        assert_int_equal(t->dtype.bits, 32);
        assert_int_equal(t->dtype.lanes, 1);
        assert_int_equal(t->shape[0], 3);
        assert_int_equal(t->shape[1], 2);
        assert_int_equal(t->strides[0], 4);
        assert_int_equal(t->strides[1], 1);
        if (form == ROTA_DLPACK_FORM_VERSIONED) {
            assert_int_equal(versioned->version.major, 1);
            assert_int_equal(versioned->flags, 0);
        }
        /* There and back: the same memory. */
        rota_tensor back;
        assert_ok(rota_tensor_from_dlpack(device, "back", managed, (rota_dlpack_form)form, &back));
        expect_values(&back, 6, (float[]){1, 2, 5, 6, 9, 10});
        rota_buffer_release(back.buffer); /* calls the deleter */
    }
    /* The struct outlives the tensor, and even the runtime, though the memory does not. */
    runtime_fixture own;
    assert_ok(rota_runtime_open(NULL, &own.runtime));
    assert_ok(rota_device_open(own.runtime, "cpu", &own.device));
    assert_ok(rota_tensor_create(own.device, "z", ROTA_F32, ROTA_SHAPE(12), data, &y));
    expect_values(&y, 12, data);
    assert_ok(rota_tensor_to_dlpack(&y, own.device, ROTA_DLPACK_FORM_VERSIONED, &managed));
    rota_buffer_release(y.buffer);
    const DLManagedTensorVersioned *theirs = managed;
    assert_memory_equal((char *)theirs->dl_tensor.data + theirs->dl_tensor.byte_offset, data, sizeof data);
    assert_ok(rota_runtime_close(own.runtime, 0));
    theirs->deleter(managed);
    rota_buffer_release(x.buffer);
}

static void read_only(void **state) {
    rota_device *device = device_of(state);
    foreign f;
    rota_tensor x;
    void *managed;
    (void)make(&f, 1, (int64_t[]){8});
    f.versioned.flags = 1;
    x = take(device, &f.versioned, ROTA_DLPACK_FORM_VERSIONED);
    assert_status(rota_buffer_write(x.buffer, device, 0, f.data, 4, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_to_dlpack(&x, device, ROTA_DLPACK_FORM_UNVERSIONED, &managed),
                  ROTA_UNSUPPORTED);
    expect_said("only to be read");
    assert_null(managed);
    assert_ok(rota_tensor_to_dlpack(&x, device, ROTA_DLPACK_FORM_VERSIONED, &managed));
    DLManagedTensorVersioned *theirs = managed;
    assert_int_equal(theirs->flags, 1);
    rota_buffer_release(x.buffer);
    assert_int_equal(atomic_load(&f.deleted), 0); /* the struct holds the buffer */
    theirs->deleter(theirs);
    expect_deleted(&f, 1);
}

static void not_lent(void **state) {
    rota_device *device = device_of(state);
    rota_tensor x, none = ROTA_TENSOR_NONE;
    void *managed = state;
    assert_ok(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(4), NULL, &x));
    assert_status(rota_tensor_to_dlpack(&none, device, ROTA_DLPACK_FORM_VERSIONED, &managed),
                  ROTA_INVALID_ARGUMENT);
    assert_null(managed);
    assert_status(rota_tensor_to_dlpack(&x, device, (rota_dlpack_form)7, &managed), ROTA_INVALID_ARGUMENT);
    rota_tensor wrong = x;
    wrong.offset_bytes = 2;
    assert_status(rota_tensor_to_dlpack(&wrong, device, ROTA_DLPACK_FORM_VERSIONED, &managed),
                  ROTA_OUT_OF_RANGE);
    rota_buffer_release(x.buffer);
    rota_buffer *bare;
    assert_ok(rota_buffer_create_in(rota_device_runtime(device), "bare", 64, &bare));
    assert_ok(rota_tensor_of(bare, 0, ROTA_F32, ROTA_SHAPE(4), &x));
    assert_status(rota_tensor_to_dlpack(&x, device, ROTA_DLPACK_FORM_VERSIONED, &managed), ROTA_NOT_FOUND);
    rota_buffer_release(bare);
    rota_graph *graph;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", 64, &bare));
    assert_ok(rota_tensor_of(bare, 0, ROTA_F32, ROTA_SHAPE(4), &x));
    assert_status(rota_tensor_to_dlpack(&x, device, ROTA_DLPACK_FORM_VERSIONED, &managed),
                  ROTA_INVALID_ARGUMENT);
    expect_said("no PERSISTENT buffer");
    rota_graph_release(graph);
}

/* ---- CUDA, over the stand-in ---- */

#ifdef ROTA_HAVE_CUDA
static void cuda(void **state) {
    (void)state;
    if (!cuda_stub_has_images()) skip();
    runtime_fixture own;
    cuda_stub_start(3, 1);
    const rota_cuda_api *cu = cuda_stub_api();
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &own.runtime));
    assert_ok(rota_device_open(own.runtime, "cuda:0", &own.device));
    CUcontext context, before;
    CUdeviceptr address;
    assert_int_equal(cu->DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cu->CtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cu->MemAlloc(&address, 256), CUDA_SUCCESS);
    foreign f;
    DLTensor *t = make(&f, 1, (int64_t[]){8});
    memcpy((void *)(uintptr_t)address, f.data, 64); /* the stand-in's memory is the host's */
    t->data = (void *)(uintptr_t)address;
    t->byte_offset = 4;
    t->device.device_type = KDL_CUDA;
    rota_tensor x = take(own.device, &f.plain, ROTA_DLPACK_FORM_UNVERSIONED);
    expect_values(&x, 8, f.data + 1);
    void *managed;
    assert_ok(rota_tensor_to_dlpack(&x, own.device, ROTA_DLPACK_FORM_VERSIONED, &managed));
    DLManagedTensorVersioned *theirs = managed;
    assert_int_equal(theirs->dl_tensor.device.device_type, KDL_CUDA);
    assert_int_equal(theirs->dl_tensor.device.device_id, 0);
    assert_int_equal((uint64_t)(uintptr_t)theirs->dl_tensor.data + theirs->dl_tensor.byte_offset,
                     address + 4);
    theirs->deleter(theirs);
    rota_buffer_release(x.buffer);
    expect_deleted(&f, 1);
    t->device.device_id = 1;
    atomic_store(&f.deleted, 0);
    refuses(own.device, &f, ROTA_INVALID_ARGUMENT, "CUDA device 1, expected that of 'cuda:0'");
    t->device.device_id = 0;
    f.shape[0] = 400;
    refuses(own.device, &f, ROTA_INVALID_ARGUMENT, "no device memory that the driver knows");
    t->device.device_type = KDL_CPU;
    refuses(own.device, &f, ROTA_UNSUPPORTED, "is host memory");
    assert_int_equal(cu->MemFree(address), CUDA_SUCCESS);
    assert_int_equal(cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_ok(rota_runtime_close(own.runtime, 0));
    cuda_stub_end_clean();
}
#endif

int main(void) {
#define WITH_DEVICE(test) cmocka_unit_test_setup_teardown(test, runtime_setup, runtime_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(memory_is_not_copied),
        WITH_DEVICE(places_and_strides),
        WITH_DEVICE(nothing_to_take),
        WITH_DEVICE(dtypes),
        WITH_DEVICE(refused),
        WITH_DEVICE(lent),
        WITH_DEVICE(read_only),
        WITH_DEVICE(not_lent),
#ifdef ROTA_HAVE_CUDA
        cmocka_unit_test(cuda),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
