/* The kernels of a graph file: built in, given by who loads it, or made of what the file has. */
#include "file/load_kernels.h"

#include <string.h>
#include "file/format.h"
#include "graph/kernel_functions.h"
#include "ops/kernels.h"

/* At least, in a file: a head and a byte; a kernel's keys, each with its head, and a byte of each value. */
enum {
    IMAGE_BYTES = 2,
    KERNEL_BYTES = sizeof "name" + sizeof "operands" + sizeof "parameters" + sizeof "flags" +
                   sizeof "inplace" + sizeof "bindables" + 7
};

#define KNOWN_FLAGS                                                                                          \
    ((uint32_t)ROTA_KERNEL_PURE | ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE |           \
     ROTA_KERNEL_INTERLEAVED)

/* A kernel of the file's, whose functions give what the file says. */
typedef struct loaded_kernel {
    rota_kernel kernel; /* whose user is this */
    uint32_t vk_groups[3], cuda_groups[3], vk_spec[ROTA_KERNEL_SPEC_MAX];
    uint64_t vk_turns;
} loaded_kernel;

static void vk_grid(void *user, const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    (void)operand_bytes;
    memcpy(out_groups, ((const loaded_kernel *)user)->vk_groups, 3 * sizeof *out_groups);
}

static void cuda_grid(void *user, const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    (void)operand_bytes;
    memcpy(out_groups, ((const loaded_kernel *)user)->cuda_groups, 3 * sizeof *out_groups);
}

static void vk_spec(void *user, const void *params, uint32_t *out_values) {
    const loaded_kernel *kernel = user;
    (void)params;
    memcpy(out_values, kernel->vk_spec, sizeof *out_values * kernel->kernel.vk.spec_count);
}

static uint64_t vk_turns(void *user, const void *params) {
    (void)params;
    return ((const loaded_kernel *)user)->vk_turns;
}

static const rota_kernel_functions functions = {.struct_size = sizeof functions, .vk_spec = vk_spec};
static const rota_kernel_functions functions_with_turns = {
    .struct_size = sizeof functions_with_turns, .vk_spec = vk_spec, .vk_turns = vk_turns};

typedef struct loader {
    rota_cbor_reader *reader;
    rota_arena *arena, *scratch;
    const rota_graph_load_options *options;
    uint32_t edition;
    const char *writer;
    rota_loaded_kernels *out;
} loader;

/* ---- Images ---- */

static rota_status read_images(loader *l) {
    rota_cbor_reader *reader = l->reader;
    ROTA_TRY(rota_cbor_want_key(reader, "images"));
    ROTA_TRY(rota_cbor_begin_list(reader, IMAGE_BYTES, ROTA_GRAPH_FILE_KERNELS_MAX, &l->out->image_count));
    const size_t count = (size_t)l->out->image_count;
    l->out->images = rota_arena_alloc(l->scratch, sizeof *l->out->images * (count + 1), 8);
    l->out->image_bytes = rota_arena_alloc(l->scratch, sizeof *l->out->image_bytes * (count + 1), 8);
    if (!l->out->images || !l->out->image_bytes) return rota_cbor_no_memory(l->reader);
    for (size_t i = 0; i < count; i++) {
        rota_cbor_bytes bytes;
        rota_cbor_element(reader, i);
        ROTA_TRY(rota_cbor_read_bytes(reader, &bytes));
        if (!bytes.size) return rota_cbor_refuse(reader, "an image of 0 bytes");
        uint8_t *copy = rota_arena_alloc(l->arena, bytes.size + 1, 16);
        if (!copy) return rota_cbor_no_memory(l->reader);
        memcpy(copy, bytes.data, bytes.size);
        copy[bytes.size] = 0; /* PTX is a text */
        l->out->images[i] = copy;
        l->out->image_bytes[i] = bytes.size;
    }
    return rota_cbor_end(reader);
}

static rota_status read_image(loader *l, uint32_t *out_index) {
    ROTA_TRY(rota_cbor_want_key(l->reader, "image"));
    if (!l->out->image_count) return rota_cbor_refuse(l->reader, "an image, of which the file has none");
    return rota_cbor_read_u32(l->reader, 0, (uint32_t)l->out->image_count - 1, out_index);
}

/* ---- A kernel ---- */

