# Which tests check.sh runs when, by their labels: each of them at the usual level but for those of label `full`;
# `long`: not with --quick; `third_0` to `third_2`: at the usual level on every third day; `eighth_0` to
# `eighth_7`: of those with --full on every eighth. Included at the end of tests/CMakeLists.txt.

# The longest tests start first, or else the last of them would run alone: about how many seconds each takes in the
# slowest build that has it. check.sh --quick leaves them out.
foreach(entry tsan.test_stopped:160 tsan.test_across:130 tsan.conformance_adversary_1:110 test_shaders:75
    tsan.test_hostio_staging:73 test_train:90 tsan.test_runtime_devices:80 conformance_vk:70 test_touch:65
    test_declared:240 tsan.test_share:60 test_endless:20 asan.test_across:47 tsan.conformance_cpu:47 test_cli:45
    fuzz_cuda_stub:40 fuzz_adversary:200 tsan.test_sidings:40 tsan.test_lost_copy:40 asan.test_gradients:40
    tsan.test_hostio:19 test_hostio:17 test_hostio_staging:15 test_stopped:33 tsan.test_travel:16
    tsan.test_travel_random:17 test_op_order:31 conformance_cpu:30 test_op_shapes:30 asan.test_proofs:30
    asan.test_products:28 test_op_views:27 fuzz_vk:27 fuzz_shared_cuda_stub:26 fuzz_cpu:20
    test_patchtst:22 test_gpt_bpe:10 test_across:20 conformance_processes:19 fuzz_shared:18 test_gpt_model:17
    test_products:17 test_proofs:16 test_gradients:16 test_exec_cuda_faults:15 conformance_adversary_1:15 test_fuse:15
    test_limits:15 test_check_device:14 test_runtime_devices:14 fuzz_touch:13 test_op_long:13 test_op_sums:12
    test_attention_dropout:13 test_inputs:11 fuzz_two_devices:10 fuzz_three_devices:9 test_folders:8 faults_cpu:170
    faults_cuda_stub:15 test_models_gate:20 test_models_pump:20 test_train_ranks:20 test_train_bars:25)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 cost)
  if(name MATCHES "^${ROTA_TEST_PREFIX}" AND TEST ${name})
    set_tests_properties(${name} PROPERTIES COST ${cost} LABELS long)
    set(has_cost_${name} ON) # a build's own stands before that of all
  elseif(TEST ${ROTA_TEST_PREFIX}${name} AND NOT has_cost_${ROTA_TEST_PREFIX}${name})
    set_tests_properties(${ROTA_TEST_PREFIX}${name} PROPERTIES COST ${cost} LABELS long)
  endif()
endforeach()
# Those of ranks wait for one another more than they compute, and begin as early; check.sh --quick has them, too.
foreach(entry test_ranks:80 asan.test_ranks:70 tsan.test_ranks:110 clang.test_ranks:95 test_ranks_nccl:35
    asan.test_ranks_nccl:70 tsan.test_ranks_nccl:140 clang.test_ranks_nccl:105 test_rendezvous:90
    asan.test_rendezvous:95 tsan.test_rendezvous:130 clang.test_rendezvous:95 test_transport:105
    asan.test_transport:110 tsan.test_transport:130 clang.test_transport:110)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 cost)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST ${cost})
  endif()
endforeach()
# Not so long, but too long for check.sh --quick; and what it runs that takes longest.
if(NOT ROTA_SANITIZE)
  foreach(entry faults_planted_forgotten:137 fuzz_gradients_vk:120 test_attention_cudnn:39 test_sequence_loss:33
      test_op_window:30 test_install:29 fuzz_losses:26 test_cpp_clangxx:23 test_waits:20 test_recompute:20
      test_gpt_write:6 test_offline_compilers:60 test_batch_memory:14 fuzz_gradients_cpu:14 test_gate_watch:13
      fuzz_after:12 fuzz_losses_limited:11 fuzz_watched:10 faults_planted_silent:10 fuzz_joins_adversary:9
      fuzz_losses_after:9 fuzz_ordered_cuda_stub:7 faults_planted_wrong:6 faults_planted_leak:6)
    string(REPLACE ":" ";" entry ${entry})
    list(GET entry 0 name)
    list(GET entry 1 cost)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST ${cost} LABELS long)
    endif()
  endforeach()
  foreach(entry test_options:27 test_abi:25 test_ops:24 test_cpp_gxx:18 test_exec_vk_contract:11 test_custom_op:11)
    string(REPLACE ":" ";" entry ${entry})
    list(GET entry 0 name)
    list(GET entry 1 cost)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
  endforeach()
