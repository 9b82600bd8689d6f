/* CUDA images launched by exec/vk (VK_NVX_binary_import). Without the feature: a kernel that has nothing else
 * is refused by name. With it: images and shaders in one chain, slots, and what an image may not ask for. */
#include "tests/exec/vk/exec_vk_kit.h"

#include <string.h>
#include "cuda/architecture.h"
#include "cuda/test_kernels.h"

#define STEP_IMAGE ROTA_CUDA_IMAGE_test_kernels, .entry = "test_step", .grid = step_grid, .block = {64, 1, 1}

/* By image alone. */
static const rota_kernel image_step = {.name = "image step",
                                       .operand_count = 2,
                                       .param_bytes = sizeof(contract_step_params),
                                       .bindables = step_bindables,
                                       .bindable_count = 2,
                                       .cuda = {STEP_IMAGE}};

static uint32_t asked_slots, asked_capability;
static const rota_kernel *select_image(const void *params, const uint64_t *operand_bytes, uint32_t slot_mask,
                                       const rota_cuda_target *target) {
    (void)params, (void)operand_bytes;
    asked_slots = slot_mask;
    asked_capability = target->compute_capability;
    return slot_mask ? &image_step : NULL;
}
/* By image where an operand is in a slot, else by shader. */
static const rota_kernel selecting_step = {
    .name = "selecting step",
    .operand_count = 2,
    .param_bytes = sizeof(contract_step_params),
    .bindables = step_bindables,
    .bindable_count = 2,
    .vk = {.words = rota_spv_test_step,
           .size_bytes = sizeof rota_spv_test_step,
           .grid = step_grid,
           .select_image = select_image},
};

static const rota_kernel big_blocks = {
    .name = "big blocks",
    .operand_count = 2,
    .param_bytes = sizeof(contract_step_params),
    .cuda = {ROTA_CUDA_IMAGE_test_kernels, .entry = "test_step", .block = {1025, 1, 1}}};
static const rota_kernel much_shared = {.name = "much shared memory",
                                        .operand_count = 2,
                                        .param_bytes = sizeof(contract_step_params),
                                        .cuda = {ROTA_CUDA_IMAGE_test_kernels, .entry = "test_step",
                                                 .block = {64, 1, 1}, .shared_bytes = 48 * 1024}};
static const rota_kernel no_entry = {
    .name = "no entry",
    .operand_count = 2,
    .param_bytes = sizeof(contract_step_params),
    .cuda = {ROTA_CUDA_IMAGE_test_kernels, .entry = "nonesuch", .block = {64, 1, 1}}};

static bool has_images(const fixture *f) {
    return f->device->info.features & ROTA_FEATURE_CUDA_IMAGES;
}

static test_program *one_step(const rota_kernel *kernel, const contract_step_params *params) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, kernel, params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    return p;
}

static void expect_refusal(fixture *f, const rota_kernel *kernel, rota_status status, const char *text) {
    static const contract_step_params params = {COUNT, 1, 0};
    test_program *p = one_step(kernel, &params);
    rota_exec_program *program = NULL;
    assert_status(f->device->vtable->program_create(f->device, &p->desc, &program), status);
    if (!strstr(rota_last_error(), text)) fail_msg("'%s' is not in '%s'", text, rota_last_error());
    free(p);
}

static void refusals(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    if (has_images(f)) {
        expect_refusal(f, &big_blocks, ROTA_UNSUPPORTED, "asks for 1025 threads");
        expect_refusal(f, &much_shared, ROTA_UNSUPPORTED, "49152 bytes of dynamic shared memory");
        expect_refusal(f, &no_entry, ROTA_SYSTEM, "entry 'nonesuch' of its CUDA image");
    } else {
        expect_refusal(f, &image_step, ROTA_UNSUPPORTED, "kernel 'image step' has no SPIR-V");
    }
    close_quiet(f, false);
}

/* Shader and image in turn on the same memory, as batches with barriers between. */
static void images_and_shaders_in_a_chain(void **state) {
    (void)state;
    fixture *f = open_as(NULL, false); /* the layer knows nothing of these launches */
    if (!has_images(f)) {
        close_quiet(f, false);
        print_message("skipped: the device launches no CUDA images\n");
        skip();
        return; /* gcc does not know that skip doesn't */
    }
    rota_exec_memory *memories[] = {shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < 2 * COUNT; i++) x[i] = i;
    static const contract_step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < CHAIN; i++) {
        test_program_batch(p);
        test_program_kernel(p, i % 3 ? &image_step : &step, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    loaded l = load(f, p, memories);
    for (uint32_t round = 0; round < 50; round++) {
        rota_exec_wait behind = {.queue = 0, .value = f->next[0]};
        rota_exec_work w = work(f, l, 0, 0, &behind, 1, NULL);
        submit(f, &w, 1);
    }
    wait_for(f, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], stepped(i, COUNT + i, 50 * CHAIN));
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    close_quiet(f, false);
}

