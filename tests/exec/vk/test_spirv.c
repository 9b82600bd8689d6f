/* SPIR-V is looked at before a driver gets it: modules cut anywhere, with words that make no sense, or that
 * only SPIRV-Tools sees to be wrong. */
#include "exec/vk/vk_spirv_tools.h"
#include "tests/exec/vk/exec_vk_kit.h"

#include <dlfcn.h>
#include <string.h>
#include "exec/vk/vk_spirv.h"

#define WORDS (sizeof rota_spv_test_saxpy / 4)

static void expect_refusal(const uint32_t *words, size_t size_bytes, const char *entry, const char *text) {
    assert_status(rota_spirv_check(words, size_bytes, entry), ROTA_INVALID_ARGUMENT);
    if (!strstr(rota_last_error(), text)) fail_msg("'%s' is not in: %s", text, rota_last_error());
}

/* Exactly as long as it is cut: a read past the end is the address sanitizer's to see. */
static void every_cut_is_seen(void **state) {
    (void)state;
    assert_ok(rota_spirv_check(rota_spv_test_saxpy, sizeof rota_spv_test_saxpy, "main"));
    for (size_t size = 0; size < sizeof rota_spv_test_saxpy; size++) {
        uint32_t *cut = malloc(size + 1);
        assert_non_null(cut);
        memcpy(cut, rota_spv_test_saxpy, size);
        if (rota_spirv_check(cut, size, "main") != ROTA_INVALID_ARGUMENT)
            fail_msg("%zu bytes of %zu passed", size, sizeof rota_spv_test_saxpy);
        free(cut);
    }
}

/* The place of the first instruction of this code. */
static size_t find(uint32_t code) {
    for (size_t offset = 5; offset < WORDS; offset += rota_spv_test_saxpy[offset] >> 16)
        if ((rota_spv_test_saxpy[offset] & 0xffff) == code) return offset;
    fail_msg("the module has no instruction %u", code);
    return 0;
}

static void absurd_words_are_seen(void **state) {
    (void)state;
    enum {
        MEMORY_MODEL = 14,
        ENTRY_POINT = 15,
        FUNCTION = 54,
        FUNCTION_END = 56,
        DECORATE = 71,
        LABEL = 248,
        RETURN = 253
    };
    const struct {
        size_t offset;
        uint32_t word;
        const char *says;
    } cases[] = {
        {0, 0x03022307, "begins with 0x03022307"}, /* the other byte order */
        {1, 0x00010700, "version"},
        {1, 0x01010000, "version"},
        {1, 0x00010001, "version"}, /* the byte below the minor version is reserved */
        {1, 0x00020000, "version"},
        {3, 0, "bound"},
        {3, 1, "bound"},
        {3, UINT32_MAX, "bound"},
        {3, 2, "bound"}, /* then the entry point's id is not below it */
        {4, 1, "word 4"},
        {5, 17, "has 0 words"},
        {5, 0xffff0011, "has 65535 words, of which"},
        {find(MEMORY_MODEL), 3u << 16 | 13, "no memory model"},
        {find(ENTRY_POINT) + 1, 0, "no entry point 'main'"}, /* of a vertex shader */
        {find(ENTRY_POINT) + 2, UINT32_MAX, "bound"},
        {find(ENTRY_POINT) + 2, 1, "no entry point 'main'"}, /* the id of something else */
        {find(ENTRY_POINT) + 3, 0x6e69616e, "no entry point 'main'"},
        {find(FUNCTION) + 2, UINT32_MAX, "bound"},
        {find(FUNCTION_END), 1u << 16 | 253, "none of its blocks"},
        {find(LABEL), 2u << 16 | 247, "none of its blocks"},
        {find(LABEL) + 1, UINT32_MAX, "bound"},
        {find(RETURN), 1u << 16 | 1, "inside another block"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t words[WORDS];
        memcpy(words, rota_spv_test_saxpy, sizeof words);
        words[cases[c].offset] = cases[c].word;
        expect_refusal(words, sizeof words, "main", cases[c].says);
    }
    expect_refusal(rota_spv_test_saxpy, sizeof rota_spv_test_saxpy, "mai", "no entry point 'mai'");
    expect_refusal(rota_spv_test_saxpy, sizeof rota_spv_test_saxpy, "main2", "no entry point 'main2'");
    /* A branch to nowhere: of each branch, the target. */
    uint32_t branches = 0;
    for (size_t offset = 5; offset < WORDS; offset += rota_spv_test_saxpy[offset] >> 16) {
        const uint32_t code = rota_spv_test_saxpy[offset] & 0xffff;
        if (code != 249 && code != 250 && code != 247) continue;
        uint32_t words[WORDS];
        memcpy(words, rota_spv_test_saxpy, sizeof words);
        words[offset + (code == 250 ? 2 : 1)] = 1;
        expect_refusal(words, sizeof words, "main", "goes to a block that is not there");
        branches++;
    }
    assert_true(branches >= 2);
}

/* A workgroup of no items, with a module as small as one can be. */
static void the_smallest_module(void **state) {
    (void)state;
    uint32_t words[] = {0x07230203,
                        0x00010500,
                        0,
                        6,
                        0,
                        2u << 16 | 17,
                        1, /* capability: shader */
                        3u << 16 | 14,
                        0,
                        1, /* memory model */
                        5u << 16 | 15,
                        5,
                        3,
                        0x6e69616d,
                        0, /* entry point 'main' */
                        6u << 16 | 16,
                        3,
                        17,
                        1,
                        1,
                        1, /* a workgroup of 1 */
                        2u << 16 | 19,
                        1,
                        3u << 16 | 33,
                        2,
                        1, /* void, and a function of it */
                        5u << 16 | 54,
                        1,
                        3,
                        0,
                        2, /* the function */
                        2u << 16 | 248,
                        4,
                        1u << 16 | 253,
                        1u << 16 | 56};
    assert_ok(rota_spirv_check(words, sizeof words, "main"));
    words[18] = 0;
    expect_refusal(words, sizeof words, "main", "workgroup without items");
    words[18] = 1;
    words[17] = 18;
    expect_refusal(words, sizeof words, "main", "no size of a workgroup");
    words[17] = 17;
    words[14] = 0x01010101;
    expect_refusal(words, sizeof words, "main", "string that does not end");
}

/* ---- The driver ---- */

static PFN_vkCreateShaderModule real_create;
static uint32_t created;
static VKAPI_ATTR VkResult VKAPI_CALL count_modules(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks,
                                                    VkShaderModule *out) {
    created++;
    return real_create(device, info, callbacks, out);
}

static rota_status make(fixture *f, const rota_kernel *kernel) {
    test_program *p = made_program(kernel, &(saxpy_params){COUNT, 1.0f});
    rota_exec_program *program = NULL;
    const rota_status status = f->device->vtable->program_create(f->device, &p->desc, &program);
    if (status == ROTA_OK) f->device->vtable->program_destroy(f->device, program);
    free(p);
    return status;
}

static void the_driver_gets_whole_modules_only(void **state) {
    (void)state;
    fixture *f = open_as(NULL, false);
    rota_vk_device *device = (rota_vk_device *)f->device;
    real_create = device->vk.CreateShaderModule;
    device->vk.CreateShaderModule = count_modules;
    created = 0;
    rota_kernel kernel = saxpy;
    for (size_t size = 20; size < sizeof rota_spv_test_saxpy; size += 64) {
        kernel.vk.size_bytes = size;
        assert_status(make(f, &kernel), ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), "kernel 'saxpy', its SPIR-V: "));
    }
    assert_int_equal(created, 0);
    assert_ok(make(f, &saxpy));
    assert_int_equal(created, 1);
    device->vk.CreateShaderModule = real_create;
    close_quiet(f, false);
}

