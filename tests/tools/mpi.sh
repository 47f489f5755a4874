# Ranks as processes: the same numbers as in one process, one voice, and an end for all when one is lost.
. "$(dirname "$0")/lib.sh"

if ! mpirun --version 2>/dev/null | grep -q 'Open MPI' || ! "$PMODEL" doctor | grep -qE '^MPI plugin +found'; then
  echo "skipped: mpirun of Open MPI, or the plugin, is missing (scripts/install_deps.sh test)"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
model=$EXAMPLES/gpt_tiny.pmodel

# ranks CODE ARGS...: `mpirun ARGS`, as expect.
ranks() {
  local want=$1 got=0
  shift
  mpirun "$@" >out 2>err || got=$?
  [ "$got" -eq "$want" ] || complain "mpirun $*: exit $got, expected $want"$'\n'"$(head -c 2000 out)"$'\n'"$(head -c 2000 err)"
}

# once FILE TEXT: the file has exactly one line with the text.
once() {
  [ "$(grep -cF -- "$2" "$1")" -eq 1 ] || complain "$1 does not say once \`$2\`:"$'\n'"$(head -c 2000 "$1")"
}

losses() { grep -oE '"(step|loss|grad_norm)": ?[-+.e0-9]+' "$1"; }

# The same bits, whatever the placement, with 8 ranks on however many cores.
cat >zero3.pplan <<'PLAN'
mesh data=2, tensor=4
shard batch -> data
shard heads, ff, vocab -> tensor
zero(stage=3, over=data)
PLAN
for run in 'gpt_tiny 4 dp2_tp2' 'gpt_tiny 8 zero3.pplan' 'mixtral_tiny 2 ep2' 'mixtral_tiny 8 ep4_tp2' 'llama_tiny 2 cp2_ring'; do
  read -r name n plan <<<"$run"
  args=(train "$EXAMPLES/$name.pmodel" --plan "$plan" --steps 3 --json --cache kernels)
  expect 0 "${args[@]}" --ranks "$n"
  losses out >alone
  ranks 0 -np "$n" "$PMODEL" "${args[@]}"
  losses out | cmp -s - alone || complain "$name, $plan: mpirun and one process differ:"$'\n'"$(losses out | diff - alone)"
  [ "$(grep -c '"event":"end"' out)" -eq 1 ] || complain "$name, $plan: not one rank prints"
done
ranks 0 -np 2 "$PMODEL" verify "$EXAMPLES/mlp.pmodel" --plan dp2
once out 'against the reference interpreter'

# What runs no ranks is done once.
ranks 0 -np 3 "$PMODEL" show comm "$model" --plan tp2
once out 'gpt_tiny, plan tp2'
ranks 0 -np 3 "$PMODEL" train "$model" --plan dp2 --target null
once out 'counted and not run'

# Errors come once, and end every rank.
ranks 2 -np 3 "$PMODEL" train "$model" --plan dp2
once err 'mpirun started 3 processes, but the plan has 2 ranks'
ranks 1 -np 2 "$PMODEL" train "$model" --plan dp3
once err 'has no plan `dp3`'
ranks 3 -np 2 "$PMODEL" train "$model" --plan dp2 --mpi-plugin ./nothing.so
once err './nothing.so: cannot open'
ranks 1 -np 1 "$PMODEL" train "$model" --plan dp2 : -np 1 "$PMODEL" train "$model" --plan dp2 --steps 7
once err 'rank 1 has another run plan than rank 0'
ranks 1 -np 1 "$PMODEL" train "$model" --plan dp2 : -np 1 "$PMODEL" train "$model" --plan dp3
once err 'has no plan `dp3`'
ranks 3 -np 1 "$PMODEL" train "$model" --plan dp2 --out ./no/where : -np 1 "$PMODEL" train "$model" --plan dp2
once err 'cannot make folder `./no/where`'
silent out

# Launchers that MPI cannot join.
(
  export RANK=0 WORLD_SIZE=4
  expect 2 train "$model" --plan dp2
  says err 'torchrun started 4 processes, which cannot find one another'
  RANK=3 expect 2 train "$model" --plan dp2
  silent err
  SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 expect 2 train "$model" --plan dp2
  says err 'srun --mpi=pmix -n 2'
  exit "$failed"
) || failed=1

# lose SIGNAL: a run on 4 ranks whose rank 2 gets the signal after its first step. Leaves ./code.
lose() {
  local pid victim=
  rm -rf run
  mpirun -np 4 "$PMODEL" train "$model" --plan dp2_tp2 --cache kernels --steps 100000 --deadline 3 --out run >out 2>err &
  pid=$!
  until [ -s run/metrics.jsonl ]; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  for child in $(pgrep -P "$pid"); do
    tr '\0' '\n' <"/proc/$child/environ" | grep -q '^OMPI_COMM_WORLD_RANK=2$' && victim=$child
  done
  [ -n "$victim" ] || complain "no rank 2 to send $1"
  [ -z "$victim" ] || kill "-$1" "$victim"
  code=0
  wait "$pid" || code=$?
}
lose STOP
[ "$code" -eq 80 ] || complain "a rank that stands still: exit $code, not 80"
says err 'pmodel: error: rank [013] has waited [0-9.]+ s for rank [0-9, ]+ at step [0-9]+ in ([a-z_]+ \(.*gpt_tiny.pmodel:[0-9]+:[0-9]+\)|loss|grad_norm)'
lose KILL
[ "$code" -ne 0 ] || complain "a rank was killed: exit 0"
says err 'rank 2 .*signal 9'
for rank in 1 2 3; do [ -s "run/log.rank$rank.txt" ] || complain "no log of rank $rank"; done
done_testing
