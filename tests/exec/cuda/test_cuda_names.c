/* Names for tools by NVTX, as such a tool takes them (nvtx_standin.c), over the stand-in for the driver. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef ROTA_NVTX_STANDIN
#include "tests/exec/cuda/exec_cuda_kit.h"

typedef void (*take_fn)(char *text, size_t capacity);

static void take(char *text, size_t capacity) {
    static take_fn standin;
    if (!standin) {
        void *library = dlopen(ROTA_NVTX_STANDIN, RTLD_NOW);
        assert_non_null(library);
        void *address = dlsym(library, "nvtx_standin_take");
        assert_non_null(address);
        memcpy(&standin, &address, sizeof standin);
    }
    standin(text, capacity);
}

/* Two nodes, made and launched twice. */
static void run(bool names) {
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.debug_names = names});
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, 0)};
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(2, &params);
    p->desc.name = "a chain";
    contract_loaded l = cuda_load(f, p, memories);
    cuda_run(f, l, NULL, 2);
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    cuda_close(f);
}

static void nodes_and_launches_have_ranges(void **state) {
    (void)state;
    char text[4096];
    run(true);
    take(text, sizeof text);
    assert_string_equal(text, "domain rota cuda:0\n"
                              "[node 0: step\n]\n[node 1: step\n]\n"
                              "[a chain, segment 0\n]\n[a chain, segment 0\n]\n"
                              "end\n");
}

static void nothing_is_said_unasked(void **state) {
    (void)state;
    char text[4096];
    run(false);
    take(text, sizeof text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_and_launches_have_ranges),
                                       cmocka_unit_test(nothing_is_said_unasked)};
    (void)setenv("NVTX_INJECTION64_PATH", ROTA_NVTX_STANDIN, 1); /* looked at with the first call, once */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: there are no headers of NVTX");
    return 77;
}
#endif
