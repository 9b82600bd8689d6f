/* Tensors: what they are, their data, their views, and the operators of Python on them. */
#include "core.h"
#include "streams.h"

static std::string tensor_text(const Tensor &x) {
    const char *kind = x.t.buffer ? rota_buffer_kind_name(rota_buffer_get_kind(x.t.buffer)) : "none";
    const std::string name = x.t.buffer ? rota_buffer_name(x.t.buffer) : "";
    std::string where = x.device ? " on " + x.device->id : "";
    return "<rota.Tensor " + (name.empty() ? "" : "'" + name + "' ") + x.describe() + " " + kind + where +
           ">";
}

/* The device that has a tensor's data. */
static DeviceCore &data_of(const Tensor &x, const char *what) {
    if (x.device) return *x.device;
    fail(ROTA_INVALID_ARGUMENT,
         std::string(what) + ": " + tensor_text(x) + " has data only inside of a replay; " +
             "make it an output of the graph (graph.output), or write it into a tensor of a " +
             "device (out=)");
}

static nb::object read_data(const Tensor &x, bool numpy) {
    DeviceCore &device = data_of(x, "reading");
    Use use(device);
    const HostArray host = host_memory(x.t);
    check_released(
        [&] { return rota_tensor_read(&x.t, host.data, rota_shape_bytes(x.t.dtype, x.t.rank, x.t.shape)); });
    return array_over(host, x.t, numpy);
}

static void write_data(const Tensor &x, nb::handle array) {
    DeviceCore &device = data_of(x, "writing");
    Use use(device);
    if (!rota_tensor_is_contiguous(&x.t))
        fail(ROTA_INVALID_ARGUMENT, "writing: " + tensor_text(x) + " has gaps; write to a contiguous tensor");
    const HostArray host =
        borrow(array, x.t, false, std::string("tensor '") + rota_buffer_name(x.t.buffer) + "'");
    check_released([&] {
        return rota_buffer_write(x.t.buffer, nullptr, x.t.offset_bytes, host.data,
                                 rota_shape_bytes(x.t.dtype, x.t.rank, x.t.shape), nullptr);
    });
}

static void check_shareable(const Tensor &x) {
    const bool is_reachable = x.device->id == "cpu" || x.device->ordinal >= 0;
    if (!is_reachable || !rota_tensor_is_contiguous(&x.t) || rota_tensor_is_empty(&x.t))
        throw nb::buffer_error(
            "without a copy there are contiguous tensors of the CPU and CUDA devices alone");
}

/* Reads of its first and last element come after every write of the whole. */
static rota_status wait_for_writes(const rota_tensor &t) {
    std::vector<char> element(rota_dtype_bytes(t.dtype));
    const uint64_t last = rota_tensor_extent_bytes(&t) - element.size();
    ROTA_TRY(rota_buffer_read(t.buffer, t.offset_bytes, element.data(), element.size()));
    return rota_buffer_read(t.buffer, t.offset_bytes + last, element.data(), element.size());
}

/* A copy of those two on the device, whose ticket ends after every write of the whole, and when all of it is there:
 * what was written last may lie on the host. Without a ticket that is waited for. */
static Tensor first_and_last(const Tensor &x, rota_ticket *out_ticket) {
    rota_tensor ends = x.t;
    const uint64_t count = rota_tensor_count(&x.t);
    ends.rank = 1;
    ends.shape[0] = count > 1 ? 2 : 1;
    ends.stride[0] = count > 1 ? count - 1 : 1;
    return copied(x.view(ends), std::nullopt, out_ticket);
}

/* The memory of a CPU or CUDA device's tensor itself. Whoever has the array holds the tensor; rota's order does not
 * reach what is done with it. */
static nb::object array_in(const Tensor &x) {
    DeviceCore &device = *x.device;
    uint64_t address = 0;
    rota_status status;
    std::string sentence;
    {
        nb::gil_scoped_release released;
        status = rota_buffer_prepare(x.t.buffer, device.device);
        if (status == ROTA_OK) status = rota_buffer_address(x.t.buffer, device.device, &address);
        if (status != ROTA_OK) sentence = rota_last_error();
    }
    if (status != ROTA_OK) fail(status, sentence);
    const nb::object owner = lend(x.device, x.t.buffer, address);
    return array_over({reinterpret_cast<void *>(address + x.t.offset_bytes), owner}, x.t, false,
                      device.ordinal);
}

