# Included by ../CMakeLists.txt, where paths begin.

# Every allocation and every driver call failed once.
add_executable(rota-faults faults/faults.c faults/faults_calls.c)
target_link_libraries(rota-faults PRIVATE rota_test_support)
target_link_options(rota-faults PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup,--wrap=strndup,--wrap=free
  -Wl,--wrap=pthread_create,--wrap=dlsym,--wrap=fopen,--wrap=fdopen,--wrap=fread,--wrap=fwrite,--wrap=fsync
  -Wl,--wrap=renameat,--wrap=mkdir,--wrap=getrandom,--wrap=mmap,--wrap=open,--wrap=openat,--wrap=hwloc_topology_init
  -Wl,--wrap=hwloc_topology_load,--wrap=rota_poison_find,--wrap=rota_poison_of_work,--wrap=rota_judge_must_skip
  -Wl,--wrap=rota_host_read_deliver,--wrap=rota_fail)
add_dependencies(rota_tests rota-faults)

if(NOT ROTA_SANITIZE)
  rota_program_test(faults_cpu rota-faults --device cpu --parts 4)
  rota_program_test(faults_cpu_all rota-faults --device cpu)
  set_tests_properties(faults_cpu_all PROPERTIES LABELS full)
  rota_program_test(faults_cuda_stub rota-faults --device cuda-stub --some 150)
  rota_program_test(faults_vk rota-faults --device vk:0)
  rota_program_test(leaks_vk rota-faults --device vk:0 --only 0)
  # That it finds what it looks for.
  rota_program_test(faults_planted_forgotten rota-faults --device cpu --some 80 --plant forgotten) # 1 of 10 shows it
  foreach(plant wrong silent leak)
    rota_program_test(faults_planted_${plant} rota-faults --device cpu --some 25 --plant ${plant})
  endforeach()
  rota_program_test(faults_cpu_diagnostics rota-faults --device cpu --diagnostics)
  # Of some 8000 points each, others every day.
  rota_program_test(faults_cuda_stub_part rota-faults --device cuda-stub --parts 20)
  rota_program_test(faults_cuda_stub_diagnostics rota-faults --device cuda-stub --diagnostics --parts 40)
  rota_program_test(faults_vk_cold rota-faults --device vk:0 --cache cold --some 300)
  rota_program_test(faults_vk_warm rota-faults --device vk:0 --cache warm --some 300)
  set_tests_properties(faults_cuda_stub_part PROPERTIES COST 150)
else()
  rota_program_test(faults_cpu rota-faults --device cpu --some 100)
  rota_program_test(faults_cuda_stub rota-faults --device cuda-stub --some 100)
endif()
