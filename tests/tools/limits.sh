# Every limit on the size of a program at its edge: what is just within works, what is past it is one diagnostic at its
# place (or one line that names the file).
set -euo pipefail
failed=0
rep() { awk -v n="$1" -v f="$2" 'BEGIN { for (i = 0; i < n; i++) printf f, i, i }'; }
small='model m {\n param w[e] ~ zeros\n minimize mean[e](w)\n}\n'
head='pmodel 1\nimport "std"\naxis e = 4, b = 2\n'

# at NAME WANT [ARGUMENT...]: the text on stdin as a program; WANT is `ok` or the message that it ends in.
at() {
  local name=$1 want=$2 status=0
  shift 2
  { printf '%b' "$head"; cat; } > "$name.pmodel"
  "$PMODEL" check "$name.pmodel" "$@" > "$name.out" 2> "$name.err" || status=$?
  if [ "$want" = ok ]; then
    [ "$status" = 0 ] || { echo "$name: status $status" >&2; head -c 400 "$name.err" >&2; failed=1; }
  elif [ "$status" != 1 ] || ! grep -qE "^[^ ]+:[0-9]+:[0-9]+: error" "$name.err" || ! grep -qF "$want" "$name.err"; then
    echo "$name: status $status, not 1 with \`$want\` at a place" >&2
    head -c 400 "$name.err" >&2
    failed=1
  fi
  rm -f "$name.pmodel"
}

# sized BYTES: a program of so many bytes.
sized() {
  local text
  text=$(printf '%b%b' "$head" "$small")
  { printf '%s\n#' "$text"; head -c $(($1 - ${#text} - 3)) /dev/zero | tr '\0' 'x'; echo; } > sized.pmodel
  [ "$(stat -c %s sized.pmodel)" = "$1" ] || { echo "sized $1: $(stat -c %s sized.pmodel)" >&2; failed=1; }
}
for n in -1 0; do
  sized $(((4 << 20) + n))
  "$PMODEL" check sized.pmodel > sized.out 2>&1 || { echo "4 MiB $n: refused" >&2; failed=1; }
done
sized $(((4 << 20) + 1))
status=0
"$PMODEL" check sized.pmodel > sized.out 2>&1 || status=$?
[ "$status" = 4 ] && grep -q 'sized.pmodel is larger than the limit of 4194304 bytes' sized.out ||
  { echo "4 MiB + 1: status $status" >&2; failed=1; }

# nested DEPTH: an expression in so many brackets.
nested() { printf 'const k = '; rep "$1" '('; printf 1; rep "$1" ')'; printf '\n%b' "$small"; }
for n in 255 256; do nested $n | at nesting_$n ok; done
nested 257 | at nesting_257 'brackets nest more than 256 deep'

# imported FILES: a chain of imports through so many files.
imported() {
  for i in $(seq 1 "$1"); do
    { echo 'pmodel 1'; [ "$i" = "$1" ] || echo "import \"link$((i + 1)).pmodel\""; echo "fn link$i(x) = x"; } > "link$i.pmodel"
  done
  printf 'import "link1.pmodel"\n%b' "$small"
}
for n in 15 16; do imported $n | at imports_$n ok; done
imported 17 | at imports_17 'imports nest more than 16 deep'

# Two axes and one parameter stand in the text around them.
axes() { rep $(($1 - 2)) 'axis a%d = 2\n'; printf '%b' "$small"; }
for n in 65535 65536; do axes $n | at axes_$n ok; done
axes 65537 | at axes_65537 'more than 65536 axes'
params() { printf 'model m {\n param w[e]'; rep $(($1 - 1)) ', p%d[e]'; printf ' ~ zeros\n minimize mean[e](w)\n}\n'; }
for n in 65535 65536; do params $n | at params_$n ok; done
params 65537 | at params_65537 'more than 65536 parameters'

wide() {
  rep "$1" 'axis a%d = 2\n'
  printf 'model m {\n param w[a0'; awk -v n="$1" 'BEGIN { for (i = 1; i < n; i++) printf ", a%d", i }'
  printf '] ~ zeros\n minimize w[a0 = 0'; awk -v n="$1" 'BEGIN { for (i = 1; i < n; i++) printf ", a%d = 0", i }'; printf ']\n}\n'
}
for n in 11 12; do wide $n | at rank_$n ok; done
wide 13 | at rank_13 'a tensor has at most 12 axes'

# Up to 2^40 positions an axis and 2^48 elements a tensor.
long() { printf 'axis z = %s\nmodel m {\n param w[e], v[z] ~ zeros\n minimize mean[e](w)\n}\n' "$1"; }
for n in 1099511627775 1099511627776; do long $n | at axis_$n ok; done
long 1099511627777 | at axis_1099511627777 'the size of axis `z` is 1099511627777'
many() { printf 'axis y = 1099511627776, z = %d\nmodel m {\n param w[e], v[y, z] ~ zeros\n minimize mean[e](w)\n}\n' "$1"; }
for n in 255 256; do many $n | at elements_$n ok; done
many 257 | at elements_257 'more than 2^48 elements'

ranks() { printf '%baxis z = 1048576\nplan p {\n mesh %s\n shard e -> none\n}\n' "$small" "$1"; }
for n in 'data=1048575' 'data=1048576' 'data=1024, tensor=1023' 'data=1024, tensor=1024'; do ranks "$n" | at "ranks_${n// /}" ok --plan p; done
ranks 'data=1048577' | at ranks_past 'the size of a mesh axis' --plan p
ranks 'data=1024, tensor=1025' | at ranks_product 'the mesh has more than 2^20 ranks' --plan p
exit $failed
