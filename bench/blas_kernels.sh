#!/usr/bin/env bash
# Training speed of gpt_tiny with the BLAS kernels that pmodel chooses, against those of an OpenBLAS that does not know the
# processor and falls back to its oldest ones. Prints tokens a second of both and the ratio.
# usage: bench/blas_kernels.sh [build/bin/pmodel]
set -euo pipefail
cd "$(dirname "$0")/.."
pmodel=${1-build/bin/pmodel}

speed() {
  "$pmodel" train examples/gpt_tiny.pmodel --steps 100 --json 2> /dev/null |
    sed -n 's/.*"step":100,.*"tokens_per_s":\([0-9.]*\).*/\1/p'
}
old=$(OPENBLAS_CORETYPE=Prescott speed)
new=$(speed)
awk -v a="$old" -v b="$new" 'BEGIN { printf "oldest kernels %.0f tok/s, chosen kernels %.0f tok/s: %.2f x\n", a, b, b / a }'
