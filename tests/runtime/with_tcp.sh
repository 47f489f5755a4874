#!/usr/bin/env bash
# with_tcp.sh RANKS PROGRAM ARGS...: the program in so many processes that find one another over TCP, as a launcher that
# sets variables and nothing else would start them. Exits with the first code that is not 0.
set -euo pipefail
ranks=$1
shift
# A loopback address of its own keeps tests that run at once apart.
export MASTER_ADDR=127.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)) MASTER_PORT=29500 WORLD_SIZE=$ranks
pids=()
for ((rank = 0; rank < ranks; rank++)); do
  RANK=$rank "$@" &
  pids+=("$!")
done
code=0
for pid in "${pids[@]}"; do
  got=0
  wait "$pid" || got=$?
  [ "$code" -ne 0 ] || code=$got
done
exit "$code"
