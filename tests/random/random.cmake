# Random graphs, gradients and losses, against what computes the same apart from rota. Included by ../CMakeLists.txt,
# where paths begin.

# The fuzzer: random graphs against the reference; counts of the issue, scaled down where a sanitizer slows them.
add_executable(rota-fuzz random/fuzz.c)
target_link_libraries(rota-fuzz PRIVATE rota_test_support)
add_dependencies(rota_tests rota-fuzz)

# Random programs of ops and gradients, against differences in f64.
add_library(rota_programs OBJECT EXCLUDE_FROM_ALL
  random/gradient_draw.c random/gradient_print.c random/gradient_run.c random/gradient_steps.c random/gradient_values.c
  random/gradient_views.c ${PROJECT_SOURCE_DIR}/bench/ops_reference.c
  ${PROJECT_SOURCE_DIR}/bench/ops_reference_basic.c ${PROJECT_SOURCE_DIR}/bench/ops_reference_length.c
  ${PROJECT_SOURCE_DIR}/bench/ops_reference_window.c)
target_link_libraries(rota_programs PUBLIC rota_test_support)
add_executable(rota-fuzz-gradients random/fuzz_gradients.c $<TARGET_OBJECTS:rota_programs>)
target_link_libraries(rota-fuzz-gradients PRIVATE rota_test_support)
add_dependencies(rota_tests rota-fuzz-gradients)

# Devices that are lost on the way, against a model in the order of submissions.
add_executable(rota-fuzz-losses random/fuzz_losses.c)
target_link_libraries(rota-fuzz-losses PRIVATE rota_test_support)
add_dependencies(rota_tests rota-fuzz-losses)

# The fuzzer again, and the tests of reachability and of the certificate, with a compiler that joins every list and
# merges every range that it can.
foreach(pair "rota-fuzz random/fuzz" "test_reach sched/plan/test_reach" "test_certify sched/plan/test_certify")
  separate_arguments(pair)
  list(GET pair 0 name)
  list(GET pair 1 source)
  add_executable(${name}_joins ${source}.c ${PROJECT_SOURCE_DIR}/sched/plan/placement.c)
  foreach(part edges edges_after edges_join edges_ranges edges_reduce)
    target_sources(${name}_joins PRIVATE ${PROJECT_SOURCE_DIR}/sched/plan/${part}.c)
  endforeach()
  target_compile_definitions(${name}_joins PRIVATE ROTA_JOIN_AT=2 ROTA_RANGES_PER_ACCESS=0)
  target_link_libraries(${name}_joins PRIVATE rota_test_support)
endforeach()
add_dependencies(rota_tests rota-fuzz_joins)

# rota_fuzz_test(<name> <count> <first seed> <options...>): a third of the graphs in <name>, the others in <name>_more,
# which only check.sh --full runs; a tenth of either under a sanitizer.
function(rota_fuzz_test name count seed)
  set(program rota-fuzz)
  if(name MATCHES "joins")
    set(program rota-fuzz_joins)
  elseif(name MATCHES "gradients")
    set(program rota-fuzz-gradients)
  elseif(name MATCHES "losses")
    set(program rota-fuzz-losses)
  elseif(name MATCHES "ranks")
    set(program rota-fuzz-ranks)
  endif()
  if(ROTA_SANITIZE)
    math(EXPR count "${count} / 10")
  endif()
  math(EXPR first "${count} / 3")
  math(EXPR rest "${count} - ${first}")
  math(EXPR rest_seed "${seed} + ${first}")
  rota_program_test(${name} ${program} --count ${first} --seed ${seed} ${ARGN})
  rota_program_test(${name}_more ${program} --count ${rest} --seed ${rest_seed} ${ARGN})
  set_tests_properties(${ROTA_TEST_PREFIX}${name}_more PROPERTIES LABELS full)
endfunction()

rota_fuzz_test(fuzz_cpu 20000 1 --device cpu)
rota_fuzz_test(fuzz_adversary 20000 100001 --device adversary)
rota_fuzz_test(fuzz_two_devices 4000 200001 --device adversary --second cpu --nodes 120)
rota_fuzz_test(fuzz_place 4000 1300001 --device adversary --second cpu --nodes 120 --place)
rota_fuzz_test(fuzz_place_three 3000 1310001 --device adversary --second adversary:1 --third cpu --nodes 100 --place)
rota_fuzz_test(fuzz_place_decides 2000 1320001 --device cpu --second adversary --nodes 80 --place --conditional
  --counted)
