# Loss, every gradient, the norm and every update of gpt_tiny are the reference's on every plan; memory is as predicted.
. "$(dirname "$0")/lib.sh"

for plan in "" dp2 tp2 dp2_tp2; do
  expect 0 verify "$EXAMPLES/gpt_tiny.pmodel" ${plan:+--plan $plan} --set axis.batch=4 --against=reference --json
  says out '^  "ok": true'
  [ "$(grep -c '"ok": true' out)" -eq 10 ] || complain "gpt_tiny $plan: eight kinds, memory and all: $(cat out)"
done
done_testing
