/* Device memory: one VkBuffer with memory of its own and a device address per rota_exec_memory. */
#include "exec/vk/vk_memory.h"
#include "exec/common/dma_buf.h"
#include "exec/vk/vk_descriptor.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_loss.h"
#include "exec/vk/vk_names.h"
#include "graph/buffer.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TYPES_MAX 3
/* Property sets to look for, the best first; the last entry is what the use cannot do without. */
typedef struct wanted_types {
    VkMemoryPropertyFlags want[TYPES_MAX], avoid[TYPES_MAX];
} wanted_types;

#define MAPPED (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

static const wanted_types types_device = {
    .want = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
    .avoid = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0, 0}};
static const wanted_types types_write = {.want = {MAPPED, MAPPED, MAPPED},
                                         .avoid = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0}};
static const wanted_types types_read = {.want = {MAPPED | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                                                 MAPPED | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, MAPPED},
                                        .avoid = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0}};
static const wanted_types types_block = {
    .want = {MAPPED | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, MAPPED, MAPPED}};

static uint32_t pick_type(const rota_vk_physical *physical, uint32_t allowed, const wanted_types *types) {
    for (uint32_t attempt = 0; attempt < TYPES_MAX; attempt++)
        for (uint32_t i = 0; i < physical->memory.memoryTypeCount; i++) {
            VkMemoryPropertyFlags flags = physical->memory.memoryTypes[i].propertyFlags;
            if ((allowed & (1u << i)) && (flags & types->want[attempt]) == types->want[attempt] &&
                (flags & types->avoid[attempt]) == 0)
                return i;
        }
    return UINT32_MAX;
}

/* Free bytes of a heap as far as the driver tells; else its size less what rota holds. */
static uint64_t heap_free(rota_vk_device *device, uint32_t heap) {
    uint64_t size = device->physical.memory.memoryHeaps[heap].size;
    if (device->physical.memory_budget) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
        VkPhysicalDeviceMemoryProperties2 properties = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
        device->instance.vk.GetPhysicalDeviceMemoryProperties2(device->physical.handle, &properties);
        return budget.heapBudget[heap] > budget.heapUsage[heap]
                   ? budget.heapBudget[heap] - budget.heapUsage[heap]
                   : 0;
    }
    uint64_t held = ra_load_relaxed(&device->objects.memory_bytes);
    return size > held ? size - held : 0;
}

static void memory_release(rota_vk_device *device, rota_vk_memory *memory) {
    if (memory->buffer)
        device->vk.DestroyBuffer(device->handle, memory->buffer, device->application.allocator);
    if (memory->memory) device->vk.FreeMemory(device->handle, memory->memory, device->application.allocator);
    if (memory->given.memory) device->application.free(device->application.memory_user, &memory->given);
    free(memory);
}

/* What is asked of an allocation. */
typedef struct request {
    uint64_t size_bytes;
    const wanted_types *types;
    bool map, shared;             /* shared: others may import it */
    const rota_exec_export *from; /* it is imported; NULL: new memory */
    void *host_pages; /* or it is the host's, from here on: so many bytes, and where in them it begins */
    uint64_t host_bytes, host_offset;
    const char *name;
} request;

/* A piece of the application's. */
static VkResult get_piece(rota_vk_device *device, const request *wish, const VkMemoryRequirements *needs,
                          uint32_t type, rota_vk_memory *memory) {
    rota_vulkan_memory piece = {0};
    if (!device->application.allocate(device->application.memory_user, needs->size, needs->alignment, type,
                                      wish->map, &piece))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    memory->given = piece;
    memory->allocation_bytes = needs->size;
    memory->type = type;
    if (piece.memory && piece.offset_bytes % needs->alignment == 0 && (piece.mapped || !wish->map))
        return VK_SUCCESS;
    rota_fail(ROTA_INVALID_ARGUMENT,
              "%s: '%s': the application's memory is %p at offset %llu, mapped at %p; expected a multiple of "
              "%llu%s",
              device->base.info.id, wish->name, piece.memory, (unsigned long long)piece.offset_bytes,
              piece.mapped, (unsigned long long)needs->alignment, wish->map ? ", mapped" : "");
    return VK_ERROR_INITIALIZATION_FAILED;
}

/* By what the memory may leave, or came. */
static VkExternalMemoryHandleTypeFlags handle_types(const rota_vk_device *device, const request *wish) {
    const VkExternalMemoryHandleTypeFlags opaque = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                          dma_buf = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
    if (wish->host_pages) return VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    if (wish->from) return wish->from->is_dma_buf ? dma_buf : opaque;
    return device->physical.sharing.no_dma_buf_export ? opaque : opaque | dma_buf;
}

