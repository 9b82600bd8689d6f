# Sourced by check_device.sh: what it can run, stage by stage, and what some results are boiled down to. In a stage
# $bin, $data, $scratch, $made (what is kept beside the logs), $cuda, $vk, $cudnn and $tiny are set; job, together and
# alone (check_device.sh) say what runs. Seconds expected are those of one H200 with 16 cores.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of check_device.sh
tree=$(dirname "$here")

programs=(bench/rota-bench tests/conformance tests/rota-fuzz tests/test_cuda_kernels tests/test_products \
  tests/test_matmul_cuda_device
  tests/test_attention_device tests/test_conv_device tests/test_loss_device tests/test_norm_mixed_device \
    tests/test_exec_cuda_device \
    tests/test_share_device tests/test_across_device tests/test_stream_points_device \
    tests/test_conditional_device tests/test_counted_device tests/test_loops_device \
    tests/test_vk_application tests/test_vk_points tests/test_vk_ends \
    tests/test_vk_export_device tests/test_cuda_application_device \
    tests/test_custom_op tests/test_fuse tests/test_ops tests/test_shaders tests/test_ranks_gpus tests/rota-fuzz-ranks
  examples/train_gpt examples/train_patchtst examples/custom_op)
# Tests of ops on each device that there is.
ops_tests=(test_attention_dropout test_op_length test_op_long test_op_order test_op_scaled test_op_shapes test_op_f8
  test_op_views test_op_window test_gradients_loops)
programs+=("${ops_tests[@]/#/tests/}")

order=(smoke tests ops ranks gpt2 torch matmul replay full_cuda full_vk sanitize sanitize_init sanitize_races \
  sanitize_ranks trainers same large)
declare -A expected=([smoke]=65 [tests]=400 [ops]=120 [ranks]=240 [gpt2]=100 [torch]=90 [matmul]=140 [replay]=150 \
  [full_cuda]=220 [full_vk]=380
  [sanitize]=350 [sanitize_init]=300 [sanitize_races]=600 [sanitize_ranks]=300 [trainers]=300 [same]=90 [large]=110)
declare -A purpose=(
  [smoke]='Devices open and compute; attention by cuDNN and without.'
  [tests]='Every test that wants a GPU, the conformance suite, the fuzzer, every op against its reference.'
  [ops]='Tests of ops that run on each device: dropout in attention, views, lengths, 8-bit floats, loops.'
  [ranks]='Two GPUs: collectives between them, random programs of ranks, random graphs over both.'
  [gpt2]='GPT-2 124M: time of a step, memory, share of a step with nothing running; Vulkan too.'
  [torch]='GPT-2 124M beside PyTorch, step by step; PyTorch beside itself.'
  [matmul]='Matrix products beside PyTorch, and which way was chosen for each.'
  [replay]='Replays beside the raw API, submitting, planning.'
  [full_cuda]='The conformance suite on CUDA with 1000 repetitions.'
  [full_vk]='The same on Vulkan.'
  [sanitize]='The conformance suite under memcheck and synccheck, 3 repetitions; without contract.leaks, which would
      count what the tool
    allocates.'
  [sanitize_init]='The same under initcheck; one process at a time, since beside another initcheck it calls written
      memory uninitialised.'
  [sanitize_races]='The same under racecheck.'
  [sanitize_ranks]='Two GPUs: collectives and random programs of ranks under memcheck.'
  [trainers]='Char GPT and PatchTST to their end; reports: uploads beside a step.'
  [same]='Same seed, two processes: the same bits.'
  [large]='Every op with more than 2^24 elements.')

