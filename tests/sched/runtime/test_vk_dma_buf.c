/* Dma-bufs of a Vulkan device. Lavapipe has no VK_EXT_external_memory_dma_buf, but memory that is shared by opaque
 * descriptors, which are files that have a size, as a dma-buf has: between it and rota stands here a driver that has
 * the extension, and makes such of its dma-bufs. It stands there by the application's get_instance_proc_addr, and notes
 * what rota asks of it that the specification forbids. On other devices there is nothing to make dma-bufs of, and
 * test_vk_export_device has the driver's own. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/atomic.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#define PATIENCE_NS 20000000000u
#define OPAQUE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define DMA_BUF VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT

/* ---- The driver between ---- */

static struct {
    application *app;
    VkExternalMemoryFeatureFlags features;      /* of dma-bufs */
    VkExternalMemoryHandleTypeFlags compatible; /* with either */
    VkResult properties_result;
    uint32_t types; /* that take a dma-buf */
    bool is_on;     /* the extension, on the device */
    _Atomic uint32_t buffers, allocations, imports, exports, wrong;
} between;

static void wrong(const char *what) {
    print_message("the driver was asked wrongly: %s\n", what);
    (void)ra_fetch_add_relaxed(&between.wrong, 1);
}

static void VKAPI_CALL buffer_properties(VkPhysicalDevice physical,
                                         const VkPhysicalDeviceExternalBufferInfo *info,
                                         VkExternalBufferProperties *out) {
    between.app->i.GetPhysicalDeviceExternalBufferProperties(physical, info, out);
    VkExternalMemoryProperties *is = &out->externalMemoryProperties;
    is->compatibleHandleTypes = between.compatible;
    if (info->handleType == DMA_BUF) is->externalMemoryFeatures = between.features;
}

/* The driver's own knows no dma-bufs. */
static VkExternalMemoryHandleTypeFlags taken(VkExternalMemoryHandleTypeFlags types) {
    if ((types & DMA_BUF) && !between.is_on) wrong("a dma-buf without the extension");
    if ((types & DMA_BUF) && (types & OPAQUE) && !(between.compatible & types & DMA_BUF))
        wrong("memory of types that don't go together");
    return types & DMA_BUF ? (types & ~(VkExternalMemoryHandleTypeFlags)DMA_BUF) | OPAQUE : types;
}

static VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                         const VkAllocationCallbacks *callbacks, VkBuffer *out) {
    const VkExternalMemoryBufferCreateInfo *external = info->pNext;
    if (!external || external->sType != VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO)
        return between.app->vk.CreateBuffer(device, info, callbacks, out);
    VkExternalMemoryBufferCreateInfo own = *external;
    VkBufferCreateInfo with = *info;
    if (own.handleTypes & DMA_BUF) (void)ra_fetch_add_relaxed(&between.buffers, 1);
    own.handleTypes = taken(own.handleTypes);
    with.pNext = &own;
    return between.app->vk.CreateBuffer(device, &with, callbacks, out);
}

static VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                    const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    VkMemoryAllocateInfo with = *info;
    VkMemoryAllocateFlagsInfo flags =
        *(const VkMemoryAllocateFlagsInfo *)info->pNext; /* the first, as rota has it */
    with.pNext = &flags;
    VkExportMemoryAllocateInfo export;
    VkImportMemoryFdInfoKHR import;
    const VkBaseInStructure *next = flags.pNext;
    if (next && next->sType == VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO) {
        export = *(const VkExportMemoryAllocateInfo *)flags.pNext;
        if (export.handleTypes & DMA_BUF) (void)ra_fetch_add_relaxed(&between.allocations, 1);
        export.handleTypes = taken(export.handleTypes);
        flags.pNext = &export;
    } else if (next && next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR) {
        import = *(const VkImportMemoryFdInfoKHR *)flags.pNext;
        if (import.handleType == DMA_BUF) {
            (void)ra_fetch_add_relaxed(&between.imports, 1);
            if (!(between.types >> info->memoryTypeIndex & 1u))
                wrong("an import into a type that takes none");
        }
        import.handleType = (VkExternalMemoryHandleTypeFlagBits)taken(import.handleType);
        flags.pNext = &import;
    }
    return between.app->vk.AllocateMemory(device, &with, callbacks, out);
}

