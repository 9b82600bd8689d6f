/* y = 2 x + y, from nothing, on the best device that there is. */
#include <rota/rota.h>
#include <stdio.h>

int main(void) {
    float x[] = {1, 2, 3, 4}, y[] = {10, 20, 30, 40};
    rota_device *device = NULL;
    rota_tape *tape = NULL;
    rota_tensor a = ROTA_TENSOR_NONE, b = ROTA_TENSOR_NONE, ax;
    int failed = rota_open(NULL, NULL, &device) || rota_tape_create_on(device, NULL, &tape) ||
                 rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(4), x, &a) ||
                 rota_tensor_create(device, "y", ROTA_F32, ROTA_SHAPE(4), y, &b) ||
                 rota_op_scale(tape, a, ROTA_PLAIN(2), &ax) || rota_op_add_into(tape, ax, b, b) ||
                 rota_tape_submit(tape, NULL, NULL) || rota_tensor_read(&b, y, sizeof y);
    if (failed) fprintf(stderr, "%s\n", rota_last_error());
    if (!failed) printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
    rota_tape_destroy(tape);
    rota_buffer_release(a.buffer);
    rota_buffer_release(b.buffer);
    return rota_close(device, 0) || failed;
}
