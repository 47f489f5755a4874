# A mean over the tokens that count is over those of all ranks: with unequal counts, with a rank that has none, and with
# none anywhere, where it is 0 and not NaN.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 4, seq = 8, vocab = 32, embed = 8
const from = 9
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed], head[embed, vocab] ~ normal(0.5)
  logits = dot[embed](table[vocab = tokens], head)
  # row 0: nearly all, row 1: some, rows 2 and 3: none
  counts = (tokens >= 2 and pos(batch) == 0) or (tokens >= from and pos(batch) == 1)
  report valid = sum[batch, seq](where(counts, 1.0, 0.0))
  minimize mean[batch, seq](xent[vocab](logits, targets), where=counts)
}
train { optimizer = adamw(); lr = 1e-2; clip = 1.0 }
TXT
plans=('mesh data=2; shard batch -> data' 'mesh data=4; shard batch -> data' 'mesh data=3; shard batch -> data; pad(batch)'
  'mesh seq=4; shard seq -> seq' 'mesh data=2, t=2; shard batch -> data; shard vocab -> t; shard act seq -> t'
  'mesh data=4; shard batch -> data; zero(stage=3, over=data)')
for plan in "${plans[@]}"; do equal m.pmodel "$plan"; done
sed 's/tokens >= 2/tokens < -1/; s/tokens >= from/tokens < -1/' m.pmodel >none.pmodel
for plan in "${plans[@]}"; do
  equal none.pmodel "$plan"
  [ "$(of loss) $(of grad_norm)" = '0 0' ] || complain "none valid, $plan: loss $(of loss), norm $(of grad_norm)"
done

# Labels of -1 from a file, all of them in the rows of the last rank.
header() { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|i1', 'fortran_order': False, 'shape': (4, 8), }"; }
{ header; printf '\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10'; } >tokens.npy
{ header; printf '\1\2\3\4\5\6\7\10\1\2\3\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377'; } >targets.npy
sed 's/counts = .*/counts = targets >= 0/
  s/clip = 1.0/clip = 1.0; steps = 6; data = npy("tokens.npy", x=tokens, "targets.npy", y=targets)/' m.pmodel >file.pmodel
losses file.pmodel 'mesh data=1'
cp losses one
[ "$(wc -l <one)" -eq 6 ] || complain "$(wc -l <one) steps"
for plan in "${plans[@]}"; do
  losses file.pmodel "$plan"
  grep -q '"valid":11,' out || complain "$plan: not 11 valid tokens: $(head -n 3 out)"
  paste one losses | awk '{ d = $1 / $2 - 1; if (d < 0) d = -d; if (d > 1e-5) bad = 1; n++ } END { exit bad || n != 6 }' ||
    complain "$plan: $(paste one losses)"
done
done_testing