# Timed programs and others have caches of their own: what was measured beside other programs shall not be kept for
# those.
checked() { export XDG_CACHE_HOME=$scratch/checked; }
timed() { export XDG_CACHE_HOME=$scratch/timed; }
# pick FULL TINY
pick() { if [ -n "$tiny" ]; then printf '%s' "$2"; else printf '%s' "$1"; fi; }
with_cudnn() { printf 'LD_LIBRARY_PATH=%s' "$cudnn${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; }

stage_smoke() {
  timed
  alone
  job -s '^(cpu|vk|cuda)|cuDNN|cuBLASLt|NVRTC' 60 rota-bench devices
  job -w "$(pick '^cuDNN +libcudnn' .)" -s cuDNN -e "$(with_cudnn)" 60 rota-bench devices
  # First of all where cuDNN may fail: whole and in pieces, beside rota's own kernels.
  job -s 'heads of|us, rota' -e "$(with_cudnn)" 120 test_attention_device
  job -s 'of cuDNN' -e "$(with_cudnn)" 180 test_conv_device
  job 60 rota-bench smoke --device "$cuda"
  job 60 rota-bench smoke --device "$vk"
  local size=()
  if [ -n "$tiny" ]; then size=(--check-only); fi
  job -s TFLOP -e "$(with_cudnn)" 120 rota-bench ops --op attention --device "$cuda" ${size[@]+"${size[@]}"}
  job -s TFLOP 120 rota-bench ops --op attention --device "$cuda" ${size[@]+"${size[@]}"}
  job 120 rota-bench ops --op attention --device "$vk" ${size[@]+"${size[@]}"}
}

# S1's trainer (SCENARIOS.md): 33 MB of text, a device opened long before it is used, 64 000 byte pairs; the first loss
# within 5 % of their number's logarithm.
scenario_trainer() {
  local text=text-${1%:*} kinds bytes
  kinds=$(pick 64000 300) bytes=$(pick 33000000 20000)
  awk -v left="$bytes" '
  function letter(of, count) { return substr(of, 1 + int(count * rand()), 1) }
  BEGIN {
    srand(1)
    for (i = 0; i < 150000; i++) {
      word[i] = ""
      for (n = 1 + int(4 * rand()); n > 0; n--)
        word[i] = word[i] letter("bcdfghjklmnprstvwz", 18) letter("aeiou", 5) letter("nrst", 8)
    }
    for (; left > 0; left -= length(line) + 1) { # the i-th about 1 / (i + 20) as often
      line = ""
      for (n = 0; n < 200; n++) line = line " " word[int(20 * 7501 ^ rand() - 20)]
      print line "."
    }
  }' >"$text"
  limited train_gpt --data "$text" --device "$1" --tokenizer bpe --vocab "$kinds" --iters 5 --batch 1 --dim 64 \
    --heads 2 --layers 2 --block 64 \
    --eval-iters 0 --log "$text.jsonl" || return $?
  steps_of "$text.jsonl"
  sed -nE 's/.*"loss": ([0-9.]+),.*/\1/p' "$text.jsonl" | awk -v kinds="$kinds" '
    NR == 1 { first = $1 / log(kinds) }
    END { if (NR != 5 || first < 0.95 || first > 1.05) {
        print "FAILED: " NR " finite losses of 5, the first " first " of what it should be"; exit 2 }
      print "in five steps: a first loss of " first " times the logarithm of " kinds }'
}

stage_tests() {
  checked
  local device seed name pair=("$cuda" "$vk") third=cpu few=() one=() kernels
  # shellcheck disable=SC2046 # a word each
  mapfile -t kernels < <(first 'test_matmul_large test_embedding test_unary test_large_counts test_matmul test_binary' \
    $(cases test_shaders))
  if [ -n "$tiny" ]; then
    pair=(adversary adversary:1) # on any machine two devices that share memory
    # shellcheck disable=SC2054 # one word
    third=adversary few=(--repeats 1 --case s1.smoke_graph,s5.war,contract.undefined) one=(--op add) \
      kernels=(test_rope test_loss_scale)
  fi
  # These let kernels fault or run for ever, and look at the clock.
  alone
  job 60 test_exec_cuda_device
  job -s 'us a replay|look on' 60 test_share_device
  job 60 test_across_device
  job -s 'were held' 60 test_stream_points_device
  for name in test_vk_application test_vk_points test_vk_ends test_vk_export_device test_cuda_application_device \
    test_conditional_device test_counted_device test_loops_device; do
    job 60 "$name"
  done
  together
  for device in "$vk" "$cuda"; do job -s FAILED 400 conformance --device "$device" --patience 120 \
    ${few[@]+"${few[@]}"}; done
  for name in "${kernels[@]}"; do job 400 test_shaders "$name"; done
  job 400 test_products
  for device in "$cuda" "$vk"; do job -w 'in five steps' 300 scenario_trainer "$device"; done
  for device in "$cuda" "$vk"; do
    for seed in 1 2 3 4; do
      job 300 rota-bench ops --check-only --device "$device" --part $seed/4 ${one[@]+"${one[@]}"}
      job 300 rota-bench ops --check-only --shapes random --seed "$seed" --device "$device" --part $seed/4 \
        ${one[@]+"${one[@]}"}
    done
    job 300 rota-bench ops --check-only --shapes empty --device "$device" ${one[@]+"${one[@]}"}
  done
  job 300 rota-fuzz --device "$cuda" --count "$(pick 300 5)" --seed 1001
  job 300 rota-fuzz --device "$vk" --count "$(pick 300 2)" --seed 2001
  job 300 rota-fuzz --device "${pair[0]}" --second "${pair[1]}" --shared --nodes 120 --count "$(pick 150 20)" \
    --seed 3001
  job 300 rota-fuzz --device "${pair[0]}" --second "${pair[1]}" --third cpu --shared --ordered --nodes 120 \
    --count "$(pick 150 200)" --seed 4001
  job 300 rota-fuzz --device "${pair[1]}" --second "${pair[0]}" --third cpu --shared --ordered --nodes 120 \
    --count "$(pick 150 200)" --seed 5001
  job 300 rota-fuzz --device "$cuda" --second "$vk" --third $third --nodes 120 --count "$(pick 100 3)" --seed 6001
  job 300 rota-fuzz --device "$cuda" --conditional --nodes 60 --count "$(pick 150 5)" --seed 8001
  job 300 rota-fuzz --device "$cuda" --conditional --cancel --nodes 60 --count "$(pick 80 3)" --seed 9001
  for name in $(cases test_cuda_kernels); do job 300 test_cuda_kernels "$name"; done
  for name in test_matmul_cuda_device test_loss_device test_norm_mixed_device test_fuse test_custom_op; do
    job 300 $name
  done
  # Kernels watched at what they declare, those of long axes among them.
  job 300 test_ops
  for device in "$cuda" "$vk"; do
    job 300 rota-fuzz --device "$device" --watched --nodes 80 --bytes 2048 --count "$(pick 100 2)" --seed 7001
  done
  for device in "$cuda" "$vk"; do job 120 custom_op "$device"; done
}

stage_ops() {
  checked
  local name
  together
  for name in "${ops_tests[@]}"; do job 300 "$name"; done
}

# What wants two GPUs; --tiny: stand-ins for them.
ranks_of() { rota_fuzz=(rota-fuzz-ranks --cuda --ranks 2 ${tiny:+--stand-ins}); }
# More channels than the driver's usual 8: kernels of several communicators wait for the other GPU's.
channels=CUDA_DEVICE_MAX_CONNECTIONS=32

stage_ranks() {
  checked
  local seed rota_fuzz two=("$cuda" "${cuda%:*}:1")
  if [ -n "$tiny" ]; then two=(adversary adversary:1); fi
  ranks_of
  alone
  job -s '^(all_reduce|reduce_scatter|all_gather|rank [01])' 180 test_ranks_gpus
  job -s 'programs from' -e $channels 200 "${rota_fuzz[@]}" --no-faults --count "$(pick 60 5)" --seed 1001
  job -s 'programs from' -e $channels 200 "${rota_fuzz[@]}" --count "$(pick 60 5)" --seed 2001
  for seed in 3001 4001; do
    job 200 rota-fuzz --device "${two[0]}" --second "${two[1]}" --nodes 120 --count "$(pick 100 5)" --seed $seed
  done
  job 200 rota-fuzz --device "${two[0]}" --second "${two[1]}" --third cpu --peers --ordered --nodes 120 \
    --count "$(pick 100 5)" --seed 5001
  if [ -z "$tiny" ]; then
    job -s '^(copy|from|the driver|rota)' 180 rota-bench peer --device "${two[0]},${two[1]}" --repeat 20
  fi
}

# Every case in a process of its own, those with the longest pauses or most rounds shared out over several; longest
# first.
full() {
  checked
  local device=$1 name part parts names small=()
  local -A shares=([s1.smoke]=4 [s1.smoke_graph]=2 [s1.upload_storm]=4 [s2.table]=4 [s2.all_at_once]=4 \
    [s4.random_queues]=4
    [s5.index_add]=2 [s5.attention_backward]=2 [s5.layernorm_backward]=2)
  # shellcheck disable=SC2046 # a word each
  mapfile -t names < <(first 's2.all_at_once s2.table s4.random_queues s1.smoke s1.upload_storm contract.leaks' \
    $(cases conformance))
  if [ -n "$tiny" ]; then
    small=(--repeats 2)
    mapfile -t names < <(printf '%s\n' "${names[@]}" |
      grep -vE '^(s2.table|s2.all_at_once|s4.random_queues|contract.leaks|s3.every_op|s3.patchtst)$')
  fi
  together
  for name in "${names[@]}"; do
    parts=${shares[$name]:-1}
    for ((part = 1; part <= parts; part++)); do
      job -s FAILED 500 conformance --device "$device" --case "$name" --part "$part/$parts" --full --patience 240 \
        ${small[@]+"${small[@]}"}
    done
  done
}
stage_full_cuda() { full "$cuda"; }
stage_full_vk() { full "$vk"; }

# under TOOL ARGUMENTS...: conformance under a tool of compute-sanitizer.
under() {
  local tool=$1 suppressions=()
  shift
  if [ "$tool" = initcheck ]; then suppressions=(--suppressions "$tree/tests/compute_sanitizer.xml"); fi
  limited "$sanitizer" --tool "$tool" --error-exitcode 9 ${suppressions[@]+"${suppressions[@]}"} "$(path conformance)" \
    "$@"
}
# sanitize TOOL N: S3's ops over N processes.
sanitize() {
  checked
  local tool=$1 ops=$2 part contract cases
  contract=$(cases conformance | grep '^contract' | grep -vx contract.leaks | paste -sd,)
  # shellcheck disable=SC2054 # one word
  local groups=(s2.table s2.all_at_once s2.shared_sum s1.many_in_flight s2.private_graphs,s2.views s4. s3.patchtst
    s1.smoke,s1.smoke_,s1.upload,s1.sub,s1.sig,s1.dev,s1.out s3.reshape,s3.add,s3.into \
      s5.raw,s5.war,s5.waw,s5.ind,s5.two
    s5.att,s5.lay,s5.adam s5.dec,s5.arg,s5.drop,s5.cach,s5.part "${contract:-contract}")
  for ((part = 1; part <= ops; part++)); do groups+=("s3.every_op --part $part/$ops"); done
  if [ -n "$tiny" ]; then groups=(s5.war s1.many_in_flight "s3.every_op --part 3/90"); fi
  for cases in "${groups[@]}"; do
    # shellcheck disable=SC2086 # the parts of a group are words
    job -w 'SUMMARY: 0 ' -s ' passed, |FAILED|Invalid|hazard|Barrier|ninitialized|not supported' 500 under "$tool" \
      --device "$cuda" --repeats 3 --patience 300 --case $cases
  done
}
stage_sanitize() {
  together
  sanitize memcheck 4
  sanitize synccheck 4
}
# watched PROGRAM ARGUMENTS...: under memcheck, without errors of calls: NCCL asks whether it has kernels for a GPU by
# calls that fail.
watched() {
  local program
  program=$(path "$1")
  shift
  limited "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$program" "$@"
}

stage_sanitize_ranks() {
  checked
  local name rota_fuzz
  ranks_of
  alone
  for name in cases the_same_again; do job -w 'ERROR SUMMARY: 0' 200 watched test_ranks_gpus $name 120; done
  job -w 'ERROR SUMMARY: 0' -e $channels 200 watched "${rota_fuzz[@]}" --no-faults --timeout 120 \
    --count "$(pick 10 2)" --seed 6001
}

stage_sanitize_init() {
  alone
  sanitize initcheck 1
}
stage_sanitize_races() {
  together
  sanitize racecheck 12
}

stage_replay() {
  timed
  alone
  local device graph turn threads nodes rounds=() short=() unmerged=(--merge 1 --seconds 0.3 --rounds 5)
  nodes=$(pick 1000 40) threads=$(pick 8 2)
  if [ -n "$tiny" ]; then rounds=(--rounds 3) short=(--seconds 0.05 --rounds 1) unmerged=(--merge 1 --seconds 0.05 \
    --rounds 1); fi
  local all='^(closed|open|completed|raw|sequencer)' submit=(rota-bench submit --threads "$threads")
  for graph in wide chain; do
    job -s "$all" 90 "${submit[@]}" --device "$vk" --graph $graph ${short[@]+"${short[@]}"} \
      --out "$made/submit-vk-$graph.json"
    job -s '^(completed|raw)' 90 "${submit[@]}" --device "$vk" --graph $graph "${unmerged[@]}" \
      --out "$made/submit-vk-$graph-unmerged.json"
  done
  job -s "$all" 90 "${submit[@]}" --device cpu --graph wide ${short[@]+"${short[@]}"} --out "$made/submit-cpu.json"
  for turn in $(pick '1 2 3' 1); do
    for device in "$cuda" "$vk"; do
      for graph in chain 'chain --slots' wide 'chain --change' 'wide --change' 'wide --slots --change'; do
        # shellcheck disable=SC2086 # words
        job -s 'ratio|every argument' 60 rota-bench replay --device "$device" --nodes "$nodes" --graph $graph \
          ${rounds[@]+"${rounds[@]}"} \
          --out "$made/replay-${device%:*}-${graph// /}-$turn.json"
      done
    done
  done
  local body way
  for device in "$cuda" "$vk"; do
    for body in 0 5 20; do
      job -s 'beside|wrong' 60 rota-bench loops --device "$device" --iterations "$(pick 1000 10)" --body $body \
        --repeat "$(pick 15 2)" --out "$made/loops-${device%:*}-$body.json"
    done
    for way in '' --host-loop; do
      # shellcheck disable=SC2086 # none is no word
      job -s 'iteration' 60 cg --device "$device" --poisson "$(pick 512 10)" --tolerance 1e-4 \
        --iterations "$(pick 1500 100)" --repeat 3 $way
      # shellcheck disable=SC2086 # none is no word
      job -s 'reached' 60 bfs --device "$device" --rmat "$(pick 20 8)" --repeat 3 $way
    done
  done
  local builds
  for builds in '10000 --builds 9' '100000 --builds 15' '1000000 --builds 5'; do
    if [ -n "$tiny" ]; then builds='1000 --builds 5'; fi
    # shellcheck disable=SC2086 # words
    job -s '^(record|compile)' 90 rota-bench plan --nodes $builds
  done
  job -s '^arena' 30 rota-bench plan --nodes 216
  job -s '^arena' 30 rota-bench plan --nodes 216 --uploads --queues 2
}

# choices KIND: what was measured to be the fastest way of each product or attention (the files of ops/cuda/choices.c).
choices() {
  local file key_bytes key way
  for file in "$XDG_CACHE_HOME"/rota/choice-*; do
    [ -e "$file" ] || { echo "nothing was measured"; return 0; }
    key_bytes=$(od -An -tu4 -j12 -N4 "$file")
    key=$(tail -c +33 "$file" | head -c $((key_bytes - 1)))
    read -r -a way <<<"$(od -An -tu4 -j$((32 + key_bytes)) -N24 "$file" | tr '\n' ' ')"
    case ${key%%|*}:${way[0]:-} in
      matmul:1) way=("cuBLASLt, algorithm" "${way[@]:2}") ;;
      matmul:2) way=("rota's tile" "${way[1]}" "of ops/cuda/matmul_sm90_tiles.h") ;;
      matmul:3) way=("product and epilogue apart") ;;
      attention*:1) way=("cuDNN") ;;
      attention*:2) way=("rota") ;;
    esac
    # Without the device and its driver.
    case $key in $1*) echo "${key%%|*} $(cut -d '|' -f 5- <<<"$key"): ${way[*]}" ;; esac
  done | sort
}

