#!/usr/bin/env bash
# Refuses an include against the direction of the house: base <- ir <- passes <- codegen, ir <- frontend, base <- runtime,
# base <- sim, all <- tools. The one bridge is runtime/program.h. Vendor headers stay in the leaf that owns them.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

house='base|ir|frontend|passes|codegen|runtime|sim|tools'
failed=0

complain() {
  echo "$1" >&2
  failed=1
}

# check FOLDER ALLOWED: ALLOWED is an extended regular expression of the paths that FOLDER may include from the house.
check() {
  local folder=$1 allowed=$2 place path
  [ -d "$folder" ] || return 0
  while IFS=$'\t' read -r place path; do
    [[ $path =~ ^($house)/ ]] || continue
    [[ $path =~ ^($allowed)$ ]] || complain "$place: $folder/ may not include \"$path\""
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' --include='*.[chly]' --include='*.def' "$folder" |
    sed -nE 's/^([^:]+:[0-9]+):[^"<]*["<]([^">]+)[">].*/\1\t\2/p')
}

check base 'base/.*'
check ir 'base/.*|ir/.*'
check frontend 'base/.*|ir/.*|frontend/.*'
check passes 'base/.*|ir/.*|passes/.*'
check codegen 'base/.*|ir/.*|passes/.*|codegen/.*|runtime/program\.h'
check runtime 'base/.*|runtime/.*'
check sim 'base/.*|sim/.*|runtime/program\.h'

# vendor HEADERS FOLDER: only files under FOLDER may include headers that match.
vendor() {
  local headers=$1 owner=$2 hit
  while IFS= read -r hit; do
    [[ $hit == "$owner"/* ]] || complain "$hit: only $owner/ may include this"
  done < <(for folder in ${house//|/ }; do
    [ ! -d "$folder" ] || grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]($headers)" --include='*.[chly]' "$folder" || true
  done)
}

vendor 'llvm-c/' codegen/cpu
vendor 'cblas' runtime/devices
vendor 'cuda|cublas|nvrtc' runtime/devices
vendor 'mpi\.h|nccl' runtime/comm
vendor 'xxhash\.h|dlfcn\.h' base

exit "$failed"