static rota_status read_vk(loader *l, loaded_kernel *made) {
    rota_cbor_reader *reader = l->reader;
    rota_kernel_vk *vk = &made->kernel.vk;
    uint32_t image;
    ROTA_TRY(rota_cbor_begin_map(reader));
    ROTA_TRY(read_image(l, &image));
    if (l->out->image_bytes[image] % 4)
        return rota_cbor_refuse(reader, "image %u of %zu bytes, expected SPIR-V, in words of 4", image,
                                l->out->image_bytes[image]);
    vk->words = (const uint32_t *)(const void *)l->out->images[image];
    vk->size_bytes = l->out->image_bytes[image];
    if (rota_cbor_take_key(reader, "entry")) ROTA_TRY(rota_cbor_read_text(reader, l->arena, &vk->entry));
    ROTA_TRY(rota_cbor_want_key(reader, "features"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, UINT32_MAX, &vk->required_features));
    ROTA_TRY(rota_cbor_want_key(reader, "subgroup"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, UINT32_MAX, &vk->subgroup_size));
    if (rota_cbor_take_key(reader, "groups")) {
        ROTA_TRY(rota_cbor_read_u32s(reader, 3, made->vk_groups));
        vk->grid_with = vk_grid;
    }
    if (rota_cbor_take_key(reader, "constants")) {
        uint64_t count;
        ROTA_TRY(rota_cbor_begin_array(reader, 1, ROTA_KERNEL_SPEC_MAX, &count));
        for (uint32_t i = 0; i < count; i++) ROTA_TRY(rota_cbor_read_u32_at(reader, i, &made->vk_spec[i]));
        ROTA_TRY(rota_cbor_end(reader));
        vk->spec_count = (uint32_t)count;
    }
    made->kernel.functions = &functions;
    if (rota_cbor_take_key(reader, "turns")) {
        ROTA_TRY(rota_cbor_read_uint(reader, UINT64_MAX, &made->vk_turns));
        made->kernel.functions = &functions_with_turns;
    }
    made->kernel.flags |= ROTA_KERNEL_HAS_FUNCTIONS;
    return rota_cbor_end(reader);
}

static rota_status read_cuda(loader *l, loaded_kernel *made) {
    rota_cbor_reader *reader = l->reader;
    rota_kernel_cuda *cuda = &made->kernel.cuda;
    uint32_t image;
    ROTA_TRY(rota_cbor_begin_map(reader));
    ROTA_TRY(read_image(l, &image));
    cuda->image = l->out->images[image];
    cuda->size_bytes = l->out->image_bytes[image];
    if (rota_cbor_take_key(reader, "entry")) ROTA_TRY(rota_cbor_read_text(reader, l->arena, &cuda->entry));
    ROTA_TRY(rota_cbor_want_key(reader, "block"));
    ROTA_TRY(rota_cbor_read_u32s(reader, 3, cuda->block));
    ROTA_TRY(rota_cbor_want_key(reader, "shared"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, UINT32_MAX, &cuda->shared_bytes));
    if (rota_cbor_take_key(reader, "groups")) {
        ROTA_TRY(rota_cbor_read_u32s(reader, 3, made->cuda_groups));
        cuda->grid_with = cuda_grid;
    }
    return rota_cbor_end(reader);
}

static rota_status read_bindable(loader *l, rota_kernel_bindable *out) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count, offset, size, type;
    ROTA_TRY(rota_cbor_begin_array(reader, 5, 5, &count));
    rota_cbor_element(reader, 0);
    ROTA_TRY(rota_cbor_read_text(reader, l->arena, &out->name));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 1, ROTA_KERNEL_PARAM_BYTES_MAX, &offset));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 2, 8, &size));
    rota_cbor_element(reader, 3);
    ROTA_TRY(rota_cbor_read_bool(reader, &out->varies_by_step));
    ROTA_TRY(rota_cbor_read_uint_at(reader, 4, ROTA_VALUE_U64, &type));
    /* The rest is refused where the kernel is recorded. */
    out->offset_bytes = (uint16_t)offset;
    out->size_bytes = (uint16_t)size;
    out->type = (uint8_t)type;
    return rota_cbor_end(reader);
}

