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

# Inputs and what is made of them lie over different mesh axes of one size: parts change hands by permutes.
printf 'mesh a=2, b=2\nshard input batch -> a\nshard act batch -> b\nshard hidden -> a\n' > hands.pplan
expect 0 show comm "$EXAMPLES/mlp.pmodel" --plan hands.pplan
says out '^ +permute '
expect 0 verify "$EXAMPLES/mlp.pmodel" --plan hands.pplan --steps 1
says out '^  gradient +5 .* ok$'
done_testing
