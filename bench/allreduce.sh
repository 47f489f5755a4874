#!/usr/bin/env bash
# allreduce.sh [BUILD]: an all-reduce of 64 MiB of f32 among 8 ranks on this machine, by threads of one process, by
# processes over MPI and over TCP, and by Open MPI's own MPI_Allreduce; also of one number, which is the price of meeting.
# Exits with 1 when the threads are not 3 times as fast as MPI_Allreduce, or the processes over MPI take more than 1.3
# times its time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
repeats=${REPEATS:-5}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -std=c17 -D_GNU_SOURCE -O2 -I. bench/allreduce.c "$build/runtime/libpm_runtime.a" "$build/base/libpm_base.a" \
  -lxxhash -lm -lpthread -ldl -o "$work/ours"
mpicc -O2 bench/allreduce_mpi.c -o "$work/mpi"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
plugin=$(realpath "$build")/bin/libpmodel_mpi.so

smaller() { awk -v a="$1" -v b="$2" 'BEGIN { print (a == "" || b < a) ? b : a }'; }

# best MIB REPEATS: sets threads, processes, tcp and mpi. Other work on the machine hits all alike: they take turns.
best() {
  threads= processes= tcp= mpi=
  for _ in 1 2 3; do
    threads=$(smaller "$threads" "$("$work/ours" local "$1" "$2")")
    processes=$(smaller "$processes" "$(mpirun -np 8 "$work/ours" remote "$1" "$2" "$plugin")")
    tcp=$(smaller "$tcp" "$(bash tests/runtime/with_tcp.sh 8 "$work/ours" tcp "$1" "$2")")
    mpi=$(smaller "$mpi" "$(mpirun -np 8 "$work/mpi" "$1" "$2")")
  done
  awk -v what="$3" -v t="$threads" -v p="$processes" -v c="$tcp" -v m="$mpi" 'BEGIN {
    printf "%-8s  threads %9.3f ms  processes %9.3f ms  TCP %9.3f ms  MPI_Allreduce %9.3f ms  ", what, t, p, c, m
    printf "threads %.2fx as fast, processes %.2fx its time, TCP %.2fx\n", m / t, p / m, c / m }'
}
best 0 2000 "4 bytes"
best 64 "$repeats" "64 MiB"
awk -v t="$threads" -v p="$processes" -v m="$mpi" 'BEGIN { exit !(m / t >= 3 && p / m <= 1.3) }'
