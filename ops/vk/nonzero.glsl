/* What nonzero_counts.comp and nonzero.comp share: a workgroup per chunk, eight neighbours an invocation a turn. */
#ifndef ROTA_OPS_NONZERO_GLSL
#define ROTA_OPS_NONZERO_GLSL

#define EACH 8u

/* The bits that are 0 where an element is: not the sign of a real number. */
#ifdef HALF
uint magnitude_bits() { return 0x7FFFu; }
#else
uint magnitude_bits() { return pc.dtype == 0u ? 0x7FFFFFFFu : 0xFFFFFFFFu; }
#endif

uint chunk_end(uint begin) { return pc.n - begin > pc.chunk ? begin + pc.chunk : pc.n; }

/* Bit e: whether element first + e, which is before `end`, is not zero. */
uint nonzero_of(uint64_t x, uint first, uint end) {
    uint found = 0u;
    [[unroll]] for (uint e = 0u; e < EACH; ++e)
        if (first < end && e < end - first && (load_bits(x, uint64_t(first) + e) & magnitude_bits()) != 0u)
            found |= 1u << e;
    return found;
}

#endif