/* ---- SPIRV-Tools ---- */

static char heard[512];
static void hear(void *user, rota_log_level level, const char *message) {
    (void)user;
    (void)level;
    strncpy(heard, message, sizeof heard - 1);
}

static void what_only_the_validator_sees(void **state) {
    (void)state;
    const rota_log log = {.fn = hear, .level = ROTA_LOG_INFO};
    uint32_t words[WORDS];
    memcpy(words, rota_spv_test_saxpy, sizeof words);
    words[find(54) + 1] = rota_spv_test_saxpy[find(54) + 4]; /* what the function returns: its own type */
    assert_ok(rota_spirv_check(words, sizeof words, "main"));
    heard[0] = 0;
    assert_ok(rota_spirv_validate(&log, "saxpy", rota_spv_test_saxpy, sizeof rota_spv_test_saxpy));
    const rota_status status = rota_spirv_validate(&log, "saxpy", words, sizeof words);
    if (strstr(heard, "was not found")) {
        assert_int_equal(status, ROTA_OK);
        print_message("skipped: %s\n", heard);
        skip();
    }
    assert_int_equal(status, ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "SPIRV-Tools: "));
    /* A capability that it has not heard of: the module is not judged, and that is said. */
    words[6] = 59999;
    assert_int_equal(heard[0], 0);
    assert_ok(rota_spirv_validate(&log, "saxpy", words, sizeof words));
    assert_non_null(strstr(heard, "kernel 'saxpy'"));
    assert_non_null(strstr(heard, "does not know its capability 59999"));
}

int main(void) {
#ifdef ROTA_SPIRV_TOOLS
    /* Under this name it is found whether it is installed or not. */
    (void)dlopen(ROTA_SPIRV_TOOLS, RTLD_NOW | RTLD_LOCAL);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(absurd_words_are_seen),
        cmocka_unit_test(the_smallest_module),
        cmocka_unit_test(the_driver_gets_whole_modules_only),
        cmocka_unit_test(what_only_the_validator_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
