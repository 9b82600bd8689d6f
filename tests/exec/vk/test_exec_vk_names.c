/* Names for tools by VK_EXT_debug_utils: what the driver is told, and that the validation layer has nothing to say. */
#include "tests/exec/vk/exec_vk_kit.h"

#include <stdio.h>
#include <string.h>
#include "sched/runtime/shared/devices.h"

/* What was said: "[label", "]" and "type name", a line each. */
static char said[8192];
static PFN_vkCmdBeginDebugUtilsLabelEXT real_begin;
static PFN_vkCmdEndDebugUtilsLabelEXT real_end;
static PFN_vkSetDebugUtilsObjectNameEXT real_name;

static void keep(const char *before, const char *text) {
    const size_t length = strlen(said);
    (void)snprintf(said + length, sizeof said - length, "%s%s\n", before, text);
}

static VKAPI_ATTR void VKAPI_CALL begin(VkCommandBuffer buffer, const VkDebugUtilsLabelEXT *label) {
    keep("[", label->pLabelName);
    real_begin(buffer, label);
}

static VKAPI_ATTR void VKAPI_CALL end(VkCommandBuffer buffer) {
    keep("]", "");
    real_end(buffer);
}

static VKAPI_ATTR VkResult VKAPI_CALL name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info) {
    keep(info->objectType == VK_OBJECT_TYPE_PIPELINE         ? "pipeline "
         : info->objectType == VK_OBJECT_TYPE_COMMAND_BUFFER ? "commands "
         : info->objectType == VK_OBJECT_TYPE_BUFFER         ? "buffer "
                                                             : "memory ",
         info->pObjectName);
    return real_name(device, info);
}

static const char *node_name(const void *owner, uint32_t node) {
    (void)owner;
    static const char *const names[] = {"layer 1 in", "saxpy"};
    return node < 2 ? names[node] : "more";
}

/* A device whose calls are listened to; NULL with a message: Vulkan has no such extension. */
static fixture *open_named(bool names) {
    fixture *f = open_with(&(rota_exec_open_options){.debug_names = names, .host.node_name = node_name});
    rota_vk_device *device = (rota_vk_device *)f->device;
    if (names && !device->instance.names) {
        close_quiet(f, false);
        print_message("skipped: Vulkan has no " VK_EXT_DEBUG_UTILS_EXTENSION_NAME "\n");
        skip();
    }
    said[0] = 0;
    rota_vk_instance_table *vk = &device->instance.vk;
    real_begin = vk->CmdBeginDebugUtilsLabelEXT;
    real_end = vk->CmdEndDebugUtilsLabelEXT;
    real_name = vk->SetDebugUtilsObjectNameEXT;
    vk->CmdBeginDebugUtilsLabelEXT = begin;
    vk->CmdEndDebugUtilsLabelEXT = end;
    vk->SetDebugUtilsObjectNameEXT = name;
    return f;
}

/* Two dispatches and a copy, run once. */
static void run(fixture *f) {
    rota_exec_memory *memories[] = {shared(f, 3 * BYTES)};
    saxpy_params params = {COUNT, 3.0f};
    test_program *p = test_program_new(QUEUES, 1, 0);
    p->desc.name = "two";
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < 2; i++) {
        test_program_batch(p);
        saxpy_node(p, &params);
    }
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_READ);
    loaded l = load(f, p, memories);
    rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    wait_for(f, 0);
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
}

static void nodes_and_objects_have_names(void **state) {
    (void)state;
    fixture *f = open_named(true);
    run(f);
    close_quiet(f, false);
    assert_string_equal(said, "buffer test memory\nmemory test memory\n"
                              "pipeline saxpy\n"
                              "[two, segment 0\ncommands two, segment 0\n"
                              "[layer 1 in: saxpy\n]\n"
                              "[saxpy\n]\n"
                              "[more\n]\n"
                              "]\n");
}

static void nothing_is_said_unasked(void **state) {
    (void)state;
    fixture *f = open_named(false);
    run(f);
    close_quiet(f, false);
    assert_string_equal(said, "");
}

/* Without the layer the extension is asked of the loader. */
static void names_need_no_layer(void **state) {
    (void)state;
    fixture *f = open_as(&(rota_exec_open_options){.debug_names = true}, false);
    const bool there = ((rota_vk_device *)f->device)->instance.names;
    if (there) run(f);
    close_quiet(f, false);
    if (!there) {
        print_message("skipped: Vulkan has no " VK_EXT_DEBUG_UTILS_EXTENSION_NAME "\n");
        skip();
    }
}

static void the_runtimes_option_is_the_devices(void **state) {
    (void)state;
    for (int names = 0; names < 2; names++) {
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.debug_names = names, .cache_dir = ""), &runtime));
        if (rota_device_open(runtime, "vk:0", &device) == ROTA_OK)
            assert_int_equal(((rota_vk_device *)device->exec)->options.debug_names, names);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_and_objects_have_names), cmocka_unit_test(nothing_is_said_unasked),
        cmocka_unit_test(names_need_no_layer), cmocka_unit_test(the_runtimes_option_is_the_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
