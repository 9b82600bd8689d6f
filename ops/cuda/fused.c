/* Fused nodes on CUDA: the program as CUDA C++ over the functions of the built-in kernels, whose sources are
 * part of the library, and the images that NVRTC makes of it.
 *
 * The compiler may contract a product and a sum to one rounding inside a function, as it does in the built-in
 * kernels, but not across two steps, whose values those kernels round to memory: results pass through an
 * integer operation that it can't see through. */
#include "ops/cuda/fused.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/fused_texts.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/nvrtc.h"
#include "ops/cuda/shapes.h"
#include "ops/fusion.h"
#include "ops/tensor.h"

enum { SOURCE_BYTES_MAX = 32768, TEXTS_MAX = 24 };

void rota_cuda_launch_fused(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                            rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    (void)target;
    const rota_fused_params *p = params;
    *out_launch =
        rota_cuda_fold(((uint64_t)p->count + ROTA_CUDA_ELEMENTS - 1) / ROTA_CUDA_ELEMENTS, ROTA_CUDA_THREADS);
}

/* ---- Source ---- */

/* What the compiler has no files for at run time. */
static const char stdint_text[] = "typedef unsigned char uint8_t; typedef unsigned short uint16_t;\n"
                                  "typedef int int32_t; typedef unsigned int uint32_t;\n"
                                  "typedef long int64_t; typedef unsigned long uint64_t;\n";
static const char fp16_text[] =
    "#pragma once\n"
    "struct __half { unsigned short bits; };\n"
    "__device__ __forceinline__ float __half2float(__half x) {\n"
    "    float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits)); return y;\n}\n"
    "__device__ __forceinline__ __half __float2half_rn(float x) {\n"
    "    __half y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y.bits) : \"f\"(x)); return y;\n}\n";
static const char bf16_text[] =
    "#pragma once\n"
    "struct __nv_bfloat16 { unsigned short bits; };\n"
    "__device__ __forceinline__ float __bfloat162float(__nv_bfloat16 x) {\n"
    "    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);\n}\n"
    "__device__ __forceinline__ __nv_bfloat16 __float2bfloat16_rn(float x) {\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "    __nv_bfloat16 y; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y.bits) : \"f\"(x)); return y;\n"
    "#endif\n"
    "    const unsigned u = __float_as_uint(x);\n"
    "    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FFF};\n"
    "    return {static_cast<unsigned short>((u + 0x7FFFu + (u >> 16 & 1u)) >> 16)};\n}\n";

