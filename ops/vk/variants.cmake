# Shaders that are compiled more than once, with other definitions.
# Of f16 and bf16: typed.glsl, halves.c.
foreach(name unary unary_backward binary binary_backward where copy_strided reduce max_backward dropout
    gather scatter_add one_hot top_k cumulative_sum variance variance_backward)
  rota_shader_variant(${name}_half ops/vk/${name}.comp -DHALF)
endforeach()
rota_shader_variant(rmsnorm ops/vk/layernorm.comp -DRMS)
rota_shader_variant(rmsnorm_backward ops/vk/layernorm_backward.comp -DRMS)
rota_shader_variant(rmsnorm_backward_weight ops/vk/layernorm_backward_weight.comp -DRMS)
foreach(shader causal_mask cross_entropy cross_entropy_backward embedding embedding_backward layernorm layernorm_backward
        layernorm_backward_weight softmax softmax_backward adamw momentum batch_norm_sums batch_norm batch_norm_backward rope
        attention attention_backward_prepare attention_backward_query attention_backward_key_value)
  rota_shader_variant(${shader}_half ops/vk/${shader}.comp -DHALF)
endforeach()
rota_shader_variant(rmsnorm_half ops/vk/layernorm.comp -DRMS -DHALF)
rota_shader_variant(rmsnorm_backward_half ops/vk/layernorm_backward.comp -DRMS -DHALF)
rota_shader_variant(rmsnorm_backward_weight_half ops/vk/layernorm_backward_weight.comp -DRMS -DHALF)
rota_shader_variant(residual_layernorm ops/vk/layernorm.comp -DRESIDUAL)
rota_shader_variant(residual_layernorm_half ops/vk/layernorm.comp -DRESIDUAL -DHALF)
rota_shader_variant(matmul_large ops/vk/matmul.comp -DTILE=128 -DPATCH=8 -DDEPTH=8)
rota_shader_variant(matmul_fine ops/vk/matmul.comp -DTILE=32 -DPATCH=4 -DDEPTH=32)
rota_shader_variant(matmul_f16 ops/vk/matmul.comp -DINPUT_F16)
rota_shader_variant(matmul_f16_large ops/vk/matmul.comp -DINPUT_F16 -DTILE=128 -DPATCH=8 -DDEPTH=8)
rota_shader_variant(matmul_bf16 ops/vk/matmul.comp -DINPUT_BF16)
rota_shader_variant(matmul_bf16_large ops/vk/matmul.comp -DINPUT_BF16 -DTILE=128 -DPATCH=8 -DDEPTH=8)
rota_shader_variant(fused_half ops/vk/fused.comp -DHALF)
foreach(name top_k_chunks top_k_rank cumulative_sum_chunks variance_sums max_backward_first max_backward_spread)
  rota_shader_variant(${name}_half ops/vk/${name}.comp -DHALF)
endforeach()
