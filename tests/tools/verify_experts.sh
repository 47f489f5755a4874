# Experts on 1, 2, 4 and 8 ranks, dropless, bounded and with capacity: loss, every gradient, the norm and every update are
# the reference's; so they are when the router sends everything to the same experts. Of whole numbers the gradients of the
# experts are exact, not twice what they should be.
. "$(dirname "$0")/lib.sh"

# verified FILE ARGS...
verified() {
  expect 0 verify "$@" --against=reference --json
  says out '^  "ok": true'
}

for slots in ragged 'ragged(bound=8)' 10; do
  for ranks in 1 2 4 8; do
    printf 'mesh data = %d\nshard batch -> data\nshard expert in "*.wr" -> none\nshard param expert -> data\n' $ranks >ep.pplan
    verified "$EXAMPLES/mixtral_tiny.pmodel" --plan ep.pplan --set axis.batch=8 --set axis.seq=8 --set axis.expert=8 \
      --set "axis.slot=$slots"
    verified "$EXAMPLES/deepseek_moe_tiny.pmodel" --plan ep.pplan --set axis.batch=8 --set axis.seq=8 \
      --set "axis.slot=$slots"
  done
done
for plan in ep2 ep4_tp2; do
  verified "$EXAMPLES/mixtral_tiny.pmodel" --plan $plan
  verified "$EXAMPLES/deepseek_moe_tiny.pmodel" --plan $plan
done

# Together with micro-batches, padded experts and rows, sequences over ranks, ZeRO and bf16: every feature touches what
# another one made.
small=(--set axis.batch=8 --set axis.seq=8 --set axis.embed=16 --set axis.ff=8 --set axis.hdim=4 --steps=1 --threads=1)
for model in mixtral_tiny deepseek_moe_tiny; do
  cp "$EXAMPLES/$model.pmodel" $model.pmodel
  { cat $model.pmodel && echo 'policy { param = f32; compute = bf16; reduce = f32 }'; } >${model}_bf16.pmodel
  routers='shard expert in "*.wr" -> none'
  [ $model = mixtral_tiny ] || routers+=$'\nshard expert in "*.bias" -> none'
  printf 'mesh data=2\nshard batch -> data\n%s\nshard param expert -> data\naccumulate(micro=2)\n' "$routers" >micro.pplan
  cat >together.pplan <<PLAN
mesh data=3, context=2, tensor=2
shard batch -> data
shard act seq -> context + tensor
$routers
shard param expert -> data
shard kvheads, ff -> tensor
ring(kv, over=context)
zero(stage=3, over=data)
accumulate(micro=2)
pad(expert)
pad(batch)
PLAN
  sed -e 's/^ring/ulysses/' -e 's/data=3/data=2/' -e '/^pad/d' -e 's/expert -> data/expert -> data + context/' \
    together.pplan >ulysses.pplan
  for slots in ragged 'ragged(bound=3.9)' 'ceil(1.25 * choice * batch.micro * seq / expert)'; do
    verified $model.pmodel --plan micro.pplan "${small[@]}" --set "axis.slot=$slots"
    verified $model.pmodel --plan ulysses.pplan "${small[@]}" --set "axis.slot=$slots"
    verified ${model}_bf16.pmodel --plan together.pplan "${small[@]}" --set "axis.slot=$slots"
  done
done

# All scores are equal in the first step: two experts get every token, the others none.
sed -E 's/(param wr.*) ~ normal\(0.5\)/\1 ~ zeros/' "$EXAMPLES/mixtral_tiny.pmodel" >skewed.pmodel
for slots in ragged 20; do
  verified skewed.pmodel --plan ep4_tp2 --steps=1 --set "axis.slot=$slots"
done

# Tokens that name their expert, and ones: the gradient of an expert counts its tokens.
cat >counted.pmodel <<'END'
pmodel 1
import "std"
axis batch = 8, seq = 4, expert = 8, embed = 4, out = 4, slot = ragged
model counted {
  input who[batch, seq] in expert
  param table[expert, embed], w[expert, embed, out] ~ ones
  x = table[expert = who]
  h = dispatch[expert, slot](x, who)
  y = combine[slot](dot[embed](h, w), who)
  minimize sum[batch, seq, out](y)
}
train { optimizer = sgd(); lr = 0.5; steps = 3 }
END
for ranks in 1 2 4 8; do
  printf 'mesh data = %d\nshard batch -> data\nshard expert in "table" -> none\nshard param expert -> data\n' $ranks >ep.pplan
  verified counted.pmodel --plan ep.pplan
  for what in loss gradient 'updated parameter'; do
    grep -A2 "\"what\": \"$what\"" out | grep -q '"error": 0,' || complain "$ranks ranks: $what is not exact: $(cat out)"
  done
  expect 0 show comm counted.pmodel --plan ep.pplan
  if [ "$ranks" -gt 1 ]; then says out 'scatter_rows'; fi
done
done_testing