rota_fuzz_test(fuzz_place_cancel 1500 1330001 --device adversary --second cpu --nodes 60 --place --cancel)
rota_fuzz_test(fuzz_after 3000 930001 --device adversary --second cpu --nodes 60 --after)
rota_fuzz_test(fuzz_ranks 300 970001)
rota_fuzz_test(fuzz_ranks_adversary 300 975001 --adversary)
rota_fuzz_test(fuzz_ranks_cuda_stub 120 977001 --cuda --stand-ins --ranks 3)
rota_fuzz_test(fuzz_ranks_cuda_two 60 2001 --cuda --stand-ins --ranks 2)
rota_fuzz_test(fuzz_cancel_cpu 1500 940001 --device cpu --nodes 80 --cancel)
rota_fuzz_test(fuzz_cancel 2000 950001 --device adversary --second cpu --nodes 60 --after --cancel)
rota_fuzz_test(fuzz_cancel_shared 1500 960001 --device adversary --second adversary:1 --third cpu --shared --nodes 60
  --cancel)
rota_fuzz_test(fuzz_cancel_cuda_stub 1500 970001 --device cuda-stub --second cpu --nodes 60 --after --cancel)
rota_fuzz_test(fuzz_conditional 6000 980001 --device cpu --nodes 200 --conditional)
rota_fuzz_test(fuzz_conditional_cancel 1500 990001 --device cpu --nodes 80 --conditional --cancel)
rota_fuzz_test(fuzz_conditional_adversary 3000 1020001 --device adversary --second cpu --nodes 100 --conditional)
rota_fuzz_test(fuzz_conditional_adversary_cancel 1500 1030001 --device adversary --second cpu --nodes 60 --conditional
  --cancel)
rota_fuzz_test(fuzz_conditional_cuda_stub 3000 1060001 --device cuda-stub --second cpu --nodes 100 --conditional)
rota_fuzz_test(fuzz_conditional_cuda_stub_cancel 1500 1070001 --device cuda-stub --nodes 60 --conditional --cancel)
rota_fuzz_test(fuzz_counted 6000 1040001 --device cpu --nodes 200 --counted)
rota_fuzz_test(fuzz_counted_cuda_stub 3000 1110001 --device cuda-stub --second cpu --nodes 120 --conditional --counted)
rota_fuzz_test(fuzz_counted_cuda_stub_cancel 3000 1120001 --device cuda-stub --nodes 60 --conditional --counted
  --cancel)
rota_fuzz_test(fuzz_counted_adversary 4000 1050001 --device adversary --second cpu --nodes 100 --conditional --counted
  --cancel)
rota_fuzz_test(fuzz_later 1500 1000001 --device cpu --nodes 80 --conditional --later)
rota_fuzz_test(fuzz_later_cancel 1500 1010001 --device adversary --second cpu --nodes 60 --after --cancel --later)
rota_fuzz_test(fuzz_watched 1500 920001 --device adversary --second cpu --nodes 80 --bytes 2048 --watched)
if(NOT ROTA_SANITIZE MATCHES "thread") # compiling is one thread's
  rota_program_test(test_reach_joins test_reach_joins)
  rota_program_test(test_certify_joins test_certify_joins)
endif()
rota_fuzz_test(fuzz_joins_cpu 1500 500001 --device cpu)
rota_fuzz_test(fuzz_joins_adversary 1500 510001 --device adversary --second cpu --nodes 200)
rota_fuzz_test(fuzz_joins_cuda_stub 1500 520001 --device cuda-stub --nodes 200)
# Two devices of one GPU, and one beside them: the adversary's, and the CUDA executor's over the stand-in.
rota_fuzz_test(fuzz_shared 3000 250001 --device adversary --second adversary:1 --third cpu --shared --ordered
  --nodes 120)
rota_fuzz_test(fuzz_shared_cuda_stub 3000 260001 --device cuda-stub --second cuda:1 --third cpu --shared --nodes 120)
rota_fuzz_test(fuzz_peers 3000 255001 --device adversary --second adversary:1 --third cpu --peers --ordered
  --nodes 120)
rota_fuzz_test(fuzz_peers_three 1500 256001 --device adversary --second adversary:1 --third adversary:2 --peers
  --ordered --nodes 120)
rota_fuzz_test(fuzz_peers_cancel 1500 257001 --device adversary --second adversary:1 --third cpu --peers --nodes 60
  --after --cancel)
