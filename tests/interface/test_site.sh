#!/usr/bin/env bash
# The site builds without a warning, with no link inside that leads nowhere; with --browser it is opened in Chromium,
# wide and narrow, light and dark. Planted faults must be found. With --man, the manual pages, too.
# test_site.sh SOURCE_DIR BUILD_DIR [--browser | --man]
# Exits with 77, which is skipped, where the Python registry does not answer or there is no Chromium.
set -euo pipefail
source_dir=$1 build_dir=$2 site=$2/site
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

if [ "${3:-}" = --man ]; then
  "$source_dir/scripts/build_docs.sh" "$build_dir"
  # A manual page for each header, and a name for each function that leads to its page.
  for word in rota_submit rota_runtime_options rota_op_matmul rota_op_exp_into; do
    page=$(gzip -dc "$build_dir/man/man3/$word.3.gz" | sed -n 's/^\.so man3\///p')
    gzip -dc "$build_dir/man/man3/$page.gz" | grep "^\.B .*\b$word\b" >/dev/null || fail "no manual page has $word"
    if gzip -dc "$build_dir/man/man3/$page.gz" | grep '%<'; then fail "$page has links"; fi
  done
  if command -v man >/dev/null; then # a small system's says that pages are left out, and shows none
    said=$(MANWIDTH=100 man -M "$build_dir/man" 3 rota_submit 2>/dev/null | col -b || true)
    [[ $said != *rota* || $said == *'rota_status rota_submit('* ]] || fail "man 3 rota_submit shows something else"
  fi
  exit 0
fi

if [ "${3:-}" != --browser ]; then
  "$source_dir/scripts/build_docs.sh" "$build_dir" --site
  [ "$(grep -c 'class="sig sig-object' "$site/reference/c.html")" -gt 400 ] || fail "the reference lacks functions"
  for word in rota_submit rota_runtime_options rota_op_matmul; do
    grep -q "id=\"c.$word\"" "$site/reference/c.html" || fail "the reference lacks $word"
  done
  for name in rota.softmax rota.Device.adopt rota.Tensor.shape rota.trainer rota.errors.Timeout rota.torch.capture \
    rota.jax.function; do
    grep -q "id=\"$name\"" "$site/reference/python.html" || fail "the Python reference lacks $name"
  done
  grep -q -- '--memory-limit' "$site/reference/programs.html" || fail "the programs' options are not there"
  # Each planted fault is found, and nothing else.
  cp -r "$site" "$work/site"
  for fault in '<a href="nowhere.html">' '<a href="guide.html#no-such-place">' '<img src="_images/none.svg">'; do
    sed "s|</body>|$fault</body>|" "$site/compare.html" >"$work/site/compare.html"
    python3 "$source_dir/docs/check_site.py" "$source_dir" "$work/site" >"$work/said" && fail "not found: $fault"
    [ "$(wc -l <"$work/said")" -eq 1 ] || { cat "$work/said"; fail "found more than $fault"; }
  done
  # So is an option that no program has.
  mkdir "$work/root"
  ln -s "$source_dir"/* "$work/root"
  rm "$work/root/docs"
  cp -r "$source_dir/docs" "$work/root/docs"
  sed -i 's/ --collapse$/ --colapse/' "$work/root/docs/tasks.md"
  python3 "$source_dir/docs/check_site.py" "$work/root" "$site" >"$work/said" && fail "not found: --colapse"
  grep -q 'there is no --colapse' "$work/said" || { cat "$work/said"; fail "found something else than --colapse"; }
  exit 0
fi

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
  echo "skipped: there is no chromium"
  exit 77
fi
[ -d "$site" ] || "$source_dir/scripts/build_docs.sh" "$build_dir" --site
venv=$build_dir/python-venv
. "$source_dir/scripts/pip_install.sh"
if ! cmp -s "$source_dir/docs/requirements-browser.txt" "$venv/installed-browser.txt"; then
  rota_pip_install "$venv" -r "$source_dir/docs/requirements-browser.txt"
  cp "$source_dir/docs/requirements-browser.txt" "$venv/installed-browser.txt"
fi
browse() { "$venv/bin/python" "$source_dir/docs/browse_site.py" "$1" "$chromium"; }
browse "$site"
mkdir "$work/planted"
page() { printf '<!doctype html><html><body><article><p>text</p>%s</article></body></html>' "$1" \
  >"$work/planted/page.html"; }
page ''
browse "$work/planted" >/dev/null || fail "a page without faults is judged"
for fault in '<div style="width:2000px">wide</div>' '<img src="none.png">' '<script>console.error("planted")</script>' \
  '<script>null.member</script>' '<p style="color:#777;background:#888">grey on grey</p>'; do
  page "$fault"
  browse "$work/planted" >"$work/said" && fail "not found: $fault"
done
echo "planted faults were found"