stage_matmul() {
  timed
  alone
  local dtype shape against='' compare=(--compare torch)
  if [ -z "$tiny" ]; then against='ratio [0-9]'; fi
  one() { # DEVICE DTYPE N
    job -w "$against" -s 'PyTorch|TFLOP' 120 rota-bench matmul --device "$1" --dtype "$2" --shapes "$3x$3x$3" \
      --iters "$(pick 40 2)" \
      --repeat "$(pick 11 2)" "${compare[@]}" --out "$made/matmul-${1%:*}-$2-$3.json"
  }
  for shape in $(pick '4096 2048 3072 8192' 64); do
    for dtype in bf16 f16; do one "$cuda" $dtype "$shape"; done
  done
  for shape in $(pick '2048 3072 4096' 64); do one "$vk" f16 "$shape"; done
  for shape in $(pick '2048 3072' 64); do one "$vk" bf16 "$shape"; done
  for shape in $(pick '2048 4096' 64); do one "$cuda" f32 "$shape"; done
  job -s . 10 choices matmul
}

# ---- Training ----

# Token files as llm.c writes them: the text, four times over so that the validation split has whole batches of 32
# windows, by byte pairs learnt from it. GPT-2's vocabulary has room for them; those it has beyond stay unused.
tokens() {
  local text=$scratch/text tokens=$scratch/tokens.bin
  if [ -n "$tiny" ]; then
    head -c 60000 "$data/tinyshakespeare.txt" >"$text"
    limited train_gpt --data "$text" --tokenizer bpe --vocab 400 --block 32 --write-tokens "$tokens"
  else
    cat "$data"/tinyshakespeare.txt "$data"/tinyshakespeare.txt "$data"/tinyshakespeare.txt \
      "$data"/tinyshakespeare.txt >"$text"
    limited train_gpt --data "$text" --tokenizer bpe --vocab 50257 --block 1024 --write-tokens "$tokens"
  fi
}

