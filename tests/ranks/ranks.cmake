# Included by ../CMakeLists.txt, where paths begin.

# Ranks of a communicator: threads of a test's, and processes under mpirun, which is skipped by name without MPI. Under
# the thread sanitizer threads alone: MPI is not instrumented.
add_executable(rota-fuzz-ranks ranks/fuzz_ranks.c ranks/random_ranks.c exec/comm/nccl_standin.c)
target_link_libraries(rota-fuzz-ranks PRIVATE rota_test_support)
add_dependencies(rota_tests rota-fuzz-ranks)
set(rank_cases ranks/rank_cases.c ranks/rank_declared.c ranks/rank_sharding.c ranks/rank_sums.c
  ranks/rank_tensor_parallel.c ranks/rank_training.c ranks/rank_unshard.c ranks/rank_unshard_kinds.c)
target_sources(test_ranks PRIVATE ${rank_cases})
target_sources(test_ranks_meet PRIVATE ${rank_cases})
target_sources(test_ranks_nccl PRIVATE ranks/device_cases.c exec/comm/nccl_standin.c)
target_sources(test_ranks_peers PRIVATE exec/comm/nccl_standin.c)
target_sources(test_ranks_farewell PRIVATE exec/comm/nccl_standin.c)
target_sources(test_ranks_overlap PRIVATE exec/comm/nccl_standin.c ranks/rank_training.c)
target_sources(test_ranks_gpus PRIVATE ranks/device_cases.c)
target_sources(test_transport PRIVATE exec/comm/transport_contract.c)
target_sources(test_rendezvous PRIVATE exec/comm/transport_contract.c)
target_sources(test_wire PRIVATE exec/comm/wire_rank.c)
if(NOT ROTA_SANITIZE MATCHES "thread")
  add_executable(mpi_ranks ranks/mpi_ranks.c ${rank_cases})
  add_executable(mpi_transport exec/comm/mpi_transport.c exec/comm/transport_contract.c)
  add_executable(mpi_faults ranks/mpi_faults.c)
  add_executable(mpi_nccl ranks/mpi_nccl.c exec/comm/nccl_processes.c)
  foreach(program mpi_ranks mpi_transport mpi_faults mpi_nccl)
    target_link_libraries(${program} PRIVATE rota_test_support)
    add_dependencies(rota_tests ${program})
  endforeach()
  if(TARGET rota_mpi)
    add_executable(mpi_given ranks/mpi_given.c ${rank_cases})
    target_link_libraries(mpi_given PRIVATE rota_test_support MPI::MPI_C)
    add_dependencies(rota_tests rota_mpi mpi_given)
  endif()
  # Names, programs, ranks, arguments.
  foreach(row "mpi_ranks_2 mpi_ranks 2" "mpi_ranks_4 mpi_ranks 4"
      "mpi_ranks_3 mpi_ranks 3 order_of_sums deterministic" "mpi_transport_2 mpi_transport 2"
      "mpi_transport_4 mpi_transport 4" "mpi_given mpi_given 4" "mpi_given_later mpi_given 4 later"
      "mpi_given_finalised mpi_given 3 finalised"
      "mpi_stopped mpi_faults 4 stopped" "mpi_killed mpi_faults 4 killed"
      "mpi_nccl_2 mpi_nccl 2" "mpi_nccl_4 mpi_nccl 4" "mpi_nccl_killed mpi_nccl 3 killed"
      "mpi_nccl_killed_in_it mpi_nccl 3 in_it killed"
      "fuzz_ranks_mpi rota-fuzz-ranks 4 --mpi --count 40 --seed 960001")
    separate_arguments(row)
    list(POP_FRONT row name program count)
    string(PREPEND name "${ROTA_TEST_PREFIX}")
    if(TARGET rota_mpi AND MPIEXEC_EXECUTABLE)
      add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ranks/mpirun.sh ${MPIEXEC_EXECUTABLE} ${count}
        $<TARGET_FILE_DIR:rota_mpi> $<TARGET_FILE:${program}> ${row})
    else()
      add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: there is no MPI (libopenmpi-dev, openmpi-bin)")
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_seconds} SKIP_RETURN_CODE 77
      SKIP_REGULAR_EXPRESSION "^skipped" ENVIRONMENT "${ROTA_TEST_ENVIRONMENT}")
  endforeach()
  if(TARGET rota_mpi AND MPIEXEC_EXECUTABLE AND NOT ROTA_SANITIZE)
    add_test(NAME mpich COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ranks/mpich.sh ${PROJECT_SOURCE_DIR}
      ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(mpich PROPERTIES TIMEOUT ${test_seconds} SKIP_RETURN_CODE 77 LABELS full)
  endif()
  # The same as processes that meet by an address, without MPI.
  foreach(row "tcp_ranks_2 mpi_ranks 2" "tcp_ranks_4 mpi_ranks 4"
      "tcp_ranks_3 mpi_ranks 3 order_of_sums deterministic" "tcp_stopped mpi_faults 4 stopped"
      "tcp_killed mpi_faults 4 killed" "tcp_nccl_2 mpi_nccl 2" "tcp_nccl_killed mpi_nccl 3 killed"
      "fuzz_ranks_tcp rota-fuzz-ranks 4 --mpi --count 40 --seed 970001")
    separate_arguments(row)
    list(POP_FRONT row name program count)
    string(PREPEND name "${ROTA_TEST_PREFIX}")
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ranks/tcprun.sh ${count} $<TARGET_FILE:${program}> ${row})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_seconds} SKIP_REGULAR_EXPRESSION "^skipped"
      ENVIRONMENT "${ROTA_TEST_ENVIRONMENT}")
  endforeach()
endif()
