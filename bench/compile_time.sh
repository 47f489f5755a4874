#!/usr/bin/env bash
# Time from text to one device's partitioned program, best of 5 runs: a GPT 8,192 wide, of 128 layers on 8 and on 16,384
# ranks, and of 12 and 1,200 layers on 16,384. Prints each against the first: the target is flat (within 1.1).
# usage: bench/compile_time.sh [build/bin/pmodel]
set -euo pipefail
cd "$(dirname "$0")/.."
pmodel=${1-build/bin/pmodel}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

plan() {  # file, data ranks
  printf 'mesh data=%d, tensor=8\nshard batch -> data\nshard heads, ff, vocab -> tensor\nshard act seq -> tensor\nzero(stage=1, over=data)\n' \
    "$2" > "$1"
}
plan "$work/r8.pplan" 1
plan "$work/r16384.pplan" 2048

best_ms() {  # plan, layers
  local best=999999 start end
  for _ in 1 2 3 4 5; do
    start=$(date +%s%N)
    "$pmodel" show comm examples/gpt2.pmodel --plan "$1" --set batch=2048 --set seq=2048 --set vocab=65536 \
      --set embed=8192 --set heads=64 --set layer="$2" > /dev/null 2>&1
    end=$(date +%s%N)
    local ms=$(((end - start) / 1000))
    [ "$ms" -lt "$best" ] && best=$ms
  done
  echo "$best"
}

base=$(best_ms "$work/r8.pplan" 128)
row() { awk -v n="$1" -v us="$2" -v base="$base" 'BEGIN { printf "%-28s %8.1f ms  %5.2f x\n", n, us / 1000, us / base }'; }
row "8 ranks, 128 layers" "$base"
row "16,384 ranks, 128 layers" "$(best_ms "$work/r16384.pplan" 128)"
row "16,384 ranks, 12 layers" "$(best_ms "$work/r16384.pplan" 12)"
row "16,384 ranks, 1,200 layers" "$(best_ms "$work/r16384.pplan" 1200)"