/* The built-in kernels themselves become templates that nobody asks for. */
static const char prelude[] =
    "#include \"rota_kernel.cuh\"\n"
    "#undef ROTA_KERNEL\n"
    "#define ROTA_KERNEL(name, operands, parameters, threads) \\\n"
    "    template <typename unused> __device__ void name(const rota_args<operands, parameters> &args)\n"
    "#include \"ops/cuda/unary.cu\"\n"
    "#include \"ops/cuda/binary.cu\"\n"
    "#include \"ops/cuda/elementwise.cu\"\n"
    "\n"
    "/* The thread's two groups of four elements, of any dtype. */\n"
    "template <typename T> ROTA_DEVICE void read_whole(const T *x, uint64_t count, float (&v)[EIGHT]) {\n"
    "    const bool aligned = aligned_to<four<T>>(x);\n"
    "#pragma unroll\n"
    "    for (int g = 0; g < GROUPS_OF_FOUR; g++) {\n"
    "        const uint64_t i = element_of(g);\n"
    "        if (aligned && i + 4 <= count) {\n"
    "            const four<T> value = *reinterpret_cast<const four<T> *>(x + i);\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = widen(value.v[j]);\n"
    "        } else {\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = i + j < count ? widen(x[i + j]) : 0.0f;\n"
    "        }\n"
    "    }\n"
    "}\n"
    "/* Element i is x[i / DIV % MOD]. */\n"
    "template <uint32_t DIV, uint32_t MOD, typename T>\n"
    "ROTA_DEVICE void read_repeated(const T *x, uint64_t count, float (&v)[EIGHT]) {\n"
    "    const bool aligned = DIV == 1 && MOD % 4 == 0 && aligned_to<four<T>>(x);\n"
    "#pragma unroll\n"
    "    for (int g = 0; g < GROUPS_OF_FOUR; g++) {\n"
    "        const uint64_t first = element_of(g);\n"
    "        if (first >= count) {\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = 0.0f;\n"
    "            continue;\n"
    "        }\n"
    "        const uint32_t i = static_cast<uint32_t>(first);\n"
    "        if (MOD == 1 || DIV % 4 == 0) {\n"
    "            const float number = widen(x[MOD == 1 ? 0 : i / DIV % MOD]);\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = number;\n"
    "        } else if (aligned) {\n"
    "            const four<T> value = *reinterpret_cast<const four<T> *>(x + i % MOD);\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = widen(value.v[j]);\n"
    "        } else {\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) v[4 * g + j] = first + j < count ? widen(x[(i + j) / DIV % "
    "MOD]) : 0.0f;\n"
    "        }\n"
    "    }\n"
    "}\n"
    "template <typename T> ROTA_DEVICE void write_whole(T *y, uint64_t count, const float (&v)[EIGHT]) {\n"
    "    const bool aligned = aligned_to<four<T>>(y);\n"
    "#pragma unroll\n"
    "    for (int g = 0; g < GROUPS_OF_FOUR; g++) {\n"
    "        const uint64_t i = element_of(g);\n"
    "        if (aligned && i + 4 <= count) {\n"
    "            four<T> value;\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++) value.v[j] = narrow<T>(v[4 * g + j]);\n"
    "            *reinterpret_cast<four<T> *>(y + i) = value;\n"
    "        } else {\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < 4; j++)\n"
    "                if (i + j < count) y[i + j] = narrow<T>(v[4 * g + j]);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "#define EACH _Pragma(\"unroll\") for (int j = 0; j < EIGHT; j++)\n";

typedef struct text_out {
    char *text;
    size_t capacity, length;
} text_out;

static __attribute__((format(printf, 2, 3))) void say(text_out *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const size_t room = out->length < out->capacity ? out->capacity - out->length : 0;
    const int length = vsnprintf(room ? out->text + out->length : NULL, room, format, list);
    va_end(list);
    if (length > 0) out->length += (size_t)length;
}

static const char *type_of(uint8_t dtype) {
    return dtype == ROTA_F32 ? "float" : dtype == ROTA_F16 ? "__half" : "__nv_bfloat16";
}

static void say_words(text_out *out, const rota_fused_step *step) {
    for (uint32_t w = 0; w < 2; w++)
        if (w < step->word_count)
            say(out, "rota_param_f32(args, %u, args.params.words[%u]), ", step->word + w, step->word + w);
        else
            say(out, "0.0f, ");
}

/* Whether the result may be a product that a later step's sum could be contracted with. */
static bool may_be_product(const rota_fused_step *step) {
    if (step->kind == ROTA_FUSED_BINARY)
        return step->op != ROTA_BINARY_ADD && step->op != ROTA_BINARY_SUB && step->op != ROTA_BINARY_RSUB &&
               step->op != ROTA_BINARY_MINIMUM && step->op != ROTA_BINARY_MAXIMUM &&
               step->op < ROTA_BINARY_EQ;
    return step->kind == ROTA_FUSED_UNARY || step->kind == ROTA_FUSED_UNARY_BACKWARD;
}

