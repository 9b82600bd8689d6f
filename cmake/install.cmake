# make install: libraries, public headers, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)

set(ROTA_PUBLIC_HEADERS rota.h base/export.h base/status.h base/clock.h base/log.h graph/buffer.h graph/kernel.h
  graph/graph.h exec/device.h sched/runtime.h sched/plan.h sched/rewrite.h ops/ops.h
  ops/fuse.h ops/tensor.h ops/kernels.h ops/kernel_params.h ops/linear_params.h ops/attention_params.h ops/table.h ops/custom.h)
foreach(header ${ROTA_PUBLIC_HEADERS})
  if(EXISTS ${CMAKE_SOURCE_DIR}/${header})
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rota/${folder})
  endif()
endforeach()
# The GPU side of a user's own kernels.
install(FILES exec/vk/rota_kernel.glsl exec/cuda/rota_kernel.cuh DESTINATION ${CMAKE_INSTALL_DATADIR}/rota OPTIONAL)

foreach(library rota_static rota_shared)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set_target_properties(rota_shared PROPERTIES EXPORT_NAME rota)
install(TARGETS rota_static rota_shared EXPORT rotaTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(ROTA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rota)
install(EXPORT rotaTargets NAMESPACE rota:: DESTINATION ${ROTA_CMAKE_DIR})
configure_package_config_file(cmake/rotaConfig.cmake.in ${CMAKE_BINARY_DIR}/rotaConfig.cmake
  INSTALL_DESTINATION ${ROTA_CMAKE_DIR})
# Before 1.0.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rotaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rotaConfig.cmake ${CMAKE_BINARY_DIR}/rotaConfigVersion.cmake
  DESTINATION ${ROTA_CMAKE_DIR})

# The pkg-config file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH ROTA_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# What the static library links with, as shared libraries: not in Requires.private, which would ask for the development
# files of all that hwloc itself is made from.
list(JOIN HWLOC_LDFLAGS " " hwloc_flags)
list(JOIN BLAS_LDFLAGS " " blas_flags)
set(ROTA_PC_LIBS_PRIVATE "${hwloc_flags} ${blas_flags}")
configure_file(cmake/rota.pc.in ${CMAKE_BINARY_DIR}/rota.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rota.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
