/* The kernels of a graph that is saved. */
#include "file/save_kernels.h"

#include <string.h>
#include "base/hash.h"
#include "file/cbor_write.h"
#include "graph/kernel_calls.h"
#include "ops/kernels.h"

/* SPIR-V or a CUDA image, by where it lies. */
typedef struct rota_saved_image {
    const void *data;
    size_t size_bytes;
    uint32_t index;
} rota_saved_image;

/* Of whole words. */
static unsigned long hash_words(const void *words, size_t size, unsigned long seed) {
    uint64_t hash = seed, word;
    for (size_t i = 0; i < size; i += sizeof word) {
        memcpy(&word, (const uint8_t *)words + i, sizeof word);
        hash = rota_hash_mix(hash ^ word);
    }
    return hash;
}

_Static_assert(sizeof(rota_saved_kernel_key) % sizeof(uint64_t) == 0, "it is hashed by words");

static unsigned long hash_kernel(const void *kernel, unsigned long seed) {
    return hash_words(&((const rota_saved_kernel *)kernel)->key, sizeof(rota_saved_kernel_key), seed);
}
static bool same_kernel(const void *a, const void *b) {
    return memcmp(&((const rota_saved_kernel *)a)->key, &((const rota_saved_kernel *)b)->key,
                  sizeof(rota_saved_kernel_key)) == 0;
}

static unsigned long hash_image(const void *image, unsigned long seed) {
    return rota_hash_mix((uintptr_t)((const rota_saved_image *)image)->data ^ seed);
}
static bool same_image(const void *a, const void *b) {
    const rota_saved_image *x = a, *y = b;
    return x->data == y->data && x->size_bytes == y->size_bytes;
}

void rota_saved_kernels_begin(rota_saved_kernels *kernels) {
    *kernels = (rota_saved_kernels){.kernels = ROTA_SET(hash_kernel, same_kernel),
                                    .images = ROTA_SET(hash_image, same_image)};
}

void rota_saved_kernels_end(rota_saved_kernels *kernels) {
    rota_set_end(&kernels->kernels);
    rota_set_end(&kernels->images);
    rota_vector_free(&kernels->list);
    rota_vector_free(&kernels->image_list);
    rota_arena_free(&kernels->arena);
}

/* ---- What a file can have of a kernel ---- */

/* A launch that is its image, its grid, its block and its shared memory, whatever the device. */
static bool is_plain_cuda(const rota_kernel *kernel) {
    const rota_kernel_cuda *cuda = &kernel->cuda;
    return cuda->image && !cuda->launch && !cuda->prepare && !cuda->call &&
           !rota_kernel_has_workspace(kernel) && !ROTA_KERNEL_FUNCTION(kernel, cuda_launch);
}

/* Whether it has something that runs nodes and that a file does not have. */
static bool has_more(const rota_kernel *kernel) {
    const rota_kernel_cuda *cuda = &kernel->cuda;
    return kernel->cpu.fn || rota_kernel_has_parts(kernel) ||
           ((cuda->image || cuda->call) && !is_plain_cuda(kernel)) || kernel->vk.select ||
           ROTA_KERNEL_FUNCTION(kernel, vk_select);
}

/* rota_kernel_find goes over all that there are. */
static bool is_builtin(rota_saved_kernels *kernels, const rota_kernel *kernel) {
    const size_t i = rota_hash_pointer(kernel) % (sizeof kernels->recent / sizeof *kernels->recent);
    if (kernels->recent[i] != kernel) {
        kernels->recent[i] = kernel;
        kernels->recent_is_builtin[i] = rota_kernel_find(kernel->name) == kernel;
    }
    return kernels->recent_is_builtin[i];
}

static void describe(rota_saved_kernels *kernels, const rota_node_record *node,
                     rota_saved_kernel_key *out_key) {
    const rota_kernel *kernel = node->u.kernel.kernel;
    const void *params = rota_node_params(node);
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < node->access_count; i++)
        bytes[i] = rota_access_size(&rota_node_accesses(node)[i]);
    memset(out_key, 0, sizeof *out_key);
    out_key->kernel = kernel;
    out_key->is_builtin = is_builtin(kernels, kernel);
    if (out_key->is_builtin) return;
    const uint32_t *given = node->u.kernel.groups;
    if (kernel->vk.words) {
        out_key->has_vk = 1;
        if (kernel->vk.grid || kernel->vk.grid_with) {
            out_key->has_vk_groups = 1;
            rota_kernel_groups(kernel, kernel->vk.grid, kernel->vk.grid_with, params, bytes, given,
                               out_key->vk_groups);
        }
        if (kernel->vk.spec_count) rota_kernel_vk_spec(kernel, params, out_key->vk_spec);
        out_key->has_vk_turns = rota_kernel_vk_turns(kernel, params, &out_key->vk_turns);
    }
    if (is_plain_cuda(kernel)) {
        out_key->has_cuda = 1;
        if (kernel->cuda.grid || kernel->cuda.grid_with) {
            out_key->has_cuda_groups = 1;
            rota_kernel_groups(kernel, kernel->cuda.grid, kernel->cuda.grid_with, params, bytes, given,
                               out_key->cuda_groups);
        }
    }
}

