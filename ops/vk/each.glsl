/* ROTA_EACH(k, begin, end, step, body): the body for k = begin, begin + step, and so on below `end`, in this order.
 * Eight a turn, so that their loads are on their way together, and since llvmpipe ends the loops of an invocation after
 * 65 535 turns (turns.c counts them). `break` leaves a turn only; the body has no comma outside of parentheses. */
#ifndef ROTA_OPS_EACH_GLSL
#define ROTA_OPS_EACH_GLSL

#define ROTA_EACH(k, begin, end, step, body)                                                                 \
    {                                                                                                        \
        uint k = (begin);                                                                                    \
        for (; k + 7u * (step) < (end);)                                                                     \
            [[unroll]] for (uint ahead = 0u; ahead < 8u; ++ahead, k += (step)) body                          \
        for (; k < (end); k += (step)) body                                                                  \
    }

#endif
