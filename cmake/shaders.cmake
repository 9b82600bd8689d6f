# Compute shaders: ops/vk/<name>.comp and exec/vk/<name>.comp become the header generated/spv/<name>.h with the words
# `rota_spv_<name>`. Variants by macro: rota_shader_variant(<variant name> <source> <definitions...>), in ops/vk/variants.cmake.
find_program(GLSLANG glslangValidator REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/spv)
set(ROTA_SHADER_OUTPUTS)

function(rota_shader_compile name source)
  set(out ${CMAKE_BINARY_DIR}/generated/spv/${name}.h)
  file(GLOB includes CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/exec/vk/*.glsl ${CMAKE_SOURCE_DIR}/ops/vk/*.glsl)
  add_custom_command(OUTPUT ${out}
    COMMAND ${GLSLANG} -V --quiet --target-env vulkan1.2 -I${CMAKE_SOURCE_DIR}/exec/vk -I${CMAKE_SOURCE_DIR}/ops/vk
            ${ARGN} --vn rota_spv_${name} -o ${out} ${source}
    DEPENDS ${source} ${includes} VERBATIM)
  set(ROTA_SHADER_OUTPUTS ${ROTA_SHADER_OUTPUTS} ${out} PARENT_SCOPE)
endfunction()

macro(rota_shader_variant name source)
  rota_shader_compile(${name} ${CMAKE_SOURCE_DIR}/${source} ${ARGN})
endmacro()

function(rota_shaders out_headers)
  file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/vk/*.comp ${CMAKE_SOURCE_DIR}/exec/vk/*.comp)
  foreach(shader ${shaders})
    get_filename_component(name ${shader} NAME_WE)
    rota_shader_compile(${name} ${shader})
  endforeach()
  rota_shader_variant(vk_copy_bytes exec/vk/vk_copy.comp -DROTA_COPY_BYTES)
  rota_shader_variant(vk_touch_write exec/vk/vk_touch.comp -DROTA_TOUCH_WRITE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/ops/vk/variants.cmake)
    include(${CMAKE_SOURCE_DIR}/ops/vk/variants.cmake)
  endif()
  add_custom_target(rota_shader_headers DEPENDS ${ROTA_SHADER_OUTPUTS})
  set(${out_headers} ${ROTA_SHADER_OUTPUTS} PARENT_SCOPE)
endfunction()
