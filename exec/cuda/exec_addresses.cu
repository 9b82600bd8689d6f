// The addresses of a kernel's operands, for the host, which has a library do something with them. Operand 0 is two
// words of 64 bits.
#include "rota_kernel.cuh"

// rota_args without parameters.
template <int operand_count> struct operands_only {
    const uint64_t *block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[operand_count];
};

extern "C" __global__ void __launch_bounds__(1) rota_address_1(const __grid_constant__ operands_only<2> args) {
    uint64_t *words = rota_operand<uint64_t>(args, 0);
    words[0] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 1));
    words[1] = 0;
}

extern "C" __global__ void __launch_bounds__(1) rota_address_2(const __grid_constant__ operands_only<3> args) {
    uint64_t *words = rota_operand<uint64_t>(args, 0);
    words[0] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 1));
    words[1] = reinterpret_cast<uint64_t>(rota_operand<uint8_t>(args, 2));
}
