# The gradient of an expert's parameter is that of one rank, not a multiple of it, however many ranks share the experts.
. "$(dirname "$0")/lib.sh"
steps=1 sizes=(--set batch=8 --set seq=4 --set vocab=16 --set embed=8 --set ff=8 --set hdim=4 --set layer=1)

for model in mixtral_tiny deepseek_moe_tiny; do
  norm=
  for plan in 'mesh data=1' 'mesh data=2' 'mesh data=4' 'mesh data=2, more=2' 'mesh data=4, more=2'; do
    rules='shard expert in "*.wr" -> none; shard param expert -> data; shard batch -> data'
    [[ $plan != *more* ]] || rules+=' + more; zero(stage=1, over=more)'
    equal "$EXAMPLES/$model.pmodel" "$plan; $rules" "${sizes[@]}"
    norm=${norm:-$(of grad_norm)}
    awk -v a="$norm" -v b="$(of grad_norm)" 'BEGIN { exit !(a > 0 && b / a - 1 < 1e-5 && a / b - 1 < 1e-5) }' ||
      complain "$model, $plan: the norm is $(of grad_norm), on one rank $norm"
  done
done
done_testing
