/* Models that are cut across ranks. */
#include "communicator.h"
#include "ops.h"

/* Records an op of the communicator's. */
template <typename F>
static Tensor of_ranks(CommunicatorCore &communicator, std::initializer_list<const Tensor *> operands,
                       const char *op, F fresh) {
    CommunicatorUse use(communicator);
    Recording recording(operands, op);
    uses_communicator(recording, communicator);
    rota_tensor y = ROTA_TENSOR_NONE;
    check(fresh(recording.tape(), communicator.communicator, &y));
    return recording.made(y);
}

template <auto Fresh> static Tensor of_one(const char *op, const Tensor &x, CommunicatorCore &communicator) {
    return of_ranks(communicator, {&x}, op, [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) {
        return Fresh(tape, c, x.t, y);
    });
}

static Tensor copy_to_ranks(const Tensor &x, CommunicatorCore &communicator) {
    return of_one<rota_op_copy_to_ranks>("copy_to_ranks", x, communicator);
}

static Tensor reduce_from_ranks(const Tensor &x, CommunicatorCore &communicator) {
    return of_one<rota_op_reduce_from_ranks>("reduce_from_ranks", x, communicator);
}

template <auto Fresh>
static Tensor linear(const char *op, const Tensor &x, const Tensor &w, CommunicatorCore &communicator,
                     const Out &bias, const Out &residual, const std::string &activation, bool transposed) {
    const rota_linear options = linear_of(op, bias, residual, activation, transposed);
    return of_ranks(communicator, {&x, &w, pointer(bias), pointer(residual)}, op,
                    [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) {
                        return Fresh(tape, c, x.t, w.t, &options, y);
                    });
}

static Tensor linear_column(const Tensor &x, const Tensor &w, CommunicatorCore &communicator, const Out &bias,
                            const Out &residual, const std::string &activation, bool transposed) {
    return linear<rota_op_linear_column>("linear_column", x, w, communicator, bias, residual, activation,
                                         transposed);
}

static Tensor linear_row(const Tensor &x, const Tensor &w, CommunicatorCore &communicator, const Out &bias,
                         const Out &residual, const std::string &activation, bool transposed) {
    return linear<rota_op_linear_row>("linear_row", x, w, communicator, bias, residual, activation,
                                      transposed);
}

static Tensor embedding_of_ranks(const Tensor &table, const Tensor &index, CommunicatorCore &communicator,
                                 uint64_t classes) {
    return of_ranks(communicator, {&table, &index}, "embedding_of_ranks",
                    [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) {
                        return rota_op_embedding_of_ranks(tape, c, table.t, index.t,
                                                          rota_communicator_part(c, classes), y);
                    });
}

static Tensor classifier_of_ranks(const Tensor &logits, const Tensor &labels, CommunicatorCore &communicator,
                                  uint64_t classes, int32_t ignored, float smoothing, bool in_place) {
    rota_classifier options = ROTA_CLASSIFIER();
    options.ignored = ignored;
    options.smoothing = smoothing;
    options.in_place = in_place;
    return of_ranks(communicator, {&logits, &labels}, "classifier_of_ranks",
                    [&](rota_tape *tape, rota_communicator *c, rota_tensor *y) {
                        return rota_op_classifier_of_ranks(tape, c, logits.t, labels.t,
                                                           rota_communicator_part(c, classes), &options, y);
                    });
}

void bind_tensor_parallel(nb::module_ &m) {
    m.def("copy_to_ranks", &copy_to_ranks, "x"_a, "communicator"_a,
          "x, which is the same on all ranks, for ops on what each has a part of. Its gradient is the sum of "
          "all ranks'.");
    m.def("reduce_from_ranks", &reduce_from_ranks, "x"_a, "communicator"_a,
          "The sum of all ranks' x, of a loss that all have and that counts once: gradients are the sum's.");
    m.def("linear_column", &linear_column, "x"_a, "w"_a, "communicator"_a, "bias"_a = nb::none(),
          "residual"_a = nb::none(), "activation"_a = "none", "transposed"_a = false,
          "`linear` of a matrix of which w, bias and residual are this rank's columns; x is the same on all "
          "ranks.");
    m.def("linear_row", &linear_row, "x"_a, "w"_a, "communicator"_a, "bias"_a = nb::none(),
          "residual"_a = nb::none(), "activation"_a = "none", "transposed"_a = false,
          "`linear` of a matrix of which w are the rows of this rank's columns of x; bias, residual and the "
          "result are the same on all ranks.");
    m.def("embedding_of_ranks", &embedding_of_ranks, "table"_a, "index"_a, "communicator"_a, "classes"_a,
          "Rows of a table of so many classes, of which a rank has communicator.part(classes).");
    m.def("classifier_of_ranks", &classifier_of_ranks, "logits"_a, "labels"_a, "communicator"_a, "classes"_a,
          "ignored"_a = ROTA_IGNORED_LABEL, "smoothing"_a = 0.0f, "in_place"_a = false,
          "`classifier` of so many classes, of which the logits' columns are communicator.part(classes): no "
          "rank needs all.");
}
