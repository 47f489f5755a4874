#!/usr/bin/env bash
# Builds the `pmodel` command: build/bin/pmodel.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset default
cmake --build --preset default --target pmodel -j "$(nproc)"
