# Run by the build for one shader (cmake/shaders.cmake): takes its header of SPIR-V words from the cache, or compiles it
# into the cache. The cache is shared by builds that may run at the same time: a lock per shader, and a header appears
# under its name whole. Its name has the hash of all that it was made from.
include(${CMAKE_CURRENT_LIST_DIR}/image_cache.cmake)
string(REPLACE "|" ";" inputs "${INPUTS}")
string(REPLACE "|" ";" flags "${FLAGS}")
string(REPLACE "${ROOT}" "" all "${VERSION} ${FLAGS}") # so that trees at other places share headers
foreach(input ${inputs})
  file(SHA256 ${input} hash)
  string(APPEND all " ${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 20 hash)

file(MAKE_DIRECTORY ${CACHE})
set(cached ${CACHE}/${NAME}-${hash}.h)
file(LOCK ${CACHE}/${NAME}.lock GUARD PROCESS TIMEOUT 600)
if(NOT EXISTS ${cached})
  execute_process(COMMAND ${GLSLANG} ${flags} --vn rota_spv_${NAME} -o ${cached}.new ${SOURCE}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(output)
    message("${output}")
  endif()
  if(failed)
    file(REMOVE ${cached}.new)
    message(FATAL_ERROR "${GLSLANG} could not compile ${SOURCE}")
  endif()
  file(RENAME ${cached}.new ${cached})
endif()
rota_image_cache_trim(${cached} ${CACHE}/${NAME}-*.h)
file(COPY_FILE ${cached} ${OUT})
