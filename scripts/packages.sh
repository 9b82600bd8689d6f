# Sourced by check.sh and demo.sh: installs the distribution packages that are missing, and only those.

rota_packages=(build-essential cmake ninja-build pkg-config libvulkan-dev vulkan-validationlayers
  mesa-vulkan-drivers glslang-tools spirv-tools libck-dev libhwloc-dev libopenblas-dev libcjson-dev
  libcmocka-dev libpcre2-dev python3 python3-dev python3-venv spin)
# Without tcc a test takes longer, without lld linking, without libcbor-dev there are no graph files, without Open MPI
# no communicators of several processes, which the build says: where they cannot be installed nothing is said here.
rota_optional_packages=(tcc lld libcbor-dev libopenmpi-dev openmpi-bin)

rota_is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Fails with the one line to run where it may not install.
rota_install_missing() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    for package in cc cmake ninja pkg-config glslangValidator python3; do
      command -v "$package" >/dev/null || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    echo "This is no Debian or Ubuntu; install ${missing[*]} and the packages that match: ${rota_packages[*]}" >&2
    return 1
  fi
  for package in "${rota_packages[@]}"; do
    rota_is_installed "$package" || missing+=("$package")
  done
  if [ "$(id -u)" -eq 0 ]; then
    for package in "${rota_optional_packages[@]}"; do
      rota_is_installed "$package" ||
        DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -y --no-install-recommends "$package" \
          >/dev/null 2>&1 || true
    done
  fi
  [ ${#missing[@]} -eq 0 ] && return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    # A password may be asked for on a terminal only; elsewhere sudo would wait for ever.
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      echo "Packages are missing. As root, run: apt-get install -y ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "Installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" \
    ||
    { "${as_root[@]}" apt-get update &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}";
      }; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "apt-get could not install the packages. Run: apt-get update && apt-get install -y ${missing[*]}" >&2
    return 1
  fi
  rm -f "$log"
}

# Configures a preset and builds targets quietly; shows the whole output only when a step fails.
# rota_build PRESET [TARGET...]; the array rota_options goes to cmake, too
rota_build() {
  local preset=$1 log
  shift
  log=$(mktemp)
  if ! { cmake --preset "$preset" ${rota_options[@]+"${rota_options[@]}"} &&
    cmake --build --preset "$preset" ${1:+--target "$@"}; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "The $preset build failed." >&2
    return 1
  fi
  rm -f "$log"
}
