# Files of up to 1 MiB that want a compiler's time and memory: each ends in 10 seconds of one processor and 1 GiB of
# addresses, with an answer, or with one of the statuses for a bad input (1) and a limit (4), and says where.
set -euo pipefail
rep() { awk -v n="$1" -v f="$2" 'BEGIN { for (i = 0; i < n; i++) printf f, i, i }'; }
# chain N FIRST FORMAT: FORMAT of i and i - 1, for i in 1 .. N - 1, after FIRST.
chain() { printf '%b' "$2"; awk -v n="$1" -v f="$3" 'BEGIN { for (i = 1; i < n; i++) printf f, i, i - 1, i - 1 }'; }
head='pmodel 1\nimport "std"\naxis b = 4, e = 4, layer = 3\n'
train='train {\n optimizer = adamw()\n lr = 1e-3\n}\n'
small='model m {\n param w[e] ~ zeros\n minimize mean[e](w)\n}\n'
failed=0

# run NAME STATUSES [ARGUMENT...]: the text on stdin as a program, and what may come of it.
run() {
  local name=$1 allowed=$2 status=0
  shift 2
  { printf '%b' "$head"; cat; } > "$name.pmodel"
  [ "$(stat -c %s "$name.pmodel")" -le 1500000 ] || { echo "$name is too long" >&2; exit 1; }
  (ulimit -v 1048576 -t 10 && exec "$PMODEL" check "$name.pmodel" "$@") > "$name.out" 2> "$name.err" || status=$?
  case " $allowed " in
    *" $status "*) ;;
    *) echo "$name: status $status, not one of $allowed" >&2; head -c 500 "$name.err" >&2; failed=1 ;;
  esac
  if [ "$status" = 1 ] && ! grep -qE '^[^ ]+:[0-9]+:[0-9]+: error' "$name.err"; then
    echo "$name: no place" >&2
    failed=1
  fi
  if [ "$status" = 4 ] && ! grep -qE '[^ ]+:[0-9]+:[0-9]+|pass `' "$name.err"; then
    echo "$name: no place" >&2
    failed=1
  fi
  rm -f "$name.pmodel"
}
body() { printf 'model m {\n input x[b, e]: f32\n param w[e] ~ zeros\n'; cat; printf ' minimize mean[b, e](x * w)\n}\n'; }

# nesting and length
{ printf ' y = '; rep 250000 '('; printf x; rep 250000 ')'; echo; } | body | run parens 1
{ printf ' y = '; rep 200 '('; printf x; rep 200 ')'; echo; } | body | run parens_below 0
{ printf ' y = '; rep 300000 '-'; printf 'x\n'; } | body | run minus 1
{ printf ' y = x'; rep 150000 ' ** x'; echo; } | body | run powers 1
{ printf ' y = x'; rep 250000 ' + x'; echo; } | body | run plus 1
{ printf ' y = x'; rep 100000 '[e = 0]'; echo; } | body | run indices 1
{ printf ' y = x'; rep 150000 '(x)'; echo; } | body | run calls 1
{ rep 80000 'repeat b {\n'; rep 80000 '}\n'; } | body | run repeats 1
{ printf 'axis z = e'; rep 100000 ' * e'; printf '\n%b' "$small"; } | run axis_chain 1
{ printf ' '; rep 500000 'a'; printf ' = x\n'; } | body | run long_name 1
{ printf ' y = x * '; rep 900000 '9'; echo; } | body | run long_number '0 1'
{ printf 'import "'; rep 900000 'a'; printf '"\n'; } | run long_string 1
{ printf ' y = "'; rep 900000 'a'; echo; } | body | run open_string 1
printf 'axis z = 1e300, y = 2 ** 40, k = 9223372036854775808, n = -1, q = 0, r = 1 / 0, s = 0 / 0\n%b' "$small" | run numbers 1
# many of one thing
{ rep 70000 'axis a%d = 2\n'; printf '%b' "$small"; } | run axes 1
{ rep 60000 'axis a%d = 2\n'; printf '%b' "$small"; } | run axes_below 0
{ rep 70000 'const c%d = 2\n'; printf '%b' "$small"; } | run consts 0
{ printf 'param q[e]'; rep 80000 ', p%d[e]'; printf ' ~ zeros\n'; } | body | run params 1
{ rep 40000 ' param p%d[e] ~ zeros\n'; } | body | run params_below 0
{ chain 35000 'fn g0(x) = x\n' 'fn g%d(x) = x + g%d(x)\n'; printf 'const c = g34999(1)\n%b' "$small"; } | run fns 1
{ chain 50000 ' y0 = x\n' ' y%d = y%d + x\n'; } | body | run values '0 4'
{ rep 25000 ' report r%d = mean[b, e](x)\n'; } | body | run reports 0
{ printf 'model m {\n x = 0.0\n param w[e] ~ zeros\n'; rep 20000 ' repeat layer { x += mean[e](w) }\n'; printf ' minimize x\n}\n'; } | run turns 1
{ printf 'fn k[s](x, c) { return x * c }\nmodel m {\n param w[e] ~ zeros\n x = w\n'; rep 35000 ' x = k[e](x, %d)\n'; printf ' minimize mean[e](x)\n}\n'; } | run instances 1
{ printf 'optimizer o(a=1) {\n'; rep 3000 ' value = value - lr * grad\n'; printf '}\nmodel m {\n'; rep 3000 ' param w%d[e] ~ zeros\n'
  printf ' minimize mean[e](w0)\n}\ntrain {\n optimizer = o()\n lr = 1e-3\n'; rep 3000 ' "w%d": a = %d\n'; printf '}\n'; } | run updates 1
{ printf 'model m {\n'; rep 20000 ' param w%d[e] ~ zeros\n'; printf ' minimize mean[e](w0)\n}\npolicy {\n'; rep 18000 ' "w%d": compute = bf16\n'; printf '}\n'; } | run policies 1
{ printf 'model m {\n'; rep 20000 ' param w%d[e] ~ zeros\n'; printf ' minimize mean[e](w0)\n}\ntrain {\n optimizer = adamw()\n lr = 1e-3\n'
  rep 18000 ' "w%d": decay = 0.0\n'; printf '}\n'; } | run overrides 1
{ printf 'model m {\n param '; rep 200 'a'; printf '[e] ~ zeros\n minimize 1.0\n}\npolicy {\n'; rep 500 ' "'; printf '*'; rep 3000 'a'; printf 'b": compute = bf16\n}\n'; } | run pattern 1
{ rep 20000 'plan p%d { mesh data=2\n shard b -> data\n}\n'; printf '%b' "$small"; } | run plans 1
{ printf '%bplan p {\n mesh data=2\n' "$small$train"; rep 50000 ' shard e -> data\n'; printf '}\n'; } | run rules 1 --plan p
{ printf '%bplan p {\n mesh z=1' "$small$train"; rep 60000 ', data%d=1'; printf '\n}\n'; } | run mesh 1 --plan p
{ printf 'model m {\n param w[e]'; rep 3000 ', p%d[e]'; printf ' ~ zeros\n minimize mean[e](w)\n}\n%bplan p { mesh data=2\n' "$train"
  rep 3000 ' pin("p%d", [e/data])\n'; printf '}\n'; } | run pins '0 4' --plan p
