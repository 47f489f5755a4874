#!/usr/bin/env bash
# with_mpi.sh RANKS PROGRAM ARGS...: the program in so many processes, on however many cores. Exits with 77 (skipped), and
# says why, where Open MPI is not installed.
set -euo pipefail
ranks=$1
shift
if ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  echo "skipped: mpirun of Open MPI is not installed (scripts/install_deps.sh test)"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# What MPI keeps until the process ends is not ours.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
exec mpirun -np "$ranks" "$@"
