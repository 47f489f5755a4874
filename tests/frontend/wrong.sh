# Each program of wrong/ against the message that stands beside it, word for word: NAME.pmodel (its first line may be
# `# args: ...`, more arguments of `pmodel check`) and NAME.expected (what comes on stderr, then `exit CODE`). BLESS=1
# rewrites the expectations. Every code of base/diag.def must be among them.
set -euo pipefail
cd "$(dirname "$0")/wrong"
failed=0
count=0
got=$(mktemp)
trap 'rm -f "$got"' EXIT

for program in *.pmodel; do
  read -r first <"$program"
  args=()
  [[ $first != "# args: "* ]] || read -ra args <<<"${first#"# args: "}"
  code=0
  "$PMODEL" check "$program" "${args[@]}" >/dev/null 2>"$got" || code=$?
  echo "exit $code" >>"$got"
  expected=${program%.pmodel}.expected
  if [ "${BLESS:-}" = 1 ]; then
    cp "$got" "$expected"
  elif ! diff "$expected" "$got" >&2; then
    echo "$program: another message than expected" >&2
    failed=1
  fi
  count=$((count + 1))
done
[ "$count" -ge 60 ] || { echo "only $count wrong programs" >&2; failed=1; }
for code in $("$PMODEL" explain | cut -d ' ' -f 1); do
  grep -qs "\[$code\]" ./*.expected || { echo "no program triggers $code" >&2; failed=1; }
done
exit "$failed"
