# Kernels against those of the CPU, and ops against references. Included by ../CMakeLists.txt, where paths begin.

set(kernel_cases ops/kernel_cases.c ops/kernel_cases_length.c ops/kernel_cases_products.c ops/kernel_cases_rows.c
  ops/kernel_cases_window.c)
add_library(rota_kernel_cases STATIC EXCLUDE_FROM_ALL ops/kernel_case.c ${kernel_cases})
target_link_libraries(rota_kernel_cases PUBLIC rota_test_support)
foreach(name test_shaders test_cuda_kernels)
  if(TARGET ${name})
    target_link_libraries(${name} PRIVATE rota_kernel_cases)
  endif()
endforeach()
# The cases by themselves, of which the test only takes what they would run.
if(TARGET test_offline_compilers)
  target_sources(test_offline_compilers PRIVATE ops/offline_device.c ${kernel_cases})
endif()
foreach(name test_matmul_cuda test_matmul_cuda_device test_attention_device test_conv_device test_loss_device
    test_norm_mixed_device)
  if(TARGET ${name} AND ROTA_CUDA_INCLUDE)
    target_sources(${name} PRIVATE ops/cuda/cuda_kit.c)
  endif()
endforeach()
foreach(name test_classifier test_gelu_product test_matmul_cuda_linear test_matmul_cuda_scaled test_matmul_cuda_uneven
    test_matmul_cuda_why)
  if(TARGET ${name} AND ROTA_CUDA_INCLUDE)
    target_sources(${name} PRIVATE ops/cuda/cublaslt_standin.c)
  endif()
endforeach()

# Ops against the f64 references that rota-bench ops compares with.
add_library(rota_op_kit OBJECT EXCLUDE_FROM_ALL ops/op_kit.c ${PROJECT_SOURCE_DIR}/bench/ops_reference.c
  ${PROJECT_SOURCE_DIR}/bench/ops_reference_basic.c ${PROJECT_SOURCE_DIR}/bench/ops_reference_length.c
  ${PROJECT_SOURCE_DIR}/bench/ops_reference_window.c
  ${PROJECT_SOURCE_DIR}/bench/ops_shapes.c)
target_link_libraries(rota_op_kit PUBLIC rota_test_support)
foreach(name test_ops test_op_gradient test_op_numbers test_op_shapes test_products test_gradients
    test_gradients_backward test_gradients_choices test_gradients_composed test_gradients_halves test_gradients_loops
    test_gradients_losses test_gradients_views test_gradients_windows test_custom_op test_op_long test_op_order
    test_op_views test_op_strides test_op_sums test_op_window test_op_f8
    test_op_length test_op_scaled test_attention_dropout)
  if(TARGET ${name})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:rota_op_kit>)
  endif()
endforeach()
if(TARGET test_gradients_loops)
  target_sources(test_gradients_loops PRIVATE ops/loop_program.c)
  foreach(version 12030 12040 13000) # of CUDA: without conditional nodes in its graphs, without switches, with both
    rota_program_test(test_gradients_loops_cuda_${version} test_gradients_loops --cuda-stub ${version})
  endforeach()
endif()

if(NOT ROTA_SANITIZE)
  rota_program_test(test_shaders_more test_shaders *_more)
  rota_program_test(test_shaders_all test_shaders --without *_more)
  rota_program_test(test_shaders_long ${CMAKE_CURRENT_SOURCE_DIR}/todays.sh 4 $<TARGET_FILE:test_shaders> --short --
    test_large_counts test_embedding test_norm "test_matmul_large test_attention_half")
  set_tests_properties(test_shaders_more test_shaders_all PROPERTIES LABELS full PROCESSORS 2)
  set_tests_properties(test_shaders_long PROPERTIES LABELS long)
endif()