endif()
# These keep all cores busy by themselves: a software device compiles and runs its kernels there. First of all: two
# places are seldom free at once later, before all others are over.
foreach(name test_shaders test_train conformance_vk asan.conformance_vk test_tidy)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES PROCESSORS 2 COST 400)
  endif()
endforeach()
# What check.sh runs with --full only: more of what has run already, and under a sanitizer what computes much and shares
# little.
foreach(name faults_vk faults_vk_cold faults_vk_warm faults_cpu_diagnostics faults_cuda_stub_part
    faults_cuda_stub_diagnostics asan.faults_cpu asan.faults_cuda_stub tsan.faults_cpu tsan.faults_cuda_stub
    conformance_adversary_2 conformance_adversary_3 asan.conformance_vk asan.test_declared asan.test_op_order
    asan.test_patchtst asan.test_attention_cudnn asan.test_gpt_model asan.test_recompute asan.test_op_long
    asan.test_op_sums asan.test_op_views asan.test_products asan.test_gradients asan.test_touch asan.test_conv_cudnn
    asan.test_exec_cuda_faults tsan.test_op_long tsan.test_ops tsan.test_limits tsan.test_reach
    # orders of threads, which the thread sanitizer looks at; and the scenarios, which it looks at on exec/cpu
    asan.test_stopped asan.test_sequence_loss asan.conformance_adversary_1 asan.test_proofs asan.test_across
    tsan.conformance_adversary_1 tsan.test_exec_cuda_faults
    # A thread that stands still somewhere is no race: who calls the same beside it is seen by the thread sanitizer in
    # test_stress, test_submit, test_waits, test_reclaim.
    tsan.test_stopped
    # losses of which the thread sanitizer makes minutes; the shorter ones (test_loss, fuzz_losses) it always runs
    tsan.test_sequence_loss tsan.test_across tsan.test_lost_copy tsan.test_handover_loss tsan.test_holders
    # scenarios; the thread sanitizer has them always
    asan.conformance_cpu
    # the same calls as in test_hostio, test_travel, test_external, test_runtime and test_share, in more orders
    tsan.test_hostio_staging tsan.test_travel_random tsan.test_external_ends tsan.test_external_late
    tsan.test_runtime_devices tsan.test_sidings
    # of a device that is not there
    asan.test_across_device asan.test_attention_device asan.test_conv_device asan.test_cuda_application_device
    asan.test_cuda_kernels asan.test_exec_cuda_device asan.test_loss_device asan.test_matmul_cuda_device
    asan.test_share_device asan.test_stream_points_device asan.test_vk_export_device
    tsan.test_across_device tsan.test_attention_device tsan.test_conv_device tsan.test_cuda_application_device
    tsan.test_loss_device tsan.test_matmul_cuda_device tsan.test_share_device tsan.test_stream_points_device
    # values of ops and what one thread makes of its arguments: graphs of all ops under the address sanitizer are
    # fuzz_gradients_cpu's and fuzz_bytes_programs'; a software device's driver is not instrumented
    asan.test_exec_vk_contract asan.test_exec_vk_model asan.test_exec_vk_near asan.test_exec_vk_names
    asan.test_reach asan.test_graph_file_much asan.test_gpt_bpe asan.test_certify asan.test_custom_op asan.test_draw
    asan.test_names asan.test_limits asan.test_sized asan.test_op_gradient asan.test_op_window asan.test_op_shapes
    asan.test_op_strides asan.test_op_attributes asan.test_op_numbers asan.test_gradients_backward
    asan.test_gradients_composed asan.test_gradients_halves asan.test_gradients_losses asan.test_gradients_views
    asan.test_gradients_windows asan.test_attention_dropout tsan.test_attention_dropout
    asan.test_measure asan.test_deprecated asan.test_cuda_names asan.test_progress_bar
    asan.test_exec_cpu_near asan.test_near_device asan.test_locality asan.test_ring_kit asan.test_steady
    tsan.test_op_window tsan.test_op_numbers tsan.test_deprecated tsan.test_cuda_names tsan.test_progress_bar
    tsan.test_pack_apart tsan.test_edges_most tsan.test_graph_file tsan.test_graph_file_damage
    tsan.test_graph_file_memory tsan.test_graph_absent tsan.test_matmul_cuda tsan.test_matmul_cuda_linear
    tsan.test_matmul_bounded tsan.test_matmul_cuda_uneven tsan.test_classifier tsan.test_gelu_product
    # what one thread is told, draws or computes
    tsan.test_failures tsan.test_runtime_errors tsan.test_no_memory tsan.test_op_gradient tsan.test_draw tsan.test_sized
    tsan.test_graph tsan.test_graph_file_much tsan.test_batch_memory tsan.test_exec_cuda tsan.test_certify
    tsan.test_check
    # orders of threads again, which wait long
    asan.test_handover_loss asan.test_lost_copy asan.test_gate_watch asan.test_gate_mix asan.test_waits
    asan.test_batch_memory asan.test_idle asan.test_awaited asan.test_sidings asan.test_external_ends
    asan.test_external_late asan.test_runtime_devices asan.test_travel_random asan.test_holders
    asan.test_transport asan.test_ranks asan.test_cg
    asan.test_attention_plan asan.test_reach_joins asan.test_certify_joins asan.test_fuse asan.test_compile_scale)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES LABELS full)
  endif()
