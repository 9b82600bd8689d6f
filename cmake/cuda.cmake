# CUDA images: rota_cuda_compile(<name> <source> [<virtual architecture>...]) makes of a .cu file
#   generated/cuda/<name>.h   declares `rota_cuda_<name>` and defines ROTA_CUDA_IMAGE_<name>, the initializers .image
#                             and .size_bytes of rota_kernel.cuda (NULL and 0 where there is no compiler for it), and
#                             ROTA_CUDA_ENTRY_<name>(entry), an entry's name, which does not compile if there is none;
#   generated/cuda/<name>.c   defines it, for whoever links with it,
# and appends both to ROTA_CUDA_OUTPUTS. An image has machine code for each of ROTA_CUDA_ARCHITECTURES, made from the
# highest virtual architecture given that it can run (75, if none is given), and PTX of the virtual ones, for every
# later device. A virtual architecture with a letter (90a) serves that architecture alone, and leaves no PTX. With
# ROTA_CUDA_ONLY_COMPILES, where there is no NVIDIA driver to run them, images have PTX of the last virtual architecture
# alone, and that unoptimised: they compile, and have their entries. With ROTA_CUDA_DRAW, a number, they have there
# machine code for one of ROTA_CUDA_ARCHITECTURES, the one of that number counted round, or such PTX where it has none.
option(ROTA_CUDA "Compile the CUDA kernels, where nvcc is found" ON)
set(ROTA_CUDA_ARCHITECTURES 75 80 86 89 90a 100 CACHE STRING
  "Architectures that CUDA images have machine code for, where the compiler knows them")

set(ROTA_CUDA_DRAW "" CACHE STRING "Where there is no NVIDIA driver: of which architecture alone images are")

find_program(ROTA_NVCC nvcc HINTS ENV CUDAToolkit_ROOT ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
  PATH_SUFFIXES bin)
set(ROTA_CUDA_FLAGS -std=c++17 -O3 -allow-unsupported-compiler)
if(ROTA_CUDA AND ROTA_NVCC)
  execute_process(COMMAND ${ROTA_NVCC} --version OUTPUT_VARIABLE ROTA_NVCC_VERSION RESULT_VARIABLE failed)
  execute_process(COMMAND ${ROTA_NVCC} --list-gpu-code OUTPUT_VARIABLE ROTA_NVCC_CODES)
  execute_process(COMMAND ${ROTA_NVCC} --help OUTPUT_VARIABLE help)
  if(failed)
    set(ROTA_NVCC_VERSION "")
  endif()
  if(help MATCHES "--compress-mode")
    list(APPEND ROTA_CUDA_FLAGS --compress-mode=size)
  endif()
endif()

# The executor needs the driver API's header to build, and nothing of CUDA to run.
get_filename_component(nvcc_folder "${ROTA_NVCC}" DIRECTORY)
find_path(ROTA_CUDA_INCLUDE cuda.h HINTS ${nvcc_folder}/../include ENV CUDAToolkit_ROOT ENV CUDA_PATH ENV CUDA_HOME
  PATHS /usr/local/cuda PATH_SUFFIXES include)
if(ROTA_CUDA_INCLUDE)
  file(STRINGS ${ROTA_CUDA_INCLUDE}/cuda.h version REGEX "^#define CUDA_VERSION ")
  string(REGEX MATCH "[0-9]+" version "${version}")
  if(NOT version GREATER_EQUAL 12000)
    message(STATUS "CUDA executor: ${ROTA_CUDA_INCLUDE}/cuda.h is of CUDA version ${version}, older than 12000")
    set(ROTA_CUDA_INCLUDE "") # over what was found, which stays in the cache
  endif()
endif()
# What cuBLASLt's numbers of tiles, stages and clusters mean, out of its header, for who asks what it chose.
function(rota_cublaslt_names out pattern)
  file(STRINGS ${ROTA_CUDA_INCLUDE}/cublasLt.h lines REGEX "CUBLASLT_${pattern}_[0-9]+x[0-9A-Zx]+ = [0-9]+")
  set(text "/* Made by cmake/cuda.cmake out of cublasLt.h. */\n")
  foreach(line ${lines})
    string(REGEX REPLACE ".*_([0-9]+x[0-9A-Zx]+) = ([0-9]+).*" "ROTA_CUBLASLT_NAME(\\2, \"\\1\")\n" line "${line}")
    string(APPEND text "${line}")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/cuda/${out}.h CONTENT "${text}" @ONLY)
endfunction()
if(ROTA_CUDA_INCLUDE AND EXISTS ${ROTA_CUDA_INCLUDE}/cublasLt.h)
  rota_cublaslt_names(cublaslt_tiles MATMUL_TILE)
  rota_cublaslt_names(cublaslt_stages MATMUL_STAGES)
  rota_cublaslt_names(cublaslt_clusters CLUSTER_SHAPE)
endif()
if(NOT ROTA_CUDA_INCLUDE)
  message(STATUS "CUDA executor: left out (no cuda.h of CUDA 12.0 or newer)")
endif()

