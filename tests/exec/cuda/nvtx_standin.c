/* Stands in for a tool that takes NVTX's calls: a library that a process is told of by NVTX_INJECTION64_PATH. Keeps
 * what was said, for test_cuda_names. */
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEPT_MAX 65536u
#define API __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char kept[KEPT_MAX];
static size_t length;

/* "domain X", "[name", "]", "end X", a line each. */
static void keep(const char *before, const char *text) {
    (void)pthread_mutex_lock(&lock);
    const int more = snprintf(kept + length, sizeof kept - length, "%s%s\n", before, text);
    if (more > 0 && length + (size_t)more < sizeof kept) length += (size_t)more;
    (void)pthread_mutex_unlock(&lock);
}

static char domain; /* whose address is the handle */

static nvtxDomainHandle_t create(const char *name) {
    keep("domain ", name);
    return (nvtxDomainHandle_t)(void *)&domain;
}

static void destroy(nvtxDomainHandle_t of) {
    keep("end", (void *)of == (void *)&domain ? "" : " of another");
}

static int push(nvtxDomainHandle_t of, const nvtxEventAttributes_t *event) {
    const int good = (void *)of == (void *)&domain && event->messageType == NVTX_MESSAGE_TYPE_ASCII &&
                     event->version == NVTX_VERSION && event->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    keep("[", good ? event->message.ascii : "what is none");
    return 0;
}

static int pop(nvtxDomainHandle_t of) {
    keep("]", (void *)of == (void *)&domain ? "" : " of another");
    return 0;
}

/* What was said since the last call; ends text[0..capacity). */
API void nvtx_standin_take(char *text, size_t capacity) {
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(text, capacity, "%s", kept);
    kept[0] = 0;
    length = 0;
    (void)pthread_mutex_unlock(&lock);
}

API int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainDestroy)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainDestroy] = (NvtxFunctionPointer)destroy;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