# Of train_gpt's metrics: milliseconds a step over the later two thirds, losses.
steps_of() {
  sed -nE 's/.*"loss": ([^,]*), "val_loss": ([^,]*),.*"ms": ([^,]*),.*/\1 \2 \3/p' "$1" | awk '
    { loss[NR] = $1; ms[NR] = $3; if ($2 != "null" && (least == "" || $2 < least)) { least = $2; at = NR } }
    END {
      from = int(NR / 3) + 1
      for (i = from; i <= NR; i++) {
        sum += ms[i]; if (i == from || ms[i] < low) low = ms[i]; if (ms[i] > high) high = ms[i]
      }
      printf "%d steps, %.2f ms each (%.2f to %.2f) in the later two thirds; loss %s to %s%s\n",
        NR, sum / (NR - from + 1), low, high,
        loss[1], loss[NR], least == "" ? "" : "; least validation loss " least " at step " at
    }'
}

# Of a trace: from the first node's begin to the last one's end, and for how much of it no node ran.
idle_of() {
  sed -nE 's/.*"cat":"node".*"ts":([0-9.]+),"dur":([0-9.]+).*/\1 \2/p' "$1" | sort -n | awk '
    NR == 1 { first = end = $1 }
    { if ($1 > end) idle += $1 - end; if ($1 + $2 > end) end = $1 + $2 }
    END { if (NR == 0) { print "no node in the trace"; exit 1 }
      printf "trace: %d nodes in %.3f ms; nothing ran for %.2f %% of it\n",
        NR, (end - first) / 1000, 100 * idle / (end - first) }'
}

