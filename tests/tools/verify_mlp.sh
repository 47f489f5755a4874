# Loss, every gradient, the norm and every update of mlp are the reference's on every plan; memory is as predicted.
. "$(dirname "$0")/lib.sh"

for plan in "" dp2 tp2; do
  expect 0 verify "$EXAMPLES/mlp.pmodel" ${plan:+--plan $plan} --against=reference --json
  says out '^  "ok": true'
  [ "$(grep -c '"ok": true' out)" -eq 10 ] || complain "mlp $plan: eight kinds, memory and all: $(cat out)"
done
expect 0 verify "$EXAMPLES/mlp.pmodel" --plan tp2 --steps 3
says out '^  gradient +15 .* ok$'
says out '^  updated state +30 .* ok$'
says out 'equal within the alignment'
done_testing
