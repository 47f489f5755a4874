# What dropout drops is a matter of seed, path, step and element: sums of whole numbers that name each element kept are
# equal to the last bit on 1, 2, 4 and 8 ranks, split by batch, positions, channels or padded.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 8, seq = 8, vocab = 256, embed = 8, layer = 2
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed] ~ ones
  x = table[vocab = tokens]
  kept = 0.0
  repeat layer {
    # 1 to 512 for the elements of one turn: below 2^24 in all, so that f32 sums them exactly
    y = dropout(x, 0.5) * (1 + pos(embed) + embed * (pos(seq) + seq * pos(batch)))
    kept += sum[batch, seq, embed](y)
  }
  minimize kept
}
train {
  optimizer = frozen(); lr = 1e-3; seed = 5; steps = 3
  data = tokens("m.pmodel", format="bytes", x=tokens, y=targets)
}
optimizer frozen() {
  value = value + 0 * lr * grad
}
TXT
losses m.pmodel 'mesh one=1'
cp losses one
[ "$(sort -u one | wc -l)" -eq 3 ] || complain "steps do not differ: $(cat one)"
for plan in 'mesh d=2; shard batch -> d' 'mesh d=4; shard batch -> d' 'mesh d=8; shard batch -> d' 'mesh d=8; shard act seq -> d' \
  'mesh d=8; shard act embed -> d' 'mesh d=2, t=2, s=2; shard batch -> d; shard act embed -> t; shard act seq -> s' \
  'mesh d=3; shard batch -> d; pad(batch)' 'mesh d=4; shard batch -> d; zero(stage=3, over=d)'; do
  losses m.pmodel "$plan"
  cmp -s one losses || complain "$plan: $(paste one losses)"
done
done_testing
