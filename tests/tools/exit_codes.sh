# The exit code and the message of each kind of bad input. Answers go to stdout, everything else to stderr.
. "$(dirname "$0")/lib.sh"
mlp=$EXAMPLES/mlp.pmodel

# 2: usage
expect 2 frobnicate
says err 'unknown command'
expect 2 check
says err 'needs a file'
expect 2 check a.pmodel b.pmodel
says err 'left over'
expect 2 show
says err 'needs a view'
expect 2 show parms "$mlp"
says err 'did you mean `params`'
expect 2 compile "$mlp"
says err 'needs `-o FILE`'
expect 2 check "$mlp" --print-ir-after=nothing
says err 'has no pass'
expect 2 train "$mlp" --ranks 2
says err 'needs a plan'
expect 2 train "$mlp" --plan dp2 --ranks 4
says err 'mesh data=2, which has 2 ranks'
for count in --steps=-1 --steps=0 --ranks=0 --threads=0; do
  expect 2 train "$mlp" $count
  says err "\`${count%=*}\` needs a number above 0, not \`${count#*=}\`"
done
for count in --seed=-1 --sample=-1 --deadline=-1; do
  expect 2 train "$mlp" $count
  says err "\`${count%=*}\` needs a number that is not below 0"
done
expect 2 show memory "$mlp" --value w1
says err '`--value` is for `pmodel show sharding`'
expect 2 show params "$mlp" --residuals
says err 'is for `pmodel show graph`'
expect 2 show graph "$mlp" --residuals --split-backward
says err 'leave one out'
expect 2 verify "$mlp" --steps 0
expect 2 compile "$mlp" --steps 0 -o x.prun
expect 2 explain E9999
silent out

expect 2 check "$mlp" --plan dp2 --plan tp2
says err '^pmodel: error: `--plan` is given twice'
silent out

# 3: environment
expect 3 check nosuch.pmodel
says err 'cannot read `nosuch.pmodel`'
expect 3 compile "$mlp" -o nosuch/x.prun
says err 'cannot write'
expect 3 train "$mlp" --steps 2 --data nosuch.bin
says err 'nosuch.bin'
rm -f pipe.bin
mkfifo pipe.bin
expect 3 train "$mlp" --steps 2 --data pipe.bin
says err 'pipe.bin is not a file'
expect 3 check "$mlp" --plan nosuch.pplan
says err 'cannot open nosuch.pplan'
if grep -q E0401 err; then complain "a missing plan is no error of the program: $(cat err)"; fi

# 5: numbers that overflow in the reference too say nothing about the plan
cat >overflow.pmodel <<'END'
pmodel 1
import "std"
axis batch = 4, seq = 2, vocab = 16, embed = 6
model m {
  input tokens[batch, seq] in vocab
  param table[vocab, embed] ~ normal(1)
  x = exp(exp(1000 + table[vocab = tokens]))
  minimize mean[batch, seq, embed](x)
}
train {
  optimizer = sgd()
  lr = 0.1
}
END
expect 5 verify overflow.pmodel --steps 1
says err '`loss` is not finite at step 1, in the reference either'

# 1: the input is wrong; the diagnostic stands on stderr once, and nothing on stdout
cat >bad.pmodel <<'END'
pmodel 1
import "std"
axis a = 4
model m {
  input x[a, b] in a
  minimize mean[a](foo(x))
}
END
expect 1 check bad.pmodel
silent out
says err '^bad.pmodel:5:14: error\[E0202\]'
says err '^bad.pmodel:6:20: error\[E0201\]'
[ "$(grep -c 'E0202' err)" -eq 1 ] || complain "the diagnostic stands there more than once"
if grep -q '^pmodel: error' err; then complain "a status repeats what the diagnostics said"; fi
printf 'pmodel 1\naxis a = 4\nmodel m {\n  param w[a] ~ ones\n  minimize mean[a](w)\n}\n' >untrained.pmodel
expect 1 train untrained.pmodel
says err 'the model has no `train` block'

