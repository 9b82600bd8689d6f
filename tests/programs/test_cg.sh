#!/usr/bin/env bash
# cg from the command line: solutions against known ones and against residuals in Python's doubles, the while node and
# the loop on the host to the bit alike, and files that are wrong each said so with their line.
# test_cg.sh CG
set -euo pipefail
program=$1
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
# Bits that are alike whatever runs them are the CPU's.
printf '#!/bin/sh\nexec "%s" --device cpu "$@"\n' "$program" >cg
chmod +x cg
cg=./cg
. "$here/cli_support.sh"
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

python3 - <<'PY'
import random
rng = random.Random(7)
n = 300
lower = {}
for i in range(n):
    for j in rng.sample(range(i), min(i, 6)):
        lower[i, j] = rng.uniform(-1, 1)
whole = dict(lower) | {(j, i): v for (i, j), v in lower.items()}
for i in range(n):
    lower[i, i] = whole[i, i] = 0.5 + sum(abs(v) for (r, c), v in whole.items() if r == i and c != i)
x = [rng.uniform(-1, 1) for _ in range(n)]
b = [sum(v * x[c] for (r, c), v in whole.items() if r == i) for i in range(n)]
def write(name, head, entries, size=n):
    entries = list(entries)
    rng.shuffle(entries)
    with open(name, "w") as file:
        print(f"%%MatrixMarket matrix coordinate {head}\n% made by test_cg.sh\n", file=file)
        print(size, size, len(entries), file=file)
        for entry in entries:
            print(*entry, file=file)
write("general.mtx", "real general", ((r + 1, c + 1, repr(v)) for (r, c), v in whole.items()))
write("lower.mtx", "REAL Symmetric", ((r + 1, c + 1, repr(v)) for (r, c), v in lower.items()))
def vector(name, values):
    open(name, "w").write(f"%%MatrixMarket matrix array real general\n{len(values)} 1\n" +
                          "".join(f"{v!r}\n" for v in values))
vector("b.mtx", b)
vector("known.mtx", x)
# Ones on the diagonal, of which each is a pattern's entry; 4 and -1 as integers.
write("pattern.mtx", "pattern symmetric", ((i, i) for i in range(1, 6)), 5)
write("integer.mtx", "integer symmetric", [(i, i, 4) for i in range(1, 10)] +
      [(i + 1, i, -1) for i in (1, 2, 4, 5, 7, 8)] + [(i + 3, i, -1) for i in range(1, 7)], 9)
vector("zeros.mtx", [0.0] * 9)
PY

# near FILE FILE MOST: two vectors differ by at most so much.
near() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import sys
a, b = ([float(line) for line in open(name).readlines()[2:]] for name in sys.argv[1:3])
apart = max(abs(x - y) for x, y in zip(a, b))
assert len(a) == len(b) and apart <= float(sys.argv[3]), f"FAILED: {sys.argv[1:]}: {apart} apart"
PY
}

# ---- Known solutions ----
# Of the square of 3 by 3 by hand: corners 11/16, edges 7/8, its middle 9/8, which doubles have to the bit.
expect 0 '^a while node: 3 iterations' "$cg" --poisson 3 --solution small.mtx
printf '%%%%MatrixMarket matrix array real general\n9 1\n' >expected.mtx
printf '%s\n' .6875 .875 .6875 .875 1.125 .875 .6875 .875 .6875 | sed 's/^/0/;s/^01/1/' >>expected.mtx
near small.mtx expected.mtx 1e-15
expect 0 '^9 unknowns, 33 entries' "$cg" --matrix integer.mtx --solution integer.out
near integer.out expected.mtx 1e-15
expect 0 '^5 unknowns, 5 entries' "$cg" --matrix pattern.mtx --solution pattern.out
[ "$(sort pattern.out | uniq -c | sort -n | tail -n 1 | tr -d ' ')" = 51 ] || fail "the pattern's solution is not ones"
expect 0 ' 0 iterations, residual 0 ' "$cg" --matrix integer.mtx --right zeros.mtx --solution zeros.out
cmp zeros.out <(sed 's/0\.0/0/' zeros.mtx) || fail "the solution for zeros is not zeros"
for matrix in general lower; do
  expect 0 '^a while node: ' "$cg" --matrix $matrix.mtx --right b.mtx --tolerance 1e-12 --solution $matrix.out
  near $matrix.out known.mtx 1e-9
done
cmp general.out lower.out || fail "both triangles give another solution than one"

