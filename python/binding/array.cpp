/* Host memory of Python's: arrays that are borrowed for the library, and arrays made over its results. */
#include "core.h"

#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>

#include "dlpack_exchange.h"

/* Codes of DLPack from 1.1 on, which nanobind's list may not have. */
enum { DLPACK_F8_E4M3FN = 10, DLPACK_F8_E5M2 = 12 };

static const char *const DTYPE_TEXTS[ROTA_DTYPE_COUNT] = {
#define NAME_OF(name, text, bytes) text,
    ROTA_DTYPE_LIST(NAME_OF)
#undef NAME_OF
};

rota_dtype dtype_of(const std::string &name) {
    std::string known;
    for (int i = 0; i < ROTA_DTYPE_COUNT; i++) {
        if (name == DTYPE_TEXTS[i]) return static_cast<rota_dtype>(i);
        known += std::string(i ? ", " : "") + DTYPE_TEXTS[i];
    }
    fail(ROTA_INVALID_ARGUMENT, "there is no dtype '" + name + "'; there are " + known);
}

std::string shape_text(const std::vector<uint64_t> &shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

std::vector<uint64_t> shape_of(nb::handle shape) {
    std::vector<uint64_t> extents;
    if (nb::isinstance<nb::int_>(shape)) {
        extents.push_back(nb::cast<uint64_t>(shape));
    } else {
        for (nb::handle extent : shape) extents.push_back(nb::cast<uint64_t>(extent));
    }
    if (extents.size() <= ROTA_RANK_MAX) return extents;
    fail(ROTA_INVALID_ARGUMENT, "a shape has at most 8 axes; " + shape_text(extents) + " has more");
}

/* What an array has, whichever way it was got. */
struct Found {
    HostArray memory;
    std::string dtype; /* rota's name, or the array's own */
    bool known;
    std::vector<uint64_t> shape;
    std::vector<int64_t> stride_bytes;
    bool contiguous;
};

static bool is_contiguous(const std::vector<uint64_t> &shape, const std::vector<int64_t> &stride,
                          int64_t item_bytes) {
    int64_t expected = item_bytes;
    for (size_t i = shape.size(); i-- > 0;) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1 && stride[i] != expected) return false;
        expected *= static_cast<int64_t>(shape[i]);
    }
    return true;
}

static std::string name_of_format(const char *format, Py_ssize_t item_bytes, bool *out_known) {
    const char code = format ? (strchr("<=@", format[0]) ? format[1] : format[0]) : 'B';
    *out_known = true;
    if (code == 'f') return "f32";
    if (code == 'e') return "f16";
    if (code == 'H') return "bf16"; /* its bits: Python has no such format */
    if (item_bytes == 4 && (code == 'i' || code == 'l')) return "i32";
    if (item_bytes == 4 && (code == 'I' || code == 'L')) return "u32";
    *out_known = false;
    if (item_bytes == 1 && code == 'B') return "uint8";
    if (code == 'd') return "float64";
    if (code == 'l' || code == 'q') return "int64";
    return std::string("of format '") + (format ? format : "B") + "'";
}

/* A view of an object's buffer lives as long as the memoryview that is its owner. */
static bool find_buffer(nb::handle array, bool writable, Found *out) {
    if (!PyObject_CheckBuffer(array.ptr())) return false;
    Py_buffer view;
    const int flags = PyBUF_RECORDS_RO | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0) {
        PyErr_Clear();
        return false;
    }
    out->dtype = name_of_format(view.format, view.itemsize, &out->known);
    out->memory.data = view.buf;
    for (int i = 0; i < view.ndim; i++) out->shape.push_back(static_cast<uint64_t>(view.shape[i]));
    if (view.strides) out->stride_bytes.assign(view.strides, view.strides + view.ndim);
    out->contiguous = !view.strides || is_contiguous(out->shape, out->stride_bytes, view.itemsize);
    /* An export of its own, which keeps a bytearray from being resized as long as the owner lives. */
    out->memory.owner = nb::steal(PyMemoryView_FromObject(array.ptr()));
    PyBuffer_Release(&view);
    if (out->memory.owner.is_valid()) return true;
    nb::raise_python_error();
}

