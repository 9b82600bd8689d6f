/* The ABI between rota's Vulkan executor and a compute kernel (rota_kernel.vk in graph/kernel.h): what a kernel
 * written in GLSL includes.
 *
 *     #version 460
 *     #extension GL_GOOGLE_include_directive : require
 *     #include "rota_kernel.glsl"
 *
 *     layout(local_size_x = 256) in;
 *
 *     ROTA_KERNEL_BEGIN(3)      // number of operands (accesses), at least 1
 *         uint count;           // the parameter struct, field by field as in C; std430 gives it C's layout
 *         uint scale;           // a bindable float: declared as its bits, read with rota_param_f32
 *     ROTA_KERNEL_END
 *
 *     void main() {             // out = scale * a + b
 *         uint i = rota_index();
 *         if (i >= pc.count) return;
 *         rota_f32 a = rota_f32(rota_operand(0)), b = rota_f32(rota_operand(1)), result = rota_f32(rota_operand(2));
 *         result.v[i] = rota_param_f32(0, pc.scale) * a.v[i] + b.v[i];
 *     }
 *
 * (tests/kernels/test_saxpy.comp is this kernel, tests/exec/vk/test_exec_vk.c its C side.) No descriptors are bound.
 *
 * Push constants, in this order, std430:
 *     uint64 block                    device address of the argument block; 0 when the node takes nothing from slots
 *     uint64 operand[operand_count]   device address of each operand's first byte; if the operand is in a slot
 *                                     (ROTA_SLOT_MASK bit i): word index in the top 16 bits, byte offset in the low 48:
 *                                     the address is block.word[index] + offset
 *     parameters                      the kernel's param_bytes, as recorded. Where bindable j comes from a slot
 *                                     (ROTA_BIND_MASK bit j) its first 4 bytes hold the index of its block word
 *                                     instead; a 4-byte bindable is that word's low half.
 * Together they must fit maxPushConstantsSize: 128 bytes everywhere (lavapipe has no more), 256 on NVIDIA. So
 * 8 + 8 * operands + param_bytes <= 128 makes a kernel that runs on any device.
 *
 * Specialization constants: id 0 ROTA_SLOT_MASK, id 1 ROTA_BIND_MASK, id 2 + i what kernel->vk.spec gives at i. Each
 * combination of masks in use is a pipeline of its own, so a kernel with nothing in slots reads nothing from the block.
 * (local_size_x_id = 2 and the like work too.)
 *
 * Before the include, a kernel may define ROTA_USE_F16 (16-bit storage: types rota_f16 and rota_u16; also what bf16
 * kernels use; needs ROTA_FEATURE_F16_STORAGE in required_features). Arithmetic in float16_t needs
 * ROTA_FEATURE_F16_ARITHMETIC; converting to and from float does not. ROTA_USE_BYTES: 8-bit storage, the type rota_u8;
 * needs ROTA_FEATURE_INT8_STORAGE.
 *
 * Other blocks' memory: a kernel that lets invocations of one dispatch talk through memory declares its own
 * buffer_reference types with `coherent`; these are not. */
#ifndef ROTA_KERNEL_GLSL
#define ROTA_KERNEL_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_scalar_block_layout : require
#ifdef ROTA_USE_F16
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : enable
#endif
#ifdef ROTA_USE_BYTES
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : enable
#endif

layout(constant_id = 0) const uint ROTA_SLOT_MASK = 0u;
layout(constant_id = 1) const uint ROTA_BIND_MASK = 0u;

/* Memory as arrays: rota_f32(address).v[i]. Vector types need addresses aligned to their size. */
layout(buffer_reference, std430, buffer_reference_align = 4) buffer rota_f32 { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer rota_u32 { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer rota_i32 { int v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_u64 { uint64_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_vec2 { vec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer rota_vec4 { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer rota_uvec4 { uvec4 v[]; };
#ifdef ROTA_USE_F16
layout(buffer_reference, std430, buffer_reference_align = 2) buffer rota_f16 { float16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer rota_u16 { uint16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_f16vec4 { f16vec4 v[]; };
#endif
#ifdef ROTA_USE_BYTES
layout(buffer_reference, std430, buffer_reference_align = 1) buffer rota_u8 { uint8_t v[]; };
#endif
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer rota_block_words { uint64_t v[]; };

/* The push constants, as `pc`. Parameter fields stand between the two; bindable ones as uint (4 bytes) or uint64_t. */
#define ROTA_KERNEL_BEGIN(operands)                                                                          \
    layout(push_constant, std430) uniform rota_push {                                                        \
        uint64_t rota_block;                                                                                 \
        uint64_t rota_operands[operands];

#define ROTA_KERNEL_END                                                                                      \
    } pc;                                                                                                    \
    uint64_t rota_word(uint index) { return rota_block_words(pc.rota_block).v[index]; }                      \
    uint64_t rota_operand(uint i) {                                                                          \
        uint64_t value = pc.rota_operands[i];                                                                \
        if ((ROTA_SLOT_MASK & (1u << i)) != 0u)                                                              \
            value = rota_word(uint(value >> 48)) + (value & 0xFFFFFFFFFFFFul);                               \
        return value;                                                                                        \
    }                                                                                                        \
    uint rota_param_u32(uint j, uint field) {                                                                \
        return (ROTA_BIND_MASK & (1u << j)) != 0u ? uint(rota_word(field)) : field;                          \
    }                                                                                                        \
    float rota_param_f32(uint j, uint field) { return uintBitsToFloat(rota_param_u32(j, field)); }           \
    uint64_t rota_param_u64(uint j, uint64_t field) {                                                        \
        return (ROTA_BIND_MASK & (1u << j)) != 0u ? rota_word(uint(field)) : field;                          \
    }

/* rota_operand(i): address of operand i's first byte, for the types above or the kernel's own buffer_reference types.
 * Call it with a constant. rota_param_f32/u32/u64(j, field): bindable j (its place in kernel->bindables), whose field
 * is `field`. */

/* This invocation's number in the dispatch, workgroups counted along x, then y, then z: a grid larger than
 * maxComputeWorkGroupCount[0] (65535 on many devices) is folded into y by the kernel's grid function. Macros, since
 * gl_WorkGroupSize means the kernel's own only after its local_size layout. */
#define rota_group_index()                                                                                   \
    ((gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#define rota_index()                                                                                         \
    (rota_group_index() * (gl_WorkGroupSize.x * gl_WorkGroupSize.y * gl_WorkGroupSize.z) +                   \
     gl_LocalInvocationIndex)

#ifdef ROTA_USE_F16
/* bf16 is the top half of an f32; rounds to nearest even, keeps NaN a NaN. */
float rota_from_bf16(uint bits) { return uintBitsToFloat(bits << 16); }
uint rota_to_bf16(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}
#endif

#endif