static void say_step(text_out *out, const rota_fused_shape *shape, const rota_fused_step *step) {
    const uint32_t r = step->result;
    const uint8_t *source = step->source;
    say(out, "    float v%u[EIGHT];\n", r);
    switch ((rota_fused_kind)step->kind) {
    case ROTA_FUSED_UNARY:
        say(out, "    EACH v%u[j] = v%u[j];\n    apply(%uu, ", r, source[0], step->op);
        say_words(out, step);
        say(out, "v%u);\n", r);
        break;
    case ROTA_FUSED_UNARY_BACKWARD:
        say(out, "    EACH v%u[j] = v%u[j];\n    derive(%uu, ", r, source[0], step->op);
        say_words(out, step);
        say(out, "v%u, v%u);\n", source[1], r);
        break;
    case ROTA_FUSED_BINARY:
        say(out, "    EACH v%u[j] = v%u[j];\n    apply(%uu, v%u, v%u);\n", r, source[0], step->op, source[1],
            r);
        break;
    case ROTA_FUSED_WHERE:
        say(out, "    EACH v%u[j] = (v%u[j] != 0.0f) != %s ? v%u[j] : ", r, source[0],
            step->op & ROTA_WHERE_INVERT ? "true" : "false", source[1]);
        if (step->op & ROTA_WHERE_NUMBER)
            say(out, "__uint_as_float(args.params.words[%u]);\n", step->word);
        else
            say(out, "v%u[j];\n", source[2]);
        break;
    case ROTA_FUSED_CAST:
        say(out, "    EACH v%u[j] = v%u[j];\n", r, source[0]);
        break;
    case ROTA_FUSED_DROPOUT:
        say(out,
            "    _Pragma(\"unroll\") for (int g = 0; g < GROUPS_OF_FOUR; g++) {\n"
            "        const uint4 words = philox(make_uint4(args.params.words[%u] + "
            "static_cast<uint32_t>(element_of(g) / 4), "
            "args.params.words[%u], rota_param_u32(args, %u, args.params.words[%u]), 0), "
            "rota_param_u32(args, %u, args.params.words[%u]));\n"
            "        const uint32_t word[] = {words.x, words.y, words.z, words.w};\n"
            "        _Pragma(\"unroll\") for (int j = 0; j < 4; j++) {\n"
            "            const float kept = word[j] >= args.params.words[%u] ? __fmul_rn(v%u[4 * g + j], "
            "__uint_as_float(args.params.words[%u])) : 0.0f;\n",
            step->word + 5u, step->word + 2u, step->word + 4u, step->word + 4u, step->word + 3u,
            step->word + 3u, step->word, source[0], step->word + 1u);
        if (step->source_count > 1)
            say(out, "            v%u[4 * g + j] = __fadd_rn(v%u[4 * g + j], kept);\n", r, source[1]);
        else
            say(out, "            v%u[4 * g + j] = kept;\n", r);
        say(out, "        }\n    }\n");
        break;
    }
    const uint8_t dtype = shape->values[r].dtype;
    if (dtype != ROTA_F32)
        say(out, "    EACH v%u[j] = widen(narrow<%s>(v%u[j]));\n", r, type_of(dtype), r);
    else if (may_be_product(step))
        say(out, "    EACH v%u[j] = __uint_as_float(__float_as_uint(v%u[j]) ^ zero);\n", r, r);
}

size_t rota_cuda_fused_source(const rota_fused_program *program, char *out_text, size_t capacity) {
    const rota_fused_shape *shape = &program->shape;
    text_out out = {out_text, capacity, 0};
    say(&out, "%s", prelude);
    say(&out, "struct fused_params {\n    uint32_t program[2], count");
    if (shape->word_count) say(&out, ", words[%u]", shape->word_count);
    say(&out,
        ";\n};\n"
        "extern \"C\" __global__ void __launch_bounds__(ROTA_CUDA_THREADS)\n"
        "%s(const __grid_constant__ rota_args<%u, fused_params> args) {\n"
        "    const uint64_t count = args.params.count;\n"
        "    const uint32_t zero = args.slot_mask >> 31; /* no kernel has so many operands */\n",
        program->entry, shape->operand_count);
    for (uint32_t v = 0; v < shape->value_count; v++) {
        const rota_fused_value *value = &shape->values[v];
        if (!value->input) continue;
        say(&out, "    float v%u[EIGHT];\n    ", v);
        if (value->mod)
            say(&out, "read_repeated<%uu, %uu>", value->div, value->mod);
        else
            say(&out, "read_whole");
        say(&out, "(rota_operand<const %s>(args, %u), count, v%u);\n", type_of(value->dtype), value->operand,
            v);
    }
    for (uint32_t s = 0; s < shape->step_count; s++) say_step(&out, shape, &shape->steps[s]);
    for (uint32_t v = 0; v < shape->value_count; v++)
        if (!shape->values[v].input && shape->values[v].operand != ROTA_FUSED_NONE)
            say(&out, "    write_whole(rota_operand<%s>(args, %u), count, v%u);\n",
                type_of(shape->values[v].dtype), shape->values[v].operand, v);
    say(&out, "}\n");
    return out.length;
}

