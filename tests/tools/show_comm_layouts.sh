# What each layout sends, by function, forward and backward: how many collectives of which kind, and their bytes, from
# the sizes of the model. All else sends nothing.
. "$(dirname "$0")/lib.sh"
B=4 S=8 E=16 F=64 V=32 L=2
A=$((B * S * E * 4)) R=$((B * S * 4)) # activations of a layer; one number a position

# layout MODEL PLAN SIZE...: leaves the lines of ./out that sum up a function, without commas in numbers, in ./sums.
layout() {
  local file=$EXAMPLES/$1.pmodel size args=()
  name="$1, ${2//; /, }"
  tr ';' '\n' <<<"$2" >plan.pplan
  shift 2
  for size in batch=$B seq=$S embed=$E ff=$F vocab=$V layer=$L "$@"; do args+=(--set "$size"); done
  expect 0 show comm "$file" --plan plan.pplan "${args[@]}"
  sed -nE 's/([0-9]),([0-9]{3})/\1\2/g; s/([0-9]),([0-9]{3})/\1\2/g; s/^([a-z_.]+)(, [0-9]+ runs a step, each)?: /\1: /p' out | grep -v '^a step' >sums || true
}

# sends FUNCTION TEXT: its line, word by word. Each is asked for once; what is left at the end is too much.
sends() {
  grep -qxF "$1: $2" sums || complain "$name: $1 should send $2, not"$'\n'"$(cat sums)"
  grep -vF "$1: " sums >rest || true
  mv rest sums
}
nothing_else() {
  [ ! -s sums ] || complain "$name: more is sent: $(cat sums)"
}

m=gpt_tiny
matrices=$((4 * E * E + 2 * E * F)) biases=$((5 * E + F))                  # of a layer; bq bk bv bo b2, and b1
layer=$(((4 * E + matrices + biases) * 4)) outside=$(((V * E + S * E + 2 * E) * 4)) # bytes; two norms a layer and one after
all=$((L * layer + outside))

# Data parallel: nothing but gradients, in one bucket after the layers, and the loss.
layout $m 'mesh data=4; shard batch -> data'
sends $m.fwd '1 all_reduce (4 bytes)'
sends $m.bwd "1 all_reduce ($all bytes)"
nothing_else

# ZeRO: scattered gradients and gathered updates; gradients scattered in the layer; parameters gathered where they are used,
# again in the backward, but for biases, which it does not read.
layout $m 'mesh data=4; shard batch -> data; zero(stage=1, over=data)'
sends $m.fwd '1 all_reduce (4 bytes)'
sends step "20 reduce_scatter ($all bytes), 1 all_reduce (4 bytes), 20 all_gather ($all bytes)"
nothing_else
layout $m 'mesh data=4; shard batch -> data; zero(stage=2, over=data)'
sends $m.fwd '1 all_reduce (4 bytes)'
sends $m.layer.bwd "16 reduce_scatter ($layer bytes)"
sends step "4 reduce_scatter ($outside bytes), 1 all_reduce (4 bytes), 20 all_gather ($all bytes)"
nothing_else
layout $m 'mesh data=4; shard batch -> data; zero(stage=3, over=data)'
sends $m.layer.fwd "16 all_gather ($layer bytes)"
sends $m.fwd "4 all_gather ($outside bytes), 1 all_reduce (4 bytes)"
sends $m.layer.bwd "10 all_gather ($((layer - biases * 4)) bytes), 16 reduce_scatter ($layer bytes)"
sends $m.bwd "3 all_gather ($((outside - S * E * 4)) bytes)"
sends step "4 reduce_scatter ($outside bytes), 1 all_reduce (4 bytes)"
nothing_else