# Of a report: uploads that were under way while the step shown ran.
uploads_of() {
  local step
  step=$(grep -o '^"replay":[^]]*' "$1" | cut -d '[' -f 2)
  grep '^"uploads":' "$1" | grep -oE '\],?|[-0-9.]+,[-0-9.]+\]' | grep , | tr -d ']' | grep . |
    awk -F, -v step="$step" '
    BEGIN { split(step, at, ",") }
    NF == 2 { if ($1 < at[4] && $2 > at[1]) { within++; if ($2 <= at[4]) done++ } }
    END { printf "report: %d uploads under way during the step shown (%.3f ms), %d of them done before it ended\n",
      within, at[4] / 1000, done }'
}

# trained NAME [memory|trace|report] PROGRAM ARGUMENTS...: runs a trainer with its metrics in NAME.jsonl, and says what
# they come to; memory: the most that the GPU held; trace: of one step, how much of it nothing ran; report: uploads
# beside a step.
trained() {
  local name=$1 code=0 poll='' before=0 more=()
  shift
  case $1 in
    memory)
      if command -v nvidia-smi >/dev/null; then
        before=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1)
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 100 >"$name.memory" &
        poll=$!
      else
        echo "no nvidia-smi: memory is not measured"
      fi ;;
    trace) more=(--trace "$made/$name.trace.json") ;;
    report) more=(--report "$made/$name.html") ;;
  esac
  case $1 in memory | trace | report) shift ;; esac
  limited "$@" --log "$made/$name.jsonl" ${more[@]+"${more[@]}"} || code=$?
  if [ -n "$poll" ]; then
    kill "$poll"
    wait "$poll" 2>/dev/null
  fi
  if [ "$code" -ne 0 ]; then return "$code"; fi
  if [ "$1" = train_gpt ]; then steps_of "$made/$name.jsonl"; fi
  if [ -n "$poll" ]; then echo "GPU memory: $(sort -n "$name.memory" | tail -n 1) MiB at most, $before before"; fi
  if [ -e "$made/$name.trace.json" ]; then idle_of "$made/$name.trace.json"; fi
  if [ -e "$made/$name.html" ]; then uploads_of "$made/$name.html"; fi
}
summary='ms each|nothing ran|GPU memory|under way|not measured'

