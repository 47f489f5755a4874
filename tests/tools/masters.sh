# Mixed precision with ZeRO: of P parameters over N ranks a rank holds what the formulas say, byte for byte. Working
# copies 2 P (stage 3: 2 P / N), masters and moments 12 P (from stage 1: 12 P / N); gradients g P (from stage 2: g P / N),
# at their most beside the largest tensor that is still being made or summed. What is gathered is in the compute type,
# what is summed in the gradient's.
. "$(dirname "$0")/lib.sh"

params=834304 largest=262144  # of gpt_tiny

# own OWNER KEY: a number of `show memory --json`.
own() {
  tr -d '\n ' <out | sed -E "s/.*\"$1\":\\{([^}]*)\\}.*/\\1/" | grep -oE "\"$2\":[0-9]+" | cut -d: -f2
}

# equal WHAT GOT WANT
equal() {
  [ "$2" -eq "$3" ] || complain "$1: $2 bytes, expected $3"
}

# sizes DTYPE GRAD GRAD_BYTES NUMBERS: the example under a policy, on all stages and two sizes of the mesh. NUMBERS: what
# its loss scaling keeps.
sizes() {
  local file=gpt_$1_$2.pmodel n stage what grads most
  sed "/^train/i policy { param = f32; compute = $1; grad = $2 }" "$EXAMPLES/gpt_tiny.pmodel" >"$file"
  for stage in 0 1 2 3; do
    printf 'plan z%s {\n  mesh data=2\n  shard batch -> data\n  zero(stage=%s, over=data)\n}\n' $stage $stage >>"$file"
  done
  for n in 2 4; do
    for stage in 0 1 2 3; do
      what="$1 gradients in $2, stage $stage over $n"
      expect 0 show memory "$file" --plan z$stage --mesh data=$n --json
      equal "$what, working copies" "$(own param persistent_bytes)" $((2 * params / (stage > 2 ? n : 1)))
      equal "$what, masters and moments" "$(own state persistent_bytes)" $((12 * params / (stage > 0 ? n : 1) + 64 * $4))
      grads=$(($3 * params / (stage > 1 ? n : 1)))
      most=$(own grad most_bytes)
      [ "$most" -ge "$grads" ] && [ "$most" -le $((grads + $3 * largest)) ] ||
        complain "$what: at most $most bytes of gradients, expected $grads and a tensor"
    done
  done
  expect 0 show params "$file" --json
  says out "^  \"bytes\": $((4 * params)),\$"
  says out "^  \"copy_bytes\": $((2 * params))\$"
  expect 0 compile "$file" --plan z3 -o x.prun
  expect 0 show params x.prun --json
  says out "^  \"bytes\": $((4 * params)),\$"
  says out "^  \"copy_bytes\": $((2 * params))\$"
}

sizes bf16 f32 4 0
sizes f16 f16 2 3  # ZeRO's 16 P

# gathers PLAN COUNT: how many of the working copies the step gathers.
gathers() {
  expect 0 show comm gpt_bf16_f32.pmodel --plan "$1"
  grep -E '^  all_gather ' out >rows || true
  [ "$(wc -l <rows)" -eq "$2" ] || complain "$1: $(wc -l <rows) kinds of gathers, expected $2: $(cat rows)"
  if grep -vq ' bf16\[' rows; then complain "$1: a gather that is not in bf16: $(cat rows)"; fi
  grep -E '^  reduce_scatter ' out >rows || true
  [ "$(wc -l <rows)" -eq 20 ] || complain "$1: $(wc -l <rows) kinds of scatters, expected one a parameter: $(cat rows)"
  if grep -vq ' f32\[' rows; then complain "$1: a sum of gradients that is not in f32: $(cat rows)"; fi
}
gathers z1 20
gathers z2 20
gathers z3 33

expect 0 show sharding gpt_bf16_f32.pmodel --plan z1
says out '^  layer\.ffn\.w1 +param +bf16\[layer:4, embed:128, ff:512\]'
says out '^  layer\.ffn\.w1/master +state +f32\[layer:4, embed:128, ff:512/data\]'
expect 0 show sharding gpt_bf16_f32.pmodel --plan z3
says out '^  layer\.ffn\.w1 +param +bf16\[layer:4, embed:128, ff:512/data\]'
# First values and one step, against the reference, which stores each parameter once.
expect 0 verify gpt_bf16_f32.pmodel --plan z1 --set axis.batch=2 --set axis.layer=1 --steps 1 --against=reference
says out '^  working copy +40 +0\.00e\+00 +equal '
done_testing