endforeach()
# Of these, which are long, a third each day at the usual level.
set(third_0 explore_cpu explore_handover explore_wait test_models_loss test_models_pump test_models_reclaim
  test_models_turns tsan.fuzz_adversary tsan.test_ranks tsan.test_awaited tsan.test_cuda_application
  tsan.test_gate_watch
  asan.fuzz_bytes_programs asan.test_fork asan.test_hostio_staging asan.test_no_memory asan.test_share
  asan.test_travel)
set(third_1 test_models_external test_models_gate tsan.test_ranks_nccl tsan.test_transport tsan.fuzz_shared_cuda_stub
  tsan.fuzz_watched tsan.test_exec_cpu
  tsan.test_external tsan.test_outputs tsan.test_replays tsan.test_room tsan.test_runtime tsan.test_runtime_open
  tsan.test_share tsan.test_travel asan.test_loss asan.test_ops asan.test_replays)
set(third_2 explore_lanes explore_tickets explore_turns test_models_deliver tsan.fuzz_cuda_stub tsan.fuzz_losses
  tsan.fuzz_shared tsan.test_exec_adversary_contract tsan.test_gate_mix tsan.test_hostio tsan.test_loss
  tsan.test_reclaim asan.conformance_vk_leaks asan.fuzz_bytes_text asan.test_exec_vk asan.test_inputs
  asan.test_runtime)
foreach(third 0 1 2)
  foreach(name ${third_${third}})
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS third_${third})
    endif()
  endforeach()
endforeach()
# Of another compiler's sanitizers check.sh wants what is short.
if(ROTA_TEST_PREFIX STREQUAL "clang.")
  get_directory_property(names TESTS)
  foreach(name ${names})
    get_test_property(${name} LABELS labels)
    if(labels OR (name MATCHES "fuzz" AND NOT name MATCHES "fuzz_bytes"))
      set_tests_properties(${name} PROPERTIES LABELS clang_long)
    elseif(name MATCHES "attention_cudnn|conv_cudnn|recompute|sequence_loss|transport|test_ranks|test_cg")
      set_tests_properties(${name} PROPERTIES LABELS full)
    endif()
  endforeach()
