/* NVRTC, opened at run time. */
#include "ops/cuda/nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/image_cache.h"
#include "ops/cuda/libraries.h"

/* As nvrtc.h declares them; rota builds without it. */
typedef struct nvrtc_program *program_t;
typedef struct nvrtc {
    int (*Version)(int *major, int *minor);
    const char *(*GetErrorString)(int result);
    int (*CreateProgram)(program_t *program, const char *source, const char *name, int count,
                         const char *const *texts, const char *const *names);
    int (*DestroyProgram)(program_t *program);
    int (*CompileProgram)(program_t program, int count, const char *const *options);
    int (*GetCUBINSize)(program_t program, size_t *size);
    int (*GetCUBIN)(program_t program, char *cubin);
    int (*GetProgramLogSize)(program_t program, size_t *size);
    int (*GetProgramLog)(program_t program, char *log);
} nvrtc;

static nvrtc functions;
static bool found;

static void find_functions(void) {
    found = rota_cuda_library_get(ROTA_CUDA_LIBRARY_NVRTC)->handle != NULL;
#define FIND(name)                                                                                           \
    found = found && rota_cuda_library_find(ROTA_CUDA_LIBRARY_NVRTC, "nvrtc" #name, &functions.name,         \
                                            sizeof functions.name)
    FIND(Version);
    FIND(GetErrorString);
    FIND(CreateProgram);
    FIND(DestroyProgram);
    FIND(CompileProgram);
    FIND(GetCUBINSize);
    FIND(GetCUBIN);
    FIND(GetProgramLogSize);
    FIND(GetProgramLog);
#undef FIND
}

bool rota_nvrtc_is_there(char *out_reason, size_t capacity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_functions);
    if (found) return true;
    const rota_cuda_library *library = rota_cuda_library_get(ROTA_CUDA_LIBRARY_NVRTC);
    if (library->handle)
        (void)snprintf(out_reason, capacity, "%s lacks functions of NVRTC", library->file);
    else
        (void)snprintf(out_reason, capacity, "NVRTC was not found: %s", library->reason);
    return false;
}

/* ---- Compiling ---- */

/* The first line of the compiler's log that names an error, else what NVRTC says. */
static void say_why(program_t program, int result, char *out_reason, size_t capacity) {
    size_t size = 0;
    char *log = NULL;
    (void)snprintf(out_reason, capacity, "NVRTC: %s", functions.GetErrorString(result));
    if (!program || functions.GetProgramLogSize(program, &size) != 0 || size < 2 || !(log = malloc(size + 1)))
        return;
    if (functions.GetProgramLog(program, log) == 0) {
        log[size] = 0;
        /* "path(line): error: what": from the path on. */
        char *error = strstr(log, "error");
        while (error && error > log && error[-1] != '\n') error--;
        if (error) {
            error[strcspn(error, "\n")] = 0;
            (void)snprintf(out_reason, capacity, "NVRTC: %s", error);
        }
    }
    free(log);
}

static bool compile(const char *source, const char *const *names, const char *const *texts, uint32_t count,
                    const char *const *options, int option_count, void **out_image, size_t *out_size_bytes,
                    char *out_reason, size_t capacity) {
    program_t program = NULL;
    void *image = NULL;
    size_t size = 0;
    int result = functions.CreateProgram(&program, source, "fused.cu", (int)count, texts, names);
    if (result == 0) result = functions.CompileProgram(program, option_count, options);
    if (result == 0) result = functions.GetCUBINSize(program, &size);
    if (result == 0 && size && (image = malloc(size))) result = functions.GetCUBIN(program, image);
    const bool good = result == 0 && image;
    if (!good) {
        say_why(program, result, out_reason, capacity);
        free(image);
    } else {
        *out_image = image;
        *out_size_bytes = size;
    }
    if (program) (void)functions.DestroyProgram(&program);
    return good;
}

bool rota_nvrtc_compile(const char *source, const char *const *names, const char *const *texts,
                        uint32_t count, uint32_t compute_capability, const char *folder, void **out_image,
                        size_t *out_size_bytes, char *out_reason, size_t capacity) {
    if (!rota_nvrtc_is_there(out_reason, capacity)) return false;
    int version[2] = {0, 0};
    (void)functions.Version(&version[0], &version[1]);
    char architecture[48];
    (void)snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%u", compute_capability);
    const char *const options[] = {architecture, "--std=c++17", "--device-as-default-execution-space"};
    rota_image_key key = ROTA_IMAGE_KEY_INIT;
    rota_image_key_add(&key, version, sizeof version);
    rota_image_key_add(&key, architecture, strlen(architecture) + 1);
    for (uint32_t i = 0; i < count; i++) rota_image_key_add(&key, texts[i], strlen(texts[i]) + 1);
    rota_image_key_add(&key, source, strlen(source) + 1);
    if (rota_image_cache_read(folder, &key, out_image, out_size_bytes)) return true;
    if (!compile(source, names, texts, count, options, 3, out_image, out_size_bytes, out_reason, capacity))
        return false;
    rota_image_cache_write(folder, &key, *out_image, *out_size_bytes);
    return true;
}
