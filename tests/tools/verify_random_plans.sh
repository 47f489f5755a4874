# Legal plans by lot: every one computes what one rank does, however odd.
. "$(dirname "$0")/lib.sh"

for ranks in 2 3 4 6 8; do
  expect 0 verify "$EXAMPLES/mlp.pmodel" --random-plans 12 --ranks "$ranks" --steps 1 --set batch=6 --set hidden=24
  [ "$(grep -c ' ok ' out)" -eq 12 ] || complain "not twelve plans: $(cat out)"
done
for model in gpt_tiny llama_tiny mixtral_tiny deepseek_moe_tiny mlp_dropout; do
  expect 0 verify "$EXAMPLES/$model.pmodel" --random-plans 6 --ranks 4 --steps 1 --seed 7 --set layer=2 --set seq=12
done
expect 0 verify "$EXAMPLES/mlp.pmodel" --random-plans 2 --ranks 2 --steps 1 --json
says out '"plan": "mesh '
[ "$(grep -c '"ok": true' out)" -eq 3 ] || complain "two plans and the whole are not ok: $(cat out)"
expect 2 verify "$EXAMPLES/mlp.pmodel" --random-plans 2 --plan dp2
says err 'makes the plans'
expect 2 verify "$EXAMPLES/mlp.pmodel" --random-plans 2 --static
expect 2 verify "$EXAMPLES/mlp.pmodel" --random-plans=-1
expect 4 verify "$EXAMPLES/mlp.pmodel" --random-plans 1 --ranks 100
done_testing