static std::string name_of_dlpack(const nb::dlpack::dtype &dtype, bool *out_known) {
    using nb::dlpack::dtype_code;
    const auto code = static_cast<dtype_code>(dtype.code);
    *out_known = dtype.lanes == 1;
    if (code == dtype_code::Float && dtype.bits == 32) return "f32";
    if (code == dtype_code::Float && dtype.bits == 16) return "f16";
    if (code == dtype_code::Bfloat && dtype.bits == 16) return "bf16";
    if (dtype.code == DLPACK_F8_E4M3FN && dtype.bits == 8) return "f8_e4m3fn";
    if (dtype.code == DLPACK_F8_E5M2 && dtype.bits == 8) return "f8_e5m2";
    if (code == dtype_code::Int && dtype.bits == 32) return "i32";
    if (code == dtype_code::UInt && dtype.bits == 32) return "u32";
    *out_known = false;
    const char *kind = code == dtype_code::Float  ? "float"
                       : code == dtype_code::Int  ? "int"
                       : code == dtype_code::UInt ? "uint"
                                                  : "another kind of ";
    return kind + std::to_string(dtype.bits);
}

/* An array keeps its memory, whatever becomes of the object that lent it. */
template <typename Array> static nb::object owner_of(const Array &array) {
    return nb::capsule(new Array(array), [](void *held) noexcept { delete static_cast<Array *>(held); });
}

std::string memory_text(int kind, int ordinal) {
    if (kind == nb::device::cpu::value) return "the host's memory";
    if (kind == nb::device::cuda::value) return "the memory of CUDA device " + std::to_string(ordinal);
    if (kind == nb::device::cuda_host::value) return "pinned memory of CUDA's";
    if (kind == nb::device::cuda_managed::value) return "managed memory of CUDA's";
    return "the memory of a device of DLPack's kind " + std::to_string(kind);
}

/* In the host's memory, or in that of the CUDA device of an ordinal. What has buffers, but none of its dtype (JAX's
 * arrays of bf16), is read so, and not written: that it may be, its buffer would have to say. */
template <typename Array>
static bool find_dlpack(nb::handle array, bool writable, int ordinal, Found *out, const std::string &what) {
    Array found;
    if ((writable && PyObject_CheckBuffer(array.ptr())) || !nb::try_cast(array, found)) return false;
    const bool there = ordinal < 0
                           ? found.device_type() == nb::device::cpu::value
                           : found.device_type() == nb::device::cuda::value && found.device_id() == ordinal;
    if (!there)
        fail(ROTA_UNSUPPORTED,
             what + ": the array is in " + memory_text(found.device_type(), found.device_id()) +
                 ", which can't be taken here; copy it to " +
                 (ordinal < 0 ? "the host" : memory_text(nb::device::cuda::value, ordinal)));
    out->dtype = name_of_dlpack(found.dtype(), &out->known);
    out->memory.data = const_cast<void *>(found.data());
    const int64_t item_bytes = static_cast<int64_t>(found.itemsize());
    for (size_t i = 0; i < found.ndim(); i++) {
        out->shape.push_back(found.shape(i));
        out->stride_bytes.push_back(found.stride(i) * item_bytes);
    }
    out->contiguous = is_contiguous(out->shape, out->stride_bytes, item_bytes);
    out->memory.owner = owner_of(found);
    return true;
}

/* The functions of an array's type, or NULL. */
static const DlpackExchange *exchange_of(nb::handle array) {
    const nb::object capsule = nb::getattr(array.type(), "__dlpack_c_exchange_api__", nb::none());
    if (!PyCapsule_IsValid(capsule.ptr(), DLPACK_EXCHANGE_NAME)) return nullptr;
    const auto *exchange =
        static_cast<const DlpackExchange *>(PyCapsule_GetPointer(capsule.ptr(), DLPACK_EXCHANGE_NAME));
    while (exchange && exchange->major > DLPACK_MAJOR) exchange = exchange->previous;
    return exchange && exchange->major == DLPACK_MAJOR ? exchange : nullptr;
}

/* An array in the host's memory by the functions in C of its library, which cost a third of a call of __dlpack__. What
 * they do not give is left to that, with its sentences. */