static VkResult VKAPI_CALL get_descriptor(VkDevice device, const VkMemoryGetFdInfoKHR *info, int *out) {
    VkMemoryGetFdInfoKHR own = *info;
    if (own.handleType == DMA_BUF) (void)ra_fetch_add_relaxed(&between.exports, 1);
    own.handleType = (VkExternalMemoryHandleTypeFlagBits)taken(own.handleType);
    return between.app->vk.GetMemoryFdKHR(device, &own, out);
}

static VkResult VKAPI_CALL descriptor_properties(VkDevice device, VkExternalMemoryHandleTypeFlagBits type,
                                                 int fd, VkMemoryFdPropertiesKHR *out) {
    (void)device, (void)fd;
    if (type != DMA_BUF) wrong("the types of an opaque descriptor");
    out->memoryTypeBits = between.types;
    return between.properties_result;
}

typedef struct replaced {
    const char *name;
    PFN_vkVoidFunction function;
} replaced;

static PFN_vkVoidFunction of_device(VkDevice device, const char *name) {
    const replaced all[] = {{"vkCreateBuffer", (PFN_vkVoidFunction)create_buffer},
                            {"vkAllocateMemory", (PFN_vkVoidFunction)allocate},
                            {"vkGetMemoryFdKHR", (PFN_vkVoidFunction)get_descriptor},
                            {"vkGetMemoryFdPropertiesKHR", (PFN_vkVoidFunction)descriptor_properties}};
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].function;
    return between.app->i.GetDeviceProcAddr(device, name);
}

static PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance instance, const char *name) {
    const rota_vk_global *global;
    assert_ok(rota_vk_global_get(&global));
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)of_device;
    if (strcmp(name, "vkGetPhysicalDeviceExternalBufferProperties") == 0)
        return (PFN_vkVoidFunction)buffer_properties;
    return global->GetInstanceProcAddr(instance, name);
}

/* ---- The tests ---- */

typedef struct scene {
    application *app;
    rota_runtime *runtime;
    rota_device *device;
} scene;

/* Of a device that was made with the extensions that it has, and says it has that of dma-bufs, too, if `is_on`. */
static scene open_scene(bool is_on, VkExternalMemoryFeatureFlags features, bool go_together) {
    scene s = {.app = application_open(APPLICATION_VERSIONS)};
    VkPhysicalDeviceProperties2 is = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    bool shares = false;
    s.app->i.GetPhysicalDeviceProperties2(s.app->physical, &is);
    for (uint32_t i = 0; i < s.app->info.enabledExtensionCount; i++)
        shares = shares || strcmp(s.app->parts.extensions[i], VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) == 0;
    if (!shares || is.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        print_message("skipped: %s is no software device with " VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME "\n",
                      is.properties.deviceName);
        application_close(s.app);
        skip();
    }
    memset(&between, 0, sizeof between);
    between.app = s.app;
    between.features = features;
    between.compatible = go_together ? OPAQUE | DMA_BUF : OPAQUE;
    between.types = UINT32_MAX;
    between.is_on = is_on;
    if (is_on)
        s.app->parts.extensions[s.app->info.enabledExtensionCount++] =
            VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS, .cache_dir = ""), &s.runtime));
    rota_vulkan_device given = application_given(s.app, true); /* two runtimes may have its queue */
    given.get_instance_proc_addr = (PFN_vkVoidFunction)of_instance;
    assert_ok(rota_device_open_vulkan(s.runtime, &given, &s.device));
    return s;
}

static void close_scene(scene *s) {
    assert_ok(rota_runtime_close(s->runtime, 0));
    assert_int_equal(ra_load_relaxed(&between.wrong), 0);
    application_close(s->app);
}

#define BOTH_WAYS (VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)

static rota_adopt_options options_of(const rota_memory_export *made) {
    return ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DMA_BUF, .fd = made->fd,
                              .allocation_bytes = made->allocation_bytes, .offset_bytes = made->offset_bytes,
                              .size_bytes = made->size_bytes);
}

