# The examples train to their end: the small GPT falls below 2.0 nats a byte within its 600 steps, on one rank and with
# the model cut, with losses that differ by at most 1e-3; the others fall by half or more of what they can.
. "$(dirname "$0")/lib.sh"

losses() {
  grep '"event":"step"' "$1" | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}

# falls FILE BOUND STEPS: the mean of the last tenth of the steps is below the bound.
falls() {
  awk -v bound="$2" -v steps="$3" '{ l[NR] = $1 } END {
    for (i = NR - int(NR / 10) + 1; i <= NR; i++) { sum += l[i]; n++ }
    print "mean of the last", n, "of", NR, "steps:", sum / n
    exit !(NR == steps && sum / n < bound) }' "$1" >mean || complain "$1: $(cat mean), expected below $2"
}

expect 0 train "$EXAMPLES/gpt_tiny.pmodel" --json
losses out >one
falls one 2.0 600
for plan in tp2 dp2_tp2; do
  expect 0 train "$EXAMPLES/gpt_tiny.pmodel" --plan $plan --json
  losses out >many
  paste one many | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
    END { print "worst", worst; exit !(n == 600 && worst <= 1e-3) }' >worst || complain "$plan: $(cat worst)"
done
for model in llama mixtral deepseek_moe; do
  expect 0 train "$EXAMPLES/${model}_tiny.pmodel" --json
  losses out >$model
  falls $model 3.0 200
done
expect 0 train "$EXAMPLES/mlp.pmodel" --json
losses out >mlp
falls mlp 3.0 300
done_testing
