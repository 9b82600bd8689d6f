/* SPIRV-Tools' validator, from its shared library where there is one: rota builds and runs without. */
#include "exec/vk/vk_spirv_tools.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* As spirv-tools/libspirv.h declares them. */
typedef struct spv_context_t *spv_context;
typedef struct spv_validator_options_t *spv_options;
typedef struct spv_diagnostic_t {
    size_t line, column, index;
    char *error;
    bool is_text;
} spv_diagnostic;
typedef struct spv_binary {
    const uint32_t *words;
    size_t count;
} spv_binary;
enum { SPV_VULKAN_1_2 = 23, SPV_VULKAN_1_3 = 25 };

typedef struct tools {
    spv_context (*ContextCreate)(int environment);
    void (*ContextDestroy)(spv_context context);
    spv_options (*ValidatorOptionsCreate)(void);
    void (*ValidatorOptionsDestroy)(spv_options options);
    void (*ValidatorOptionsSetScalarBlockLayout)(spv_options options, bool value);
    void (*ValidatorOptionsSetAllowLocalSizeId)(spv_options options, bool value);
    int (*ValidateWithOptions)(spv_context context, spv_options options, const spv_binary *binary,
                               spv_diagnostic **diagnostic);
    int (*BinaryParse)(spv_context context, void *user, const uint32_t *words, size_t count, void *header,
                       void *instruction, spv_diagnostic **diagnostic);
    void (*DiagnosticDestroy)(spv_diagnostic *diagnostic);
} tools;

static tools functions;
static bool found;
static const char *const names[] = {"libSPIRV-Tools-shared.so", "libSPIRV-Tools.so"};

static bool find(void *library, const char *name, void *out_function) {
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof address);
    return address != NULL;
}

static void load(void) {
    for (size_t n = 0; n < sizeof names / sizeof *names && !found; n++) {
        void *library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL);
        found = library != NULL;
#define FIND(name) found = found && find(library, "spv" #name, &functions.name)
        FIND(ContextCreate);
        FIND(ContextDestroy);
        FIND(ValidatorOptionsCreate);
        FIND(ValidatorOptionsDestroy);
        FIND(ValidatorOptionsSetScalarBlockLayout);
        FIND(ValidatorOptionsSetAllowLocalSizeId);
        FIND(ValidateWithOptions);
        FIND(BinaryParse);
        FIND(DiagnosticDestroy);
#undef FIND
        if (library && !found) dlclose(library);
    }
}

/* A module of nothing but its header and one instruction parses if the instruction's words are known. */
static bool knows(spv_context context, const uint32_t header[5], const uint32_t *instruction) {
    uint32_t words[7];
    const uint32_t count = instruction[0] >> 16;
    memcpy(words, header, 5 * sizeof *words);
    memcpy(words + 5, instruction, 2 * sizeof *words);
    return count != 2 || functions.BinaryParse(context, NULL, words, 7, NULL, NULL, NULL) == 0;
}

/* The first capability that the library has not heard of; UINT32_MAX: it knows them all. They stand first. */
static uint32_t unknown_capability(spv_context context, const uint32_t *words, size_t count) {
    enum { OP_CAPABILITY = 17 };
    for (size_t word = 5; word + 1 < count && words[word] == (2u << 16 | OP_CAPABILITY); word += 2)
        if (!knows(context, words, words + word)) return words[word + 1];
    return UINT32_MAX;
}

static rota_status validate(spv_context context, spv_options options, const spv_binary *binary) {
    spv_diagnostic *diagnostic = NULL;
    functions.ValidatorOptionsSetScalarBlockLayout(options, true);
    functions.ValidatorOptionsSetAllowLocalSizeId(options, true);
    const int result = functions.ValidateWithOptions(context, options, binary, &diagnostic);
    rota_status status = ROTA_OK;
    if (result != 0)
        status = rota_fail(ROTA_INVALID_ARGUMENT, "SPIRV-Tools: %s",
                           diagnostic && diagnostic->error ? diagnostic->error : "not valid");
    if (diagnostic) functions.DiagnosticDestroy(diagnostic);
    return status;
}

rota_status rota_spirv_validate(const rota_log *log, const char *name, const uint32_t *words,
                                size_t size_bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_flag told = ATOMIC_FLAG_INIT;
    pthread_once(&once, load);
    if (!found) {
        if (!atomic_flag_test_and_set(&told))
            rota_log_write(
                log, ROTA_LOG_INFO,
                "SPIR-V is checked for its structure only: %s, which has SPIRV-Tools' validator, was not "
                "found",
                names[0]);
        return ROTA_OK;
    }
    const spv_binary binary = {words, size_bytes / 4};
    const bool newer = (words[1] >> 8 & 0xffu) > 5; /* 1.6 comes with Vulkan 1.3 */
    const spv_context context = functions.ContextCreate(newer ? SPV_VULKAN_1_3 : SPV_VULKAN_1_2);
    const spv_options options = functions.ValidatorOptionsCreate();
    rota_status status = ROTA_OK;
    if (!context || !options) {
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for SPIRV-Tools");
    } else {
        const uint32_t unknown = unknown_capability(context, binary.words, binary.count);
        if (unknown == UINT32_MAX)
            status = validate(context, options, &binary);
        else
            rota_log_write(
                log, ROTA_LOG_INFO,
                "kernel '%s': SPIR-V is checked for its structure only: SPIRV-Tools does not know its "
                "capability %u",
                name, unknown);
    }
    if (options) functions.ValidatorOptionsDestroy(options);
    if (context) functions.ContextDestroy(context);
    return status;
}