/* An operand and both parameters from the argument block, other values each time. */
static void images_take_slots(void **state) {
    (void)state;
    fixture *f = open_as(NULL, false);
    bool images = has_images(f);
    rota_exec_memory *memories[] = {shared(f, BYTES), shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host, *other = memories[1]->host;
    contract_step_params params = {COUNT, 0, 0};
    test_program *p = test_program_new(QUEUES, 1, 4);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, &selecting_step, &params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, true, BYTES, BYTES, ROTA_READ); /* block[0] + BYTES */
    test_program_binding(p, 0, 1);
    test_program_binding(p, 1, 3);
    asked_slots = asked_capability = 0;
    loaded l = load(f, p, memories);
    assert_int_equal(asked_slots, images ? 2 : 0);
    if (images) assert_true(asked_capability >= 75);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            x[i] = i;
            other[COUNT + i] = 7 * i + round;
        }
        uint64_t block[4] = {memories[1]->address, 100 + round, 0, (uint64_t)(round + 1) << 32};
        rota_exec_work w = work(f, l, 0, 0, NULL, 0, block);
        submit(f, &w, 1);
        wait_for(f, 0);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(x[i], 3 * i + 7 * i + round + 100 + round + round + 1);
    }
    unload(f, l);
    free(p);
    for (uint32_t i = 0; i < 2; i++) f->device->vtable->memory_destroy(f->device, memories[i]);
    close_quiet(f, false);
}

/* What is recorded, one letter a call: b: a pipeline is bound, d: a dispatch, i: an image is launched. */
static char recorded[32];
static uint32_t launched_groups[8][3], launches;
static PFN_vkCmdBindPipeline real_bind;
static PFN_vkCmdDispatch real_dispatch;

static void note(char call) {
    const size_t length = strlen(recorded);
    assert_in_range(length, 0, sizeof recorded - 2);
    recorded[length] = call;
}

