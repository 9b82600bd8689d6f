# rota's programs and the examples, from the command line. Included by ../CMakeLists.txt, where paths begin.

if(ROTA_BENCH AND NOT ROTA_SANITIZE MATCHES "thread")
  add_dependencies(rota_tests rota-run)
  if(ROTA_CBOR_FOUND)
    add_dependencies(rota_tests rota-bench)
    rota_program_test(test_run_bodies ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_run_bodies.sh
      $<TARGET_FILE:test_graph_file_bodies> $<TARGET_FILE:rota-bench>)
    rota_program_test(test_run_counted ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_run_counted.sh
      $<TARGET_FILE:test_graph_file_counted> $<TARGET_FILE:rota-bench>)
  endif()
  rota_program_test(test_rota_run ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_rota_run.sh $<TARGET_FILE:rota-run>)
  if(NOT ROTA_SANITIZE)
    rota_program_test(test_hosts ${CMAKE_CURRENT_SOURCE_DIR}/ranks/test_hosts.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(test_hosts PROPERTIES LABELS long)
  endif()
endif()

# The GPT example's parts against independent programs.
if(ROTA_BENCH AND NOT ROTA_SANITIZE MATCHES "thread")
  add_executable(gpt_tool programs/gpt_tool.c)
  target_link_libraries(gpt_tool PRIVATE gpt_parts)
  add_dependencies(rota_tests gpt_tool train_gpt)
  rota_program_test(test_gpt_bpe ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt_bpe.sh $<TARGET_FILE:gpt_tool> plain)
  if(NOT ROTA_SANITIZE)
    rota_program_test(test_gpt_bpe_tokenizers ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt_bpe.sh
      $<TARGET_FILE:gpt_tool>)
    set_tests_properties(test_gpt_bpe_tokenizers PROPERTIES LABELS full)
  endif()
  rota_program_test(test_gpt_model ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt_model.sh $<TARGET_FILE:gpt_tool>
    $<TARGET_FILE:train_gpt> ${PROJECT_BINARY_DIR})
  rota_program_test(test_gpt_write ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt_write.sh $<TARGET_FILE:gpt_tool>)
  add_executable(oracle_tool programs/oracle_tool.c)
  target_link_libraries(oracle_tool PRIVATE gpt_parts patchtst_parts)
  add_dependencies(rota_tests oracle_tool train_patchtst cg bfs)
  if(NOT ROTA_SANITIZE)
    rota_program_test(test_oracle ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_oracle.sh $<TARGET_FILE:oracle_tool>)
    set_tests_properties(test_oracle PROPERTIES LABELS full) # JAX
  endif()
  rota_program_test(test_inputs ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_inputs.sh ${PROJECT_BINARY_DIR})
  rota_program_test(test_patchtst ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_patchtst.sh $<TARGET_FILE:train_patchtst>)
  rota_program_test(test_cg ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_cg.sh $<TARGET_FILE:cg>)
  rota_program_test(test_bfs ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_bfs.sh $<TARGET_FILE:bfs>)
endif()

# A kernel that never ends, in any program on Vulkan: a layer between the loader and the driver.
if(ROTA_BENCH AND NOT ROTA_SANITIZE)
  add_library(endless_layer MODULE exec/vk/endless_layer.c ${PROJECT_BINARY_DIR}/generated/spv/test_endless.h)
  target_link_libraries(endless_layer PRIVATE rota_flags)
  target_include_directories(endless_layer PRIVATE ${Vulkan_INCLUDE_DIRS})
  set_target_properties(endless_layer PROPERTIES PREFIX "")
  add_dependencies(rota_tests endless_layer)
  foreach(suffix "" _full)
    string(REPLACE "_" "--" option "${suffix}")
    add_test(NAME test_endless${suffix} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_endless.sh ${option}
      ${PROJECT_BINARY_DIR} $<TARGET_FILE:endless_layer>)
    set_tests_properties(test_endless${suffix} PROPERTIES TIMEOUT ${test_seconds})
  endforeach()
  set_tests_properties(test_endless_full PROPERTIES LABELS full)
endif()
