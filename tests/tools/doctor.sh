# `doctor` names every component, found or missing, and what is switched off.
. "$(dirname "$0")/lib.sh"

expect 0 doctor
for component in processors LLVM BLAS MPI 'MPI plugin' 'CUDA driver' NVRTC NCCL; do
  says out "^$component +(found|missing) "
done
says out '^LLVM +found +19\.[0-9.]+, target .*, vectors of (128|256|512) bits$'
[ "$(grep -c missing out)" -eq "$(grep -c 'switched off: ' out)" ] || complain "a missing component switches nothing off"
expect 0 doctor --json
says out '"name": "BLAS"'
expect 2 doctor x.pmodel
done_testing