static bool find_exchanged(nb::handle array, bool writable, Found *out) {
    const DlpackExchange *const exchange = exchange_of(array);
    if (!exchange || !exchange->from_array) return false;
    DlpackManaged *managed = nullptr;
    if (exchange->from_array(array.ptr(), &managed) != 0) {
        PyErr_Clear();
        return false;
    }
    const auto drop = [](void *held) noexcept {
        auto *const of = static_cast<DlpackManaged *>(held);
        if (of->deleter) of->deleter(of);
    };
    const nb::object owner = nb::capsule(managed, drop);
    if (managed->major != DLPACK_MAJOR || managed->tensor.device != DLPACK_CPU ||
        (writable && (managed->flags & DLPACK_READ_ONLY)))
        return false;
    const DlpackTensor &tensor = managed->tensor;
    const int64_t item_bytes = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
    out->dtype = name_of_dlpack(tensor.dtype, &out->known);
    out->memory.data = static_cast<char *>(tensor.data) + tensor.offset_bytes;
    for (int32_t i = 0; i < tensor.rank; i++) out->shape.push_back(static_cast<uint64_t>(tensor.shape[i]));
    int64_t dense = item_bytes;
    out->stride_bytes.resize(out->shape.size());
    for (size_t i = out->shape.size(); i-- > 0;) {
        out->stride_bytes[i] = tensor.strides ? tensor.strides[i] * item_bytes : dense;
        dense *= tensor.shape[i];
    }
    out->contiguous = is_contiguous(out->shape, out->stride_bytes, item_bytes);
    out->memory.owner = owner;
    return true;
}

/* numpy's arrays of ml_dtypes, and PyTorch's of 8 bits, have buffers or DLPack by their bits alone. */
static bool find_bits(nb::handle array, bool writable, Found *out) {
    static const struct {
        const char *name, *bits, *dtype;
    } NAMES[] = {{"float8_e4m3fn", "uint8", "f8_e4m3fn"},
                 {"float8_e5m2", "uint8", "f8_e5m2"},
                 {"bfloat16", "uint16", "bf16"}};
    if (!nb::hasattr(array, "dtype") || !nb::hasattr(array, "view")) return false;
    const nb::object own = array.attr("dtype"); /* of any type */
    const std::string of = nb::cast<std::string>(nb::str(nb::handle(own))), torch = "torch.";
    const bool is_torch = of.compare(0, torch.size(), torch) == 0;
    for (const auto &known : NAMES) {
        if (of != (is_torch ? torch : "") + known.name) continue;
        const nb::object bits = is_torch ? nb::object(nb::module_::import_("torch").attr(known.bits))
                                         : nb::object(nb::str(known.bits));
        const nb::object view = array.attr("view")(bits);
        if (!find_buffer(view, writable, out) && !find_exchanged(view, writable, out)) return false;
        out->dtype = known.dtype;
        out->known = true;
        return true;
    }
    return false;
}

static Found find(nb::handle array, bool writable, const std::string &what, int ordinal = -1) {
    Found found;
    if (ordinal < 0 && (find_buffer(array, writable, &found) || find_exchanged(array, writable, &found) ||
                        find_bits(array, writable, &found)))
        return found;
    if (writable ? find_dlpack<nb::ndarray<>>(array, true, ordinal, &found, what)
                 : find_dlpack<nb::ndarray<nb::ro>>(array, false, ordinal, &found, what))
        return found;
    fail(ROTA_INVALID_ARGUMENT, what + (writable ? ": a writable" : ": an") + " array is expected, not " +
                                    nb::cast<std::string>(nb::repr(array.type())));
}

HostArray borrow(nb::handle array, const rota_tensor &like, bool writable, const std::string &what) {
    Found found = find(array, writable, what);
    const std::vector<uint64_t> shape = extents(like);
    const char *const dtype = DTYPE_TEXTS[like.dtype];
    const bool is_bits = rota_dtype_is_f8(like.dtype) && found.dtype == "uint8";
    if ((found.dtype != dtype && !is_bits) || found.shape != shape)
        fail(ROTA_INVALID_ARGUMENT, what + ": " + dtype + " " + shape_text(shape) +
                                        " is expected, the array is " + found.dtype + " " +
                                        shape_text(found.shape));
    if (!found.contiguous)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": the array has gaps; give a contiguous one (numpy.ascontiguousarray)");
    return found.memory;
}