stage_gpt2() {
  timed
  alone
  local batch little=4 large=32 steps=45 fewer=15 library size=(--vocab 50257 --layers 12 --heads 12 --dim 768 \
    --block 1024)
  if [ -n "$tiny" ]; then little=2 large=3 steps=4 fewer=4 size=(--vocab 400 --layers 1 --heads 2 --dim 16 \
    --block 32); fi
  local gpt=(train_gpt --data "$scratch/tokens.bin" --tokenizer bin --arch gpt2 "${size[@]}" --dtype bf16) \
    train=(--eval-iters 0 --iters)
  library=$(with_cudnn)
  job 30 tokens
  for batch in $little $large; do
    job -s "$summary" -e "$library" 120 trained "gpt2-cudnn-$batch" memory "${gpt[@]}" --device "$cuda" \
      --batch "$batch" "${train[@]}" $steps
    job -s "$summary" 120 trained "gpt2-own-$batch" memory "${gpt[@]}" --device "$cuda" --batch "$batch" "${train[@]}" \
      $steps
  done
  job -s "$summary" -e "$library" 120 trained gpt2-evaluations memory "${gpt[@]}" --device "$cuda" --batch $large \
    --eval-iters 2 \
    --eval-interval 5 --iters $fewer
  for batch in $large $little; do
    job -s "$summary" -e "$library" 120 trained "gpt2-trace-$batch" trace "${gpt[@]}" --device "$cuda" \
      --batch "$batch" "${train[@]}" $fewer
  done
  job -s "$summary" -e "$library" 120 trained gpt2-report report "${gpt[@]}" --device "$cuda" --batch $large \
    "${train[@]}" $fewer
  for batch in $little $large; do
    job -s "$summary" 120 trained "gpt2-vk-$batch" "${gpt[@]}" --device "$vk" --batch "$batch" "${train[@]}" \
      $((fewer + 5))
  done
  job -s . 10 choices attention
}

