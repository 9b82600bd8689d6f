# wgmma and setmaxnreg are of this one architecture.
set(ROTA_CUDA_VIRTUAL_matmul_sm90 90a)
