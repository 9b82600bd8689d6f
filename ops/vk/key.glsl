/* What top_k compares. Ordered as the values are, NaN above all; and, of equal values, by the smaller index. No key is
 * all zeroes or all ones, so that each is between what a search begins with. */
uvec2 key_of(float value, uint index) {
    const uint bits = floatBitsToUint(value == 0.0 ? 0.0 : value);
    return uvec2(isnan(value) ? 0xFFFFFFFEu : (bits >> 31) != 0u ? ~bits : bits | 0x80000000u, ~index);
}
bool below(uvec2 a, uvec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
