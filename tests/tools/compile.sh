# Two compiles give the same bytes; the text form reads back to them; a run plan trains and is safe as it is.
. "$(dirname "$0")/lib.sh"

for file in "$EXAMPLES"/*.pmodel; do
  name=$(basename "$file" .pmodel)
  for plan in "" $(sed -nE 's/^plan ([a-z0-9_]+).*/\1/p' "$file"); do
    x=$name.$plan
    expect 0 compile "$file" ${plan:+--plan $plan} -o "$x.1.prun"
    expect 0 compile "$file" ${plan:+--plan $plan} --strict -o "$x.2.prun"  # without a warning
    cmp "$x.1.prun" "$x.2.prun" || complain "$x: two compiles differ"
    expect 0 compile "$x.1.prun" --text -o "$x.txt"
    says "$x.txt" '^pmodel.prun'
    expect 0 compile "$x.txt" -o "$x.3.prun"
    cmp "$x.1.prun" "$x.3.prun" || complain "$x: the text form reads back to another plan"
    expect 0 verify --static "$x.1.prun"
    says out 'safe on'
    rm -f "$x".*
  done
done

expect 0 compile "$EXAMPLES/mlp.pmodel" --plan dp2 --steps 3 -o mlp.prun
expect 0 train mlp.prun
says out 'step 3/3  loss'
expect 0 compile "$EXAMPLES/mlp.pmodel" --json -o mlp.prun
says out '"arena_bytes": [0-9]+'
expect 0 compile "$EXAMPLES/mlp.pmodel" -o -
cmp out mlp.prun || complain "-o - writes something else"
# A model that is written out, layer by layer: kernels are cut anew until each has few enough tensors, and what an attempt
# took is given back.
{
  printf 'pmodel 1\nimport "std"\naxis batch = 4, embed = 8'
  for ((i = 0; i < 80; i++)); do printf ', f%d = %d' "$i" $((1 + i % 9)); done
  printf '\nmodel m {\n  input x[batch, embed]: f32\n  y = x\n'
  for ((i = 0; i < 80; i++)); do
    printf '  param a%d[embed, f%d], b%d[f%d, embed] ~ normal(0.1)\n  param c%d[f%d], d%d[embed] ~ zeros\n' $i $i $i $i $i $i $i
    printf '  y += dot[f%d](gelu(dot[embed](y, a%d) + c%d), b%d) + d%d\n' $i $i $i $i $i
  done
  printf '  minimize mean[batch, embed](y * y)\n}\ntrain {\n  optimizer = adamw()\n  lr = 0.01\n  clip = 1.0\n}\n'
  printf 'plan dp2 {\n  mesh data=2\n  shard batch -> data\n}\n'
} >written_out.pmodel
expect 0 compile written_out.pmodel --plan dp2 -o x.prun
done_testing
