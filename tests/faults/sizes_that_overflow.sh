# Products of sizes are checked wherever they come from: a model's axes, a run plan's dimensions, an array's header. What
# would wrap is an error that names it, not a small allocation.
. "$(dirname "$0")/lib.sh"

model() {
  cat <<TXT
pmodel 1
import "std"
axis batch = 4, $1
model m {
  input x[batch, a]: f32
  param w[$2] ~ zeros
  minimize mean[batch, a](x) + sum[$2](w)
}
train { optimizer = adamw(); lr = 1e-3 }
TXT
}
# 2^64 elements of 4 bytes are none, counted in 64 bits; so are 2^62, in bytes.
model 'a = 65536, b = 65536, c = 65536, d = 65536' 'a, b, c, d' >m.pmodel
expect 1 check m.pmodel
says err 'm.pmodel:6:[0-9]+: error\[E0103\]'
model 'a = 2 ** 31, b = 2 ** 31' 'a, b' >m.pmodel
expect 1 check m.pmodel
says err 'm.pmodel:6:[0-9]+: error\[E0103\]'
model 'a = 2 ** 63' a >m.pmodel
expect 1 check m.pmodel
says err 'error\[E0'

# Below the limit of a tensor, above the machine's memory: refused before anything is allocated.
model 'a = 2 ** 20, b = 2 ** 20' 'a, b' >m.pmodel
expect 4 verify m.pmodel
says err 'bytes'

expect 0 compile "$EXAMPLES/mlp.pmodel" --text -o whole.prun
expect 0 verify whole.prun
for edit in '/path="table" /,/var3/s/size=[0-9]+/size=4611686018427387904/' 's/size=64$/size=9223372036854775807/' \
  's/arena=[0-9]+/arena=9223372036854775807/' 's/ at=\[0,[0-9]+\]/ at=[0,9223372036854775807]/' \
  's/ at=\[[1-9][0-9]*,/ at=[9223372036854775800,/'; do
  sed -E "$edit" whole.prun >cut.prun
  if cmp -s whole.prun cut.prun; then complain "$edit changes nothing"; fi
  for command in 'verify' 'show memory' 'train --steps 1'; do
    got=0
    (ulimit -v 4000000; exec "$PMODEL" $command cut.prun >out 2>err) || got=$?
    case $command:$got in
      *:1 | *:4 | *:5) ;;
      *) complain "$command after $edit: exit $got: $(head -c 500 err)" ;;
    esac
  done
done
done_testing