static rota_status no_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "graph to be saved: no host memory for its kernels");
}

static bool append(rota_vector *list, const void *pointer) {
    if (!rota_vector_reserve(list, sizeof pointer, 1)) return false;
    ((const void **)list->data)[list->count++] = pointer;
    return true;
}

static rota_status add_image(rota_saved_kernels *kernels, const void *data, size_t size_bytes) {
    rota_saved_image sought = {data, size_bytes, (uint32_t)kernels->image_list.count};
    if (rota_set_get(&kernels->images, &sought)) return ROTA_OK;
    rota_saved_image *image = rota_arena_alloc(&kernels->arena, sizeof *image, 8);
    if (!image) return no_memory();
    *image = sought;
    if (!append(&kernels->image_list, image) || !rota_set_put(&kernels->images, image)) return no_memory();
    return ROTA_OK;
}

rota_status rota_saved_kernels_add(rota_saved_kernels *kernels, const rota_node_record *node) {
    rota_saved_kernel sought;
    describe(kernels, node, &sought.key);
    if (rota_set_get(&kernels->kernels, &sought)) return ROTA_OK;
    rota_saved_kernel *made = rota_arena_alloc(&kernels->arena, sizeof *made, 8);
    if (!made) return no_memory();
    memset(made, 0, sizeof *made);
    memcpy(&made->key, &sought.key, sizeof made->key);
    made->index = (uint32_t)kernels->list.count;
    const rota_kernel *kernel = made->key.kernel;
    if (made->key.has_vk) ROTA_TRY(add_image(kernels, kernel->vk.words, kernel->vk.size_bytes));
    if (made->key.has_cuda) ROTA_TRY(add_image(kernels, kernel->cuda.image, kernel->cuda.size_bytes));
    if (!append(&kernels->list, made) || !rota_set_put(&kernels->kernels, made)) return no_memory();
    return ROTA_OK;
}

uint32_t rota_saved_kernels_index(rota_saved_kernels *kernels, const rota_node_record *node) {
    rota_saved_kernel sought;
    describe(kernels, node, &sought.key);
    const rota_saved_kernel *found = rota_set_get(&kernels->kernels, &sought);
    /* A kernel's function that says another thing each time: what it said first is as good. */
    for (uint64_t i = 0; !found && i < kernels->list.count; i++) {
        const rota_saved_kernel *kernel = ((rota_saved_kernel *const *)kernels->list.data)[i];
        if (kernel->key.kernel == sought.key.kernel) found = kernel;
    }
    return found ? found->index : 0;
}

/* ---- Written ---- */

static void write_groups(FILE *file, const uint32_t groups[3]) {
    rota_cbor_put_array(file, 3);
    for (uint32_t i = 0; i < 3; i++) rota_cbor_put_uint(file, groups[i]);
}

static uint32_t image_index(rota_saved_kernels *kernels, const void *data, size_t size_bytes) {
    rota_saved_image sought = {data, size_bytes, 0};
    const rota_saved_image *found = rota_set_get(&kernels->images, &sought);
    return found ? found->index : 0;
}

static void write_vk(rota_saved_kernels *kernels, const rota_saved_kernel *saved, FILE *file) {
    const rota_saved_kernel_key *key = &saved->key;
    const rota_kernel_vk *vk = &key->kernel->vk;
    rota_cbor_put_text(file, "vk");
    rota_cbor_put_map(file,
                      (size_t)(3 + !!vk->entry + key->has_vk_groups + !!vk->spec_count + key->has_vk_turns));
    rota_cbor_put_text(file, "image");
    rota_cbor_put_uint(file, image_index(kernels, vk->words, vk->size_bytes));
    if (vk->entry) {
        rota_cbor_put_text(file, "entry");
        rota_cbor_put_text(file, vk->entry);
    }
    rota_cbor_put_text(file, "features");
    rota_cbor_put_uint(file, vk->required_features);
    rota_cbor_put_text(file, "subgroup");
    rota_cbor_put_uint(file, vk->subgroup_size);
    if (key->has_vk_groups) {
        rota_cbor_put_text(file, "groups");
        write_groups(file, key->vk_groups);
    }
    if (vk->spec_count) {
        rota_cbor_put_text(file, "constants");
        rota_cbor_put_array(file, vk->spec_count);
        for (uint32_t i = 0; i < vk->spec_count; i++) rota_cbor_put_uint(file, key->vk_spec[i]);
    }
    if (key->has_vk_turns) {
        rota_cbor_put_text(file, "turns");
        rota_cbor_put_uint(file, key->vk_turns);
    }
}

