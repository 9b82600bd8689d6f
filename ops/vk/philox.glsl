/* Philox4x32-10 (Salmon et al., SC 2011). */
uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0u; round < 10u; ++round) {
        uint high_a, low_a, high_b, low_b;
        umulExtended(0xD2511F53u, counter.x, high_a, low_a);
        umulExtended(0xCD9E8D57u, counter.z, high_b, low_b);
        counter = uvec4(high_b ^ counter.y ^ key.x, low_b, high_a ^ counter.w ^ key.y, low_a);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}
