# What make install takes of a program: itself, its manual page, and the completions of bash, zsh and fish. Who built
# the library alone installs none (OPTIONAL). Programs under a sanitizer are for tests; built for another machine
# without an emulator, they can't print their pages.
function(rota_program name)
  if(ROTA_SANITIZE)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/pages)
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DNAME=${name} -DFOLDER=${folder}
              "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}" -P ${PROJECT_SOURCE_DIR}/cmake/print_pages.cmake
      VERBATIM)
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/print_pages.cmake)
  endif()
  if(NOT ROTA_INSTALL)
    return()
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools OPTIONAL)
  install(FILES ${folder}/${name}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools OPTIONAL)
  install(FILES ${folder}/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools
    OPTIONAL)
  install(FILES ${folder}/_${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools OPTIONAL)
  install(FILES ${folder}/${name}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tools
    OPTIONAL)
endfunction()

# A file's text as a byte array of that name, ended by a 0, in the header generated/NAME.h: what is part of a program.
function(rota_embed_text file name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text HEX)
  string(REGEX REPLACE "(..)" "0x\\1," text "${text}")
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/generated/${name}.h
    CONTENT "static const unsigned char ${name}[] = {${text}0};\n")
endfunction()