static void write_cuda(rota_saved_kernels *kernels, const rota_saved_kernel *saved, FILE *file) {
    const rota_saved_kernel_key *key = &saved->key;
    const rota_kernel_cuda *cuda = &key->kernel->cuda;
    rota_cbor_put_text(file, "cuda");
    rota_cbor_put_map(file, (size_t)(3 + !!cuda->entry + key->has_cuda_groups));
    rota_cbor_put_text(file, "image");
    rota_cbor_put_uint(file, image_index(kernels, cuda->image, cuda->size_bytes));
    if (cuda->entry) {
        rota_cbor_put_text(file, "entry");
        rota_cbor_put_text(file, cuda->entry);
    }
    rota_cbor_put_text(file, "block");
    write_groups(file, cuda->block);
    rota_cbor_put_text(file, "shared");
    rota_cbor_put_uint(file, cuda->shared_bytes);
    if (key->has_cuda_groups) {
        rota_cbor_put_text(file, "groups");
        write_groups(file, key->cuda_groups);
    }
}

static void write_bindables(const rota_kernel *kernel, FILE *file) {
    rota_cbor_put_text(file, "bindables");
    rota_cbor_put_array(file, kernel->bindable_count);
    for (uint32_t i = 0; i < kernel->bindable_count; i++) {
        const rota_kernel_bindable *bindable = &kernel->bindables[i];
        rota_cbor_put_array(file, 5);
        rota_cbor_put_text(file, bindable->name ? bindable->name : "");
        rota_cbor_put_uint(file, bindable->offset_bytes);
        rota_cbor_put_uint(file, bindable->size_bytes);
        rota_cbor_put_bool(file, bindable->varies_by_step);
        rota_cbor_put_uint(file, bindable->type);
    }
}

static void write_kernel(rota_saved_kernels *kernels, const rota_saved_kernel *saved, FILE *file) {
    const rota_saved_kernel_key *key = &saved->key;
    const rota_kernel *kernel = key->kernel;
    const bool more = !key->is_builtin && has_more(kernel);
    rota_cbor_put_map(file, (size_t)(6 + key->is_builtin + more + key->has_vk + key->has_cuda));
    rota_cbor_put_text(file, "name");
    rota_cbor_put_text(file, kernel->name ? kernel->name : "");
    if (key->is_builtin) {
        rota_cbor_put_text(file, "builtin");
        rota_cbor_put_bool(file, true);
    }
    rota_cbor_put_text(file, "operands");
    rota_cbor_put_uint(file, kernel->operand_count);
    rota_cbor_put_text(file, "parameters");
    rota_cbor_put_uint(file, kernel->param_bytes);
    rota_cbor_put_text(file, "flags");
    rota_cbor_put_uint(file, kernel->flags & ~(uint32_t)ROTA_KERNEL_HAS_FUNCTIONS);
    rota_cbor_put_text(file, "inplace");
    rota_cbor_put_array(file, 2);
    rota_cbor_put_uint(file, kernel->inplace_outputs);
    rota_cbor_put_uint(file, kernel->inplace_inputs);
    write_bindables(kernel, file);
    if (more) {
        rota_cbor_put_text(file, "functions");
        rota_cbor_put_bool(file, true);
    }
    if (key->has_vk) write_vk(kernels, saved, file);
    if (key->has_cuda) write_cuda(kernels, saved, file);
}

void rota_saved_kernels_write(rota_saved_kernels *kernels, FILE *file) {
    rota_cbor_put_text(file, "images");
    rota_cbor_put_array(file, kernels->image_list.count);
    for (uint64_t i = 0; i < kernels->image_list.count; i++) {
        const rota_saved_image *image = ((rota_saved_image *const *)kernels->image_list.data)[i];
        rota_cbor_put_bytes(file, image->data, image->size_bytes);
    }
    rota_cbor_put_text(file, "kernels");
    rota_cbor_put_array(file, kernels->list.count);
    for (uint64_t i = 0; i < kernels->list.count; i++)
        write_kernel(kernels, ((rota_saved_kernel *const *)kernels->list.data)[i], file);
}
