# The tiny models in bf16 and f16 are the reference's on every plan, within the bounds of the format; a step that
# overflows changes nothing, on any of them.
. "$(dirname "$0")/lib.sh"

# mixed MODEL DTYPE: the example with a policy, in MODEL_DTYPE.pmodel.
mixed() {
  sed "/^train/i policy { param = f32; compute = $2; reduce = f32 }" "$EXAMPLES/$1.pmodel" >"$1_$2.pmodel"
}

for dtype in bf16 f16; do
  for model in gpt_tiny llama_tiny; do
    mixed $model $dtype
    for plan in "" dp2 tp2 dp2_tp2; do
      expect 0 verify ${model}_$dtype.pmodel ${plan:+--plan $plan} --set axis.batch=4 --steps 1 --against=reference --json
      says out '^  "ok": true'
      [ "$(grep -c '"ok": true' out)" -eq 10 ] || complain "$model $dtype $plan: eight kinds, memory and all: $(cat out)"
    done
  done
done

for plan in "" dp2_tp2; do
  expect 0 verify llama_tiny_f16.pmodel ${plan:+--plan $plan} --set train.loss_scale=2**40 --steps 2 --against=reference
  says out '^ +updated parameter +24 +0\.00e\+00 '
  says out '^ +updated state +54 +0\.00e\+00 '
done
# ZeRO: what is gathered is in the compute type, what is summed in the gradient's.
cat llama_tiny_bf16.pmodel >zero.pmodel
cat >>zero.pmodel <<'END'
plan z3 {
  mesh data=2
  shard batch -> data
  zero(stage=3, over=data)
}
END
expect 0 verify zero.pmodel --plan z3 --steps 1 --against=reference
expect 0 show comm zero.pmodel --plan z3
if grep -qE '^  all_gather .* f32' out; then complain "a gather in f32: $(cat out)"; fi
if grep -qE '^  (reduce_scatter|all_reduce) .* bf16' out; then complain "a sum of gradients in bf16: $(cat out)"; fi
# Storage itself in bf16.
sed "/^train/i policy { param = bf16; compute = bf16 }" "$EXAMPLES/llama_tiny.pmodel" >stored.pmodel
expect 0 verify stored.pmodel --plan dp2_tp2 --steps 1 --against=reference
done_testing