against_torch() { limited "$python" "$tree/bench/gpt2_against_torch.py" "$(path train_gpt)" \
  --data "$scratch/tokens.bin" "$@"; }

stage_torch() {
  timed
  alone
  job 30 tokens
  local small=()
  if [ -n "$tiny" ]; then small=(--steps 3 --block 32 --vocab 400 --layers 1 --heads 2 --dim 16); fi
  local beside=(against_torch --device "$cuda" --batch 4 --control ${small[@]+"${small[@]}"}) \
    lines='largest|^step +(1|50|100):'
  job -s "$lines" -e "$(with_cudnn)" 300 "${beside[@]}"
  job -s "$lines" -e "$(with_cudnn)" 300 "${beside[@]}" --lr 3e-4 --warmup 10
}

chars=(--tokenizer char --layers 6 --heads 6 --dim 384 --block 256 --batch 64 --dropout 0.2)
series=()
small_models() {
  if [ -z "$tiny" ]; then return; fi
  chars=(--tokenizer char --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --dropout 0.2)
  series=(--train-rows 600 --val-rows 500 --test-rows 500 --look-back 32 --horizon 8 --patch 8 --stride 4 --layers 1 \
    --heads 2 --dim 8 --wide 16)
}

stage_trainers() {
  timed
  small_models
  local seed epochs=() gpt=(train_gpt --data "$data/tinyshakespeare.txt" "${chars[@]}" --dtype bf16)
  local ett=(train_patchtst --data "$data/ETTh1.csv" ${series[@]+"${series[@]}"})
  alone
  job -s "$summary" 200 trained char-vk "${gpt[@]}" --device "$vk" --iters "$(pick 5000 4)" \
    --eval-interval "$(pick 250 2)" \
    --eval-iters "$(pick 20 1)"
  job -s "$summary" 60 trained char-report-cuda report "${gpt[@]}" --device "$cuda" --iters "$(pick 200 4)" \
    --eval-iters 0
  job -s "$summary" 60 trained char-report-vk report "${gpt[@]}" --device "$vk" --iters "$(pick 100 4)" --eval-iters 0
  job -s "$summary" 60 trained series-report-cuda report "${ett[@]}" --device "$cuda" --epochs "$(pick 2 1)"
  if [ -n "$tiny" ]; then epochs=(--epochs 1); fi
  together 3
  for seed in $(pick '1 2 3' 1); do
    job -w 'test MSE' 300 trained "series-vk-$seed" "${ett[@]}" --device "$vk" --seed "$seed" \
      ${epochs[@]+"${epochs[@]}"}
  done
}

