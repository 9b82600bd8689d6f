# Images made from other virtual architectures than 75 alone.
# Copies that run beside the arithmetic, and matrix units for bf16, begin with 80; 75 has a version without either.
set(ROTA_CUDA_VIRTUAL_matmul_half 75 80)
set(ROTA_CUDA_VIRTUAL_attention_half 75 80)
# One instruction rounds to bf16, two values at once, from 80 on.
foreach(image binary copy elementwise embedding gelu loss many norm norm_mixed reduce rows unary)
  set(ROTA_CUDA_VIRTUAL_${image} 75 80)
endforeach()
# Kernels that are launched early (rota_kernel_early.cuh) wait with an instruction of 90.
set(ROTA_CUDA_VIRTUAL_exec_helpers 75 90)
# wgmma and setmaxnreg are of this one architecture.
set(ROTA_CUDA_VIRTUAL_matmul_sm90 90a)
set(ROTA_CUDA_VIRTUAL_matmul_bounded 90a)
set(ROTA_CUDA_VIRTUAL_matmul_evened 90a)
set(ROTA_CUDA_VIRTUAL_attention_sm90 90a)
# Says what it was compiled for (exec/cuda/architecture.cu).
set(ROTA_CUDA_VIRTUAL_architecture 75 80 86 89 90 100)
