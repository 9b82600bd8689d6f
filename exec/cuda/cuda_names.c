/* Names for tools, by NVTX. */
#include "exec/cuda/cuda_names.h"

#include <stdio.h>
#include "exec/common/names.h"
#include "exec/cuda/cuda_device.h"
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#else
#define HAS_NVTX 0
#endif

#if HAS_NVTX
void *rota_cuda_names_open(rota_cuda_device *device) {
    if (!device->options.debug_names) return NULL;
    char name[32];
    (void)snprintf(name, sizeof name, "rota %s", device->base.info.id);
    return nvtxDomainCreateA(name);
}

void rota_cuda_names_close(void *domain) {
    if (domain) nvtxDomainDestroy(domain);
}

static void begin(void *domain, const char *text) {
    const nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message.ascii = text};
    (void)nvtxDomainRangePushEx(domain, &event);
}

void rota_cuda_range_end(void *domain) {
    if (domain) (void)nvtxDomainRangePop(domain);
}
#else
void *rota_cuda_names_open(rota_cuda_device *device) {
    if (device->options.debug_names)
        rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                       "%s: names for tools were asked for, but this build was made without NVTX's headers",
                       device->base.info.id);
    return NULL;
}

void rota_cuda_names_close(void *domain) {
    (void)domain;
}

static void begin(void *domain, const char *text) {
    (void)domain, (void)text;
}

void rota_cuda_range_end(void *domain) {
    (void)domain;
}
#endif

void rota_cuda_range_segment(void *domain, const rota_exec_program_desc *desc, uint32_t segment) {
    if (!domain) return;
    char text[ROTA_NAME_MAX_BYTES];
    rota_segment_text(desc, segment, text);
    begin(domain, text);
}

void rota_cuda_range_node(rota_cuda_device *device, const rota_exec_program_desc *desc,
                          const rota_exec_command *command) {
    if (!device->names) return;
    char text[ROTA_NAME_MAX_BYTES];
    rota_node_text(&device->host, desc, command, text);
    begin(device->names, text);
}
