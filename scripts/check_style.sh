#!/usr/bin/env bash
# Refuses what STYLE rules out and a compiler can't see: files that are too long, leftover notes, a switch on opcodes
# outside the emitters, and paths of one machine.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

failed=0
complain() {
  echo "$1" >&2
  failed=1
}

folders=()
for folder in base ir frontend passes codegen runtime sim tools tests examples bench docs scripts .ci; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
mapfile -t top < <(find . -maxdepth 1 -type f \( -name 'CMake*' -o -name '*.md' -o -name '.clang-*' \) | sed 's|^\./||')
mapfile -t code < <(find "${folders[@]}" -type f -regextype posix-extended \
  -regex '.*(\.(c|h|l|y|def|inc|sh|py|cmake|pmodel|md)|CMakeLists\.txt|/run)' | sort)
files=("${code[@]}" "${top[@]}")

for file in "${code[@]}"; do
  case $file in *.md) continue ;; esac
  lines=$(wc -l <"$file")
  [ "$lines" -le 800 ] || complain "$file: $lines lines, 800 at most"
done

# refuse PATTERN WHY FILE...
refuse() {
  local pattern=$1 why=$2 hits
  shift 2
  hits=$(grep -nHE -- "$pattern" "$@" || true)
  [ -z "$hits" ] || complain "$why"$'\n'"$hits"
}

# The brackets keep this file from matching itself.
refuse '\b(TO[D]O|FIX[M]E|XX[X])\b' 'leftover notes:' "${files[@]}"
refuse '(^|[^A-Za-z0-9_.])/(hom[e]|roo[t]|wor[k]|User[s])/' 'paths of one machine:' "${files[@]}"
refuse '[[:space:]]+$' 'trailing space:' "${code[@]}"

mapfile -t outside < <(printf '%s\n' "${code[@]}" | grep -E '\.(c|h|y|l)$' | grep -vE '^(codegen|tests)/')
refuse '\bcase[[:space:]]+PM_OP_' 'a switch on opcodes outside codegen/ (ask the op table):' "${outside[@]}"

exit "$failed"
