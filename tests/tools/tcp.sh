# Ranks as processes that find one another over TCP: the same numbers as in one process, one voice, strangers, and an end
# for all when one is lost.
. "$(dirname "$0")/lib.sh"

# What a rank that is ended in the middle had allocated is no leak.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
# A loopback address of its own keeps tests that run at once apart.
export MASTER_ADDR=127.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)) MASTER_PORT=29500
model=$EXAMPLES/gpt_tiny.pmodel
pids=() codes=()

# rank R OF ARGS...: starts one process; its output is left in ./out.R and ./err.R.
rank() {
  local r=$1 of=$2
  shift 2
  RANK=$r WORLD_SIZE=$of "$PMODEL" "$@" >"out.$r" 2>"err.$r" &
  pids+=("$!")
}

# finish: waits for all that were started; their codes in order are left in ./codes, and what they said in ./err.
finish() {
  codes=()
  for pid in "${pids[@]}"; do
    local got=0
    wait "$pid" || got=$?
    codes+=("$got")
  done
  pids=()
  cat err.* >err
}

# end WANT...: finish, with these codes.
end() {
  finish
  [ "${codes[*]}" = "$*" ] || complain "ranks end with ${codes[*]}, expected $*"$'\n'"$(head -c 2000 err)"
}

# once FILE TEXT: the file has exactly one line with the text.
once() {
  [ "$(grep -cF -- "$2" "$1")" -eq 1 ] || complain "$1 does not say once \`$2\`:"$'\n'"$(head -c 2000 "$1")"
}

losses() { grep -oE '"(step|loss|grad_norm)": ?[-+.e0-9]+' "$1"; }

# The same bits as in one process, with every kind of collective.
for run in 'gpt_tiny 4 dp2_tp2' 'mixtral_tiny 2 ep2' 'llama_tiny 2 cp2_ring'; do
  read -r name n plan <<<"$run"
  args=(train "$EXAMPLES/$name.pmodel" --plan "$plan" --steps 3 --json --cache kernels)
  expect 0 "${args[@]}" --ranks "$n"
  losses out >alone
  for ((r = n - 1; r >= 0; r--)); do rank $r "$n" "${args[@]}"; done
  finish
  [[ ${codes[*]} =~ ^0(\ 0)*$ ]] || complain "$name: ranks end with ${codes[*]}"$'\n'"$(head -c 2000 err)"
  losses out.0 | cmp -s - alone || complain "$name: TCP and one process differ:"$'\n'"$(losses out.0 | diff - alone)"
  for ((r = 1; r < n; r++)); do silent "out.$r"; done
  silent err
done

# Under torchrun's agent, which is at MASTER_PORT itself.
rank 0 2 train "$model" --plan dp2 --deadline 6
agent=${pids[0]}
pids=()
export TORCHELASTIC_RUN_ID=none
sleep 0.5
for r in 0 1; do rank $r 2 verify "$EXAMPLES/mlp.pmodel" --plan dp2; done
end 0 0
once out.0 'against the reference interpreter'
unset TORCHELASTIC_RUN_ID

# Slurm's variables, without PMI.
for r in 0 1; do
  SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 "$PMODEL" verify "$EXAMPLES/mlp.pmodel" --plan dp2 --master-port 29700 >out.$r 2>err.$r &
  pids+=("$!")
done
end 0 0
once out.0 'against the reference interpreter'

# A port that is taken; a rank that never comes.
RANK=0 WORLD_SIZE=2 expect 3 train "$model" --plan dp2
says err 'cannot listen at 127.* port 29500: Address already in use; `--master-port` chooses another port'
kill "$agent"
wait "$agent" || true
rank 0 2 train "$model" --plan dp2 --deadline 1 --master-port 29600
end 80
says err 'rank 0 has waited 1.0 s for rank 1 to connect'
rank 1 2 train "$model" --plan dp2 --deadline 1
end 80
says err.1 'rank 1 has waited 1.0 s for rank 0 at 127.* port 29500: Connection refused'

# Numbers that do not fit.
rank 0 2 train "$model" --plan dp2 --deadline 2
rank 1 3 train "$model" --plan dp2 --deadline 2
end 80 2
once err.1 'rank 1 came as one of 3 processes, rank 0 is one of 2'
once err.0 'refused: rank 1 came as one of 3 processes'
for r in 0 1 2; do rank $r 3 train "$model" --plan dp2; done
end 2 2 2
once err 'torchrun started 3 processes, but the plan has 2 ranks'
rank 0 2 train "$model" --plan dp2
rank 1 2 train "$model" --plan dp2 --steps 7
end 1 1
once err 'rank 1 has another run plan than rank 0'
RANK=0 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid expect 80 train "$model" --plan dp2 --deadline 1
RANK=1 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid expect 3 train "$model" --plan dp2
says err 'the address of rank 0, `no.such.host.invalid`'
RANK=0 WORLD_SIZE=2 MASTER_PORT=99999 expect 2 train "$model" --plan dp2
says err 'neither `MASTER_PORT` nor `--master-port` is a port'
(
  unset MASTER_ADDR
  RANK=0 WORLD_SIZE=2 expect 2 train "$model" --plan dp2
  says err '`MASTER_ADDR` is not set'
  exit "$failed"
) || failed=1

# lose SIGNAL: a run on 4 ranks whose rank 2 gets the signal after its first step.
lose() {
  rm -rf run err.*
  for r in 0 1 2 3; do
    rank $r 4 train "$model" --plan dp2_tp2 --cache kernels --steps 100000 --deadline 3 --out run
  done
  local victim=${pids[2]}
  until [ -s run/metrics.jsonl ]; do
    kill -0 "${pids[0]}" 2>/dev/null || break
    sleep 0.1
  done
  kill "-$1" "$victim"
  for r in 0 1 3; do
    local got=0
    wait "${pids[r]}" || got=$?
    codes[r]=$got
  done
  kill -KILL "$victim" 2>/dev/null || true
  wait "$victim" || true
  pids=()
  cat err.* >err
}
# In a collective of the plan, or, if it hits then, in bringing together a number that is reported.
place='at step [0-9]+ in ([a-z_]+ \(.*gpt_tiny.pmodel:[0-9]+:[0-9]+\)|loss|grad_norm)'
lose KILL
[ "${codes[0]} ${codes[1]} ${codes[3]}" = "83 83 83" ] || complain "rank 2 killed: codes ${codes[0]} ${codes[1]} ${codes[3]}"
says err "pmodel: error: rank [013] lost its connection $place: tcp: rank 2 (closed its connection|is lost)"
lose STOP
[ "${codes[0]} ${codes[1]} ${codes[3]}" = "80 80 80" ] || complain "rank 2 stopped: codes ${codes[0]} ${codes[1]} ${codes[3]}"
says err "pmodel: error: rank [013] has waited [0-9.]+ s for rank [0-9, ]+ $place"
done_testing
