#!/usr/bin/env bash
# Two hosts that are network namespaces of this one, joined by a pair of virtual cards: rota-run --hosts has two ranks
# on each, and ranks that meet by an address need no launcher; both learn what four ranks of one host learn, to the bit.
# Then the network between them goes down in the middle: every rank ends by its deadline, and names rank, node and
# communicator.
# test_hosts.sh BUILD_DIR; 77: this may not make namespaces (it needs root, and ip).
set -euo pipefail
build=$(realpath "$1")
train=$build/examples/train_gpt run=$build/bench/rota-run
work=$(mktemp -d)
one=rota-one-$$ two=rota-two-$$
processes=()
# What runs on a host of these, whoever started it.
end_host() { # NAME SIGNAL
  ip netns pids "$1" 2>/dev/null | xargs -r kill -"$2" 2>/dev/null || true
}
clean() {
  for name in $one $two; do end_host "$name" KILL; done
  ip netns del $one 2>/dev/null || true
  ip netns del $two 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
cd "$work"
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! ip netns add $one 2>/dev/null; then
  echo "skipped: network namespaces can't be made here (root, iproute2)"
  exit 77
fi
fail() {
  echo "FAILED: $*"
  exit 1
}
ip netns add $two
ip link add vone netns $one type veth peer name vtwo netns $two 2>/dev/null || {
  echo "skipped: virtual network cards can't be made here"
  exit 77
}
ip -n $one addr add 10.77.0.1/24 dev vone
ip -n $two addr add 10.77.0.2/24 dev vtwo
for name in $one $two; do ip -n $name link set lo up; done
ip -n $one link set vone up
ip -n $two link set vtwo up
export XDG_CACHE_HOME=$work/cache
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SLURM_STEP_NUM_TASKS TORCHELASTIC_RUN_ID

for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
small=(--data text --device cpu --layers 2 --heads 2 --dim 32 --block 32 --batch 2 --warmup 2 --eval-iters 0)
few=(--iters 8 "${small[@]}")
endless=(--iters 1000000 "${small[@]}" --timeout 3)

# How it is on one host.
"$train" "${few[@]}" --ranks 4 --checkpoint expected >said || fail "ranks of one host: $(cat said)"
same() { # NAME
  cmp expected/checkpoint.safetensors "$1/checkpoint.safetensors" || fail "$1 is another training"
}

# host NUMBER COMMAND...: on that host, which has a name of its own.
host() {
  local name=$one
  [ "$1" = 1 ] || name=$two
  shift
  ip netns exec "$name" unshare --uts --kill-child sh -c 'hostname "$0"; exec "$@"' "$name" "$@"
}

# ---- By an address ----
# meet PORT LOG ARGUMENT...: ranks 0 and 1 on one host, 2 and 3 on the other; what each says is in LOG-RANK.
meet() {
  local port=$1 log=$2 rank
  shift 2
  processes=()
  for rank in 0 1 2 3; do
    host $((rank / 2 + 1)) env RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 \
      MASTER_PORT="$port" "$train" "$@" >"$log-$rank" 2>&1 &
    processes+=($!)
  done
}
meet 4000 by-address "${few[@]}" --checkpoint by-address
for process in "${processes[@]}"; do
  wait "$process" || fail "ranks that meet by an address: $(head -50 by-address-*)"
done
grep -q '^4 ranks, by TCP' by-address-0 || fail "what carries the bytes is not said: $(cat by-address-0)"
same by-address

# cut LOG: once all learn, the link goes down; each rank is to end soon, and to say why.
cut() {
  local log=$1
  for _ in $(seq 600); do
    [ "$(cat "$log.jsonl" 2>/dev/null | wc -l)" -ge 10 ] && break
    sleep 0.05
  done
  [ "$(wc -l <"$log.jsonl")" -ge 10 ] || fail "$log: it does not begin: $(head -50 "$log"-?)"
  ip -n $one link set vone down
  begin=$SECONDS
}
# Until it carries again: somebody answers that nobody listens there.
mend() {
  ip -n $one link set vone up
  for _ in $(seq 100); do
    answer=$(timeout 2 ip netns exec $one bash -c 'exec 3<>/dev/tcp/10.77.0.2/9' 2>&1) || true
    [[ $answer == *refused* ]] && return
    sleep 0.1
  done
  fail "the link does not come up again"
}
# said LOG: what each rank says of the other host's.
said() {
  local log=$1 rank others
  for rank in 0 1 2 3; do
    others='[23]'
    [ $rank -lt 2 ] || others='[01]'
    grep -qE "node '.*' failed .*communicator 'training': rank [0-3] waited 3\.. s at .* '.*' .* for ranks? .*$others" \
      "$log-$rank" || fail "$log: rank $rank says: $(cat "$log-$rank")"
  done
}
meet 4100 cut-address "${endless[@]}" --log cut-address.jsonl
cut cut-address
for process in "${processes[@]}"; do
  code=0
  wait "$process" || code=$?
  [ $code = 2 ] || fail "a rank that the link cut off: exit code $code: $(head -50 cut-address-?)"
done
[ $((SECONDS - begin)) -lt 25 ] || fail "ranks that the link cut off ended after $((SECONDS - begin)) s"
said cut-address
mend

# ---- By rota-run, and Open MPI's launcher ----
if ! command -v mpirun >/dev/null || ! mpirun --version | grep -q 'Open MPI' || ! [ -e "$build/librota_mpi.so.1" ]; then
  echo "all good, without MPI"
  exit 0
fi
# What stands in for ssh: HOST COMMAND...
cat >remote.sh <<S
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
shift
exec ip netns exec $two unshare --uts sh -c 'hostname $two; exec sh -c "\$0"' "\$*"
S
chmod +x remote.sh
printf '10.77.0.1 slots=2\n10.77.0.2 slots=2\n' >hosts.txt
export OMPI_MCA_plm_rsh_agent=$work/remote.sh OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl=self,vader,tcp
code=0
host 1 timeout 120 "$run" -n 4 --hosts hosts.txt "$train" "${few[@]}" --checkpoint by-hosts >by-hosts.txt 2>&1 ||
  code=$?
[ $code = 0 ] || fail "rota-run on two hosts: exit code $code: $(cat by-hosts.txt)"
grep -q '^\[0\] 4 ranks, by MPI' by-hosts.txt || fail "rota-run on two hosts: $(cat by-hosts.txt)"
same by-hosts
cat >own.sh <<'S'
log=$1
shift
exec "$@" >"$log-$OMPI_COMM_WORLD_RANK" 2>&1
S
host 1 timeout 120 "$run" -n 4 --hosts hosts.txt sh own.sh "$PWD/cut-hosts" "$train" "${endless[@]}" \
  --log cut-hosts.jsonl >cut-hosts.txt 2>&1 &
processes=($!)
cut cut-hosts
for _ in $(seq 250); do
  [ "$(grep -l 'waited 3\.[0-9] s' cut-hosts-? | wc -l)" = 4 ] && break
  sleep 0.1
done
said cut-hosts
for signal in TERM TERM KILL; do
  for name in $one $two; do end_host "$name" $signal; done
  sleep 0.5
done
wait "${processes[0]}" || true
mend
echo "hosts: all good"