/* What every kernel says. */
static rota_status read_interface(loader *l, rota_kernel *out) {
    rota_cbor_reader *reader = l->reader;
    uint64_t count;
    ROTA_TRY(rota_cbor_want_key(reader, "operands"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, ROTA_KERNEL_OPERANDS_MAX, &out->operand_count));
    ROTA_TRY(rota_cbor_want_key(reader, "parameters"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, ROTA_KERNEL_PARAM_BYTES_MAX, &out->param_bytes));
    if (out->param_bytes % 4)
        return rota_cbor_refuse(reader, "%u, expected a multiple of 4", out->param_bytes);
    ROTA_TRY(rota_cbor_want_key(reader, "flags"));
    ROTA_TRY(rota_cbor_read_u32(reader, 0, KNOWN_FLAGS, &out->flags));
    ROTA_TRY(rota_cbor_want_key(reader, "inplace"));
    uint32_t inplace[2];
    ROTA_TRY(rota_cbor_read_u32s(reader, 2, inplace));
    out->inplace_outputs = inplace[0];
    out->inplace_inputs = inplace[1];
    ROTA_TRY(rota_cbor_want_key(reader, "bindables"));
    ROTA_TRY(rota_cbor_begin_array(reader, 0, ROTA_KERNEL_BINDABLE_MAX, &count));
    rota_kernel_bindable *bindables = rota_arena_calloc(l->arena, sizeof *bindables * ((size_t)count + 1), 8);
    if (!bindables) return rota_cbor_no_memory(l->reader);
    for (uint32_t i = 0; i < count; i++) {
        rota_cbor_element(reader, i);
        ROTA_TRY(read_bindable(l, &bindables[i]));
    }
    out->bindables = bindables;
    out->bindable_count = (uint32_t)count;
    return rota_cbor_end(reader);
}

/* Whether nodes of one can be nodes of the other. */
static bool same_interface(const rota_kernel *a, const rota_kernel *b) {
    if (a->operand_count != b->operand_count || a->param_bytes != b->param_bytes ||
        a->bindable_count != b->bindable_count)
        return false;
    for (uint32_t i = 0; i < a->bindable_count; i++) {
        const rota_kernel_bindable *x = &a->bindables[i], *y = &b->bindables[i];
        if (strcmp(x->name ? x->name : "", y->name ? y->name : "") != 0 ||
            x->offset_bytes != y->offset_bytes || x->size_bytes != y->size_bytes ||
            x->varies_by_step != y->varies_by_step || x->type != y->type)
            return false;
    }
    return true;
}

/* How many of its images are the bytes that the file has. */
static uint32_t same_images(const rota_kernel *a, const rota_kernel *b) {
    const bool vk = a->vk.size_bytes == b->vk.size_bytes &&
                    (!a->vk.size_bytes || memcmp(a->vk.words, b->vk.words, a->vk.size_bytes) == 0);
    const bool cuda = a->cuda.size_bytes == b->cuda.size_bytes &&
                      (!a->cuda.size_bytes || memcmp(a->cuda.image, b->cuda.image, a->cuda.size_bytes) == 0);
    return (uint32_t)vk + (uint32_t)cuda;
}

/* Of several that have the name and the interface, the first one with most of the file's images. */
static const rota_kernel *find_given(const loader *l, const rota_kernel *sought) {
    const uint32_t flags = ~(uint32_t)ROTA_KERNEL_HAS_FUNCTIONS;
    const rota_kernel *best = NULL;
    for (uint32_t i = 0; i < l->options->kernel_count; i++) {
        const rota_kernel *kernel = l->options->kernels[i];
        if (kernel && kernel->name && strcmp(kernel->name, sought->name) == 0 &&
            same_interface(kernel, sought) && ((kernel->flags ^ sought->flags) & flags) == 0 &&
            kernel->inplace_outputs == sought->inplace_outputs &&
            kernel->inplace_inputs == sought->inplace_inputs &&
            (!best || same_images(kernel, sought) > same_images(best, sought)))
            best = kernel;
    }
    return best;
}

