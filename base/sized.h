/* Structs that may grow: a program that was built with one version of rota runs with every later one of the
 * same SONAME.
 *
 * Each struct of options, and each that a call fills in, begins with its size as the caller knows it. The
 * macro named after it makes one, everything else 0, which is every member's default:
 * ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = n). In C++17, which has no designated initializers, it takes
 * none: `auto options = ROTA_RUNTIME_OPTIONS(); options.memory_limit_bytes = n;`.
 *
 * Later versions add members at the end of a struct and nowhere else, and never in what was padding there. Of
 * options of an earlier version they take those as 0; a library that is given options of a later version
 * refuses what it does not know unless it is 0. Of what it fills in, a library writes as much as the caller
 * has room for. A struct_size of 0, or one that can't be, is INVALID_ARGUMENT, with a sentence that names the
 * struct and its macro.
 *
 * Other structs (tensors, accesses, tickets, placements, slots, kernels, ops) stay as they are for as long as
 * the SONAME does; further functions of kernels are members of rota_kernel_functions, which may grow. */
#ifndef ROTA_BASE_SIZED_H
#define ROTA_BASE_SIZED_H

#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#define ROTA_SIZED(type, ...) ((type){.struct_size = sizeof(type), __VA_ARGS__})
#else
extern "C++" {
template <typename Type> inline Type rota_sized(Type made) {
    made.struct_size = sizeof(Type);
    return made;
}
}
#define ROTA_SIZED(type, ...) (rota_sized<type>(type{__VA_ARGS__}))
#endif

#endif
