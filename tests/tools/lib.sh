# Sourced by every script: runs pmodel and says what was expected when something else came.
set -euo pipefail
failed=0

complain() {
  echo "$*" >&2
  failed=1
}

# expect CODE ARGS...: the exit code. stdout and stderr are left in ./out and ./err.
expect() {
  local want=$1 got=0
  shift
  "$PMODEL" "$@" >out 2>err || got=$?
  [ "$got" -eq "$want" ] || complain "pmodel $*: exit $got, expected $want"$'\n'"$(head -c 2000 out)"$'\n'"$(head -c 2000 err)"
}

# says FILE PATTERN: the file has a line that matches the extended regular expression.
says() {
  grep -qE -- "$2" "$1" || complain "$1 does not say \`$2\`:"$'\n'"$(head -c 2000 "$1")"
}

# silent FILE: the file is empty.
silent() {
  [ ! -s "$1" ] || complain "$1 is not empty:"$'\n'"$(head -c 2000 "$1")"
}

# number JSON_LINE KEY: the number that stands behind "KEY": on that line.
number() {
  sed -E "s/.*\"$2\": ?(-?[0-9][-+.e0-9]*).*/\1/" <<<"$1"
}

done_testing() {
  exit "$failed"
}