# An input without data: what reads none goes on.
sed 's/, y=targets//' "$EXAMPLES/gpt_tiny.pmodel" >unfed.pmodel
expect 1 train unfed.pmodel --steps 1
says err 'error\[E0303\]: `data` feeds every input but `targets`$'
expect 1 compile unfed.pmodel -o unfed.prun
says err 'E0303'
[ ! -e unfed.prun ] || complain "a plan was written"
expect 0 verify unfed.pmodel --steps 1 --set layer=1 --set seq=4 --set batch=2
says err 'warning\[W0305\]'
says out '^ +gradient .* ok$'
expect 0 show params unfed.pmodel
says err 'warning\[W0305\]'
expect 1 check bad.pmodel --diagnostics=json
[ "$(grep -c '^{.*}$' err)" -eq 2 ] || complain "expected two JSON lines: $(cat err)"
if grep -qv '^{.*}$' err; then complain "a line is no JSON object: $(cat err)"; fi
expect 2 check --diagnostics=json
says err '^\{"level":"error","message":".*","exit":2\}$'
expect 1 check "$mlp" --plan tp2 --mesh tensor=3
says err 'E0412'
printf 'mesh a = 3\npin("w1", [hidden/a])\n' >pin.pplan
expect 1 check "$mlp" --plan pin.pplan
says err 'pin.pplan:2:1: error\[E0412\]'
printf 'mesh a = 2\npin("w1", [hidden/a, vocab/a])\n' >pin.pplan
expect 1 check "$mlp" --plan pin.pplan
says err 'one value uses a mesh axis once'
printf 'mesh a = 2\npin("w1", [batch/a])\n' >pin.pplan
expect 1 check "$mlp" --plan pin.pplan
says err '`w1` has no axis `batch` to pin'
expect 1 check "$mlp" --plan nosuch
expect 1 opt bad.pmodel
says err 'bad.pmodel:1'

# a warning is an error under --strict only
expect 0 check "$mlp" --plan dp2 --shard 'seqq -> data'
says err 'warning\[W0407\]'
says out 'well formed'
expect 1 check "$mlp" --plan dp2 --shard 'seqq -> data' --strict

# a run plan is damaged, or asked for what only a model has
expect 0 compile "$mlp" --plan dp2 -o x.prun
silent out
head -c 2000 x.prun >cut.prun
expect 1 verify cut.prun
{ head -c 4000 x.prun; printf 'X'; tail -c +4002 x.prun; } >flipped.prun
expect 1 verify flipped.prun
expect 2 show graph x.prun
expect 2 show memory x.prun --plan dp2
expect 2 verify x.prun --against=reference
expect 2 verify "$mlp" --against=reference --static

# 1 or 4, and soon: texts that ask for too much
model='pmodel 1
import "std"
axis b = 4, d = 8
'
body='model m {
  input x[b, d] : f32
  param w[d] ~ zeros
'
chain() {  # STATEMENTS
  echo "$model$body  y = x * w"
  yes '  y = y * w' | head -n "$1" || true
  printf '  minimize mean[b, d](y)\n}\ntrain { optimizer = sgd(); lr = constant(1e-2); steps = 2 }\n'
}
chain 60000 >chain.pmodel
expect 4 check chain.pmodel
says err 'memory limit'
says err '^pmodel: note: (pass `[a-z]+`|chain.pmodel:[0-9]+:[0-9]+) needs more memory'
chain 30000 >chain.pmodel
expect 4 compile chain.pmodel -o chain.prun
says err '^pmodel: note: code generation needs more memory'
{ echo "$model"; echo 'block b0(x) { return x }'
  for i in $(seq 15000); do echo "block b$i(x) { sub s = b$((i - 1))"; echo '  return s(x) }'; done
  echo "$body  sub s = b15000"; echo '  minimize mean[b, d](s(x * w))'; echo '}'; } >blocks.pmodel
expect 1 check blocks.pmodel
says err 'E0102.*more than 256 deep'
{ echo "$model$body  minimize mean[b, d](x * w)"; echo '}'; echo 'plan p0 { }'
  for i in $(seq 1000); do echo "plan p$i extends p$((i - 1)) { }"; done; } >extends.pmodel
expect 1 check extends.pmodel --plan p1000
says err 'E0103.*more than 16 deep'
{ echo "$model$body  minimize mean[b, d](x * w)"; echo '}'; echo 'plan p {'; echo '  mesh a = 2'
  yes '  shard b -> a' | head -n 5000 || true; echo '}'; } >rules.pmodel
expect 1 check rules.pmodel --plan p
says err 'E0103.*at most 4096 items'

# 4: a limit
expect 4 train "$EXAMPLES/llama3_8b.pmodel" --steps 1
says err 'this machine has'

# 81: the numbers run away
expect 81 train "$mlp" --steps 20 --set train.lr=1e30
says err 'not finite at step [0-9]+'

expect 0 explain E0412
says out '^E0412 \(error\)'
expect 0 explain e0412 --json
says out '"code": "E0412"'
done_testing
