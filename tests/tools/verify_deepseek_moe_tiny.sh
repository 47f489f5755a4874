# Loss, every gradient, the norm, every update and the model's states are the reference's on every plan.
. "$(dirname "$0")/lib.sh"

for plan in "" dp2 tp2 dp2_tp2; do
  expect 0 verify "$EXAMPLES/deepseek_moe_tiny.pmodel" ${plan:+--plan $plan} --against=reference --json
  says out '^  "ok": true'
  [ "$(grep -c '"ok": true' out)" -eq 11 ] || complain "deepseek_moe_tiny $plan: nine kinds, memory and all: $(cat out)"
done
done_testing