# One after the other: the first keeps on disk which way it measured to be the fastest for each product, and the second
# takes that.
twice() {
  local name=$1 run code
  shift
  for run in first second; do
    limited "$@" --log "$name-$run" || { code=$?; return $code; }
    sed -E 's/, "(ms|tok_s)": [^,}]*//g' "$name-$run" >"$name-$run.bits"
  done
  cp "$name-first" "$made/$name.jsonl"
  cmp "$name-first.bits" "$name-second.bits" || { echo "FAILED: two processes, two results"; return 2; }
  echo "$name: $(wc -l <"$name-first.bits") lines of metrics are the same in both processes"
}

stage_same() {
  checked
  small_models
  local device gpt=(train_gpt --data "$data/tinyshakespeare.txt" "${chars[@]}" --iters "$(pick 200 3)" \
    --eval-iters "$(pick 2 0)")
  together 4
  for device in "$cuda" "$vk"; do
    job -w 'same in both' 200 twice "char-bf16-${device%:*}" "${gpt[@]}" --device "$device" --dtype bf16
    job -w 'same in both' 200 twice "char-f32-${device%:*}" "${gpt[@]}" --device "$device"
    job -w 'same in both' 200 twice "series-${device%:*}" train_patchtst --data "$data/ETTh1.csv" \
      ${series[@]+"${series[@]}"} \
      --device "$device" --epochs "$(pick 3 1)"
  done
  job -w 'all good' 120 "$tree/tests/conformance/conformance_processes.sh" "$(path conformance)" "$(pick "$cuda" cpu)" \
    "$(pick "$vk" cpu)"
}

stage_large() {
  checked
  local device part one=()
  if [ -n "$tiny" ]; then one=(--op stop_gradient); fi
  together
  for ((part = 1; part <= $(pick 12 1); part++)); do
    for device in "$cuda" "$vk"; do
      job 500 rota-bench ops --check-only --shapes large --device "$device" --part "$part/12" ${one[@]+"${one[@]}"}
    done
  done
}
