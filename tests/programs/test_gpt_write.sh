#!/usr/bin/env bash
# What the GPT example writes wholly on a device that runs nodes that decide is what it writes with a submission a
# token: prompts shorter and longer than the block, blocks that fill up again and again, few tokens and many, the end of
# a text early, late and never.
# test_gpt_write.sh GPT_TOOL [DEVICE]
set -euo pipefail
tool=$1 device=${2:-cpu} failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

vocabulary=50
prompt() { seq -s ' ' 1 "$1"; } # tokens below the vocabulary's size
# both BLOCK TEMPERATURE END COUNT PROMPT_LENGTH: sets tokens, of both loops
both() {
  local arguments=("$1" $vocabulary "$2" "$3" "$4") host
  read -ra given <<<"$(prompt "$5")"
  host=$("$tool" write "$device" host "${arguments[@]}" "${given[@]}")
  tokens=$("$tool" write "$device" device "${arguments[@]}" "${given[@]}")
  [[ $host == *' host' || $host == '0 host' ]] || fail "$*: the host's loop says '$host'"
  [[ $tokens == *device ]] || fail "$*: not on the device: '$tokens'"
  host=${host%host} tokens=${tokens%device}
  [ "$host" = "$tokens" ] || fail "block $1, temperature $2, end $3, $4 tokens after $5: '$host' and '$tokens'"
}
for temperature in 0 1; do
  for length in 1 2 15 16 17 33 49; do # a submission has 16 tokens, a block 20 or 64
    for count in 1 2 16 47; do
      both 20 $temperature -1 $count $length
      [ "$(wc -w <<<"$tokens")" -eq $((count + 1)) ] || fail "$count tokens wanted: '$tokens'"
    done
  done
  both 64 $temperature -1 200 3
  both 1 $temperature -1 20 3
done

# Up to the first that ends the text, wherever it comes.
both 64 1 -1 120 3
read -ra all <<<"$tokens"
unset 'all[-1]'
ends=0
for end in $(printf '%s\n' "${all[@]}" | awk '!seen[$0]++' | sed -n '1p;5p;17p;25p;$p'); do
  both 64 1 "$end" 120 3
  expected=()
  for token in "${all[@]}"; do
    [ "$token" != "$end" ] || break
    expected+=("$token")
  done
  [ "$tokens" = "$(printf '%s ' "${expected[@]}" | sed 's/^ $//')${#expected[@]} " ] ||
    fail "up to $end: '$tokens', expected ${#expected[@]} of '${all[*]}'"
  ends=$((ends + 1))
done
[ $ends -ge 4 ] || fail "only $ends different tokens were looked for: '${all[*]}'"
[ $failures -eq 0 ] || exit 1
echo "all good"
