# make install: libraries, public headers, pkg-config file, CMake package. Programs: programs.cmake. Each file is of a
# component, which is a Debian package (packages.cmake): library, development, tools, python, documentation.
include(CMakePackageConfigHelpers)

set(ROTA_PUBLIC_HEADERS rota.h rota.hpp base/export.h base/sized.h base/status.h base/clock.h base/log.h
  graph/buffer.h graph/kernel.h graph/kernel_functions.h graph/graph.h graph/conditional.h graph/counted.h exec/device.h
  exec/application.h exec/collective.h sched/runtime.h sched/submit.h sched/embed.h sched/embed_memory.h
  sched/communicator.h sched/plan.h sched/placing.h sched/rewrite.h ops/ops.h ops/ops_tape.h ops/ops_elementwise.h
  ops/ops_move.h ops/ops_reduce.h
  ops/ops_length.h ops/ops_linear.h ops/ops_norm.h ops/ops_attention.h ops/ops_window.h ops/ops_train.h
  ops/ops_collective.h ops/ops_tensor_parallel.h ops/fuse.h
  ops/tensor.h ops/kernels.h ops/kernel_params.h
  ops/elementwise_params.h ops/move_params.h ops/reduce_params.h ops/length_params.h ops/linear_params.h
  ops/norm_params.h ops/attention_params.h ops/attention_drop_params.h ops/train_params.h ops/window_params.h
  ops/table.h ops/custom.h ops/direct.h
  ops/dlpack.h
  ops/deprecated.h file/graph_file.h)
foreach(header ${ROTA_PUBLIC_HEADERS})
  if(EXISTS ${PROJECT_SOURCE_DIR}/${header})
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rota/${folder} COMPONENT development)
  endif()
endforeach()
# The GPU side of a user's own kernels.
install(FILES exec/vk/rota_kernel.glsl exec/cuda/rota_kernel.cuh exec/cuda/rota_kernel_early.cuh
  DESTINATION ${CMAKE_INSTALL_DATADIR}/rota COMPONENT development)

# The site, where scripts/build_docs.sh has built it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/site/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/rota/html
  COMPONENT documentation OPTIONAL)
# And with it the manual pages of section 3, which go with the headers.
install(DIRECTORY ${PROJECT_BINARY_DIR}/man/man3/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3
  COMPONENT development OPTIONAL)
# Debian's packages have their own
if(TARGET rota_mpi) # opened where a communicator is by MPI
  install(TARGETS rota_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi NAMELINK_SKIP)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/rota COMPONENT plain)

# An export each: whoever links the shared library needs none of what the static one is linked with.
set(ROTA_STATIC_NEEDS HWLOC:hwloc BLAS:openblas CK:ck)
if(ROTA_CBOR_FOUND)
  list(APPEND ROTA_STATIC_NEEDS CBOR:libcbor)
endif()
list(JOIN ROTA_STATIC_NEEDS " " ROTA_STATIC_NEEDS)
set(ROTA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rota)
set_target_properties(rota_shared PROPERTIES EXPORT_NAME rota)
foreach(library shared static)
  install(TARGETS rota_${library} EXPORT rota_${library}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT rota_${library} NAMESPACE rota:: FILE rota_${library}.cmake DESTINATION ${ROTA_CMAKE_DIR}
    COMPONENT development)
endforeach()
configure_package_config_file(cmake/rotaConfig.cmake.in ${PROJECT_BINARY_DIR}/rotaConfig.cmake
  INSTALL_DESTINATION ${ROTA_CMAKE_DIR})
configure_file(cmake/rotaConfigVersion.cmake.in ${PROJECT_BINARY_DIR}/rotaConfigVersion.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rotaConfig.cmake ${PROJECT_BINARY_DIR}/rotaConfigVersion.cmake
  DESTINATION ${ROTA_CMAKE_DIR} COMPONENT development)

# The pkg-config file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH ROTA_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# What the static library links with, as shared libraries: not in Requires.private, which would ask for the development
# files of all that hwloc itself is made from.
list(JOIN ROTA_HWLOC_LDFLAGS " " hwloc_flags)
list(JOIN ROTA_BLAS_LDFLAGS " " blas_flags)
list(JOIN ROTA_CK_LDFLAGS " " ck_flags)
set(ROTA_PC_LIBS_PRIVATE "${hwloc_flags} ${blas_flags} ${ck_flags}")
if(ROTA_CBOR_FOUND)
  list(JOIN ROTA_CBOR_LDFLAGS " " cbor_flags)
  string(APPEND ROTA_PC_LIBS_PRIVATE " ${cbor_flags}")
endif()
configure_file(cmake/rota.pc.in ${PROJECT_BINARY_DIR}/rota.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rota.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
if(PROJECT_IS_TOP_LEVEL) # cpack is the business of who is
  include(cmake/packages.cmake)
endif()
