# make install: libraries, public headers, pkg-config file, CMake package.
install(TARGETS rota_static rota_shared
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