endif()
# Without --full nothing is built that only tests of label `full` need; check.sh --quick runs nothing that has a label.
set(unused)
get_directory_property(names TESTS)
if(ROTA_QUICK)
  set(unused endless_layer gpt_tool oracle_tool)
endif()
foreach(name ${names})
  get_test_property(${name} LABELS labels)
  string(REGEX REPLACE "^(asan|clang|tsan)[.]" "" target ${name})
  if((ROTA_QUICK AND labels) OR (ROTA_USUAL AND "full" IN_LIST labels))
    list(APPEND unused ${target})
  elseif(TARGET ${target})
    add_dependencies(rota_tests ${target})
  endif()
endforeach()
foreach(name ${unused})
  if(TARGET ${name})
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endforeach()

# check.sh --full runs an eighth of what only it runs, another each day, but for what draws by itself. The eighths take
# about as long: each test comes to the one that has least by then, in processor seconds where those are many. Clang's
# sanitizers have odd days, and what only --full runs by gcc's address sanitizer even ones.
foreach(entry tsan.test_stopped:150 test_shaders_all:130 test_declared_full:30 test_products_full:25
    test_sequence_loss_full:30 test_endless_full:70 test_gpt_bpe_tokenizers:25 test_tidy_all:120 test_packages:250
    test_touch_more:33 test_python_torch:120 test_python_jax:60 test_python_wheel:90 test_python_plain:500
    test_python_free:60 test_demo:40 test_without_mpi:100 test_models_full_gate:190
    test_models_full_loss:60
    test_models_full_reclaim:60 test_models_full_turns:60 test_models_full_external:30 test_site_browser:40
    test_site_man:60 conformance_vk_all:47 tsan.conformance_cpu_all:60 test_gradients_full:20
    test_oracle:30 test_train_large:20 faults_cpu_all:80 faults_vk_warm:110 faults_vk_cold:110 faults_vk:110
    fuzz_cuda_stub_more:35 fuzz_adversary_more:120 fuzz_shared_more:50 fuzz_cpu_more:70
    explore_cpu_more:45 explore_lanes_more:40 explore_tickets_more:40 explore_handover_more:25 explore_wait_more:25
    explore_turns_more:20 explore_loops_more:120
    asan.test_declared:130 asan.test_sequence_loss:70 asan.test_products:65 asan.test_gpt_model:45
    asan.test_transport:25 asan.test_ranks:20 asan.faults_cpu:80 tsan.faults_cpu:90 tsan.test_sequence_loss:80
    tsan.test_exec_cuda_faults:55 tsan.test_lost_copy:30 clang.test_sequence_loss:55 clang.test_conv_cudnn:30
    clang.test_transport:30 clang.test_ranks:25 clang.test_cg:20)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 full_cost_${name})
endforeach()
get_directory_property(names TESTS)
set(days 0 1 2 3 4 5 6 7)
if(ROTA_TEST_PREFIX STREQUAL "asan.")
  set(days 0 2 4 6)
elseif(ROTA_TEST_PREFIX STREQUAL "clang.")
  set(days 1 3 5 7)
endif()
foreach(eighth IN LISTS days)
  set(full_sum_${eighth} 0)
endforeach()
foreach(name ${names})
  get_test_property(${name} LABELS labels)
  if("full" IN_LIST labels AND NOT name MATCHES "^(explore_full|faults_cuda_stub_part|faults_cuda_stub_diagnostics)$")
    list(GET days 0 eighth)
    foreach(other IN LISTS days)
      if(full_sum_${other} LESS full_sum_${eighth})
        set(eighth ${other})
      endif()
    endforeach()
    set(cost 10)
    if(DEFINED full_cost_${name})
      set(cost ${full_cost_${name}})
    elseif(name MATCHES "^fuzz_bytes")
      set(cost ${ROTA_FUZZ_SECONDS})
    endif()
    math(EXPR full_sum_${eighth} "${full_sum_${eighth}} + ${cost}")
    set_tests_properties(${name} PROPERTIES LABELS "full;eighth_${eighth}")
  endif()
endforeach()
