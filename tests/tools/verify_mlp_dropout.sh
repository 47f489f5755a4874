# What dropout draws does not depend on the mesh: loss, gradients and updates are the reference's on every plan, and the
# plans' losses are each other's.
. "$(dirname "$0")/lib.sh"
model=$EXAMPLES/mlp_dropout.pmodel

for plan in "" dp2 tp2 dp2_tp2; do
  expect 0 verify "$model" ${plan:+--plan $plan} --steps 3 --json
  says out '^  "ok": true'
done
expect 0 show graph --residuals "$model"
says out '^total +147,712$' # no mask is kept: it is drawn again
expect 0 show comm "$model" --plan dp2_tp2
if grep -q all_gather out; then complain "random numbers travel: $(cat out)"; fi
done_testing
