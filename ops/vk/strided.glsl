/* Where element i of a shape of six dimensions, of which the innermost `dims` are in use, lies by strides. */
uint64_t strided_place(uint dims, uint i, uint shape[6], uint stride[6]) {
    uint64_t element = 0ul;
    [[unroll]] for (int d = 5; d >= 0; --d) {
        if (6u - uint(d) > dims) break;
        const uint index = 6u - uint(d) == dims ? i : i % shape[d];
        i /= shape[d];
        element += uint64_t(index) * stride[d];
    }
    return element;
}