/* What one runtime's device has, another one's reads by the dma-buf, and writes. */
static void shared(void **state) {
    (void)state;
    scene s = open_scene(true, BOTH_WAYS, true);
    rota_runtime *runtime;
    rota_device *device;
    rota_vulkan_device given = application_given(s.app, true);
    given.get_instance_proc_addr = (PFN_vkVoidFunction)of_instance;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS, .cache_dir = ""), &runtime));
    assert_ok(rota_device_open_vulkan(runtime, &given, &device));
    adding first = adding_make(s.device, 1, 2), second;
    rota_memory_export made = ROTA_MEMORY_EXPORT(), opaque = ROTA_MEMORY_EXPORT();
    assert_ok(rota_buffer_export_dma_buf(first.a, s.device, &made));
    assert_ok(rota_buffer_export(first.a, s.device, &opaque)); /* the same memory, both ways */
    assert_int_equal(opaque.allocation_bytes, made.allocation_bytes);
    assert_int_equal(close(opaque.fd), 0);
    rota_adopt_options options = options_of(&made);
    rota_buffer *theirs, *none;
    assert_ok(rota_buffer_adopt(device, &options, &theirs));
    assert_true(ra_load_relaxed(&between.buffers) >= 2);
    assert_true(ra_load_relaxed(&between.allocations) >= 1);
    assert_int_equal(ra_load_relaxed(&between.exports), 1);
    assert_int_equal(ra_load_relaxed(&between.imports), 1);
    rota_ticket ticket;
    for (uint32_t i = 0; i < 5; i++) adding_submit(&first, &ticket);
    assert_ok(rota_wait(ticket, 0));
    second = (adding){theirs, NULL, NULL, NULL};
    adding_expect(&second, 11);
    float value = 100;
    assert_ok(rota_buffer_write(theirs, NULL, 0, &value, sizeof value, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_buffer_read(first.a, 0, &value, sizeof value));
    assert_true(value >= 100 && value <= 100);
    /* Where no type of the device's takes it, or the driver no such descriptor, a sentence says so. */
    between.types = 0;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_UNSUPPORTED);
    expect_said("no memory type fits 'theirs'");
    between.types = UINT32_MAX;
    between.properties_result = VK_ERROR_INVALID_EXTERNAL_HANDLE;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_INVALID_ARGUMENT);
    expect_said("is no dma-buf that the driver takes");
    between.properties_result = VK_SUCCESS;
    options.allocation_bytes *= 4;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_INVALID_ARGUMENT);
    expect_said("expected a dma-buf of at least");
    assert_int_equal(close(made.fd), 0);
    rota_buffer_release(theirs);
    adding_release(&first);
    assert_ok(rota_runtime_close(runtime, 0));
    close_scene(&s);
}

/* Each thing that may be missing is in the sentence, and memory is shared as it was without. */
static void missing(void **state) {
    (void)state;
    const struct {
        bool is_on;
        VkExternalMemoryFeatureFlags features;
        bool go_together;
        const char *no_export, *no_import; /* NULL: there is */
    } cases[] = {
        {false, 0, true, "exports no dma-buf: no VK_EXT_external_memory_dma_buf",
         "imports none: no VK_EXT_external_memory_dma_buf"},
        {true, 0, true, "exports no buffer's memory as one", "imports no buffer's memory as one"},
        {true, BOTH_WAYS, false, "both as one and by an opaque descriptor", NULL},
        {true, BOTH_WAYS | VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT, true, "only dedicated allocations",
         "only dedicated allocations"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene s = open_scene(cases[i].is_on, cases[i].features, cases[i].go_together);
        adding sums = adding_make(s.device, 1, 2);
        adding_submit(&sums, NULL);
        adding_expect(&sums, 3);
        rota_memory_export made = ROTA_MEMORY_EXPORT();
        assert_status(rota_buffer_export_dma_buf(sums.a, s.device, &made), ROTA_UNSUPPORTED);
        expect_said(cases[i].no_export);
        assert_ok(rota_buffer_export(sums.a, s.device, &made));
        const rota_adopt_options options = options_of(&made);
        rota_buffer *theirs = NULL;
        const rota_status status = rota_buffer_adopt(s.device, &options, &theirs);
        assert_int_equal(status, cases[i].no_import ? ROTA_UNSUPPORTED : ROTA_OK);
        if (cases[i].no_import) expect_said(cases[i].no_import);
        if (theirs) rota_buffer_release(theirs);
        assert_int_equal(close(made.fd), 0);
        assert_int_equal(ra_load_relaxed(&between.allocations), 0);
        adding_release(&sums);
        close_scene(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared), cmocka_unit_test(missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
