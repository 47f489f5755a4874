# Sizes that no mesh axis divides: the same numbers, down to ranks that hold padding alone.
. "$(dirname "$0")/lib.sh"

cat >dense.pplan <<'END'
mesh data=2, tensor=4
shard batch -> data
shard heads, kvheads, ff, vocab -> tensor
shard act seq -> tensor
pad(batch, seq, heads, vocab)
END
cat >zero.pplan <<'END'
mesh data=4
shard batch -> data
pad(batch)
zero(stage=2, over=data)
END
cat >moe.pplan <<'END'
mesh data=4, tensor=2
shard batch -> data
shard param expert -> data
shard kvheads, ff, vocab -> tensor
pad(batch, vocab, kvheads, expert, ff)
zero(stage=3, over=data)
END
sed '/pad/s/heads/kvheads/; s/heads, kvheads/kvheads/' dense.pplan >llama.pplan
sed -i 's/heads, kvheads/heads/' dense.pplan

# A prime vocabulary, and more ranks than heads and rows.
expect 0 verify "$EXAMPLES/gpt_tiny.pmodel" --plan dense.pplan --set batch=3 --set vocab=257 --set seq=29 --steps 2
expect 0 verify "$EXAMPLES/gpt_tiny.pmodel" --plan dense.pplan --set batch=1 --set vocab=257 --set heads=2 --steps 2
expect 0 verify "$EXAMPLES/gpt_tiny.pmodel" --plan zero.pplan --set batch=6 --steps 2
expect 0 verify "$EXAMPLES/llama_tiny.pmodel" --plan llama.pplan --set batch=3 --set seq=30 --set vocab=263 --steps 2
expect 0 verify "$EXAMPLES/mixtral_tiny.pmodel" --plan moe.pplan --set batch=6 --set vocab=257 --set expert=3 --steps 2
expect 0 verify "$EXAMPLES/deepseek_moe_tiny.pmodel" --plan moe.pplan --set batch=6 --set expert=6 --steps 2

# The type says what is padding; parameters are counted without it.
sed 's/vocab/&/' dense.pplan >p.pplan
expect 0 show sharding "$EXAMPLES/gpt_tiny.pmodel" --plan p.pplan --set vocab=257
says out 'wte .*vocab:257\^260/tensor'
expect 0 show params "$EXAMPLES/gpt_tiny.pmodel" --plan p.pplan --set vocab=257 --json
cp out padded
expect 0 show params "$EXAMPLES/gpt_tiny.pmodel" --set vocab=257 --json
cmp -s out padded || complain "padding changes what show params counts"
done_testing
