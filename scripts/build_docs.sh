#!/usr/bin/env bash
# Builds the site of docs/ into BUILD/site, and manual pages of the C interface into BUILD/man, in the virtual
# environment in which the Python package is tested, too (docs/requirements.txt): with the headers, and with what the
# programs and the Python package of the build say of themselves. A warning is an error, and so is a link inside that
# leads nowhere. build_docs.sh BUILD [--site]
# --site: no manual pages.
# Exits with 77, which is skipped, only where the Python registry does not answer.
set -euo pipefail
build=$(realpath "$1")
root=$(dirname "$(dirname "$(realpath "$0")")")
venv=$build/python-venv
. "$root/scripts/pip_install.sh"

if ! cmp -s "$root/docs/requirements.txt" "$venv/installed-docs.txt"; then
  rota_pip_install "$venv" -r "$root/docs/requirements.txt"
  cp "$root/docs/requirements.txt" "$venv/installed-docs.txt"
fi
rota_pip_install_package "$venv" "$build" python-build
rm -rf "$build/site" "$build/docs-generated"
ROTA_BUILD=$build "$venv/bin/sphinx-build" -W --keep-going -q -d "$build/docs-doctrees" -b html "$root/docs" \
  "$build/site"
python3 "$root/docs/check_site.py" "$root" "$build/site"
if [ "${2:-}" = --site ]; then exit; fi
rm -rf "$build/docs-man" "$build/man"
python3 "$root/docs/manual_pages.py" "$root" "$build/docs-man-source"
ROTA_BUILD=$build "$venv/bin/sphinx-build" -W --keep-going -q -d "$build/docs-man-doctrees" -b man -c "$root/docs" \
  "$build/docs-man-source" "$build/docs-man"
python3 "$root/docs/manual_pages.py" "$root" "$build/docs-man-source" "$build/docs-man" "$build/man/man3"
