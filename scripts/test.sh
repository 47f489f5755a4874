#!/usr/bin/env bash
# test.sh           builds pmodel and runs every test
# test.sh sanitize  builds it with clang, AddressSanitizer and UndefinedBehaviorSanitizer, and runs every test that isn't
#                   labelled `slow`
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
  "") preset=default folder=build filter=() ;;
  sanitize) preset=asan folder=build/asan filter=(-LE slow) ;;
  *) echo "usage: $0 [sanitize]" >&2; exit 2 ;;
esac
export UBSAN_OPTIONS=print_stacktrace=1
jobs=$(nproc)
cmake --preset "$preset" -DPM_TESTS=ON
cmake --build --preset "$preset" -j "$jobs"
ctest --test-dir "$folder" --output-on-failure -j "$jobs" ${filter[@]+"${filter[@]}"}