# Megatron's cut, alone and with data parallelism, whose gradients are those of a rank's part.
layout $m 'mesh tensor=4; shard heads, ff -> tensor' heads=4
sends $m.layer.fwd "2 all_reduce ($((2 * A)) bytes)"
sends $m.layer.bwd "2 all_reduce ($((2 * A)) bytes)"
sends step '1 all_reduce (4 bytes)'
nothing_else
layout $m 'mesh data=2, tensor=4; shard batch -> data; shard heads, ff -> tensor' heads=4
sends $m.layer.fwd "2 all_reduce ($A bytes)"
sends $m.layer.bwd "2 all_reduce ($A bytes)"
sends $m.fwd '1 all_reduce (4 bytes)'
cut=$(((matrices + 3 * E + F) / 4 + 2 * E + 4 * E)) # bo and b2 and the norms are whole
sends $m.bwd "1 all_reduce ($((L * cut * 4 + outside)) bytes)"
sends step '1 all_reduce (4 bytes)'
nothing_else

# The vocabulary cut: rows of the table are summed, three numbers a position make the loss; logits are never gathered.
# A head of its own or the tied table: no difference.
for m in gpt_tiny llama_tiny; do
  h=heads
  [ $m = gpt_tiny ] || h=kvheads
  layout $m "mesh tensor=2; shard $h, ff, vocab -> tensor"
  sends $m.layer.fwd "2 all_reduce ($((2 * A)) bytes)"
  sends $m.layer.bwd "2 all_reduce ($((2 * A)) bytes)"
  sends $m.fwd "4 all_reduce ($((A + 3 * R)) bytes)"
  sends $m.bwd "1 all_reduce ($A bytes)"
  sends step '1 all_reduce (4 bytes)'
  nothing_else

  # Positions split between the layers: gathers and scatters in place of sums. The backward brings back two column inputs
  # that were saved split, and sums the gradients of norms and of biases on rows, in one bucket. Tokens stay whole, as the
  # rows that they look up are cut: nothing is sent for them.
  [ $m = gpt_tiny ] && whole="1 all_reduce ($(((6 * L + 2) * E * 4)) bytes)" || whole="1 all_reduce ($(((2 * L + 1) * E * 4)) bytes)"
  layout $m "mesh tensor=2; shard $h, ff, vocab -> tensor; shard act seq -> tensor"
  sends $m.layer.fwd "2 all_gather ($((2 * A)) bytes), 2 reduce_scatter ($((2 * A)) bytes)"
  sends $m.layer.bwd "4 all_gather ($((4 * A)) bytes), 2 reduce_scatter ($((2 * A)) bytes)"
  sends $m.fwd "1 reduce_scatter ($A bytes), 1 all_gather ($A bytes), 3 all_reduce ($((3 * R)) bytes)"
  sends $m.bwd "2 all_gather ($((2 * A)) bytes), 1 reduce_scatter ($A bytes), $whole"
  sends step '1 all_reduce (4 bytes)'
  nothing_else
done

# Micro-batches: gradients once a step, in one bucket, but with ZeRO-2 once a micro-batch.
m=gpt_tiny B=8
layout $m 'mesh data=4; shard batch -> data; accumulate(micro=2)'
sends step "2 all_reduce ($((all + 4)) bytes)"
nothing_else
layout $m 'mesh data=4; shard batch -> data; accumulate(micro=2); zero(stage=1, over=data)'
sends step "20 reduce_scatter ($all bytes), 2 all_reduce (8 bytes), 20 all_gather ($all bytes)"
nothing_else
layout $m 'mesh data=4; shard batch -> data; accumulate(micro=2); zero(stage=2, over=data)'
sends $m.layer.bwd "16 reduce_scatter ($layer bytes)"
sends step.micro "4 reduce_scatter ($outside bytes)"
sends step "2 all_reduce (8 bytes), 20 all_gather ($all bytes)"
nothing_else
layout $m 'mesh data=4; shard batch -> data; accumulate(micro=2); zero(stage=3, over=data)'
sends $m.layer.fwd "16 all_gather ($layer bytes)"
sends $m.fwd "4 all_gather ($outside bytes)"
sends $m.layer.bwd "10 all_gather ($((layer - biases * 4)) bytes), 16 reduce_scatter ($layer bytes)"
sends $m.bwd "3 all_gather ($((outside - S * E * 4)) bytes)"
sends step.micro "4 reduce_scatter ($outside bytes)"
sends step '2 all_reduce (8 bytes)'
nothing_else
done_testing
