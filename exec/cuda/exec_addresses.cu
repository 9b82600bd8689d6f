// The addresses of a kernel's operands, for the host, which has a library do something with them. Operand 0 is three
// words of 64 bits.
#include "rota_kernel.cuh"

ROTA_KERNEL(rota_address_1, 2, void, 1) {
    uint64_t *words = rota_operand<uint64_t>(args, 0);
    words[0] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 1));
    words[1] = words[2] = 0;
}

ROTA_KERNEL(rota_address_2, 3, void, 1) {
    uint64_t *words = rota_operand<uint64_t>(args, 0);
    words[0] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 1));
    words[1] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 2));
    words[2] = 0;
}

ROTA_KERNEL(rota_address_3, 4, void, 1) {
    uint64_t *words = rota_operand<uint64_t>(args, 0);
    words[0] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 1));
    words[1] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 2));
    words[2] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 3));
}