rota_fuzz_test(fuzz_peers_cuda_stub 3000 258001 --device cuda-stub --second cuda:1 --third cpu --peers --nodes 120)
rota_fuzz_test(fuzz_peers_fault 300 259001 --device adversary --second adversary:1 --third cpu --peers --fault
  --nodes 80)
rota_fuzz_test(fuzz_shared_fault 300 280001 --device adversary --second adversary:1 --third cpu --shared --fault
  --nodes 60)
rota_fuzz_test(fuzz_shared_fault_cuda_stub 240 290001 --device cuda-stub --second cuda:1 --third cpu --shared --fault
  --nodes 60)
rota_fuzz_test(fuzz_ordered_cuda_stub 1200 270001 --device cuda-stub --second adversary --third cpu --shared --ordered
  --nodes 120)
# Found once: a node whose body has a host node, which no device was thought to run.
rota_program_test(fuzz_place_nowhere rota-fuzz --device adversary --second adversary:1 --third adversary:2 --place
  --seed 9105032 --count 20 --nodes 250 --touch --conditional --counted --later)
# And a plan whose only segment is not on its first device had lost that segment's edges.
rota_program_test(fuzz_first_device_unused rota-fuzz --device adversary --second cpu --count 1 --seed 231000
  --nodes 120)
# And one where a reader that had passed was forgotten before a replay noted that it waits for it.
rota_program_test(fuzz_noted_reader rota-fuzz --device adversary --count 1 --seed 7311)
rota_fuzz_test(fuzz_losses 150 1)
rota_fuzz_test(fuzz_losses_limited 150 1001 --limit 3000)
rota_fuzz_test(fuzz_losses_after 90 2001 --after 1)
# The CUDA executor over a stand-in for its driver, whose order is random within what streams, events and edges say.
rota_fuzz_test(fuzz_cuda_stub 6000 600001 --device cuda-stub)

if(NOT ROTA_SANITIZE)
  rota_program_test(fuzz_vk rota-fuzz --device vk:0 --count 300 --seed 300001 --validation)
  rota_program_test(fuzz_place_vk rota-fuzz --device cpu --second vk:0 --third adversary --count 300 --seed 1340001
    --nodes 80 --place)
  rota_program_test(fuzz_vk_more rota-fuzz --device vk:0 --count 700 --seed 300301 --validation)
  rota_program_test(fuzz_counted_vk rota-fuzz --device vk:0 --count 150 --seed 1060001 --nodes 200 --counted
    --validation)
  rota_program_test(fuzz_counted_vk_cancel rota-fuzz --device vk:0 --second cpu --count 300 --seed 1070001 --nodes 80
    --counted --cancel)
  rota_program_test(fuzz_conditional_vk rota-fuzz --device vk:0 --count 250 --seed 1090001 --nodes 200 --no-host-nodes
    --conditional --counted --validation)
  rota_program_test(fuzz_conditional_vk_cancel rota-fuzz --device vk:0 --count 250 --seed 1100001 --nodes 80
    --no-host-nodes --conditional --counted --cancel)
  rota_program_test(fuzz_loops_vk rota-fuzz --device vk:0 --count 250 --seed 1110001 --nodes 200 --no-host-nodes
    --conditional --few-turns --counted --validation)
  rota_program_test(fuzz_loops_vk_cancel rota-fuzz --device vk:0 --count 250 --seed 1120001 --nodes 80
    --no-host-nodes --conditional --few-turns --counted --cancel)
  set_tests_properties(fuzz_vk_more PROPERTIES LABELS full)
  rota_program_test(fuzz_three_devices rota-fuzz --device adversary --second cpu --third vk:0 --count 300 --seed 240001
    --nodes 120
    --validation)
  rota_program_test(test_touch_more test_touch 500301 700)
  set_tests_properties(test_touch_more PROPERTIES LABELS full)
  rota_program_test(fuzz_touch rota-fuzz --device vk:0 --touch --count 200 --seed 400001)
  rota_program_test(fuzz_counted_touch rota-fuzz --device vk:0 --touch --count 60 --seed 1080001 --counted)
endif()

# Gradients: what a device computes is judged in the build without sanitizers, but for the CPU's.
if(NOT ROTA_SANITIZE MATCHES "thread")
  rota_fuzz_test(fuzz_gradients_cpu 12000 1 --device cpu)
endif()
if(NOT ROTA_SANITIZE)
  rota_program_test(fuzz_gradients_vk rota-fuzz-gradients --device vk:0 --count 300 --seed 700001)
endif()