/* For an import, a descriptor that the driver takes over. */
static VkResult get_memory(rota_vk_device *device, const request *wish, uint64_t bytes, uint32_t type,
                           rota_vk_memory *memory) {
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkExportMemoryAllocateInfo export = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                         .handleTypes = handle_types(device, wish)};
    VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &flags,
                                 .allocationSize = bytes,
                                 .memoryTypeIndex = type};
    VkImportMemoryHostPointerInfoEXT host = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                             .handleType =
                                                 VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                                             .pHostPointer = wish->host_pages};
    if (wish->shared) flags.pNext = &export;
    if (wish->host_pages) {
        flags.pNext = &host;
        if (wish->host_bytes < bytes) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
        info.allocationSize = wish->host_bytes;
    }
    if (wish->from) {
        flags.pNext = &import;
        import.handleType = (VkExternalMemoryHandleTypeFlagBits)handle_types(device, wish);
        if (wish->from->allocation_bytes < bytes) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
        info.allocationSize = wish->from->allocation_bytes;
        import.fd = fcntl(wish->from->fd, F_DUPFD_CLOEXEC, 0);
        if (import.fd < 0) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    }
    /* The driver has the host's pages from where this thread has its own. */
    const bool entered = wish->map && rota_locality_enter(&device->base.locality);
    VkResult result =
        device->vk.AllocateMemory(device->handle, &info, device->application.allocator, &memory->memory);
    rota_locality_leave(entered);
    if (result != VK_SUCCESS && wish->from) (void)close(import.fd);
    memory->allocation_bytes = info.allocationSize;
    memory->type = type;
    return result;
}

static VkResult create_buffer(rota_vk_device *device, const request *wish, uint64_t size_bytes,
                              rota_vk_memory *memory) {
    uint32_t families[2] = {device->physical.compute_family, device->physical.transfer_family};
    bool concurrent = device->real_count > 1 && families[0] != families[1];
    VkExternalMemoryBufferCreateInfo external = {.sType =
                                                     VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes = handle_types(device, wish)};
    VkBufferCreateInfo buffer_info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = wish->shared || wish->from || wish->host_pages ? &external : NULL,
        .size = size_bytes,
        .usage = ROTA_VK_BUFFER_USAGE,
        .sharingMode = concurrent ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = concurrent ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    return device->vk.CreateBuffer(device->handle, &buffer_info, device->application.allocator,
                                   &memory->buffer);
}

/* The buffer has its memory: where the device and the host find what was asked for. */
static rota_status find_addresses(rota_vk_device *device, const request *wish, rota_vk_memory *memory) {
    VkBufferDeviceAddressInfo address_info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                              .buffer = memory->buffer};
    uint64_t address = device->vk.GetBufferDeviceAddress(device->handle, &address_info);
    if (wish->host_pages) {
        memory->buffer_offset = wish->host_offset;
        memory->base = (rota_exec_memory){address + wish->host_offset, NULL, wish->size_bytes};
        memory->is_import = true;
        return ROTA_OK;
    }
    if (wish->from) address += wish->from->offset_bytes;
    uint64_t aligned = (address + ROTA_BUFFER_ALIGNMENT - 1) & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1);
    if (wish->from && aligned != address)
        return rota_fail(
            ROTA_UNSUPPORTED, "%s: '%s' of another device begins at %llx here, expected a multiple of %d",
            device->base.info.id, wish->name, (unsigned long long)address, ROTA_BUFFER_ALIGNMENT);
    memory->buffer_offset = wish->from ? wish->from->offset_bytes : aligned - address;
    memory->base.address = aligned;
    memory->base.size_bytes = wish->size_bytes;
    memory->is_import = wish->from != NULL;
    if (wish->map) {
        void *host = memory->given.mapped;
        VkResult result = VK_SUCCESS;
        if (!host) result = device->vk.MapMemory(device->handle, memory->memory, 0, VK_WHOLE_SIZE, 0, &host);
        if (result != VK_SUCCESS) return rota_vk_fail(result, "vkMapMemory");
        memory->base.host = (uint8_t *)host + memory->buffer_offset;
    }
    return ROTA_OK;
}

