#!/usr/bin/env bash
# test.sh           builds pmodel and runs every test
# test.sh sanitize  builds it with clang, AddressSanitizer and UndefinedBehaviorSanitizer, and runs every test that isn't
#                   labelled `slow`
# test.sh threads   builds it with ThreadSanitizer and runs the tests of the runtime
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
  "") preset=default folder=build filter=() ;;
  sanitize) preset=asan folder=build/asan filter=(-LE slow) ;;
  threads) preset=tsan folder=build/tsan filter=(-R '^runtime_') ;;
  *) echo "usage: $0 [sanitize|threads]" >&2; exit 2 ;;
esac
export UBSAN_OPTIONS=print_stacktrace=1
jobs=$(nproc)
cmake --preset "$preset" -DPM_TESTS=ON
cmake --build --preset "$preset" -j "$jobs"
ctest --test-dir "$folder" --output-on-failure -j "$jobs" ${filter[@]+"${filter[@]}"}