/* That memory, for a consumer whose stream comes after all that was submitted before and writes it; without one
 * (NONE) once that is done. */
static nb::object share_data(const Tensor &x, const DlpackStream &stream) {
    DeviceCore &device = data_of(x, "sharing");
    Use use(device);
    check_shareable(x);
    if (stream.kind == DlpackStream::HANDLE) {
        rota_ticket ticket{};
        const Tensor ends = first_and_last(x, &ticket);
        order_stream(device, ticket, stream.handle, tensor_text(x), 0);
    } else if (stream.kind == DlpackStream::NONE && device.ordinal >= 0) {
        first_and_last(x, nullptr); /* there, where the bytes may have to be brought */
    } else if (stream.kind == DlpackStream::NONE) {
        check_released([&] { return wait_for_writes(x.t); });
    }
    return array_in(x);
}

/* A copy there, which the consumer's stream comes after; where nothing is put in order it is complete. */
static nb::object share_copy(const Tensor &x, const DlpackStream &stream) {
    DeviceCore &device = data_of(x, "sharing");
    Use use(device);
    const bool orders = stream.kind == DlpackStream::HANDLE;
    rota_ticket ticket{};
    const Tensor copy = copied(x, std::nullopt, orders ? &ticket : nullptr);
    check_shareable(copy);
    if (orders) order_stream(device, ticket, stream.handle, tensor_text(x), 0);
    return array_in(copy);
}

/* Where DLPack's consumers are given a tensor: a CUDA device's there, any other's in host memory. */
static nb::tuple dlpack_device(const Tensor &x) {
    const int ordinal = x.device ? x.device->ordinal : -1;
    return ordinal < 0 ? nb::make_tuple(1, 0) : nb::make_tuple(2, ordinal);
}

/* A copy, or, where none is asked for, the memory itself. */
static nb::object dlpack(const Tensor &x, nb::kwargs keywords) {
    const nb::object given = keywords.contains("stream") ? nb::object(keywords["stream"]) : nb::none();
    const DlpackStream stream = dlpack_stream(x.device.get(), given, tensor_text(x));
    const nb::tuple own = dlpack_device(x), host = nb::make_tuple(1, 0);
    const bool keeps =
        keywords.contains("copy") && !keywords["copy"].is_none() && !nb::cast<bool>(keywords["copy"]);
    nb::object to = own;
    if (keywords.contains("dl_device") && !keywords["dl_device"].is_none()) to = keywords["dl_device"];
    if (!to.equal(own) && (keeps || !to.equal(host)))
        throw nb::buffer_error(
            "a rota tensor is exported to its own device without a copy, or to host memory, (1, 0)");
    if (keeps) return share_data(x, stream);
    return to.equal(host) ? read_data(x, false) : share_copy(x, stream);
}

/* ---- Views ---- */

static uint32_t axis_of(const Tensor &x, int64_t axis) {
    const int64_t rank = x.t.rank;
    if (axis >= -rank && axis < rank) return static_cast<uint32_t>(axis < 0 ? axis + rank : axis);
    fail(ROTA_OUT_OF_RANGE, "axis " + std::to_string(axis) + " of " + x.describe() + ": there is none");
}

static Tensor slice_axis(const Tensor &x, uint32_t axis, nb::handle key, bool *out_drops) {
    rota_tensor view;
    const int64_t extent = static_cast<int64_t>(x.t.shape[axis]);
    if (nb::isinstance<nb::slice>(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key.ptr(), &start, &stop, &step) != 0) nb::raise_python_error();
        const Py_ssize_t length = PySlice_AdjustIndices(extent, &start, &stop, step);
        if (step != 1) fail(ROTA_UNSUPPORTED, "a slice of a tensor has step 1");
        check(rota_tensor_slice(&x.t, axis, static_cast<uint64_t>(length ? start : 0),
                                static_cast<uint64_t>(length), &view));
        *out_drops = false;
    } else {
        int64_t index = nb::cast<int64_t>(key);
        if (index < -extent || index >= extent)
            throw nb::index_error(("index " + std::to_string(index) + " is outside of axis " +
                                   std::to_string(axis) + " of " + x.describe())
                                      .c_str());
        if (index < 0) index += extent;
        check(rota_tensor_slice(&x.t, axis, static_cast<uint64_t>(index), 1, &view));
        *out_drops = true;
    }
    return x.view(view);
}

