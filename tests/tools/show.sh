# The views of a model and of its run plan.
. "$(dirname "$0")/lib.sh"
gpt=$EXAMPLES/gpt_tiny.pmodel

expect 0 show params "$EXAMPLES/gpt2.pmodel"
says out '^total +124,475,904 +497,903,616 +248,951,808$'
expect 0 show params "$EXAMPLES/llama3_8b.pmodel"
says out '^total +8,030,261,248 '
expect 0 show params "$EXAMPLES/mixtral_8x7b.pmodel"
says out '^total +46,702,792,704 '
expect 0 show params "$EXAMPLES/llama3_8b.pmodel" --json
says out '"elements": 8030261248'
expect 0 show params "$gpt"
says out '^layer.attn.wq +f32\[layer:4, embed:128, heads:4, hdim:32\] +65,536 +262,144$'
expect 0 compile "$gpt" --plan tp2 -o gpt.prun
expect 0 show params gpt.prun
expect 0 show axes "$gpt"
says out '^embed +128 +.*gpt_tiny.pmodel:5'
expect 0 show graph "$gpt"
says out '^module logical'
cp out graph.pir
expect 0 opt graph.pir
cmp out graph.pir || complain "show graph prints text that reads back to something else"

expect 0 show graph --residuals "$gpt"
says out '^layer.attn.q +f32\[layer:4, batch:8, seq:64, heads:4, hdim:32\] +1,048,576 +.*gpt_tiny.pmodel:12:7$'
says out '^logits +f32\[batch:8, seq:64, vocab:256\] +524,288 '
says out '^total +11,325,440$'
expect 0 show graph --residuals "$gpt" --plan dp2 --json
says out '^  "bytes": 5662720$'

expect 0 show graph --split-backward "$gpt"
says out '^d\(layer.x\) +f32\[layer:4, batch:8, seq:64, embed:128\] +1,048,576 '
says out '^d\(logits\) +f32\[batch:8, seq:64, vocab:256\] +524,288 '
[ "$(grep -c 'layer:4' out)" -eq 9 ] || complain "not nine values a layer: $(cat out)"
says out '^total +11,550,720$'
expect 0 show graph --split-backward "$gpt" --plan dp2_tp2 --json
says out '^  "handed": \['
says out '^  "bytes": 3940352$'
expect 0 show graph --split-backward "$EXAMPLES/mlp.pmodel"
says out '^total +0$'

expect 0 show plan "$gpt"
says out 'no plan: one rank'
expect 0 show plan "$gpt" --plan tp2 --shard 'batch -> tensor'
says out '^shard batch -> tensor +# --shard'
says out '^shard heads, ff -> tensor +# .*gpt_tiny.pmodel:[0-9]+:'

expect 0 show sharding "$gpt" --plan dp2_tp2
says out '^  layer.attn.wq +param +f32\[layer:4, embed:128, heads:4/tensor, hdim:32\] +heads: shard heads, ff -> tensor'
says out '^  layer.attn.q +f32\[batch:8/data, seq:64, heads:4/tensor, hdim:32\] +batch: shard batch -> data; heads: '
expect 0 show sharding "$gpt" --plan dp2_tp2 --json

expect 0 show sharding "$gpt" --plan dp2_tp2 --value layer.attn.q
says out '^layer.attn.q  act  f32\[batch:8/data, seq:64, heads:4/tensor, hdim:32\]$'
says out '^  batch: shard batch -> data; heads: shard heads, ff -> tensor$'
says out '^  65,536 bytes a rank; 4 parts, each on 1 rank$'
says out '^ +tensor=0 +tensor=1$'
says out '^ +data=1  2: batch 4-7, heads 0-1  3: batch 4-7, heads 2-3$'
says out '^  nothing is sent for it$'
says out '^  a step sends [0-9,]+ bytes a rank; with \[.*\], the best of the others, [0-9,]+$'
expect 0 show sharding "$gpt" --plan dp2 --value 'd(wpe)'
says out '^  32,768 bytes a rank; every rank holds all of it$'
says out '^  sent for it: all_reduce over data, 32,768 bytes, 1 a step, due to .*gpt_tiny.pmodel:'
! grep -q 'best of the others' out || complain "a gradient is not placed by itself"
expect 0 show sharding "$gpt" --plan dp2_tp2 --value wpe --json
for key in plan sent values name role type why local_bytes parts ranks rank slice axis first size collectives next_best placement; do
  says out "\"$key\":"
done
expect 2 show sharding "$gpt" --plan dp2 --value nothing
says err 'matches no variable and no named value'

# What the examples ask for is what they get.
for example in "$EXAMPLES"/*.pmodel; do
  for plan in $(sed -n 's/^plan \([a-z0-9_]*\).*/\1/p' "$example"); do
    expect 0 check "$example" --plan "$plan" --strict
  done
done

for file in "$gpt" gpt.prun; do
  plan=()
  [ "$file" = gpt.prun ] || plan=(--plan tp2)
  expect 0 show memory "$file" "${plan[@]}"
  says out '^  param +20 +[0-9,]+ +[0-9,]+ +[0-9,]+$'
  says out 'arena / bound = 1\.0[01]'
  cp out memory."$(basename "$file")"
  expect 0 show memory "$file" "${plan[@]}" --json
  arena=$(number "$(grep '"arena_bytes"' out)" arena_bytes)
  peak=$(number "$(grep '"bytes"' out | head -1)" bytes)
  live=$(number "$(grep '"live_bytes"' out)" live_bytes)
  [ "$peak" -eq "$live" ] || complain "the peak of the view ($peak) is not the plan's bound ($live)"
  [ $((arena * 100)) -le $((live * 102)) ] || complain "arena $arena, bound $live"
  expect 0 show kernels "$file" "${plan[@]}"
  says out '^a step: [0-9]+ kernel runs, [0-9]+ matrix products, [0-9]+ collectives$'
  cp out kernels."$(basename "$file")"
  expect 0 show kernels "$file" "${plan[@]}" --json
done
cmp memory.gpt_tiny.pmodel memory.gpt.prun || complain "a plan and its file have other memory"
cmp kernels.gpt_tiny.pmodel kernels.gpt.prun || complain "a plan and its file have other kernels"

expect 0 check "$gpt" --plan tp2 --json
says out '"elements": 834304'
done_testing