# ---- The residual, in Python's doubles ----
expect 0 ' iterations' "$cg" --poisson 40 --tolerance 1e-7 --solution while.mtx
python3 - <<'PY' || failures=$((failures + 1))
import math
n, x = 40, [float(line) for line in open("while.mtx").readlines()[2:]]
at = lambda i, j: x[i * n + j] if 0 <= i < n and 0 <= j < n else 0
r = [1 - 4 * at(i, j) + at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) for i in range(n) for j in range(n)]
residual = math.sqrt(sum(v * v for v in r)) / n
assert len(x) == n * n and 1e-10 < residual <= 1e-7 * (1 + 1e-6), f"FAILED: the residual is {residual}"
PY
# ---- The same iterations, whoever submits them, on however many threads, and again ----
steps=$(sed -n 's/.*: \([0-9]*\) iterations.*/\1/p' output)
for way in '--host-loop' '--threads 1' '--threads 7' '--host-loop --threads 3' '--repeat 4' '--host-loop --repeat 2'; do
  # shellcheck disable=SC2086 # several options
  expect 0 ": $steps iterations" "$cg" --poisson 40 --tolerance 1e-7 $way --solution again.mtx
  cmp while.mtx again.mtx || fail "$way: other bits"
done
expect 0 '^a submission an iteration: ' "$cg" --poisson 40 --host-loop
# Sums of several blocks of rows, and nodes that are split.
expect 0 '^a while node: ' "$cg" --poisson 150 --threads 2 --solution two.mtx
expect 0 '^a submission an iteration: ' "$cg" --poisson 150 --threads 1 --host-loop --solution one.mtx
cmp one.mtx two.mtx || fail "150: other bits"

# ---- Limits, and what is not positive definite ----
expect 2 "iteration 9 of while 'solve': its condition is 1 after 10 iterations, the most it may have" "$cg" \
  --poisson 40 --iterations 10 --solution limit.mtx
expect 2 'the residual is [0-9.]+ of the right-hand side after 10 iterations, the most it may have' "$cg" \
  --poisson 40 --iterations 10 --host-loop --solution limit.mtx
absent limit.mtx
expect 0 ": $steps iterations" "$cg" --poisson 40 --tolerance 1e-7 --iterations "$steps"
for way in '' --host-loop; do
  expect 2 'iterations, the most' "$cg" --poisson 40 --tolerance 1e-7 --iterations $((steps - 1)) $way
done
mtx() { # FILE HEAD LINE...
  printf '%%%%MatrixMarket matrix %s\n' "$2" >"$1"
  printf '%s\n' "${@:3}" >>"$1"
}
mtx saddle.mtx 'coordinate real symmetric' '2 2 3' '1 1 1' '2 1 -2' '2 2 1'
for way in '' --host-loop; do
  expect 2 "p.Ap is -2, expected more than 0: the matrix is not positive definite" "$cg" --matrix saddle.mtx $way
done

# ---- On a GPU ----
expect 0 ' iterations' "$cg" --matrix lower.mtx --right b.mtx --tolerance 1e-12 --solution cpu.out
for way in '' --host-loop; do
  # shellcheck disable=SC2086 # several options
  expect 0 ' iterations' "$cg" --device vk:0 --matrix lower.mtx --right b.mtx --tolerance 1e-12 $way \
    --iterations 100 --solution gpu.out
  near gpu.out cpu.out 1e-9
  expect 2 'p.Ap is not more than 0 in iteration 0: the matrix is not positive definite' "$cg" --device vk:0 \
    --matrix saddle.mtx --iterations 20 $way
done
expect 0 ' iterations' "$cg" --device vk:0 --poisson 150 --tolerance 1e-2 --iterations 300 # several blocks of rows
expect 2 "iteration 9 of while 'solve': its condition is 1 after 10 iterations" "$cg" --device vk:0 --poisson 40 \
  --iterations 10
expect 0 ' iterations' "$cg" --device vk:0 --poisson 4 --iterations 4G # a few of them

# ---- Options ----
expect 1 'no equations; expected --matrix FILE.mtx or --poisson N' "$cg"
expect 1 '^cg: --matrix and --poisson; expected' "$cg" --matrix general.mtx --poisson 4

# ---- Files that are wrong ----
bad() { # WHAT HEAD LINE...: the file of that head and those lines
  mtx bad.mtx "${@:2}"
  expect 1 "^'bad.mtx' $1" "$cg" --matrix bad.mtx
  [ "$(grep -vc '^device ' output)" -eq 1 ] || fail "more than one line for: $1"
}
real='coordinate real symmetric' kinds='matrix coordinate real.integer.pattern symmetric.general'
both='coordinate real general'
expect 1 "'none.mtx'" "$cg" --matrix none.mtx
: >bad.mtx
expect 1 "^'bad.mtx' line 1: it is no Matrix Market file: expected '%%MatrixMarket matrix coordinate" "$cg" \
  --matrix bad.mtx