static void drop_axis(rota_tensor *t, uint32_t axis) {
    for (uint32_t i = axis; i + 1 < t->rank; i++) {
        t->shape[i] = t->shape[i + 1];
        t->stride[i] = t->stride[i + 1];
    }
    t->rank--;
}

static Tensor item(const Tensor &x, nb::handle key) {
    std::vector<nb::object> keys;
    if (nb::isinstance<nb::tuple>(key)) {
        for (nb::handle part : key) keys.push_back(nb::borrow(part));
    } else {
        keys.push_back(nb::borrow(key));
    }
    size_t named = 0, dots = 0;
    for (const nb::object &part : keys) part.is(nb::ellipsis()) ? dots++ : named++;
    if (named > x.t.rank || dots > 1)
        throw nb::index_error(
            (std::to_string(keys.size()) + " indices are too many for " + x.describe()).c_str());
    rota_tensor t = x.t;
    uint32_t axis = 0;
    for (const nb::object &part : keys) {
        if (part.is(nb::ellipsis())) {
            axis += x.t.rank - static_cast<uint32_t>(named);
            continue;
        }
        bool drops;
        t = slice_axis(x.view(t), axis, part, &drops).t;
        if (drops) drop_axis(&t, axis);
        if (!drops) axis++;
    }
    return x.view(t);
}

static Tensor permute(const Tensor &x, const std::vector<int64_t> &order) {
    if (order.size() != x.t.rank)
        fail(ROTA_INVALID_ARGUMENT, "permute: " + std::to_string(order.size()) + " axes for " + x.describe());
    std::vector<uint32_t> axes;
    for (int64_t axis : order) axes.push_back(axis_of(x, axis));
    rota_tensor view;
    check(rota_tensor_permute(&x.t, axes.data(), &view));
    return x.view(view);
}

static Tensor transposed(const Tensor &x) {
    if (x.t.rank < 2) fail(ROTA_INVALID_ARGUMENT, "T: " + x.describe() + " has less than two axes");
    rota_tensor view;
    check(rota_tensor_transpose(&x.t, x.t.rank - 2, x.t.rank - 1, &view));
    return x.view(view);
}

static Tensor swapped(const Tensor &x, int64_t a, int64_t b) {
    rota_tensor view;
    check(rota_tensor_transpose(&x.t, axis_of(x, a), axis_of(x, b), &view));
    return x.view(view);
}

static Tensor reshape(const Tensor &x, nb::args shape) {
    const nb::object given =
        shape.size() == 1 && !nb::isinstance<nb::int_>(shape[0]) ? nb::object(shape[0]) : nb::object(shape);
    std::vector<uint64_t> extents_;
    int64_t open = -1;
    uint64_t count = 1;
    for (nb::handle extent : given) {
        const int64_t n = nb::cast<int64_t>(extent);
        if (n < -1 || (n == -1 && open >= 0))
            fail(ROTA_INVALID_ARGUMENT, "reshape: extents are 0 or more, and one may be -1");
        if (n == -1) open = static_cast<int64_t>(extents_.size());
        if (n >= 0) count *= static_cast<uint64_t>(n);
        extents_.push_back(n < 0 ? 1 : static_cast<uint64_t>(n));
    }
    if (open >= 0 && count) extents_[static_cast<size_t>(open)] = rota_tensor_count(&x.t) / count;
    if (extents_.size() > ROTA_RANK_MAX) fail(ROTA_INVALID_ARGUMENT, "reshape: a shape has at most 8 axes");
    rota_tensor out;
    const auto rank = static_cast<uint32_t>(extents_.size());
    if (rota_tensor_reshape(&x.t, rank, extents_.data(), &out) == ROTA_OK) return x.view(out);
    if (!x.graph && !current_graph()) fail(ROTA_INVALID_ARGUMENT, rota_last_error());
    Recording recording({&x}, "reshape");
    check(rota_op_reshape(recording.tape(), x.t, rank, extents_.data(), &out));
    return recording.made(out);
}

