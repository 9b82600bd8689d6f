# Compute shaders: ops/vk/<name>.comp and exec/vk/<name>.comp become the header generated/spv/<name>.h with the words
# `rota_spv_<name>`. Variants by macro: rota_shader_variant(<variant name> <source> <definitions...>), in
# ops/vk/variants.cmake. Compiled once for all builds of this tree (release, sanitizers), under their sources' hash:
# cmake/shader.cmake.
find_program(ROTA_GLSLANG glslangValidator REQUIRED)
execute_process(COMMAND ${ROTA_GLSLANG} --version OUTPUT_VARIABLE ROTA_GLSLANG_VERSION)
string(REGEX REPLACE "[^A-Za-z0-9.:]+" " " ROTA_GLSLANG_VERSION "${ROTA_GLSLANG_VERSION}")
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated/spv)
set(ROTA_SHADER_OUTPUTS)

function(rota_shader_compile name source)
  set(out ${PROJECT_BINARY_DIR}/generated/spv/${name}.h)
  set(script ${PROJECT_SOURCE_DIR}/cmake/shader.cmake)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(folder ${source} DIRECTORY)
  file(GLOB includes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/exec/vk/*.glsl ${PROJECT_SOURCE_DIR}/ops/vk/*.glsl
    ${folder}/*.glsl)
  list(REMOVE_DUPLICATES includes)
  string(JOIN "|" flags -V --quiet --target-env vulkan1.2 -I${PROJECT_SOURCE_DIR}/exec/vk -I${PROJECT_SOURCE_DIR}/ops/vk
    ${ARGN})
  string(JOIN "|" inputs ${source} ${includes})
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DSOURCE=${source} -DINPUTS=${inputs} -DGLSLANG=${ROTA_GLSLANG}
            "-DVERSION=${ROTA_GLSLANG_VERSION}" "-DFLAGS=${flags}" -DROOT=${PROJECT_SOURCE_DIR}
            -DCACHE=${ROTA_IMAGE_CACHE}/spv
            -DOUT=${out} -P ${script}
    DEPENDS ${source} ${includes} ${script} VERBATIM)
  set(ROTA_SHADER_OUTPUTS ${ROTA_SHADER_OUTPUTS} ${out} PARENT_SCOPE)
endfunction()

macro(rota_shader_variant name source)
  rota_shader_compile(${name} ${PROJECT_SOURCE_DIR}/${source} ${ARGN})
endmacro()

function(rota_shaders out_headers)
  file(GLOB shaders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/vk/*.comp ${PROJECT_SOURCE_DIR}/exec/vk/*.comp)
  foreach(shader ${shaders})
    get_filename_component(name ${shader} NAME_WE)
    rota_shader_compile(${name} ${shader})
  endforeach()
  rota_shader_variant(vk_copy_bytes exec/vk/vk_copy.comp -DROTA_COPY_BYTES)
  rota_shader_variant(vk_touch_write exec/vk/vk_touch.comp -DROTA_TOUCH_WRITE)
  if(EXISTS ${PROJECT_SOURCE_DIR}/ops/vk/variants.cmake)
    include(${PROJECT_SOURCE_DIR}/ops/vk/variants.cmake)
  endif()
  add_custom_target(rota_shader_headers DEPENDS ${ROTA_SHADER_OUTPUTS})
  set(${out_headers} ${ROTA_SHADER_OUTPUTS} PARENT_SCOPE)
endfunction()
