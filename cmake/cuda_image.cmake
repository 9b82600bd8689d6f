# Run by the build for one CUDA image (cmake/cuda.cmake): takes it from the cache, or compiles it into the cache, and
# writes the header and the C file that embed it. The cache is shared by builds that may run at the same time: a lock
# per image, and an image appears under its name whole. Its name has the hash of all that it was made from: the source
# and whatever of the tree that and its headers include, which a file of dependencies tells the build. Beside it lies
# the list of its entries, from the compiler's intermediate PTX: the header turns an entry that an image lacks into a
# compile error. FLAGS empty: there is no image.
include(${CMAKE_CURRENT_LIST_DIR}/image_cache.cmake)
set(header ${FOLDER}/${NAME}.h)
set(source ${FOLDER}/${NAME}.c)
set(guard "/* Made by cmake/cuda_image.cmake. */\n")
file(MAKE_DIRECTORY ${FOLDER})
if(NOT FLAGS)
  file(WRITE ${FOLDER}/${NAME}.d "")
  file(WRITE ${header} "${guard}#define ROTA_CUDA_HAVE_${NAME} 0
#define ROTA_CUDA_IMAGE_${NAME} .image = NULL, .size_bytes = 0
#define ROTA_CUDA_ENTRY_${NAME}(name) #name
")
  file(WRITE ${source} "${guard}typedef int rota_cuda_${NAME}_is_left_out;\n")
  return()
endif()

string(REPLACE "|" ";" flags "${FLAGS}")
# The source, and what it includes in quotes, from beside whoever includes it or one of the folders of FLAGS.
set(folders ${flags})
list(FILTER folders INCLUDE REGEX "^-I")
list(TRANSFORM folders REPLACE "^-I" "")
set(inputs ${SOURCE})
set(next 0)
list(LENGTH inputs count)
while(next LESS count)
  list(GET inputs ${next} input)
  math(EXPR next "${next} + 1")
  get_filename_component(beside ${input} DIRECTORY)
  file(STRINGS ${input} lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
  foreach(line ${lines})
    string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*" "\\1" name "${line}")
    set(found)
    foreach(folder ${beside} ${folders})
      get_filename_component(path ${folder}/${name} ABSOLUTE)
      if(NOT found AND EXISTS ${path})
        set(found ${path})
      endif()
    endforeach()
    if(NOT found)
      message(FATAL_ERROR "${input} includes \"${name}\", which is not there")
    endif()
    list(APPEND inputs ${found})
  endforeach()
  list(REMOVE_DUPLICATES inputs)
  list(LENGTH inputs count)
endwhile()
set(dependencies ${inputs})
list(TRANSFORM dependencies REPLACE " " "\\\\ ")
string(REPLACE ";" " " dependencies "${dependencies}")
string(REPLACE " " "\\ " outputs "${header};${source}")
string(REPLACE ";" " " outputs "${outputs}")
file(WRITE ${FOLDER}/${NAME}.d "${outputs}: ${dependencies}\n")
string(REPLACE "${ROOT}" "" all "${VERSION} ${FLAGS}") # so that trees at other places share images
foreach(input ${inputs})
  file(SHA256 ${input} hash)
  string(APPEND all " ${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 20 hash)

file(MAKE_DIRECTORY ${CACHE})
set(cached ${CACHE}/${NAME}-${hash}.fatbin)
file(LOCK ${CACHE}/${NAME}.lock GUARD PROCESS TIMEOUT 1800)
if(NOT EXISTS ${cached} OR NOT EXISTS ${cached}.entries)
  set(work ${CACHE}/${NAME}.work)
  file(REMOVE_RECURSE ${work})
  file(MAKE_DIRECTORY ${work})
  execute_process(COMMAND ${NVCC} -fatbin ${flags} --keep --keep-dir ${work} -o ${cached}.new ${SOURCE}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(output)
    message("${output}")
  endif()
  if(failed)
    file(REMOVE ${cached}.new)
    message(FATAL_ERROR "nvcc could not compile ${SOURCE}")
  endif()
  file(GLOB intermediates ${work}/*.ptx)
  set(entries)
  foreach(ptx ${intermediates})
    file(STRINGS ${ptx} lines REGEX "^\\.visible \\.entry ")
    foreach(line ${lines})
      string(REGEX MATCH "[A-Za-z0-9_]+\\($" entry "${line}")
      string(REPLACE "(" "" entry "${entry}")
      list(APPEND entries ${entry})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES entries)
  file(REMOVE_RECURSE ${work})
  file(WRITE ${cached}.entries "${entries}")
  file(RENAME ${cached}.new ${cached})
endif()
rota_image_cache_trim(${cached} ${CACHE}/${NAME}-*.fatbin)

set(image ${FOLDER}/${NAME}.fatbin)
file(COPY_FILE ${cached} ${image})
file(SIZE ${image} bytes)
file(READ ${cached}.entries entries)
set(known)
foreach(entry ${entries})
  string(APPEND known "typedef char rota_cuda_${NAME}_has_${entry};\n")
endforeach()
file(WRITE ${header} "${guard}#ifndef ROTA_CUDA_IMAGE_${NAME}
#define ROTA_CUDA_HAVE_${NAME} 1
/* From sources of hash ${hash}. */
extern const unsigned char rota_cuda_${NAME}[${bytes}] __attribute__((visibility(\"hidden\")));
#define ROTA_CUDA_IMAGE_${NAME} .image = rota_cuda_${NAME}, .size_bytes = sizeof rota_cuda_${NAME}
/* The name of an entry as a string; an error where the image has none of that name. */
#define ROTA_CUDA_ENTRY_${NAME}(name) (&#name[0 * sizeof(rota_cuda_${NAME}_has_##name)])
${known}#endif
")
file(WRITE ${source} "${guard}#include \"cuda/${NAME}.h\"
__asm__(\".pushsection .rodata\\n.balign 64\\n.globl rota_cuda_${NAME}\\n.hidden rota_cuda_${NAME}\\n\"
        \"rota_cuda_${NAME}:\\n.incbin \\\"${image}\\\"\\n.popsection\\n\");
")