/* To those that the driver takes the dma-buf in. */
static rota_status limit_by_dma_buf(rota_vk_device *device, const request *wish, uint32_t *bits) {
    VkMemoryFdPropertiesKHR takes = {.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
    const VkResult result = device->vk.GetMemoryFdPropertiesKHR(
        device->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, wish->from->fd, &takes);
    if (result == VK_ERROR_INVALID_EXTERNAL_HANDLE)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "%s: '%s': the descriptor %d is no dma-buf that the driver takes "
                         "(vkGetMemoryFdPropertiesKHR: %s)",
                         device->base.info.id, wish->name, wish->from->fd, rota_vk_result_name(result));
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkGetMemoryFdPropertiesKHR");
    *bits &= takes.memoryTypeBits;
    return ROTA_OK;
}

/* To those that the driver takes foreign memory in. */
static rota_status limit_types(rota_vk_device *device, const request *wish, uint32_t *bits) {
    if (wish->from && wish->from->is_dma_buf) return limit_by_dma_buf(device, wish, bits);
    if (!wish->host_pages) return ROTA_OK;
    VkMemoryHostPointerPropertiesEXT takes = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    const VkResult result = device->vk.GetMemoryHostPointerPropertiesEXT(
        device->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, wish->host_pages, &takes);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkGetMemoryHostPointerPropertiesEXT");
    *bits &= takes.memoryTypeBits;
    return ROTA_OK;
}

static rota_status allocate(rota_vk_device *device, const request *wish, rota_vk_memory *memory) {
    const rota_device_info *info = &device->base.info;
    const char *name = wish->name;
    uint64_t size_bytes = wish->size_bytes;
    /* The driver need not place a buffer at our alignment; what is too much is skipped at the front. */
    uint64_t buffer_bytes = size_bytes + ROTA_BUFFER_ALIGNMENT;
    if (wish->from) buffer_bytes = wish->from->offset_bytes + size_bytes;
    if (wish->host_pages) buffer_bytes = wish->host_bytes;
    if (size_bytes > info->max_allocation_bytes || buffer_bytes > info->max_allocation_bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "%s: '%s' asks for %llu bytes; one allocation holds at most %llu", info->id, name,
                         (unsigned long long)size_bytes,
                         (unsigned long long)(info->max_allocation_bytes - ROTA_BUFFER_ALIGNMENT));
    VkResult result = create_buffer(device, wish, buffer_bytes, memory);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateBuffer");
    VkMemoryRequirements needs;
    device->vk.GetBufferMemoryRequirements(device->handle, memory->buffer, &needs);
    ROTA_TRY(limit_types(device, wish, &needs.memoryTypeBits));
    uint32_t type = pick_type(&device->physical, needs.memoryTypeBits, wish->types);
    if (type == UINT32_MAX)
        return rota_fail(ROTA_UNSUPPORTED, "%s: no memory type fits '%s'", info->id, name);
    uint32_t heap = device->physical.memory.memoryTypes[type].heapIndex;
    const bool is_given = device->application.allocate && !wish->from && !wish->host_pages;
    if (needs.size > device->physical.memory.memoryHeaps[heap].size)
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    else
        result = is_given ? get_piece(device, wish, &needs, type, memory)
                          : get_memory(device, wish, needs.size, type, memory);
    if (is_given && result == VK_ERROR_INITIALIZATION_FAILED) return ROTA_INVALID_ARGUMENT; /* as it says */
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY ||
        result == VK_ERROR_TOO_MANY_OBJECTS)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: '%s' asks for %llu bytes; about %llu are free (%s)",
                         info->id, name, (unsigned long long)size_bytes,
                         (unsigned long long)heap_free(device, heap), rota_vk_result_name(result));
    if (result == VK_ERROR_DEVICE_LOST) return rota_vk_lose(device, result, "vkAllocateMemory");
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateMemory");
    VkDeviceMemory of = is_given ? memory->given.memory : memory->memory;
    result = device->vk.BindBufferMemory(device->handle, memory->buffer, of, memory->given.offset_bytes);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkBindBufferMemory");
    rota_vk_name(device, VK_OBJECT_TYPE_BUFFER, (uint64_t)memory->buffer, "%s", name);
    if (!is_given) rota_vk_name(device, VK_OBJECT_TYPE_DEVICE_MEMORY, (uint64_t)memory->memory, "%s", name);
    return find_addresses(device, wish, memory);
}