static rota_status find_builtin(loader *l, const rota_kernel *sought, const rota_kernel **out_kernel) {
    const rota_kernel *found = rota_kernel_find(sought->name);
    if (l->edition != ROTA_GRAPH_FILE_EDITION)
        return rota_cbor_context(
            l->reader,
            rota_fail(ROTA_UNSUPPORTED,
                      "built-in kernel '%s' of edition %u, which rota %s wrote; this is rota %s, whose "
                      "built-in kernels are edition %d",
                      sought->name, l->edition, l->writer, rota_version(), ROTA_GRAPH_FILE_EDITION));
    if (!found)
        return rota_cbor_context(l->reader,
                                 rota_fail(ROTA_NOT_FOUND,
                                           "rota %s has no built-in kernel '%s'; rota %s wrote the file",
                                           rota_version(), sought->name, l->writer));
    if (!same_interface(found, sought))
        return rota_cbor_context(l->reader,
                                 rota_fail(ROTA_UNSUPPORTED,
                                           "built-in kernel '%s' has %u operands, %u bytes of parameters and "
                                           "%u bindable ones in the file, "
                                           "which rota %s wrote; in rota %s %u, %u and %u, or others",
                                           sought->name, sought->operand_count, sought->param_bytes,
                                           sought->bindable_count, l->writer, rota_version(),
                                           found->operand_count, found->param_bytes, found->bindable_count));
    *out_kernel = found;
    return ROTA_OK;
}

/* Kernels that only functions run can be compiled for no device. */
static rota_status check_runs(loader *l, const rota_kernel *made, bool has_functions) {
    if (made->vk.words || made->cuda.image || !has_functions || !l->options->runtime) return ROTA_OK;
    return rota_cbor_context(
        l->reader, rota_fail(ROTA_NOT_FOUND,
                             "kernel '%s' has functions alone, which are not in the file, and is not among "
                             "the %u kernels that were given",
                             made->name, l->options->kernel_count));
}

static rota_status read_kernel(loader *l, const rota_kernel **out_kernel,
                               const rota_kernel_divisors **out_divisors) {
    rota_cbor_reader *reader = l->reader;
    loaded_kernel *made = rota_arena_calloc(l->arena, sizeof *made, 8);
    bool builtin = false, has_functions = false;
    if (!made) return rota_cbor_no_memory(l->reader);
    rota_kernel *kernel = &made->kernel;
    kernel->user = made;
    *out_kernel = kernel;
    ROTA_TRY(rota_cbor_begin_map(reader));
    ROTA_TRY(rota_cbor_want_key(reader, "name"));
    ROTA_TRY(rota_cbor_read_text(reader, l->arena, &kernel->name));
    if (rota_cbor_take_key(reader, "builtin")) ROTA_TRY(rota_cbor_read_bool(reader, &builtin));
    ROTA_TRY(read_interface(l, kernel));
    if (builtin) {
        ROTA_TRY(find_builtin(l, kernel, out_kernel));
        *out_divisors = rota_kernel_divisors_of(*out_kernel);
        return rota_cbor_end(reader);
    }
    if (rota_cbor_take_key(reader, "functions")) ROTA_TRY(rota_cbor_read_bool(reader, &has_functions));
    if (rota_cbor_take_key(reader, "vk")) ROTA_TRY(read_vk(l, made));
    if (rota_cbor_take_key(reader, "cuda")) ROTA_TRY(read_cuda(l, made));
    const rota_kernel *given = find_given(l, kernel);
    if (given) {
        *out_kernel = given;
        l->out->given_count++;
    } else {
        ROTA_TRY(check_runs(l, kernel, has_functions));
    }
    return rota_cbor_end(reader);
}

rota_status rota_load_kernels(rota_cbor_reader *reader, rota_arena *arena, rota_arena *scratch,
                              const rota_graph_load_options *options, uint32_t edition, const char *writer,
                              rota_loaded_kernels *out_kernels) {
    loader l = {reader, arena, scratch, options, edition, writer, out_kernels};
    uint64_t count;
    *out_kernels = (rota_loaded_kernels){0};
    ROTA_TRY(read_images(&l));
    ROTA_TRY(rota_cbor_want_key(reader, "kernels"));
    ROTA_TRY(rota_cbor_begin_list(reader, KERNEL_BYTES, ROTA_GRAPH_FILE_KERNELS_MAX, &count));
    out_kernels->list = rota_arena_alloc(scratch, sizeof *out_kernels->list * ((size_t)count + 1), 8);
    out_kernels->divisors =
        rota_arena_calloc(scratch, sizeof *out_kernels->divisors * ((size_t)count + 1), 8);
    if (!out_kernels->list || !out_kernels->divisors) return rota_cbor_no_memory(l.reader);
    for (uint64_t i = 0; i < count; i++) {
        rota_cbor_element(reader, i);
        ROTA_TRY(read_kernel(&l, &out_kernels->list[i], &out_kernels->divisors[i]));
    }
    out_kernels->count = (uint32_t)count;
    return rota_cbor_end(reader);
}