static Tensor broadcast(const Tensor &x, nb::handle shape) {
    const std::vector<uint64_t> extents_ = shape_of(shape);
    rota_tensor view;
    check(rota_tensor_broadcast(&x.t, static_cast<uint32_t>(extents_.size()), extents_.data(), &view));
    return x.view(view);
}

/* ---- Operators ---- */

using BinaryOp = rota_status (*)(rota_tape *, rota_tensor, rota_tensor, rota_tensor *);

template <BinaryOp Op> static Tensor both(const Tensor &a, const Tensor &b) {
    Recording recording({&a, &b}, "an operator");
    rota_tensor y;
    check(Op(recording.tape(), a.t, b.t, &y));
    return recording.made(y);
}

static Tensor affine(const Tensor &x, rota_value alpha, rota_value beta) {
    Recording recording({&x}, "an operator");
    rota_tensor y;
    check(rota_op_affine(recording.tape(), x.t, alpha, beta, &y));
    return recording.made(y);
}

static Tensor power(const Tensor &x, const Value &exponent) {
    Recording recording({&x}, "an operator");
    rota_tensor y;
    const double *number = std::get_if<double>(&exponent);
    if (number && *number == 2)
        check(rota_op_square(recording.tape(), x.t, &y));
    else
        check(rota_op_pow_scalar(recording.tape(), x.t, value_of(exponent), &y));
    return recording.made(y);
}

static Tensor number_over(const Tensor &x, double number) {
    Recording recording({&x}, "an operator");
    rota_tensor inverse, y;
    check(rota_op_reciprocal(recording.tape(), x.t, &inverse));
    check(rota_op_scale(recording.tape(), inverse, ROTA_PLAIN(number), &y));
    return recording.made(y);
}

static Tensor product(const Tensor &a, const Tensor &b) {
    Recording recording({&a, &b}, "@");
    rota_tensor y;
    check(rota_op_matmul(recording.tape(), a.t, b.t, false, false, &y));
    return recording.made(y);
}

static void bind_operators(nb::class_<Tensor> &c) {
    const rota_value one = ROTA_PLAIN(1), none = ROTA_PLAIN(0), minus = ROTA_PLAIN(-1);
    const auto op = nb::is_operator();
    c.def("__add__", &both<rota_op_add>, op)
        .def(
            "__add__", [=](const Tensor &x, const Value &b) { return affine(x, one, value_of(b)); }, op)
        .def(
            "__radd__", [=](const Tensor &x, const Value &b) { return affine(x, one, value_of(b)); }, op)
        .def("__sub__", &both<rota_op_sub>, op)
        .def(
            "__sub__", [=](const Tensor &x, double b) { return affine(x, one, ROTA_PLAIN(-b)); }, op)
        .def(
            "__rsub__", [=](const Tensor &x, const Value &b) { return affine(x, minus, value_of(b)); }, op)
        .def("__mul__", &both<rota_op_mul>, op)
        .def(
            "__mul__", [=](const Tensor &x, const Value &b) { return affine(x, value_of(b), none); }, op)
        .def(
            "__rmul__", [=](const Tensor &x, const Value &b) { return affine(x, value_of(b), none); }, op)
        .def("__truediv__", &both<rota_op_div>, op)
        .def(
            "__truediv__", [=](const Tensor &x, double b) { return affine(x, ROTA_PLAIN(1 / b), none); }, op)
        .def("__rtruediv__", &number_over, op)
        .def("__pow__", &both<rota_op_pow>, op)
        .def("__pow__", &power, op)
        .def("__matmul__", &product, op)
        .def(
            "__neg__", [=](const Tensor &x) { return affine(x, minus, none); }, op)
        .def("__lt__", &both<rota_op_lt>, op)
        .def("__le__", &both<rota_op_le>, op)
        .def("__gt__", &both<rota_op_gt>, op)
        .def("__ge__", &both<rota_op_ge>, op);
}