static rota_status memory_new(rota_vk_device *device, const request *wish, rota_vk_memory **out_memory) {
    if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
    rota_vk_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for '%s'", wish->name);
    rota_status status = allocate(device, wish, memory);
    if (status != ROTA_OK) {
        memory_release(device, memory);
        return status;
    }
    /* Imported bytes are their owner's. */
    if (!memory->is_import) ra_fetch_add_relaxed(&device->objects.memory_bytes, wish->size_bytes);
    *out_memory = memory;
    return ROTA_OK;
}

static rota_status memory_add(rota_vk_device *device, const request *wish, rota_exec_memory **out_memory) {
    rota_vk_memory *memory;
    ROTA_TRY(memory_new(device, wish, &memory));
    pthread_mutex_lock(&device->objects.lock);
    rota_link_add(&device->objects.memories, &memory->link);
    pthread_mutex_unlock(&device->objects.lock);
    *out_memory = &memory->base;
    return ROTA_OK;
}

rota_status rota_vk_memory_create(rota_exec_device *base, uint64_t size_bytes, uint32_t flags,
                                  const char *name, rota_exec_memory **out_memory) {
    rota_vk_device *device = (rota_vk_device *)base;
    const char *title = name ? name : "memory";
    if (size_bytes == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "%s: '%s' has size 0", base->info.id, title);
    const wanted_types *types = &types_device;
    if (flags & ROTA_EXEC_MEMORY_HOST_READ)
        types = &types_read;
    else if (flags & ROTA_EXEC_MEMORY_HOST_WRITE)
        types = &types_write;
    request wish = {.size_bytes = size_bytes,
                    .types = types,
                    .map = types != &types_device,
                    .shared = flags & ROTA_EXEC_MEMORY_SHARED,
                    .name = title};
    return memory_add(device, &wish, out_memory);
}

rota_status rota_vk_memory_export(rota_exec_device *base, rota_exec_memory *memory_base, bool is_dma_buf,
                                  rota_exec_export *out_export) {
    rota_vk_device *device = (rota_vk_device *)base;
    const rota_vk_memory *memory = (const rota_vk_memory *)memory_base;
    const char *why = is_dma_buf ? device->physical.sharing.no_dma_buf_export : NULL;
    if (why) return rota_fail(ROTA_UNSUPPORTED, "%s: exports no dma-buf: %s", base->info.id, why);
    if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    VkMemoryGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                 .memory = memory->memory,
                                 .handleType = is_dma_buf ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
                                                          : VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    *out_export = (rota_exec_export){.fd = -1,
                                     .allocation_bytes = memory->allocation_bytes,
                                     .offset_bytes = memory->buffer_offset,
                                     .size_bytes = memory->base.size_bytes,
                                     .memory_type = memory->type,
                                     .is_dma_buf = is_dma_buf};
    VkResult result = device->vk.GetMemoryFdKHR(device->handle, &info, &out_export->fd);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkGetMemoryFdKHR");
}

rota_status rota_vk_memory_import(rota_exec_device *base, const rota_exec_export *from, const char *name,
                                  rota_exec_memory **out_memory) {
    request wish = {
        .size_bytes = from->size_bytes, .types = &types_device, .from = from, .name = name ? name : "memory"};
    return memory_add((rota_vk_device *)base, &wish, out_memory);
}

static void memory_destroy(rota_vk_device *device, rota_vk_memory *memory) {
    pthread_mutex_lock(&device->objects.lock);
    rota_link_remove(&memory->link);
    pthread_mutex_unlock(&device->objects.lock);
    if (!memory->is_import)
        ra_fetch_add_relaxed(&device->objects.memory_bytes, (uint64_t)0 - memory->base.size_bytes);
    memory_release(device, memory);
}

void rota_vk_memory_destroy(rota_exec_device *base, rota_exec_memory *memory_base) {
    rota_vk_device *device = (rota_vk_device *)base;
    /* Close finds what is left here. Pairs with rota_vk_lose. */
    if (memory_base && !ra_load_acquire(&device->noisy))
        memory_destroy(device, (rota_vk_memory *)memory_base);
}

/* Host memory is imported by whole pages: those that it lies in. */
static rota_status adopt_host(rota_vk_device *device, const rota_exec_foreign *from, const char *name,
                              rota_exec_memory **out_memory) {
    const uint64_t page = device->physical.sharing.host_alignment, mask = page - 1;
    if (!page || !device->vk.GetMemoryHostPointerPropertiesEXT)
        return rota_fail(ROTA_UNSUPPORTED,
                         "%s: '%s' is host memory, which the driver does not import "
                         "(no " VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME ")",
                         device->base.info.id, name);
    const uint64_t begin = (uint64_t)(uintptr_t)from->memory, end = begin + from->size_bytes;
    const request wish = {.size_bytes = from->size_bytes,
                          .types = &types_device,
                          .host_pages = (void *)(uintptr_t)(begin & ~mask),
                          .host_bytes = ((end + mask) & ~mask) - (begin & ~mask),
                          .host_offset = begin & mask,
                          .name = name};
    return memory_add(device, &wish, out_memory);
}

