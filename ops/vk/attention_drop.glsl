/* What attention's shaders know of their parameters, with dropout of the probabilities (DROPOUT) and without. With it
 * the scale, and what is drawn from, are in memory: the last operand, a rota_attention_draw (attention_params.h). */
#ifdef DROPOUT
#include "philox.glsl"

#define DIM (pc.dim_flags & 0xFFFFu)
#define FLAGS (pc.dim_flags >> 16)
struct attention_draw {
    uint threshold;
    float kept;
    uint stream, seed, step;
    float scale;
    uint first;
};
attention_draw read_draw(uint64_t operand) {
    rota_u32 draw = rota_u32(operand);
    return attention_draw(draw.v[0], uintBitsToFloat(draw.v[1]), draw.v[2], draw.v[3], draw.v[4],
                          uintBitsToFloat(draw.v[5]), draw.v[6]);
}
/* What the probability of a query and a key, of a pair of batch and head, is multiplied by. */
float drawn(attention_draw draw, uint pair, uint query, uint key) {
    const uint64_t row = (uint64_t(draw.first) + pair) * pc.queries + query, e = row * pc.keys + key;
    const uvec4 words =
        philox(uvec4(uint(e >> 2), draw.stream, draw.step, uint(e >> 34)), uvec2(draw.seed, 0u));
    return words[uint(e) & 3u] >= draw.threshold ? draw.kept : 0.0;
}
#define READ_DRAW(operand) const attention_draw draw = read_draw(rota_operand(operand));
#define SCALE draw.scale
#define DRAWN(pair, query, key) drawn(draw, pair, query, key)
#else
#define DIM pc.dim
#define FLAGS pc.flags
#define READ_DRAW(operand)
#define SCALE pc.scale
#endif
#define CAUSAL ((FLAGS & 1u) != 0u)
