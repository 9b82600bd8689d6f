/* How ops are bound: what ops.cpp and ops_layers.cpp share. */
#ifndef ROTA_PYTHON_OPS_H
#define ROTA_PYTHON_OPS_H

#include "core.h"

using Out = std::optional<Tensor *>;

inline rota_tensor none_or(const Out &x) {
    return x && *x ? (*x)->t : ROTA_TENSOR_NONE;
}
inline const Tensor *pointer(const Out &x) {
    return x ? *x : nullptr;
}

/* The options of a linear op. */
rota_linear linear_of(const char *op, const Out &bias, const Out &residual, const std::string &activation,
                      bool transposed);

/* What an op's documentation says: the sentence, and what the table knows of it. */
std::string op_doc(const char *name, const char *sentence);

/* The axis of a tensor, counted from the end where it is negative. */
uint32_t op_axis(const Tensor &x, int64_t axis, const char *op);

/* Records by `fresh` where there is no destination, else by `into`, and gives the result. */
template <typename Fresh, typename Into>
Tensor record(std::initializer_list<const Tensor *> operands, const Out &out, const char *op, Fresh fresh,
              Into into) {
    Recording recording(operands, op);
    if (const Tensor *y = pointer(out)) {
        recording.uses(y);
        check(into(recording.tape(), y->t));
        return *y;
    }
    rota_tensor y = ROTA_TENSOR_NONE;
    check(fresh(recording.tape(), &y));
    return recording.made(y);
}
template <typename Fresh>
Tensor record(std::initializer_list<const Tensor *> operands, const char *op, Fresh fresh) {
    Recording recording(operands, op);
    rota_tensor y = ROTA_TENSOR_NONE;
    check(fresh(recording.tape(), &y));
    return recording.made(y);
}

#endif
