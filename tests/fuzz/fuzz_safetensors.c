/* Weights and checkpoints: any bytes as a file of tensors, every tensor of it read. */
#include "examples/common/checkpoint.h"
#include "tests/fuzz/support.h"

static void read_all(const safetensors_file *file, const char *path) {
    static const checkpoint_number numbers[] = {{"block", 16}, {"layers", 1}, {"dim", 16}};
    uint64_t value;
    (void)checkpoint_read_number(file->metadata, path, "fuzz", "step", &value);
    (void)checkpoint_agrees(file->metadata, path, "fuzz", "this model", numbers, 3);
    for (uint32_t i = 0; i < file->names.count; i++) {
        const safetensors_tensor *tensor = &file->tensors[i];
        FUZZ_CHECK(safetensors_find(file, tensor->name) == tensor);
        if (!tensor->known) continue;
        uint64_t count = 1;
        for (uint32_t d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
        FUZZ_CHECK(count == tensor->count && count * rota_dtype_bytes(tensor->dtype) <= file->data_bytes);
        float *values = malloc(count * sizeof *values + 1);
        FUZZ_CHECK(values);
        safetensors_to_f32(tensor, count, values);
        free(values);
        const safetensors_tensor *whole = checkpoint_tensor(file, path, tensor->name, count);
        FUZZ_CHECK((whole == tensor) == (tensor->dtype == ROTA_F32));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    safetensors_file file;
    const char *path = fuzz_file("tensors", data, size);
    if (safetensors_read(path, &file)) {
        read_all(&file, path);
        safetensors_free(&file);
    }
    return 0;
}
