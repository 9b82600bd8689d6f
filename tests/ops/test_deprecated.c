/* Calls under the names that they had at first (ops/deprecated.h): programs that were built with those go on. */
#include "tests/kit/runtime_support.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void buffers(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer, *view, *none;
    const uint32_t words[4] = {1, 2, 3, 4};
    uint32_t read[2];
    assert_ok(rota_runtime_buffer(f->runtime, "words", sizeof words, &buffer));
    assert_string_equal(rota_buffer_name(buffer), "words");
    assert_ok(rota_buffer_write(buffer, f->device, 0, words, sizeof words, NULL));
    assert_ok(rota_buffer_view(buffer, 4, 8, &view));
    assert_ok(rota_buffer_read(view, 0, read, sizeof read));
    assert_true(read[0] == 2 && read[1] == 3);
    assert_status(rota_buffer_view(buffer, 12, 8, &none), ROTA_OUT_OF_RANGE);
    rota_buffer_release(view);
    rota_buffer_release(buffer);
}

static void tensors_and_tapes(void **state) {
    runtime_fixture *f = *state;
    const float values[3] = {1, 2, 3};
    float read[3];
    rota_tensor x;
    rota_tape *tape;
    assert_ok(rota_device_tensor(f->device, "x", ROTA_F32, ROTA_SHAPE(3), values, &x));
    assert_ok(rota_device_tape(f->device, NULL, &tape));
    assert_ok(rota_op_scale_into(tape, x, ROTA_PLAIN(3), x));
    assert_ok(rota_tape_submit(tape, NULL, NULL));
    assert_ok(rota_tensor_read(&x, read, sizeof read));
    for (int i = 0; i < 3; i++) assert_true(read[i] == 3 * values[i]);
    rota_tape_destroy(tape);
    rota_buffer_release(x.buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buffers, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(tensors_and_tapes, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
