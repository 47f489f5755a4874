# What a training run shows and leaves behind.
. "$(dirname "$0")/lib.sh"
mlp=$EXAMPLES/mlp.pmodel

rm -rf run
expect 0 train "$mlp" --plan dp2 --ranks 2 --steps 25 --sample=20 --out run
silent err
for step in ' 1' 10 20 25; do says out "^step $step/25  loss [0-9.]+  lr [-+.e0-9]+  grad_norm [-+.e0-9]+  [0-9]+ tok/s  ETA [0-9:]+\$"; done
says out '^--- 20 tokens, greedily$'
[ "$(wc -l <run/metrics.jsonl)" -eq 25 ] || complain "metrics.jsonl has $(wc -l <run/metrics.jsonl) lines"
says run/metrics.jsonl '^\{"step":25,"loss":[0-9.]+,"grad_norm":'
cmp run/model.pmodel "$mlp" || complain "model.pmodel is not the model"
says run/meta.json '"ranks": 2'
expect 0 verify --static run/run.prun
expect 2 train "$mlp" --steps 2 --out run
says err 'holds a run already'

# One object a line.
expect 0 train "$mlp" --steps 3 --sample=4 --json
[ "$(grep -c '^{"event":"[a-z]*",.*}$' out)" -eq "$(wc -l <out)" ] || complain "a line is no event: $(cat out)"
[ "$(grep -c '"event":"step"' out)" -eq 3 ] || complain "not three steps: $(cat out)"
says out '^\{"event":"sample","prompt":".*","text":".*"\}$'

# The loss falls, and another seed gives another run.
expect 0 train "$mlp" --steps 60 --json
first=$(number "$(grep '"step":1,' out)" loss)
last=$(number "$(grep '"step":60,' out)" loss)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < 0.7 * a) }' || complain "the loss goes from $first to $last"
expect 0 train "$mlp" --steps 1 --seed 99 --json
[ "$(number "$(grep '"step":1,' out)" loss)" != "$first" ] || complain "the seed changes nothing"

expect 0 train "$mlp" --plan dp2 --target null
says out 'counted and not run'
done_testing
