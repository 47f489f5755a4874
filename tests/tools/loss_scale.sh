# Loss scaling in a run: skipped steps are seen in the metrics and neither parameters nor the rate move; the scale
# doubles after a window. (Which scale overflows hangs on the plan: each rank's part of a sum is smaller than the sum.)
. "$(dirname "$0")/lib.sh"

column() {
  grep '"event":"step"' out | sed -E "s/.*\"$1\":([-+.e0-9]+).*/\\1/" | tr '\n' ' '
}

sed "/^train/i policy { param = f32; compute = f16; reduce = f32 }" "$EXAMPLES/llama_tiny.pmodel" >m.pmodel
for plan in "" dp2_tp2; do
  # Norms of gradients stay near 1, so a scale of 2^26 overflows, and some scale above 2^10 does not.
  expect 0 train m.pmodel ${plan:+--plan $plan} --steps 24 --json --set train.loss_scale=2**26 --set train.loss_scale_window=4
  column skipped >skipped
  column lr >lr
  column loss_scale >scale
  awk '{ for (i = 1; i <= NF; i++) n += $i; exit !($1 == 1 && n >= 4 && n < 20) }' skipped || complain "skipped: $(cat skipped)"
  paste -d' ' <(tr ' ' '\n' <skipped) <(tr ' ' '\n' <lr) <(tr ' ' '\n' <scale) | awk '
    NF == 3 {
      if (NR > 1 && (was == 1) != ($2 == rate)) bad = bad " rate at " NR        # 20 steps of warm-up: every step that counts moves it
      if (NR > 1 && was == 1 && $3 != scale / 2) bad = bad " scale at " NR
      if (NR > 1 && was == 0 && $3 != scale && $3 != 2 * scale) bad = bad " scale at " NR
      if (NR > 1 && was == 0 && $3 == 2 * scale) doubled++
      was = $1; rate = $2; scale = $3
    }
    END { if (bad != "" || !doubled) { print bad, "doubled", doubled; exit 1 } }' >why || complain "$plan: $(cat why): $(cat skipped lr scale)"
done
done_testing
