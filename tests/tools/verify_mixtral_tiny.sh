# Loss, every gradient, the norm, every update and the model's states are the reference's on every plan.
. "$(dirname "$0")/lib.sh"

for plan in "" dp2 tp2 dp2_tp2 ep2; do
  expect 0 verify "$EXAMPLES/mixtral_tiny.pmodel" ${plan:+--plan $plan} --against=reference --json
  says out '^  "ok": true'
  [ "$(grep -c '"ok": true' out)" -eq 10 ] || complain "mixtral_tiny $plan: eight kinds, memory and all: $(cat out)"
done
done_testing