set(ROTA_CUDA_REAL)
if(ROTA_CUDA AND ROTA_NVCC_VERSION)
  foreach(architecture ${ROTA_CUDA_ARCHITECTURES})
    string(REGEX REPLACE "[a-z]$" "" number ${architecture}) # compilers list no variants
    if(ROTA_NVCC_CODES MATCHES "sm_${number}[^0-9]")
      list(APPEND ROTA_CUDA_REAL ${architecture})
    endif()
  endforeach()
endif()
if(ROTA_CUDA_REAL AND NOT ROTA_CUDA_DRAW STREQUAL "" AND NOT EXISTS /dev/nvidiactl)
  list(LENGTH ROTA_CUDA_REAL count)
  math(EXPR drawn "${ROTA_CUDA_DRAW} % ${count}")
  list(GET ROTA_CUDA_REAL ${drawn} ROTA_CUDA_REAL)
endif()
if(ROTA_CUDA_REAL)
  string(REGEX MATCH "release ([0-9.]+)" unused "${ROTA_NVCC_VERSION}")
  message(STATUS "CUDA kernels: nvcc ${CMAKE_MATCH_1} (${ROTA_NVCC}), for ${ROTA_CUDA_REAL}")
else()
  message(STATUS "CUDA kernels: left out (no nvcc on PATH or in /usr/local/cuda/bin, or ROTA_CUDA is off); "
    "CUDA devices will be listed as without kernels")
endif()

# The -gencode flags for an image; empty: nothing to build.
function(rota_cuda_codes out)
  set(codes)
  set(unrun FALSE) # there is a compiler, and no driver that could run what it makes
  set(reals ${ROTA_CUDA_REAL})
  if(ROTA_CUDA_REAL AND NOT EXISTS /dev/nvidiactl)
    if(ROTA_CUDA_ONLY_COMPILES)
      set(unrun TRUE)
      set(reals)
    elseif(NOT ROTA_CUDA_DRAW STREQUAL "")
      set(unrun TRUE)
    endif()
  endif()
  foreach(real ${reals})
    string(REGEX REPLACE "[a-z]$" "" number ${real})
    set(best 0)
    foreach(virtual ${ARGN})
      if(virtual MATCHES "[a-z]$")
        if(virtual STREQUAL real)
          list(APPEND codes -gencode=arch=compute_${real},code=sm_${real})
        endif()
      elseif(virtual LESS_EQUAL number AND virtual GREATER best)
        set(best ${virtual})
      endif()
    endforeach()
    if(best GREATER 0)
      list(APPEND codes -gencode=arch=compute_${best},code=sm_${number})
    endif()
  endforeach()
  if(unrun)
    if(NOT codes)
      list(GET ARGN -1 last)
      set(codes -gencode=arch=compute_${last},code=compute_${last} -Xcicc -O0)
    endif()
    set(${out} ${codes} PARENT_SCOPE)
    return()
  endif()
  foreach(virtual ${ARGN})
    if(ROTA_CUDA_REAL AND NOT virtual MATCHES "[a-z]$")
      list(APPEND codes -gencode=arch=compute_${virtual},code=compute_${virtual})
    endif()
  endforeach()
  set(${out} ${codes} PARENT_SCOPE)
endfunction()

function(rota_cuda_compile name source)
  set(virtual ${ARGN})
  if(NOT virtual)
    set(virtual 75)
  endif()
  rota_cuda_codes(codes ${virtual})
  set(folder ${PROJECT_BINARY_DIR}/generated/cuda)
  set(script ${PROJECT_SOURCE_DIR}/cmake/cuda_image.cmake)
  get_filename_component(source ${source} ABSOLUTE)
  string(JOIN "|" flags ${ROTA_CUDA_FLAGS} ${codes} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/exec/cuda)
  string(REGEX MATCH "V[0-9.]+" version "${ROTA_NVCC_VERSION}")
  if(NOT codes)
    set(flags "")
  endif()
  add_custom_command(OUTPUT ${folder}/${name}.h ${folder}/${name}.c
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DSOURCE=${source} "-DNVCC=${ROTA_NVCC}" -DVERSION=${version}
            "-DFLAGS=${flags}" -DROOT=${PROJECT_SOURCE_DIR} -DCACHE=${ROTA_IMAGE_CACHE} -DFOLDER=${folder} -P ${script}
    DEPENDS ${source} ${script} DEPFILE ${folder}/${name}.d COMMENT "CUDA image ${name}" VERBATIM)
  set(ROTA_CUDA_OUTPUTS ${ROTA_CUDA_OUTPUTS} ${folder}/${name}.h ${folder}/${name}.c PARENT_SCOPE)
endfunction()

# Every exec/cuda/*.cu and ops/cuda/*.cu; a folder's images.cmake says which are made from other virtual architectures,
# as set(ROTA_CUDA_VIRTUAL_<name> 75 80).
macro(rota_cuda_images)
  set(ROTA_CUDA_OUTPUTS)
  file(GLOB rota_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/exec/cuda/*.cu
    ${PROJECT_SOURCE_DIR}/ops/cuda/*.cu)
  include(${PROJECT_SOURCE_DIR}/ops/cuda/images.cmake OPTIONAL)
  foreach(source ${rota_cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    rota_cuda_compile(${name} ${source} ${ROTA_CUDA_VIRTUAL_${name}})
  endforeach()
endmacro()
