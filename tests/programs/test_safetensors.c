/* Files in the safetensors format: tensors of each dtype that there is, written and read, and their elements. */
#include "examples/common/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/kit/support.h"

enum { COUNT = 5 };
static const struct {
    rota_dtype dtype;
    const char *name;
    float stored[COUNT]; /* of what is given below: rounded, and within the dtype's range */
} dtypes[] = {{ROTA_F32, "\"F32\"", {0, 1.0625f, -300, 1e-6f, 1000}},
              {ROTA_F16, "\"F16\"", {0, 1.0625f, -300, 0x1.1p-20f, 1000}},
              {ROTA_BF16, "\"BF16\"", {0, 1.0625f, -300, 0x1.0cp-20f, 1000}},
              {ROTA_F8_E4M3FN, "\"F8_E4M3\"", {0, 1, -288, 0, 448}},
              {ROTA_F8_E5M2, "\"F8_E5M2\"", {0, 1, -320, 0, 1024}}};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

static void each_dtype_comes_back(void **state) {
    (void)state;
    static const float given[COUNT] = {0, 1.0625f, -300, 1e-6f, 1000};
    char path[64], head[512] = "";
    (void)snprintf(path, sizeof path, "/tmp/rota_safetensors_%d", (int)getpid());
    file_writer file;
    cJSON *header = cJSON_CreateObject();
    uint64_t offset = 0;
    /* The first of 8 bits leaves what follows at an odd address. */
    static const uint32_t order[DTYPES] = {3, 0, 4, 1, 2};
    for (uint32_t i = 0; i < DTYPES; i++)
        safetensors_add(header, dtypes[order[i]].name, dtypes[order[i]].dtype, 1, (const uint64_t[]){COUNT},
                        &offset);
    assert_int_equal(offset, COUNT * (1 + 4 + 1 + 2 + 2));
    assert_true(file_open(&file, path) && safetensors_begin(&file, header));
    cJSON_Delete(header);
    for (uint32_t i = 0; i < DTYPES; i++) {
        float values[COUNT];
        memcpy(values, given, sizeof values);
        const size_t bytes = safetensors_from_f32(values, COUNT, dtypes[order[i]].dtype);
        assert_int_equal(bytes, COUNT * rota_dtype_bytes(dtypes[order[i]].dtype));
        file_put(&file, values, bytes);
    }
    assert_true(file_commit(&file));
    FILE *raw = fopen(path, "rb");
    assert_non_null(raw);
    assert_true(fread(head, 1, sizeof head - 1, raw) > 8);
    fclose(raw);
    safetensors_file found;
    assert_true(safetensors_read(path, &found));
    for (uint32_t i = 0; i < DTYPES; i++) {
        const safetensors_tensor *tensor = safetensors_find(&found, dtypes[i].name);
        assert_true(tensor && tensor->known);
        assert_int_equal(tensor->dtype, dtypes[i].dtype);
        assert_non_null(strstr(head + 8, dtypes[i].name)); /* as the format has it */
        float values[COUNT];
        safetensors_to_f32(tensor, COUNT, values);
        for (uint32_t e = 0; e < COUNT; e++)
            if (values[e] != dtypes[i].stored[e])
                fail_msg("%s: element %u is %a, expected %a", dtypes[i].name, e, (double)values[e],
                         (double)dtypes[i].stored[e]);
    }
    safetensors_free(&found);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_dtype_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
