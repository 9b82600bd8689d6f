# Run by the build for one CUDA image (cmake/cuda.cmake): takes it from the cache, or compiles it into the cache, and writes
# the header and the C file that embed it. The cache is shared by builds that may run at the same time: a lock per image, and
# an image appears under its name whole. Its name has the hash of all that it was made from. FLAGS empty: there is no image.
set(header ${FOLDER}/${NAME}.h)
set(source ${FOLDER}/${NAME}.c)
set(guard "/* Made by cmake/cuda_image.cmake. */\n")
file(MAKE_DIRECTORY ${FOLDER})
if(NOT FLAGS)
  file(WRITE ${header} "${guard}#define ROTA_CUDA_HAVE_${NAME} 0\n#define ROTA_CUDA_IMAGE_${NAME} .image = NULL, .size_bytes = 0\n")
  file(WRITE ${source} "${guard}typedef int rota_cuda_${NAME}_is_left_out;\n")
  return()
endif()

string(REPLACE "|" ";" inputs "${INPUTS}")
string(REPLACE "|" ";" flags "${FLAGS}")
string(REPLACE "${ROOT}/" "" all "${VERSION} ${FLAGS}")
foreach(input ${inputs})
  file(SHA256 ${input} hash)
  string(APPEND all " ${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 20 hash)

file(MAKE_DIRECTORY ${CACHE})
set(cached ${CACHE}/${NAME}-${hash}.fatbin)
file(LOCK ${CACHE}/${NAME}.lock GUARD PROCESS TIMEOUT 1800)
if(NOT EXISTS ${cached})
  execute_process(COMMAND ${NVCC} -fatbin ${flags} -o ${cached}.new ${SOURCE} RESULT_VARIABLE failed
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(output)
    message("${output}")
  endif()
  if(failed)
    file(REMOVE ${cached}.new)
    message(FATAL_ERROR "nvcc could not compile ${SOURCE}")
  endif()
  file(GLOB old ${CACHE}/${NAME}-*.fatbin)
  if(old)
    file(REMOVE ${old}) # other builds have copies of what they use
  endif()
  file(RENAME ${cached}.new ${cached})
endif()

set(image ${FOLDER}/${NAME}.fatbin)
file(COPY_FILE ${cached} ${image})
file(SIZE ${image} bytes)
file(WRITE ${header} "${guard}#ifndef ROTA_CUDA_IMAGE_${NAME}
#define ROTA_CUDA_HAVE_${NAME} 1
/* From sources of hash ${hash}. */
extern const unsigned char rota_cuda_${NAME}[${bytes}] __attribute__((visibility(\"hidden\")));
#define ROTA_CUDA_IMAGE_${NAME} .image = rota_cuda_${NAME}, .size_bytes = sizeof rota_cuda_${NAME}
#endif
")
file(WRITE ${source} "${guard}#include \"cuda/${NAME}.h\"
__asm__(\".pushsection .rodata\\n.balign 64\\n.globl rota_cuda_${NAME}\\n.hidden rota_cuda_${NAME}\\n\"
        \"rota_cuda_${NAME}:\\n.incbin \\\"${image}\\\"\\n.popsection\\n\");
")
