/* What the optimizers' shaders share. With HALF the gradient or the copy of p may be 16-bit, as parameters say. */
const uint UPDATE_FACTOR = 1u, UPDATE_HALF = 2u, UPDATE_COUPLED = 4u, UPDATE_NESTEROV = 8u, UPDATE_SIGN = 16u,
           UPDATE_RATES = 32u;

#ifdef HALF
#define GRADIENT(i) load_as(pc.g_dtype, rota_operand(1), i)
#define ROUND(operand, i, value)                                                                             \
    if ((pc.flags & UPDATE_HALF) != 0u) store_as(pc.half_dtype, rota_operand(operand), i, value)
#else
#define GRADIENT(i) load(rota_operand(1), i)
#define ROUND(operand, i, value)
#endif