printf '1 1 1\n' >bad.mtx
expect 1 "^'bad.mtx' line 1: it is no Matrix Market file" "$cg" --matrix bad.mtx
printf '%%%%MatrixMarket matrix %s\n1 1 1\n1 1 \0\n' "$real" >bad.mtx
expect 1 "'bad.mtx' is no text: it has a byte 0" "$cg" --matrix bad.mtx
for head in 'array real general' 'coordinate complex general' 'coordinate real skew-symmetric' \
  'coordinate real hermitian' 'coordinate real' "$real more"; do
  bad "line 1: 'matrix ${head% more}[ ]?.*', expected '$kinds'" "$head" '1 1 1' '1 1 1'
done
bad "line 2: the last, and there are no sizes" "$real" '%'
for sizes in '2 2' '2 2 2 2' '0 0 0' '-2 2 2' '2 2 x' '4294967296 4294967296 1' '2 2 99999999999999999999'; do
  bad "line 2: '.*', expected 'rows columns entries'" "$real" "$sizes" '1 1 1' '2 2 1'
done
bad 'line 2: 2 rows and 3 columns; the matrix is not square' "$real" '2 3 2' '1 1 1' '2 2 1'
bad 'line 2: 1 entries of 2 rows; a matrix with zeros' "$real" '2 2 1' '1 1 1'
bad 'line 2: 1000000000000 entries, for which the file has too few bytes' "$real" '2 2 1000000000000' '1 1 1' '2 2 1'
bad 'line 4: the last, and it has 2 entries of 3' "$real" '2 2 3' '1 1 1' '2 2 1'
bad 'line 6: more than the 2 entries' "$real" '2 2 2' '1 1 1' '2 2 1' '%' '2 1 0'
for entry in '3 1 1' '0 1 1' '1 0 1' 'a 1 1' '1' '-1 1 1' '1.0 1 1'; do
  bad 'line 3: entry \(.*\), expected a row and a column from 1 to 2' "$real" '2 2 2' "$entry" '2 2 1'
done
for value in '' nan -inf 1e999 x 1x; do
  bad "line 4: the value '$value' of entry \(2, 2\) is no finite number" "$real" '2 2 2' '1 1 1' "2 2 $value"
done
bad "line 3: '2' behind entry \(1, 1\)" "$real" '2 2 2' '1 1 1 2' '2 2 1'
bad "line 3: '1' behind entry \(1, 1\)" 'coordinate pattern symmetric' '2 2 2' '1 1 1' '2 2'
bad 'line 5: entry \(1, 2\) is above the diagonal' "$real" '2 2 3' '1 1 1' '2 2 1' '1 2 .5'
bad 'line 5: entry \(2, 1\) is there twice' "$real" '2 2 4' '1 1 1' '2 1 1' '2 1 1' '2 2 1'
bad 'line 3: diagonal entry \(1, 1\) is -1; the matrix is not positive definite' "$real" '2 2 2' '1 1 -1' '2 2 1'
bad 'line 4: the last, and there is no diagonal entry \(2, 2\)' "$real" '2 2 2' '1 1 1' '2 1 1'
bad 'line 4: entry \(1, 2\) has no \(2, 1\); the matrix is not symmetric' "$both" '2 2 3' '1 1 1' '1 2 .5' '2 2 1'
bad 'line 4: entry \(2, 1\) has no \(1, 2\); the matrix is not symmetric' "$both" '2 2 3' '1 1 1' '2 1 .5' '2 2 1'
bad 'line 3: entry \(1, 2\) is 0.5, and \(2, 1\), of line 5, 0.25; the matrix is not symmetric' "$both" \
  '2 2 4' '1 2 .5' '1 1 1' '2 1 .25' '2 2 1'
# Right-hand sides.
right() { # WHAT HEAD LINE...
  mtx bad.mtx "${@:2}"
  expect 1 "^'bad.mtx' $1" "$cg" --matrix pattern.mtx --right bad.mtx
}
right "line 1: 'matrix coordinate real general', expected 'matrix array real.integer general'" "$both" '5 1' 1 1 1 1 1
right "line 2: '4 1', expected '5 1'" 'array real general' '4 1' 1 1 1 1
right "line 2: '5 2', expected '5 1'" 'array real general' '5 2' 1 1 1 1 1
right 'line 5: the last, and it has 3 numbers of 5' 'array real general' '5 1' 1 1 1
right "line 4: 'x' is not one finite number" 'array real general' '5 1' 1 x 1 1 1
right "line 4: '1' is not one finite number" 'array real general' '5 1' 1 '1 1' 1 1 1
right 'line 8: more than 5 numbers' 'array real general' '5 1' 1 1 1 1 1 1

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
