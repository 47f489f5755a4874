# A repeat that is written out, turn by turn, is the same model: the plan of the unrolled one agrees with the reference,
# which keeps its repeats, in loss, gradients and states. Dropout draws what it draws in the turns of a repeat.
. "$(dirname "$0")/lib.sh"

small=(--set axis.batch=4 --set axis.seq=8 --set axis.embed=16 --set axis.vocab=32 --set axis.layer=3)
verified() {  # FILE ARGS...
  expect 0 verify "$@" --unroll --against=reference --json
  says out '^  "ok": true'
}
verified "$EXAMPLES/gpt_tiny.pmodel" "${small[@]}"
verified "$EXAMPLES/gpt_tiny.pmodel" "${small[@]}" --plan dp2_tp2
verified "$EXAMPLES/gpt_tiny.pmodel" "${small[@]}" --plan cp4_ring
verified "$EXAMPLES/mixtral_tiny.pmodel"
verified "$EXAMPLES/deepseek_moe_tiny.pmodel"
printf 'mesh data=2\nshard batch -> data\nzero(stage=3, over=data)\naccumulate(micro=2)\n' >zero3.pplan
verified "$EXAMPLES/gpt_tiny.pmodel" "${small[@]}" --plan zero3.pplan

# Repeats within repeats, a report of each turn, a state, and masks that are drawn by turn.
cat >nested.pmodel <<'MODEL'
pmodel 1
import "std"
axis batch = 4, seq = 4, vocab = 256, embed = 8, outer = 2, inner = 3
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed] ~ normal(0.5)
  x = table[vocab = tokens]
  repeat outer {
    param g[embed] ~ normal(0.5)
    x += g * x
    repeat inner {
      param w[embed] ~ normal(0.5)
      state seen[embed] ~ zeros
      x += dropout(tanh(x * w + 0.1 * seen), 0.3)
      report size = mean[batch, seq, embed](x * x)
    }
  }
  logits = dot[embed](x, table)
  minimize mean[batch, seq](xent[vocab](logits, targets))
}
train {
  optimizer = adamw()
  lr = 0.01
  data = tokens("/usr/share/common-licenses/GPL-3", format="bytes", x=tokens, y=targets)
}
MODEL
verified nested.pmodel --steps 3
# The report of each turn in each of two steps, one number a line.
reports() { grep -o '"outer.inner.size":[^"]*' out | cut -d : -f 2 | tr -s '[],' '\n' | grep .; }
expect 0 train nested.pmodel --steps 2 --json
reports >rolled
expect 0 train nested.pmodel --steps 2 --json --unroll
reports >unrolled
paste rolled unrolled | awk '{ e = $1 - $2; if (NF != 2 || e * e > 1e-10 * $1 * $1) bad = 1 } END { exit bad || NR != 12 }' ||
  complain "other reports: $(paste rolled unrolled)"

expect 0 show graph nested.pmodel
says out '= repeat\['
expect 0 show graph nested.pmodel --unroll
! grep -q '= repeat\[' out || complain "a repeat is left: $(grep -m1 'repeat\[' out)"
[ "$(grep -c 'call @m.outer.inner' out)" -eq 3 ] || complain "not one call a turn: $(grep call out)"

expect 4 show graph nested.pmodel --unroll --set axis.inner=4097
says err 'nested.pmodel:12:5: `unroll` writes out at most 4096 turns in all, and `repeat inner` has 4097'
expect 0 compile nested.pmodel -o rolled.prun
expect 2 train rolled.prun --unroll
says err '`--unroll` needs a model'
done_testing
