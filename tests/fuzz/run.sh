#!/usr/bin/env bash
# usage: tests/fuzz/run.sh BUILD SECONDS NAME...: runs fuzzer_NAME of a build with -DPM_FUZZ=ON, all at once, each in
# BUILD/fuzz/NAME from the inputs that its test has; ends when the last has. A crash, 10 seconds (PM_FUZZ_TIMEOUT, for a
# machine that is busy) or 1 GiB is a failure.
set -euo pipefail
build=$(cd "$1" && pwd) seconds=$2
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
status=0 pids=()
take() {  # FOLDER FILE...: files of one name stay apart
  local to=$1 file
  shift
  for file in "$@"; do cp "$file" "$to/$(basename "$(dirname "$file")").$(basename "$file")"; done
}
for name in "$@"; do
  work=$build/fuzz/$name
  mkdir -p "$work/corpus" "$work/seeds"
  bash "$source/tests/fuzz/make_dict.sh" "$source" > "$work/dict"
  case $name in
    pmodel | format) take "$work/seeds" "$source"/examples/*.pmodel "$source"/tests/recorded/*.pmodel ;;
    plan) take "$work/seeds" "$source"/tests/*/*.pplan ;;
    json) take "$work/seeds" "$source"/tests/import/configs/*.json ;;
    lsp) take "$work/seeds" "$source"/tests/lsp/sessions/*.in ;;
    pir | prun | tcp) PMODEL="$build/bin/pmodel" bash "$source/tests/fuzz/make_corpus.sh" "$source/examples" "$work/seeds" ;;
  esac
  if [ -d "$source/tests/fuzz/corpus/$name" ]; then take "$work/seeds" "$source/tests/fuzz/corpus/$name"/*; fi
  (cd "$work" && exec nice -n 19 "$build/bin/fuzzer_$name" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout="${PM_FUZZ_TIMEOUT:-10}" \
    -dict=dict -max_len=16384 -print_final_stats=1 corpus seeds > log 2>&1) &
  pids+=($!)
done
for i in "${!pids[@]}"; do
  wait "${pids[$i]}" || { echo "${@:i+1:1}: failed, see $build/fuzz/${*:i+1:1}/log" >&2; status=1; }
done
exit $status
