# A hundred steps of gpt_tiny in bf16 and in f16 keep within 2e-2 of the losses in f32, on one rank and on four.
. "$(dirname "$0")/lib.sh"

losses() {
  grep '"event":"step"' out | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}

# With a warm-up: at the example's constant rate the loss jumps in its first steps, in f32 too.
lr='warmup_linear(peak=1e-3, warmup=50)'
expect 0 train "$EXAMPLES/gpt_tiny.pmodel" --steps 100 --set train.lr="$lr" --json
losses >f32
for run in bf16: f16: bf16:dp2_tp2; do
  dtype=${run%%:*} plan=${run#*:}
  sed "/^train/i policy { param = f32; compute = $dtype; reduce = f32 }" "$EXAMPLES/gpt_tiny.pmodel" >m.pmodel
  expect 0 train m.pmodel ${plan:+--plan $plan} --steps 100 --set train.lr="$lr" --json
  losses >mixed
  paste f32 mixed | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
    END { print "worst", worst; exit !(n == 100 && worst <= 2e-2) }' >worst || complain "$run: $(cat worst)"
done
done_testing