static void bind_views(nb::class_<Tensor> &c) {
    c.def(
         "permute",
         [](const Tensor &x, nb::args order) {
             return permute(
                 x, nb::cast<std::vector<int64_t>>(order.size() == 1 && !nb::isinstance<nb::int_>(order[0])
                                                       ? nb::object(order[0])
                                                       : nb::object(order)));
         },
         nb::sig("def permute(self, *order: int) -> Tensor"), "A view whose axis i is axis order[i].")
        .def("transpose", &swapped, "axis_a"_a, "axis_b"_a, "A view with two axes swapped.")
        .def("reshape", &reshape, nb::sig("def reshape(self, *shape: int) -> Tensor"),
             "A view where the strides allow it, else of a contiguous copy. One extent may be -1.")
        .def("broadcast_to", &broadcast, "shape"_a,
             nb::sig("def broadcast_to(self, shape: int | typing.Sequence[int]) -> Tensor"),
             "A view in which missing and 1-long axes repeat.");
}

void bind_tensor(nb::module_ &m) {
    nb::class_<Tensor> c(
        m, "Tensor",
        "A way to read a part of a buffer as an array. Tensors of a device (`device.tensor`) live across "
        "replays; those that ops make live inside of one.");
    c.def_prop_ro(
         "shape", [](const Tensor &x) { return nb::tuple(nb::cast(extents(x.t))); },
         nb::sig("def shape(self) -> tuple[int, ...]"))
        .def_prop_ro("dtype", [](const Tensor &x) { return rota_dtype_name(x.t.dtype); })
        .def_prop_ro("ndim", [](const Tensor &x) { return x.t.rank; })
        .def_prop_ro("size", [](const Tensor &x) { return rota_tensor_count(&x.t); })
        .def_prop_ro("name", [](const Tensor &x) { return rota_buffer_name(x.t.buffer); })
        .def_prop_ro(
            "kind", [](const Tensor &x) { return rota_buffer_kind_name(rota_buffer_get_kind(x.t.buffer)); },
            "PERSISTENT, INPUT, OUTPUT, TRANSIENT or SLOT")
        .def_prop_ro("T", &transposed, "A view with the last two axes swapped.")
        .def(
            "numpy", [](const Tensor &x) { return read_data(x, true); },
            nb::sig("def numpy(self) -> typing.Any"),
            "The elements, in a new array: what the last write submitted before produced. bf16 comes as "
            "uint16.")
        .def("write", &write_data, "array"_a, nb::sig("def write(self, array: object) -> None"),
             "Replaces all elements, ordered like a node: copied before the call returns.")
        .def(
            "__dlpack__", &dlpack,
            nb::sig(
                "def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = "
                "None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"),
            "A copy of the elements: in the memory of a CUDA device that has the tensor, else, or where "
            "dl_device is (1, 0), in host memory. With copy=False, on the CPU and on CUDA devices, it is the "
            "tensor's own memory, in which plans go on reading and writing. `stream`, on a CUDA device, is "
            "the "
            "consumer's: 1 (the legacy default stream), 2 (the thread's) or a handle. What is put on it "
            "after "
            "the call comes after what was submitted before: the GPU waits, and the call returns when the "
            "driver "
            "has that work. Without it (None) all of that is done when the call returns, for any stream. -1 "
            "puts "
            "nothing in order: memory that is shared is as it is, a copy is complete. Elsewhere, and where "
            "dl_device is (1, 0), it is complete. An array over a CUDA device's memory is let go of when its "
            "library's streams are through with it.")
        .def("__dlpack_device__", &dlpack_device, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
        .def(
            "__array__", [](const Tensor &x, nb::args, nb::kwargs) { return read_data(x, true); },
            nb::sig("def __array__(self, *args: object, **keywords: object) -> typing.Any"))
        .def("__getitem__", &item, nb::sig("def __getitem__(self, key: object) -> Tensor"),
             "A view: integers, slices of step 1, and ... .")
        .def("__len__",
             [](const Tensor &x) {
                 if (x.t.rank == 0) throw nb::type_error("a tensor without axes has no len");
                 return x.t.shape[0];
             })
        .def("__bool__",
             [](const Tensor &) -> bool {
                 throw nb::type_error(
                     "a tensor has no truth value: what it holds is known when a replay has ended");
             })
        .def("__repr__", &tensor_text);
    bind_views(c);
    bind_operators(c);
}
