# cpack: Debian packages (librota1, librota-mpi1, librota-dev, rota-tools; python3-rota, rota-doc) and a tarball.
# scripts/build_packages.sh makes them as they are meant to be: in /usr, with Debian's names of folders.
set(CPACK_PACKAGE_NAME rota)
set(CPACK_PACKAGE_VENDOR "The rota authors")
set(CPACK_PACKAGE_CONTACT "The rota authors <rota@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU work from a task graph")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
# Of those that scripts/build_packages.sh makes first: python, in package/python, and documentation, in site.
set(ROTA_PACKAGES "" CACHE STRING "Components beside the library's that cpack makes packages of")
set(CPACK_COMPONENTS_ALL library development tools ${ROTA_PACKAGES})
if(TARGET rota_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(about "The caller says what each operation reads and writes; rota decides the
order, the barriers, the memory and the queues. A graph is recorded once,
compiled once and replayed as often as one likes, on CPUs, Vulkan and CUDA
devices.

")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME librota${ROTA_ABI})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "GPU work from a task graph: library
${about}This package has the shared library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librota-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "librota${ROTA_ABI} (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libhwloc-dev, libopenblas-dev, libck-dev")
if(ROTA_CBOR_FOUND)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS ", libcbor-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "GPU work from a task graph: development files
${about}This package has headers, the static library, and what pkg-config, CMake
and kernels of one's own need.")
# Beside the library, which opens it where ranks are to meet by MPI, and does without it else.
set(CPACK_DEBIAN_MPI_PACKAGE_NAME librota-mpi1)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_MPI_DESCRIPTION "GPU work from a task graph: library for MPI
${about}This package has what the library opens where several processes are to
work together by MPI.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rota-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "librota-mpi1")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "GPU work from a task graph: programs
${about}This package has rota-bench, which shows and measures devices, rota-run,
which starts ranks, and two trainers, of language models and of forecasts.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-rota)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-torch")
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "GPU work from a task graph: Python package
${about}This package has the module rota, for the Python that it was built with,
with the library in it.")
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_NAME rota-doc)
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOCUMENTATION_DESCRIPTION "GPU work from a task graph: documentation
${about}This package has tutorial, guide, concepts and reference as web pages.")
if(python IN_LIST ROTA_PACKAGES)
  # Its extension is of one Python's version, or of the stable interface of 3.12 on.
  execute_process(COMMAND python3 -c "import sys; v = sys.version_info
print(f'python3 (>= {v[0]}.{v[1]})' + (f', python3 (<< {v[0]}.{v[1] + 1})' if v < (3, 12) else ''))"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE python_needs COMMAND_ERROR_IS_FATAL ANY)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${python_needs}, python3-numpy")
  install(DIRECTORY ${PROJECT_BINARY_DIR}/package/python/ DESTINATION lib/python3/dist-packages COMPONENT python
    EXCLUDE_FROM_ALL)
endif()

# What each Debian package has of its own: who may do what with it, and what changed. Not installed otherwise.
set(package_files ${PROJECT_BINARY_DIR}/package)
file(WRITE ${package_files}/triggers "activate-noawait ldconfig\n")
# A program built with one version runs with every later one of the same name.
file(WRITE ${package_files}/shlibs "librota ${ROTA_ABI} librota${ROTA_ABI} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${package_files}/triggers ${package_files}/shlibs)
file(WRITE ${package_files}/mpi/shlibs "librota_mpi 1 librota-mpi1 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_MPI_PACKAGE_CONTROL_EXTRA ${package_files}/triggers ${package_files}/mpi/shlibs)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^[^\n]*\n\n[^\n]*\n\n" "" license "${license}")
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n$" "" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
file(WRITE ${package_files}/copyright
  "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: rota\n\n"
  "Files: *\nCopyright: 2026 The rota authors\nLicense: Expat\n ${license}\n")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # of the commit, where SOURCE_DATE_EPOCH says that
file(WRITE ${package_files}/changelog
  "rota (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
  " -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
execute_process(COMMAND gzip -9nc ${package_files}/changelog OUTPUT_FILE ${package_files}/changelog.Debian.gz)
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md OUTPUT_FILE ${package_files}/changelog.gz)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  install(FILES ${package_files}/copyright ${package_files}/changelog.Debian.gz ${package_files}/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} COMPONENT ${component}
    EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
