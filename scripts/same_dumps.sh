#!/usr/bin/env bash
# same_dumps.sh PMODEL PMODEL    refuses two builds of pmodel, of different compilers, that write different IR or run
#                                plans for an example under one of its plans
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 PMODEL PMODEL" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
for file in "$(dirname "$0")"/../examples/*.pmodel; do
  for plan in "" $(sed -nE 's/^plan ([a-z0-9_]+).*/\1/p' "$file"); do
    rm -rf "${folder:?}"/[12]
    for build in 1 2; do
      mkdir "$folder/$build"
      "${!build}" compile "$file" ${plan:+--plan $plan} --text -o "$folder/$build/run.prun" --dump-to "$folder/$build" >"$folder/log"
    done
    diff -rq "$folder/1" "$folder/2" >"$folder/log" && continue
    echo "$(basename "$file") ${plan:+--plan $plan}: different $(sed -n '1s|.*/\([^ ]*\) differ$|\1|p' "$folder/log")" >&2
    failed=1
  done
done
exit "$failed"
