/* Graph files: any bytes, and files whose items were changed. What is refused says where; what is loaded can be saved,
 * is then loaded again as the same file, and compiles or says why not. */
#include "rota.h"
#include "tests/file/damage.h"
#include "tests/fuzz/support.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

enum { ITEMS_MAX = 4096, BYTES_MAX = 4096 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    static damage_item items[ITEMS_MAX];
    static uint8_t damaged[BYTES_MAX];
    uint64_t random = seed;
    if (seed % 4 == 0 || !size) return LLVMFuzzerMutate(data, size, max_size);
    const size_t count = damage_items(data, size, items, ITEMS_MAX);
    size = damage_once(data, size, items, count, &random, damaged, max_size < BYTES_MAX ? max_size : BYTES_MAX);
    memcpy(data, damaged, size);
    return size;
}

static rota_status host(void *user, void *const *operands, const uint64_t *operand_bytes, uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

/* The file's bytes, as many as there are room for. */
static size_t read_back(const char *path, uint8_t *out_bytes, size_t capacity) {
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file);
    const size_t size = fread(out_bytes, 1, capacity, file);
    (void)fclose(file);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const rota_graph_file_host hosts[] = {{"host", host, NULL}};
    static uint8_t first[1 << 16], second[1 << 16];
    const rota_graph_load_options load = ROTA_GRAPH_LOAD_OPTIONS(.hosts = hosts, .host_count = 1);
    const rota_graph_save_options save = ROTA_GRAPH_SAVE_OPTIONS(.hosts = hosts, .host_count = 1);
    char saved[256];
    rota_graph_file *file;
    rota_plan *plan;
    const char *path = fuzz_file("graph", data, size);
    const rota_status status = rota_graph_load(path, &load, &file);
    if (status != ROTA_OK) {
        FUZZ_CHECK(!file && strstr(rota_last_error(), "byte ") && status != ROTA_INTERNAL);
        return 0;
    }
    snprintf(saved, sizeof saved, "%s/saved", fuzz_folder());
    FUZZ_CHECK(rota_graph_save(rota_graph_file_graph(file), &save, saved) == ROTA_OK);
    if (rota_compile(NULL, rota_graph_file_graph(file), NULL, &plan) == ROTA_OK) rota_plan_release(plan);
    rota_graph_file_release(file);
    const size_t bytes = read_back(saved, first, sizeof first);
    FUZZ_CHECK(rota_graph_load(saved, &load, &file) == ROTA_OK);
    FUZZ_CHECK(rota_graph_save(rota_graph_file_graph(file), &save, saved) == ROTA_OK);
    rota_graph_file_release(file);
    FUZZ_CHECK(read_back(saved, second, sizeof second) == bytes && memcmp(first, second, bytes) == 0);
    return 0;
}
