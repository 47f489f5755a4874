# `check --fix` replaces misspelt names in the file, until what is left needs a person.
. "$(dirname "$0")/lib.sh"

printf 'pmodel 1\nimport "std"\naxis batch = 4, embed = 6\nmodel m {\n  input x[batch, embed]: f32\n  param w[embd] ~ zeros\n  y = sgmoid(x * ww)\n  minimize mean[batch, embd](y)\n}\n' >wrong.pmodel
expect 1 check wrong.pmodel --diagnostics=json
says err '"suggested_replacement":"embed","suggestion_applicability":"MachineApplicable"'
expect 0 check wrong.pmodel --fix
says out '^wrong.pmodel:6:11: `embd` is now `embed`$'
says out '^wrong.pmodel:7:7: `sgmoid` is now `sigmoid`$'
says out '^wrong.pmodel:8:24: `embd` is now `embed`$'
says out 'is well formed'
silent err
says wrong.pmodel '^  y = sigmoid\(x \* w\)$'
cp wrong.pmodel before
expect 0 check wrong.pmodel --fix
cmp wrong.pmodel before || complain "--fix changed a program that is right"

# A file behind a link is edited where it lies, and keeps its mode.
printf 'pmodel 1\naxis a = 2\nmodel m {\n  param w[a] ~ zeros\n  minimize sum[a](ww)\n}\n' >behind.pmodel
chmod 640 behind.pmodel
ln -sf behind.pmodel link.pmodel
expect 0 check link.pmodel --fix
[ -L link.pmodel ] || complain "--fix replaced a link by a file"
says behind.pmodel 'sum\[a\]\(w\)'
[ "$(stat -c %a behind.pmodel)" = 640 ] || complain "--fix changed the mode of a file"

# What no edit mends is said as ever, and files that were not read stay as they are.
printf 'axis a = 2\nmodel m {\n  param w[a] ~ zeros\n  minimize w\n}\nplan p {\n  mesh data=2\n}\n' >left.pmodel
cp left.pmodel before
expect 1 check left.pmodel --fix --shard 'a -> dta' --plan p
cmp left.pmodel before || complain "--fix changed a file for a mistake on the command line"
says err 'did you mean `data`'
done_testing
