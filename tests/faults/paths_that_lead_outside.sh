# An import names a file below its own folder, never one outside, by whatever spelling or link; what a command writes is
# what it was told to write.
. "$(dirname "$0")/lib.sh"

mkdir -p inside/sub
printf 'pmodel 1\nfn f(x) = x\n' | tee outside.pmodel >inside/sub/lib.pmodel
outside=$(cksum outside.pmodel)
for path in ../outside.pmodel sub/../../outside.pmodel ./../outside.pmodel "$PWD/outside.pmodel" sub/../sub/lib.pmodel './sub/lib.pmodel' \
  'sub//lib.pmodel' '..\\outside.pmodel' '' '/' '.' '..'; do
  printf 'pmodel 1\nimport "std"\nimport "%s"\naxis a = 4\nmodel m {\n  param w[a] ~ zeros\n  minimize mean[a](w)\n}\n' "$path" >inside/m.pmodel
  expect 1 check inside/m.pmodel
  says err '^inside/m.pmodel:3:[0-9]+: error\['
done
sed -i 's,import "\.\.",import "sub/lib.pmodel",' inside/m.pmodel
expect 0 check inside/m.pmodel

# A link that leaves the folder.
ln -sf ../outside.pmodel inside/link.pmodel
ln -sfn .. inside/up
for path in link.pmodel up/outside.pmodel; do
  sed "s,sub/lib.pmodel,$path," inside/m.pmodel >inside/linked.pmodel
  expect 1 check inside/linked.pmodel
  says err 'E0501'
done
[ "$(cksum outside.pmodel)" = "$outside" ] || complain 'a file outside has changed'
done_testing
