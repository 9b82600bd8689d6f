# shellcheck shell=bash
# Sourced: rota_pip_install VENV PACKAGE... makes the virtual environment where it is not there, and installs into it.
# Where the Python registry does not answer it exits with 77, which is skipped; what else goes wrong is an error.
rota_pip_install() {
  local venv=$1 said lock
  shift
  mkdir -p "$(dirname "$venv")"
  exec {lock}>"$venv.lock" # others install into the same
  flock "$lock"
  [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
  # Python compiles what is imported, which is less than all.
  said=$("$venv/bin/pip" install -q --no-compile --disable-pip-version-check "$@" 2>&1) && exec {lock}>&- && return
  echo "$said"
  if grep -qE "NewConnectionError|ConnectTimeout|Could not fetch URL|name resolution|Max retries" <<<"$said"; then
    echo "skipped: the Python registry does not answer"
    exit 77
  fi
  exit 1
}

# rota_pip_install_package VENV BUILD FOLDER installs the Python package over the library of BUILD, built in its FOLDER.
rota_pip_install_package() {
  "$1/bin/pip" install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
    -C cmake.define.ROTA_BUILT="$2" -C build-dir="$2/$3" "$(dirname "${BASH_SOURCE[0]}")/../python"
}

# rota_find_python VERSION prints an interpreter of that version (3.12, 3.13t), or fails where there is none.
rota_find_python() {
  local it
  for it in "python$1" "${PYENV_ROOT:-${HOME:-/root}/.pyenv}/versions/$1".*/bin/python; do
    if [[ $("$it" -c 'import ensurepip, sys, sysconfig; v = sys.version_info
print(f"{v[0]}.{v[1]}" + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED")))' 2>/dev/null) == "$1" ]]; then
      echo "$it"
      return
    fi
  done
  return 1
}
