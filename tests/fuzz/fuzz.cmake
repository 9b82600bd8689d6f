# Included by ../CMakeLists.txt, where paths begin.

# Bytes from outside: a harness each in tests/fuzz, with the inputs in tests/fuzz/corpus. With --full clang's fuzzer
# looks for others (fuzz_bytes_NAME_more); its build is a project of its own, as this tree may have another compiler.
# What each run finds new stays in the build folder; what is kept is in the corpus.
file(GLOB harnesses CONFIGURE_DEPENDS fuzz/fuzz_*.c)
if(NOT ROTA_CBOR_FOUND)
  list(FILTER harnesses EXCLUDE REGEX "/fuzz_graph_file\\.c$")
endif()
if(ROTA_BENCH AND NOT ROTA_SANITIZE MATCHES "thread")
  set(replayed ${harnesses})
  list(FILTER replayed EXCLUDE REGEX "/fuzz_graph_file\\.c$") # test_graph_file_damage changes those by their items
  foreach(harness ${replayed})
    get_filename_component(name ${harness} NAME_WE)
    string(REPLACE "fuzz_" "" name ${name})
    add_executable(replay_${name} ${harness} fuzz/replay.c fuzz/support.c)
    set(changed 1000)
    if(name MATCHES "^(calls|programs)$")
      set(changed 50)
      target_link_libraries(replay_${name} PRIVATE rota_test_support)
    elseif(name STREQUAL "messages")
      target_sources(replay_messages PRIVATE exec/comm/wire_rank.c)
      target_link_libraries(replay_messages PRIVATE rota_test_support)
    else()
      target_link_libraries(replay_${name} PRIVATE gpt_parts patchtst_parts cg_parts)
    endif()
    target_include_directories(replay_${name} PRIVATE ${Vulkan_INCLUDE_DIRS})
    add_dependencies(rota_tests replay_${name})
    rota_program_test(fuzz_bytes_${name} replay_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name} ${changed})
  endforeach()
  target_sources(replay_programs PRIVATE $<TARGET_OBJECTS:rota_programs>)
endif()
set(ROTA_FUZZ_SECONDS 20 CACHE STRING "How long ctest runs each fuzz_bytes_NAME_more")
if(NOT ROTA_SANITIZE AND ROTA_BENCH AND NOT CMAKE_CROSSCOMPILING)
  find_program(ROTA_CLANG NAMES clang)
  set(has_fuzzer FALSE)
  if(ROTA_CLANG)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/has_fuzzer.c
      "#include <stdint.h>\n#include <stddef.h>\nint LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);\n"
      "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data && size ? 0 : 0; }\n")
    execute_process(COMMAND ${ROTA_CLANG} -fsanitize=fuzzer,address,undefined has_fuzzer.c -o has_fuzzer
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set(has_fuzzer TRUE)
    endif()
  endif()
  if(has_fuzzer)
    if(NOT ROTA_USUAL)
      include(ExternalProject)
      set(fuzz_build ${CMAKE_CURRENT_BINARY_DIR}/fuzz)
      ExternalProject_Add(fuzz_bytes SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/fuzz BINARY_DIR ${fuzz_build}
        PREFIX ${CMAKE_CURRENT_BINARY_DIR}/fuzz-project INSTALL_COMMAND "" BUILD_ALWAYS TRUE DEPENDS rota_static
        CMAKE_ARGS -DCMAKE_C_COMPILER=${ROTA_CLANG} -DROTA_SOURCE=${PROJECT_SOURCE_DIR}
        -DROTA_GENERATED=${PROJECT_BINARY_DIR}/generated
          -DROTA_LIBRARY=$<TARGET_FILE:rota_static> -DROTA_CUDA_INCLUDE=${ROTA_CUDA_INCLUDE}
          -DROTA_GRAPH_FILES=${ROTA_CBOR_FOUND} -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER})
      add_dependencies(rota_tests fuzz_bytes)
    endif()
    foreach(harness ${harnesses})
      get_filename_component(name ${harness} NAME_WE)
      string(REPLACE "fuzz_" "" name ${name})
      rota_program_test(fuzz_bytes_${name}_more ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.sh
        ${CMAKE_CURRENT_BINARY_DIR}/fuzz ${name} ${ROTA_FUZZ_SECONDS})
      set_tests_properties(fuzz_bytes_${name}_more PROPERTIES LABELS full)
    endforeach()
  else()
    add_test(NAME fuzz_bytes_more
      COMMAND ${CMAKE_COMMAND} -E echo "skipped: there is no clang with its fuzzer's runtime")
    set_tests_properties(fuzz_bytes_more PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped" LABELS full)
  endif()
endif()

# A hundred thousand damaged files, under the address sanitizer.
if(ROTA_TEST_PREFIX STREQUAL "asan." AND ROTA_CBOR_FOUND)
  add_test(NAME asan.test_graph_file_damage_full COMMAND test_graph_file_damage --full)
  set_tests_properties(asan.test_graph_file_damage_full PROPERTIES LABELS full TIMEOUT 3000
    ENVIRONMENT "${ROTA_TEST_ENVIRONMENT}")
endif()
