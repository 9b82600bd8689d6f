# What is installed and promised, and what the tree must look like (../tree). Included by ../CMakeLists.txt, where
# paths begin.

# Every public function with one argument wrong at a time, written from the headers.
if(NOT ROTA_SANITIZE)
  set(misuse ${CMAKE_CURRENT_BINARY_DIR}/misuse_probes.c)
  file(GLOB misuse_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/rota.h ${PROJECT_SOURCE_DIR}/base/*.h
    ${PROJECT_SOURCE_DIR}/graph/*.h ${PROJECT_SOURCE_DIR}/exec/*.h ${PROJECT_SOURCE_DIR}/sched/*.h
    ${PROJECT_SOURCE_DIR}/ops/*.h ${PROJECT_SOURCE_DIR}/file/*.h)
  add_custom_command(OUTPUT ${misuse} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/misuse.py ${misuse}
    DEPENDS interface/misuse.py ${PROJECT_SOURCE_DIR}/scripts/exports.py ${misuse_headers})
  set_source_files_properties(${misuse} PROPERTIES COMPILE_OPTIONS "-w;-O0") # NULL as a format, and long
  add_executable(test_misuse interface/misuse.c ${misuse})
  target_link_libraries(test_misuse PRIVATE rota_flags rota_static)
  if(ROTA_CBOR_FOUND)
    target_compile_definitions(test_misuse PRIVATE ROTA_HAVE_CBOR=1)
  endif()
  add_dependencies(rota_tests test_misuse)
  rota_program_test(test_misuse test_misuse)
endif()

# What is made and installed, judged from outside; once, in the build without sanitizers.
if(NOT ROTA_SANITIZE)
  # Calls point one way: which files call one another in a circle, and which rooms call upwards.
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/library_objects
    CONTENT "$<JOIN:$<TARGET_OBJECTS:rota_static>,\n>\n$<JOIN:$<TARGET_OBJECTS:rota_plain>,\n>\n")
  add_test(NAME test_circles COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/circles.py ${PROJECT_BINARY_DIR}/library_objects)
  add_test(NAME test_headers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/headers.py ${PROJECT_BINARY_DIR}/library_objects
    ${PROJECT_SOURCE_DIR})
  # What tests can ask is in their library alone, and what structs, files and functions may measure.
  add_test(NAME test_hooks COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_hooks.sh ${PROJECT_SOURCE_DIR}
    $<TARGET_FILE:rota_stops> $<TARGET_FILE:rota_static> $<TARGET_FILE:rota_shared>)
  add_test(NAME test_sizes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/sizes.py ${PROJECT_SOURCE_DIR})
  add_test(NAME test_folders COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/test_folders.sh ${PROJECT_SOURCE_DIR})
  if(ROTA_BENCH) # which it looks at, too
    rota_program_test(test_tidy ${PROJECT_SOURCE_DIR}/scripts/tidy.sh ${PROJECT_BINARY_DIR} --parts 16)
    set_tests_properties(test_tidy PROPERTIES LABELS long)
    rota_program_test(test_tidy_all ${PROJECT_SOURCE_DIR}/scripts/tidy.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(test_tidy_all PROPERTIES LABELS full)
  endif()
  add_test(NAME test_drawings COMMAND ${PROJECT_SOURCE_DIR}/scripts/draw.py --check ${PROJECT_SOURCE_DIR}/docs/drawings)
  add_test(NAME test_docs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/test_docs.py ${PROJECT_SOURCE_DIR})
  add_test(NAME test_image_cache COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/test_image_cache.sh ${PROJECT_SOURCE_DIR})
  add_test(NAME test_glossary COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/test_glossary.py ${PROJECT_SOURCE_DIR})
  rota_program_test(test_listings ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_listings.py ${PROJECT_SOURCE_DIR}
    ${PROJECT_BINARY_DIR})
  rota_program_test(test_listing ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_listing.sh ${PROJECT_SOURCE_DIR}
    ${PROJECT_BINARY_DIR})
  add_test(NAME test_cuda_streams COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tree/test_cuda_streams.sh ${PROJECT_SOURCE_DIR})
  # Models of protocols between threads, by SPIN where it is there.
  foreach(name turns reclaim gate loss pump deliver external farewell ranks opening communicator peers order)
    rota_program_test(test_models_${name} ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh ${name})
    set_tests_properties(test_models_${name} PROPERTIES LABELS long)
    rota_program_test(test_models_full_${name} ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh --full ${name})
    set_tests_properties(test_models_full_${name} PROPERTIES COST 60 LABELS full TIMEOUT 1800)
  endforeach()
  # rota's own functions over C11's memory, where gcc is there.
  foreach(name litmus turns wait cpu loops lanes tickets handover)
    rota_program_test(explore_${name} ${CMAKE_CURRENT_SOURCE_DIR}/explore/run.sh --short ${name})
    rota_program_test(explore_${name}_more ${CMAKE_CURRENT_SOURCE_DIR}/explore/run.sh ${name})
    set_tests_properties(explore_${name}_more PROPERTIES COST 40 LABELS full)
  endforeach()
  set_tests_properties(explore_turns explore_wait explore_handover explore_loops PROPERTIES COST 40 LABELS long)
  set_tests_properties(explore_cpu explore_lanes explore_tickets PROPERTIES COST 40 LABELS long)
  # Further, each day some of them.
  rota_program_test(explore_full ${CMAKE_CURRENT_SOURCE_DIR}/explore/run.sh --full --draw)
  set_tests_properties(explore_full PROPERTIES COST 300 LABELS full TIMEOUT 1800)
  # The library is this build's; the package around it is built by pip.
  foreach(other "" --torch --jax --free)
    string(REPLACE "--" "_" suffix "${other}")
    add_test(NAME test_python${suffix} COMMAND ${PROJECT_SOURCE_DIR}/python/tests/run.sh ${PROJECT_BINARY_DIR} ${other})
    set_tests_properties(test_python${suffix} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 COST 100 LABELS long
      RESOURCE_LOCK python)
  endforeach()
  add_test(NAME test_python_wheel COMMAND ${PROJECT_SOURCE_DIR}/python/tests/wheel.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(test_python_wheel PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 COST 100 RESOURCE_LOCK python)
  add_test(NAME test_python_plain COMMAND ${PROJECT_SOURCE_DIR}/python/tests/plain.sh)
  set_tests_properties(test_python_plain PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3000 COST 300 PROCESSORS 2)
  foreach(name torch jax free wheel plain)
    set_tests_properties(test_python_${name} PROPERTIES LABELS full)
  endforeach()
  add_test(NAME coopmat_sources COMMAND ${PROJECT_SOURCE_DIR}/ops/vk/coopmat/build.sh --check)
  add_test(NAME test_install
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_install.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  add_test(NAME test_exports
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_exports.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:rota_shared>)
  rota_program_test(test_grammar ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_grammar.py ${PROJECT_SOURCE_DIR})
  rota_program_test(test_abi ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_abi.sh ${PROJECT_SOURCE_DIR}
    ${PROJECT_BINARY_DIR})
  foreach(compiler g++ clang++)
    string(REPLACE "++" "xx" name ${compiler})
    rota_program_test(test_cpp_${name} ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_cpp.sh ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR} ${compiler})
    set_tests_properties(test_cpp_${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
  endforeach()
  set_tests_properties(test_install test_exports PROPERTIES TIMEOUT ${test_seconds} COST 12)
  if(ROTA_BENCH)
    add_test(NAME test_cli COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_cli.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(test_cli PROPERTIES TIMEOUT ${test_seconds})
    add_test(NAME test_options
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_options.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(test_options PROPERTIES TIMEOUT ${test_seconds})
    add_test(NAME test_site COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_site.sh ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR})
    add_test(NAME test_site_browser
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_site.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} --browser)
    add_test(NAME test_site_man
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_site.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} --man)
    set_tests_properties(test_site test_site_browser test_site_man PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 COST 40
      LABELS long RESOURCE_LOCK python) # whose environment it shares
    set_tests_properties(test_site_browser test_site_man PROPERTIES LABELS full DEPENDS test_site)
    add_test(NAME test_packages
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_packages.sh ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR}/packages -DROTA_CUDA_DRAW=${ROTA_CUDA_DRAW})
    set_tests_properties(test_packages PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3000 COST 200 LABELS full)
    foreach(language rust go)
      add_test(NAME test_${language}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_languages.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        ${language})
      set_tests_properties(test_${language} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${test_seconds})
    endforeach()
    foreach(reader "" --reader)
      string(REPLACE "--" "_" suffix "${reader}")
      add_test(NAME test_tensorboard${suffix}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_tensorboard.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        ${reader})
      set_tests_properties(test_tensorboard${suffix} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
    endforeach()
    set_tests_properties(test_tensorboard_reader PROPERTIES LABELS full)
    add_test(NAME test_train COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_train.sh ${PROJECT_BINARY_DIR})
    add_test(NAME test_train_large COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_train.sh ${PROJECT_BINARY_DIR}
      --large)
    add_test(NAME test_train_bars
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_train_bars.sh ${PROJECT_BINARY_DIR})
    add_test(NAME test_train_ranks
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_train_ranks.sh ${PROJECT_BINARY_DIR})
    add_test(NAME test_many COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_many.sh ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR})
    set_tests_properties(test_train test_train_bars test_train_large test_train_ranks test_many PROPERTIES
      TIMEOUT ${test_seconds})
    if(NOT ROTA_SANITIZE)
      add_test(NAME test_demo_ranks
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_demo_ranks.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
      set_tests_properties(test_demo_ranks PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${test_seconds})
      add_test(NAME test_without_mpi
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interface/test_without_mpi.sh ${PROJECT_SOURCE_DIR}
        ${PROJECT_BINARY_DIR}/without-mpi -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
        -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER})
      set_tests_properties(test_without_mpi PROPERTIES TIMEOUT 3000 COST 60 LABELS full)
    endif()
    set_tests_properties(test_train_large PROPERTIES LABELS full)
    add_test(NAME test_check_device
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_check_device.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(test_check_device PROPERTIES TIMEOUT ${test_seconds})
    add_test(NAME test_report COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_report.sh ${PROJECT_BINARY_DIR})
    add_test(NAME test_gpt2 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt2.sh ${PROJECT_BINARY_DIR})
    add_test(NAME test_demo COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_demo.sh ${PROJECT_SOURCE_DIR}
      ${PROJECT_BINARY_DIR})
    set_tests_properties(test_demo PROPERTIES TIMEOUT 1800 PROCESSORS 2 LABELS full)
    add_test(NAME test_tasks
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_tasks.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(test_report test_gpt2 test_tasks PROPERTIES TIMEOUT ${test_seconds})
  endif()
endif()
