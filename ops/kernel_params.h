/* The built-in kernels' operands, parameters, and what each computes, by family. Plain C structs and enums
 * only: the CUDA kernels include these files too. The rules that hold for all kernels are in kernels.h.
 *
 * Elements of a field `dtype` (rota_dtype) are f32, f16 or bf16, alike in all operands of real numbers;
 * arithmetic is in f32 and rounded once, to nearest even, where a result is stored; what is called stats,
 * loss, lse, partial or params is f32. Elements of 2 bytes: two neighbours may share a 4-byte word that
 * belongs to different items; a GPU kernel uses 16-bit stores, and 8-bit ones for elements of 1 byte. */
#ifndef ROTA_OPS_KERNEL_PARAMS_H
#define ROTA_OPS_KERNEL_PARAMS_H

#include "elementwise_params.h"
#include "move_params.h"
#include "reduce_params.h"
#include "length_params.h"
#include "linear_params.h"
#include "norm_params.h"
#include "attention_params.h"
#include "train_params.h"

#endif
