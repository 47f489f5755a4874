# Every dump of every example after every pass reads back to itself.
. "$(dirname "$0")/lib.sh"

for file in "$EXAMPLES"/*.pmodel; do
  name=$(basename "$file" .pmodel)
  for plan in "" $(sed -nE 's/^plan ([a-z0-9_]+).*/\1/p' "$file"); do
    dir=$name.$plan
    rm -rf "$dir"
    expect 0 compile "$file" ${plan:+--plan $plan} -o x.prun --dump-to="$dir"
    n=0
    for dump in "$dir"/*.pir; do
      expect 0 opt "$dump" -o back.pir
      cmp "$dump" back.pir || complain "$dump reads back to something else"
      n=$((n + 1))
    done
    [ "$n" -eq 10 ] || complain "$dir has $n dumps, expected one of the frontend and one of each of nine passes"
  done
done

# Passes run on text, as they ran in the pipeline.
expect 0 opt gpt_tiny.tp2/00-frontend.pir --passes=simplify,differentiate,simplify,masters,pad,place,partition,simplify,bucket -o all.pir
cmp all.pir "$(printf '%s\n' gpt_tiny.tp2/*.pir | tail -1)" || complain "the passes give something else on text"
expect 0 check "$EXAMPLES/mlp.pmodel" --print-ir-after=frontend
says err '^# after frontend'
mlp=("$EXAMPLES/mlp.pmodel" -o x.prun)
expect 0 compile "${mlp[@]}" --print-ir-after=changed --dump-to=mlp
[ "$(grep -c '^# after ' err)" -lt 9 ] || complain "all passes change something, it says"
! grep -q '^# after masters' err || complain "masters changes nothing here"
# What each pass has changed, put together, is what all have.
expect 0 compile "${mlp[@]}" --print-ir-diff
cp err diffs
last=mlp/00-frontend.pir
: >want
for dump in mlp/0[1-9]-*.pir; do
  diff -U3 "$last" "$dump" | tail -n +3 | grep -v '^@@' >>want || true
  last=$dump
done
grep -vE '^(@@|# changed by )' diffs >got
[ "$(grep -c '^[-+]' got)" -eq "$(grep -c '^[-+]' want)" ] || complain "not the fewest changes: $(diff got want | head)"
expect 0 compile "${mlp[@]}" --print-ir-after=place --print-ir-diff
says err '^-module logical'
says err '^\+module placed'
[ "$(grep -c '^# ' err)" -eq 1 ] || complain "not place alone: $(grep '^# ' err)"
expect 2 opt all.pir --passes=place
expect 2 opt all.pir --passes=plaec
says err 'did you mean `place`'
done_testing