/* Appends the elements of an array's axes from this one on, row-major, at *end. */
static void copy_axis(const Found &found, size_t axis, const char *from, uint32_t item_bytes, char **end) {
    if (axis == found.shape.size()) {
        memcpy(*end, from, item_bytes);
        *end += item_bytes;
        return;
    }
    for (uint64_t i = 0; i < found.shape[axis]; i++)
        copy_axis(found, axis + 1, from + static_cast<int64_t>(i) * found.stride_bytes[axis], item_bytes,
                  end);
}

static void take_kind(const Found &found, rota_tensor *out_like, const std::string &what) {
    if (!found.known)
        fail(ROTA_INVALID_ARGUMENT, what + ": an array is " + found.dtype +
                                        "; rota has f32, f16, bf16, i32, u32, f8_e4m3fn, f8_e5m2");
    if (found.shape.size() > ROTA_RANK_MAX)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": an array has at most 8 axes, not " + std::to_string(found.shape.size()));
    *out_like = rota_tensor{};
    out_like->dtype = dtype_of(found.dtype);
    out_like->rank = static_cast<uint32_t>(found.shape.size());
    for (size_t i = 0; i < found.shape.size(); i++) out_like->shape[i] = found.shape[i];
}

HostArray borrow_any(nb::handle array, rota_tensor *out_like, const std::string &what) {
    const Found found = find(array, false, what);
    take_kind(found, out_like, what);
    if (found.contiguous) return found.memory;
    HostArray dense = host_memory(*out_like);
    char *end = static_cast<char *>(dense.data);
    copy_axis(found, 0, static_cast<const char *>(found.memory.data), rota_dtype_bytes(out_like->dtype),
              &end);
    return dense;
}

HostArray borrow_whole(DeviceCore &device, nb::handle array, const DlpackStream &stream,
                       rota_tensor *out_like, const std::string &what) {
    const nb::object from =
        device.ordinal < 0 ? nb::borrow(array) : capsule_from_cuda(device, array, stream, what);
    const Found found = find(from, true, what, device.ordinal);
    take_kind(found, out_like, what);
    if (!found.contiguous)
        fail(ROTA_INVALID_ARGUMENT, what + ": the array has gaps, and is not to be copied");
    return found.memory;
}

HostArray host_memory(const rota_tensor &like) {
    const uint64_t bytes = rota_shape_bytes(like.dtype, like.rank, like.shape);
    /* Whole cache lines, so that no other memory's line is written with it. */
    void *data = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!data) fail(ROTA_OUT_OF_MEMORY, "no memory for an array of " + std::to_string(bytes) + " bytes");
    return {data, nb::capsule(data, [](void *memory) noexcept { free(memory); })};
}

nb::object array_over(const HostArray &memory, const rota_tensor &like, bool numpy, int ordinal) {
    using nb::dlpack::dtype_code;
    static const struct {
        dtype_code code;
        uint8_t bits;
    } DTYPES[ROTA_DTYPE_COUNT] = {{dtype_code::Float, 32},
                                  {dtype_code::Float, 16},
                                  {dtype_code::Bfloat, 16},
                                  {dtype_code::Int, 32},
                                  {dtype_code::UInt, 32},
                                  {static_cast<dtype_code>(DLPACK_F8_E4M3FN), 8},
                                  {static_cast<dtype_code>(DLPACK_F8_E5M2), 8}};
    nb::dlpack::dtype dtype{};
    dtype.code = static_cast<uint8_t>(DTYPES[like.dtype].code);
    dtype.bits = DTYPES[like.dtype].bits;
    dtype.lanes = 1;
    if (numpy && (like.dtype == ROTA_BF16 || rota_dtype_is_f8(like.dtype)))
        dtype.code = static_cast<uint8_t>(dtype_code::UInt); /* its bits */
    size_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i < like.rank; i++) shape[i] = like.shape[i];
    if (numpy)
        return nb::cast(nb::ndarray<nb::numpy>(memory.data, like.rank, shape, memory.owner, nullptr, dtype));
    const int kind = ordinal < 0 ? nb::device::cpu::value : nb::device::cuda::value;
    return nb::cast(nb::ndarray<>(memory.data, like.rank, shape, memory.owner, nullptr, dtype, kind,
                                  ordinal < 0 ? 0 : ordinal));
}