static VKAPI_ATTR void VKAPI_CALL bind_noted(VkCommandBuffer buffer, VkPipelineBindPoint point,
                                             VkPipeline pipeline) {
    note('b');
    real_bind(buffer, point, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL dispatch_noted(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
    note('d');
    real_dispatch(buffer, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL launch_noted(VkCommandBuffer buffer, const VkCuLaunchInfoNVX *info) {
    (void)buffer;
    note('i');
    assert_in_range(launches, 0, 7);
    const uint32_t groups[] = {info->gridDimX, info->gridDimY, info->gridDimZ};
    memcpy(launched_groups[launches++], groups, sizeof groups);
}

static VKAPI_ATTR VkResult VKAPI_CALL make_module(VkDevice device, const VkCuModuleCreateInfoNVX *info,
                                                  const VkAllocationCallbacks *callbacks,
                                                  VkCuModuleNVX *out) {
    (void)device, (void)info, (void)callbacks;
    memset(out, 1, sizeof *out);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL make_function(VkDevice device, const VkCuFunctionCreateInfoNVX *info,
                                                    const VkAllocationCallbacks *callbacks,
                                                    VkCuFunctionNVX *out) {
    (void)device, (void)info, (void)callbacks;
    memset(out, 1, sizeof *out);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL end_module(VkDevice device, VkCuModuleNVX module,
                                             const VkAllocationCallbacks *callbacks) {
    (void)device, (void)module, (void)callbacks;
}

static VKAPI_ATTR void VKAPI_CALL end_function(VkDevice device, VkCuFunctionNVX function,
                                               const VkAllocationCallbacks *callbacks) {
    (void)device, (void)function, (void)callbacks;
}

/* On any device, with the calls for images replaced; nothing is submitted. A launch may leave another
 * pipeline bound than was: the shader after it binds its own again, and only that one does. An image's kernel
 * says its grid, or who records it does. */
static void what_is_recorded(void **state) {
    (void)state;
    static const rota_kernel given = {
        .name = "image with the node's grid",
        .operand_count = 2,
        .param_bytes = sizeof(contract_step_params),
        .cuda = {ROTA_CUDA_IMAGE_test_kernels, .entry = "test_step", .block = {64, 1, 1}}};
    static const contract_step_params params = {COUNT, 1, 0};
    const rota_kernel *const kernels[] = {&step, &step,  &image_step, &step,
                                          &step, &given, &image_step, &step};
    fixture *f = open_as(NULL, false);
    rota_vk_device *device = (rota_vk_device *)f->device;
    rota_exec_memory *memories[] = {memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    device->base.info.features |= ROTA_FEATURE_CUDA_IMAGES;
    device->vk.CreateCuModuleNVX = make_module;
    device->vk.CreateCuFunctionNVX = make_function;
    device->vk.DestroyCuModuleNVX = end_module;
    device->vk.DestroyCuFunctionNVX = end_function;
    device->vk.CmdCuLaunchKernelNVX = launch_noted;
    real_bind = device->vk.CmdBindPipeline;
    device->vk.CmdBindPipeline = bind_noted;
    real_dispatch = device->vk.CmdDispatch;
    device->vk.CmdDispatch = dispatch_noted;
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        test_program_batch(p);
        rota_exec_command *command = test_program_kernel(p, kernels[i], &params);
        for (uint32_t k = 0; k < 3; k++) command->u.kernel.groups[k] = 3 + k;
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    loaded l = load(f, p, memories);
    assert_string_equal(recorded, "bddibddiibd");
    assert_int_equal(launches, 3);
    static const uint32_t expected[][3] = {{COUNT / 64, 1, 1}, {3, 4, 5}, {COUNT / 64, 1, 1}};
    assert_memory_equal(launched_groups, expected, sizeof expected);
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    close_quiet(f, false);
}

#if ROTA_CUDA_HAVE_architecture
static uint32_t modules, functions; /* those that there are */
static uint32_t functions_made, wrong_ends;

static VKAPI_ATTR VkResult VKAPI_CALL make_counted_module(VkDevice device,
                                                          const VkCuModuleCreateInfoNVX *info,
                                                          const VkAllocationCallbacks *callbacks,
                                                          VkCuModuleNVX *out) {
    modules++;
    return make_module(device, info, callbacks, out);
}

/* Of a processor of capability 9.0: the module has no other one's function. */
static VKAPI_ATTR VkResult VKAPI_CALL make_counted_function(VkDevice device,
                                                            const VkCuFunctionCreateInfoNVX *info,
                                                            const VkAllocationCallbacks *callbacks,
                                                            VkCuFunctionNVX *out) {
    if (strcmp(info->pName, "architecture_90") != 0) return VK_ERROR_INITIALIZATION_FAILED;
    functions++;
    functions_made++;
    return make_function(device, info, callbacks, out);
}

static VKAPI_ATTR void VKAPI_CALL end_counted_module(VkDevice device, VkCuModuleNVX module,
                                                     const VkAllocationCallbacks *callbacks) {
    (void)device, (void)callbacks;
    wrong_ends += module == VK_NULL_HANDLE || functions != 0; /* those go first */
    modules--;
}

static VKAPI_ATTR void VKAPI_CALL end_counted_function(VkDevice device, VkCuFunctionNVX function,
                                                       const VkAllocationCallbacks *callbacks) {
    (void)device, (void)callbacks;
    wrong_ends += function == VK_NULL_HANDLE;
    functions -= function != VK_NULL_HANDLE;
}
#endif

/* What the processor is, is asked of a module: neither that nor a function of it is left. */
static void the_processor_is_asked_for(void **state) {
    (void)state;
#if ROTA_CUDA_HAVE_architecture
    fixture *f = open_as(NULL, false);
    rota_vk_device *device = (rota_vk_device *)f->device;
    device->base.info.features |= ROTA_FEATURE_CUDA_IMAGES;
    device->physical.binary_import = true;
    device->vk.CreateCuModuleNVX = make_counted_module;
    device->vk.CreateCuFunctionNVX = make_counted_function;
    device->vk.DestroyCuModuleNVX = end_counted_module;
    device->vk.DestroyCuFunctionNVX = end_counted_function;
    device->vk.CmdCuLaunchKernelNVX = launch_noted;
    rota_vk_images_open(device);
    assert_int_equal(device->target.compute_capability, 90);
    assert_true(device->base.info.features & ROTA_FEATURE_CUDA_IMAGES);
    assert_int_equal(functions_made, 1);
    assert_int_equal(functions, 0);
    assert_int_equal(modules, 0);
    assert_int_equal(wrong_ends, 0);
    close_quiet(f, false);
#else
    print_message("skipped: this build has no image to ask with\n");
    skip();
#endif
}

/* What a launch is made of: groups that were given and none of 0, the kernel's own block and shared memory.
 */
static void launches_are_the_kernels(void **state) {
    (void)state;
    static const rota_kernel blocks = {.name = "blocks",
                                       .operand_count = 1,
                                       .cuda = {.entry = "e", .block = {32, 2, 0}, .shared_bytes = 64}};
    fixture *f = open_as(NULL, false);
    rota_cuda_launch launch;
    assert_ok(rota_vk_image_launch((const rota_vk_device *)f->device, &blocks, NULL, NULL,
                                   (const uint32_t[]){5, 0, 7}, &launch));
    const uint32_t expected[] = {5, 1, 7, 32, 2, 1};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(launch.groups[i], expected[i]);
        assert_int_equal(launch.block[i], expected[3 + i]);
    }
    assert_int_equal(launch.shared_bytes, 64);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(images_and_shaders_in_a_chain),
        cmocka_unit_test(images_take_slots),
        cmocka_unit_test(what_is_recorded),
        cmocka_unit_test(the_processor_is_asked_for),
        cmocka_unit_test(launches_are_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
