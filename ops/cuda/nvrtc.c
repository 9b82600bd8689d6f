/* NVRTC, opened at run time, and the files in which its images are kept. */
#include "ops/cuda/nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ops/cuda/choices.h"
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

/* ---- Files ---- */

#define MAGIC "rotaimag"
#define VERSION 1u

/* Everything that an image is made from, as two hashes of different kinds: one names the file, the other
 * stands in it. */
typedef struct image_key {
    uint64_t name, check;
} image_key;

typedef struct file_header {
    char magic[8];
    uint32_t version, unused;
    uint64_t key_check, size_bytes, content;
} file_header;

static void hash_bytes(image_key *key, const void *data, size_t size_bytes) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) {
        key->name = (key->name ^ bytes[i]) * UINT64_C(0x100000001b3);
        key->check = (key->check + bytes[i] + 1) * UINT64_C(0x9E3779B97F4A7C15);
        key->check ^= key->check >> 29;
    }
}

static bool path_of(const char *folder, const image_key *key, char *out_path, size_t capacity) {
    const int length =
        snprintf(out_path, capacity, "%s/fused-%016llx.cubin", folder, (unsigned long long)key->name);
    return length > 0 && (size_t)length < capacity;
}

static uint64_t content_of(const void *image, size_t size_bytes) {
    image_key content = {1, 1};
    hash_bytes(&content, image, size_bytes);
    return content.name ^ content.check;
}

/* A file that is damaged, cut short, or of another key counts as none. */
static bool read_image(const char *folder, const image_key *key, void **out_image, size_t *out_size_bytes) {
    char path[4096];
    if (!folder || !path_of(folder, key, path, sizeof path)) return false;
    FILE *file = fopen(path, "rbe");
    if (!file) return false;
    file_header header;
    void *image = NULL;
    bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, 8) == 0 &&
                header.version == VERSION && header.key_check == key->check && header.size_bytes > 0 &&
                header.size_bytes < (uint64_t)1 << 28 && (image = malloc((size_t)header.size_bytes)) &&
                fread(image, (size_t)header.size_bytes, 1, file) == 1 && fgetc(file) == EOF &&
                content_of(image, (size_t)header.size_bytes) == header.content;
    fclose(file);
    if (!good) {
        free(image);
        return false;
    }
    *out_image = image;
    *out_size_bytes = (size_t)header.size_bytes;
    return true;
}

/* Under another name, then renamed; what can't be written is not kept. */
static void write_image(const char *folder, const image_key *key, const void *image, size_t size_bytes) {
    char path[4096], temporary[4096 + 16];
    if (!folder || !folder[0] || !path_of(folder, key, path, sizeof path)) return;
    rota_choices_make_folder(folder);
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary) return;
    const int descriptor = mkstemp(temporary);
    if (descriptor < 0) return;
    const file_header header = {.magic = MAGIC, /* without its final 0 */
                                .version = VERSION,
                                .key_check = key->check,
                                .size_bytes = size_bytes,
                                .content = content_of(image, size_bytes)};
    FILE *file = fdopen(descriptor, "wb");
    if (!file) close(descriptor);
    bool good =
        file && fwrite(&header, sizeof header, 1, file) == 1 && fwrite(image, size_bytes, 1, file) == 1;
    if (file && fclose(file) != 0) good = false;
    if (!good || rename(temporary, path) != 0) unlink(temporary);
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
    image_key key = {UINT64_C(0xcbf29ce484222325), 1};
    hash_bytes(&key, version, sizeof version);
    hash_bytes(&key, architecture, strlen(architecture) + 1);
    for (uint32_t i = 0; i < count; i++) hash_bytes(&key, texts[i], strlen(texts[i]) + 1);
    hash_bytes(&key, source, strlen(source) + 1);
    if (read_image(folder, &key, out_image, out_size_bytes)) return true;
    if (!compile(source, names, texts, count, options, 3, out_image, out_size_bytes, out_reason, capacity))
        return false;
    write_image(folder, &key, *out_image, *out_size_bytes);
    return true;
}
