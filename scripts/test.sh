#!/usr/bin/env bash
# Builds pmodel and runs every test, then builds it with clang, AddressSanitizer and UndefinedBehaviorSanitizer and runs
# every test that isn't labelled `slow`. Exits with a failure when any test fails.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
export UBSAN_OPTIONS=print_stacktrace=1

build() {
  cmake --preset "$1" -DPM_TESTS=ON
  cmake --build --preset "$1" -j "$jobs"
}

suite() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure -j "$jobs" "$@" | tee "$folder/suite.log"
}

build default
suite build
build asan
suite build/asan -LE slow

echo "== with sanitizers"
grep 'tests passed' build/asan/suite.log
echo "== the whole suite"
grep 'tests passed' build/suite.log
