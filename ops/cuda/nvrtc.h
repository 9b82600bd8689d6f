/* Compiling CUDA C++ at run time by NVRTC, with the images kept in the cache folder. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_NVRTC_H
#define ROTA_OPS_CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The image of `source` for one compute capability (10 * major + minor): from `folder` (NULL: none), else
 * compiled and put there. `names` and `texts` are what it may include. The caller frees *out_image. False:
 * there is no NVRTC, or it refuses: out_reason says what. Any thread; blocks for as long as the compiler
 * takes, 0.2 to 1 s. */
bool rota_nvrtc_compile(const char *source, const char *const *names, const char *const *texts,
                        uint32_t count, uint32_t compute_capability, const char *folder, void **out_image,
                        size_t *out_size_bytes, char *out_reason, size_t capacity);

/* Whether there is an NVRTC to compile with; else why not. Any thread. */
bool rota_nvrtc_is_there(char *out_reason, size_t capacity);

#endif