/* ---- Images ---- */

/* The kernel of a program for devices of one compute capability. */
typedef struct variant {
    struct variant *next;
    const rota_fused_program *program;
    uint32_t compute_capability;
    rota_kernel kernel; /* image NULL: it could not be compiled, as `reason` says */
    char reason[384];
} variant;

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while compiling: each is compiled once */
static variant *variants[BUCKETS];

static void compile_variant(variant *made, const rota_cuda_target *target) {
    const char *names[TEXTS_MAX] = {"stdint.h", "stdbool.h", "cuda_fp16.h", "cuda_bf16.h"};
    const char *texts[TEXTS_MAX] = {stdint_text, "\n", fp16_text, bf16_text};
    uint32_t count = 4;
    for (const rota_fused_text *text = rota_fused_texts; text->path && count < TEXTS_MAX; text++, count++) {
        names[count] = text->path;
        texts[count] = (const char *)text->text;
    }
    char *source = malloc(SOURCE_BYTES_MAX);
    void *image = NULL;
    size_t size_bytes = 0;
    if (!source || rota_cuda_fused_source(made->program, source, SOURCE_BYTES_MAX) >= SOURCE_BYTES_MAX)
        (void)snprintf(made->reason, sizeof made->reason, "no room for the kernel's source");
    else if (rota_nvrtc_compile(source, names, texts, count, made->compute_capability, target->cache_dir,
                                &image, &size_bytes, made->reason, sizeof made->reason)) {
        made->kernel = made->program->kernel;
        made->kernel.cuda.image = image;
        made->kernel.cuda.size_bytes = size_bytes;
        made->kernel.cuda.select = NULL;
    }
    free(source);
}

/* NULL: no memory. */
static const variant *variant_of(const rota_fused_program *program, const rota_cuda_target *target) {
    variant **bucket = &variants[((uintptr_t)program >> 6 ^ target->compute_capability) % BUCKETS];
    pthread_mutex_lock(&lock);
    variant *found = *bucket;
    while (found && (found->program != program || found->compute_capability != target->compute_capability))
        found = found->next;
    if (!found && (found = calloc(1, sizeof *found))) {
        found->program = program;
        found->compute_capability = target->compute_capability;
        compile_variant(found, target);
        found->next = *bucket;
        *bucket = found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool rota_cuda_fused_prepare(const rota_fused_program *program, const rota_cuda_target *target,
                             char *out_reason, size_t capacity) {
    const variant *found = target ? variant_of(program, target) : NULL;
    if (found && found->kernel.cuda.image) return true;
    (void)snprintf(out_reason, capacity, "%s", found ? found->reason : "no host memory");
    return false;
}

const rota_kernel *rota_cuda_select_fused(const void *params, const uint64_t *operand_bytes,
                                          uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    (void)slot_mask;
    const rota_fused_program *program;
    memcpy(&program, &((const rota_fused_params *)params)->program, sizeof program);
    const variant *found = variant_of(program, target);
    return found && found->kernel.cuda.image ? &found->kernel : NULL;
}