/* What the driver's own descriptors are is seen by one of a piece that goes again. */
static rota_status adopt_descriptor(rota_vk_device *device, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory) {
    rota_exec_memory *example;
    rota_exec_export own;
    const request wish = {
        .size_bytes = ROTA_BUFFER_ALIGNMENT, .types = &types_device, .shared = true, .name = "a descriptor"};
    ROTA_TRY(memory_add(device, &wish, &example));
    rota_status status = rota_vk_memory_export(&device->base, example, false, &own);
    if (status == ROTA_OK) status = rota_vk_descriptor_check(&device->base, from->fd, own.fd, "memory");
    rota_vk_memory_destroy(&device->base, example);
    if (status != ROTA_OK) return status;
    return rota_vk_memory_import(&device->base, from, name, out_memory);
}

/* What is no dma-buf the kernel refuses, whose drivers find its file's own functions in it. */
static rota_status adopt_dma_buf(rota_vk_device *device, const rota_exec_foreign *from,
                                 rota_exec_export *import, const char *name, rota_exec_memory **out_memory) {
    const char *why = device->physical.sharing.no_dma_buf_import;
    if (!why && !device->vk.GetMemoryFdPropertiesKHR) why = "the driver has no vkGetMemoryFdPropertiesKHR";
    if (why)
        return rota_fail(ROTA_UNSUPPORTED, "%s: '%s' is a dma-buf, and the device imports none: %s",
                         device->base.info.id, name, why);
    ROTA_TRY(rota_dma_buf_check(device->base.info.id, from, name));
    import->is_dma_buf = true;
    return rota_vk_memory_import(&device->base, import, name, out_memory);
}

rota_status rota_vk_memory_adopt(rota_exec_device *base, const rota_exec_foreign *from, const char *name,
                                 rota_exec_memory **out_memory) {
    rota_exec_export fd = {.fd = from->fd,
                           .allocation_bytes = from->allocation_bytes,
                           .offset_bytes = from->offset_bytes,
                           .size_bytes = from->size_bytes};
    switch (from->kind) {
    case ROTA_EXEC_FOREIGN_HOST:
        return adopt_host((rota_vk_device *)base, from, name, out_memory);
    case ROTA_EXEC_FOREIGN_FD:
        if (base->caps.shares_memory) return adopt_descriptor((rota_vk_device *)base, &fd, name, out_memory);
        return rota_fail(ROTA_UNSUPPORTED, "%s: '%s' is a descriptor, and the driver imports none",
                         base->info.id, name);
    case ROTA_EXEC_FOREIGN_DMA_BUF:
        return adopt_dma_buf((rota_vk_device *)base, from, &fd, name, out_memory);
    case ROTA_EXEC_FOREIGN_DEVICE:
        break;
    }
    return rota_fail(
        ROTA_UNSUPPORTED,
        "%s: '%s' is a device pointer, which Vulkan does not take: expected a descriptor or host "
        "memory",
        base->info.id, name);
}

bool rota_vk_memory_return(rota_exec_device *base, rota_exec_memory *memory) {
    rota_vk_device *device = (rota_vk_device *)base;
    if (ra_load_acquire(&device->noisy)) return false; /* pairs with rota_vk_lose */
    memory_destroy(device, (rota_vk_memory *)memory);
    return true;
}

void rota_vk_memories_free(rota_vk_device *device) {
    while (!rota_link_is_alone(&device->objects.memories))
        memory_destroy(device, ROTA_LINKED(device->objects.memories.next, rota_vk_memory, link));
}

rota_status rota_vk_memory_take(rota_vk_device *device, uint64_t size_bytes, rota_vk_memory **out_memory) {
    const request wish = {
        .size_bytes = size_bytes, .types = &types_block, .map = true, .name = "argument blocks"};
    return memory_new(device, &wish, out_memory);
}

void rota_vk_memory_give(rota_vk_device *device, rota_vk_memory *memory) {
    ra_fetch_add_relaxed(&device->objects.memory_bytes, (uint64_t)0 - memory->base.size_bytes);
    memory_release(device, memory);
}
