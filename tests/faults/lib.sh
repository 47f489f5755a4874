# Sourced by the tests of faults: plans given as text.
. "$(dirname "$0")/../tools/lib.sh"

# on PLAN: writes the items, separated by `;`, to plan.pplan.
on() {
  tr ';' '\n' <<<"$1" >plan.pplan
}

# equal FILE PLAN ARGS...: two steps, or $steps, on the plan are the reference's; the comparison is left in ./out.
equal() {
  local file=$1
  on "$2"
  shift 2
  expect 0 verify "$file" --plan plan.pplan --steps "${steps:-2}" --threads 1 --json "$@"
  says out '^  "ok": true'
}

# of WHAT: the plan's number in the row WHAT of ./out; of several steps, that of the worst.
of() {
  awk -v what="\"what\": \"$1\"" 'index($0, what) { on = 1 } on && /"plan":/ { gsub(/.*: |,/, ""); print; exit }' out
}

# losses FILE PLAN ARGS...: the losses of a training, one a line, in ./losses.
losses() {
  local file=$1
  on "$2"
  shift 2
  expect 0 train "$file" --plan plan.pplan --threads 1 --json "$@"
  sed -nE 's/.*"event":"step".*"loss":([-+.e0-9]+).*/\1/p' out >losses
}
