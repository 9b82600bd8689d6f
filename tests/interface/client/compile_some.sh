#!/usr/bin/env bash
# A compiler launcher: takes objects of rota's from a build of the same sources (ROTA_REUSE), but for some, which
# include what the build makes and what lies outside the tree, and everything else.
set -eu
object=
for ((i = 1; i < $#; i++)); do
  if [ "${!i}" = -o ]; then
    j=$((i + 1))
    object=${!j}
  fi
done
case $object in
  */cuda_device.c.o | */vk_touch.c.o | */kernels.c.o | */generated/*) ;;
  */CMakeFiles/rota_static.dir/* | */CMakeFiles/rota_plain.dir/*)
    made=$ROTA_REUSE/CMakeFiles/${object##*/CMakeFiles/}
    if [ -e "$made" ]; then exec cp "$made" "$object"; fi
    ;;
esac
exec "$@"
