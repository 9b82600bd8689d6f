# Cross-builds for aarch64 Linux with Debian's compiler: cmake --toolchain cmake/aarch64.cmake -DROTA_SYSROOT=FOLDER, a
# folder with the libraries, as scripts/check_aarch64.sh makes it. Tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(ROTA_SYSROOT "" CACHE PATH "Folder with aarch64's /usr and /lib")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ROTA_SYSROOT)
set(CMAKE_SYSROOT ${ROTA_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ROTA_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${ROTA_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${ROTA_SYSROOT}/usr/share/pkgconfig)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${ROTA_SYSROOT})