# rules PARAMETERS RULES FORMAT: a plan of RULES items beside a model of many parameters.
rules() {
  printf 'model m {\n param w[e]'; rep "$1" ', p%d[e]'; printf ' ~ zeros\n minimize mean[e](w)\n}\n%bplan p { mesh data=2\n' "$train"
  rep "$2" "$3"; printf '}\n'
}
rules 60000 4000 ' shard e in "*.z%d" -> data\n' | run rules_memory 4 --plan p
rules 8000 4000 ' shard e in "*.z%d" -> data\n' | run rules_unmatched 1 --plan p
rules 8000 4000 ' shard b in "p%d" -> data\n' | run rules_elsewhere 0 --plan p
rules 8000 4000 ' pin("p%d", [e/data])\n' | run pins_many 1 --plan p
rules 8000 1 ' shard e -> data\n zero(stage=3, over=data)\n' | run rules_zero 0 --plan p
{ printf 'model m {\n param w[e] ~ zeros\n x = w\n'; rep 60000 ' x = tanh(x)\n'; printf ' minimize mean[e](x)\n}\n%b' "$train"; } | run deep '0 4'
# one error after another
{ rep 60000 ' y = nope%d\n'; } | body | run errors_names 1
{ rep 150000 ' @ @\n'; } | body | run errors_characters 1
{ rep 60000 ' = = %d\n'; } | body | run errors_syntax 1
{ rep 100000 '}{)(][\n'; } | body | run errors_brackets 1
{ rep 40000 ' y%d = relu(x, x)\n'; } | body | run errors_arguments 1
# what doubles at each line
{ chain 64 'fn g0(x) = x + x\n' 'fn g%d(x) = g%d(x) + g%d(x)\n'; printf 'const c = g63(1)\n%b' "$small"; } | run laughs_fn 1
{ chain 64 'fn g0[s](x) { return x + x }\n' 'fn g%d[s](x) { return g%d[s](x) + g%d[s](x) }\n'
  printf 'model m {\n param w[e] ~ zeros\n minimize mean[e](g63[e](w))\n}\n'; } | run laughs_shared 0
{ chain 64 'block g0(x) { return x }\n' 'block g%d(x) { sub a = g%d\n return a(x) + a(x) }\n'
  printf 'model m {\n sub z = g63\n param w[e] ~ zeros\n minimize mean[e](z(w))\n}\n'; } | run laughs_block 1
{ chain 64 'block g0(x) { param w[e] ~ zeros\n return x * w }\n' 'block g%d(x) { sub a, c = g%d\n return a(x) + c(x) }\n'
  printf 'model m {\n sub z = g63\n param w[e] ~ zeros\n minimize mean[e](z(w))\n}\n'; } | run laughs_sub 1
# imports that all import each other's next two
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  { echo 'pmodel 1'; [ $i = 15 ] || { echo "import \"fan$((i + 1)).pmodel\""; [ $i = 14 ] || echo "import \"fan$((i + 2)).pmodel\""; }
    echo "fn fan$i(x) = x"; } > fan$i.pmodel
done
{ printf 'import "fan0.pmodel"\n%b' "$small"; } | run imports '0 1'
exit $failed
