# Every diagnostic has a page with an example; docs/errors.md holds them all.
. "$(dirname "$0")/lib.sh"

expect 0 explain
codes=$(cut -d ' ' -f 1 out)
for code in $codes; do
  expect 0 explain "$code"
  says out "^$code \((error|warning)\): "
  says out '^    [^ ]'
  [ "$(wc -w <out)" -ge 40 ] || complain "the page of $code is short"
done
expect 0 explain e0231
expect 2 explain E0232x
says err 'did you mean `E0232`'
expect 0 explain --all
cmp out "$EXAMPLES/../docs/errors.md" || complain "docs/errors.md is not what the table says: scripts/errors_md.sh PMODEL"
expect 0 explain --all --json
expect 2 explain --all E0231
done_testing
