# Included by cuda_image.cmake and shader.cmake. Trees at other places, and branches of one, share a cache: each has its
# own image of a name for a while, and none takes away another's. The eight used last stay; builds have copies of what
# they use.
set(ROTA_IMAGES_KEPT 8)

# Under the name's lock: `taken` was just used, of those that ${pattern} gives the oldest go, each with what lies beside
# it under its name and .entries.
function(rota_image_cache_trim taken pattern)
  file(TOUCH ${taken})
  file(GLOB images ${pattern})
  set(by_age)
  foreach(image ${images})
    file(TIMESTAMP ${image} seconds "%s" UTC)
    list(APPEND by_age "${seconds} ${image}")
  endforeach()
  list(SORT by_age COMPARE NATURAL ORDER DESCENDING)
  list(LENGTH by_age count)
  if(count GREATER ROTA_IMAGES_KEPT)
    list(SUBLIST by_age ${ROTA_IMAGES_KEPT} -1 old)
    foreach(image ${old})
      string(REGEX REPLACE "^[0-9]+ " "" image "${image}")
      if(NOT image STREQUAL taken)
        file(REMOVE ${image} ${image}.entries)
      endif()
    endforeach()
  endif()
endfunction()
