#!/usr/bin/env bash
# sessions.sh PMODEL SESSIONS: runs each recorded session and compares the answers. NAME.in has one message a line, and
# in lines that begin with `#` the options of the command or an explanation; NAME.out has the answers, one a line, with
# the folder that the server runs in as CWD. The .pmodel files beside the sessions lie in that folder.
# RECORD=1 writes NAME.out anew.
set -euo pipefail
export LC_ALL=C
pmodel=$1 sessions=$2
failed=0

# Frames of the messages on stdin.
frames() {
  local line
  while IFS= read -r line; do
    [[ $line == '#'* || -z $line ]] || printf 'Content-Length: %d\r\n\r\n%s' "${#line}" "$line"
  done
}

# The bodies of the frames on stdin, one a line; a body that does not have the length that its header says shows.
bodies() {
  local header body length
  while IFS= read -r header; do
    length=${header#Content-Length: }
    length=${length%$'\r'}
    IFS= read -r header
    IFS= read -r -N "$length" body
    printf '%s\n' "$body"
  done
}

cp "$sessions"/*.pmodel .
for in in "$sessions"/*.in; do
  name=$(basename "$in" .in)
  read -ra options < <(sed -nE 's/^# options: //p' "$in"; echo)
  want=$(sed -nE 's/^# exit: //p' "$in")
  got=0
  frames <"$in" | "$pmodel" lsp "${options[@]}" >"$name.raw" 2>"$name.err" || got=$?
  bodies <"$name.raw" | sed "s|$(pwd -P)|CWD|g" >"$name.out"
  if [ "$got" -ne "${want:-0}" ]; then
    echo "$name: exit $got, expected ${want:-0}: $(cat "$name.err")" >&2
    failed=1
  fi
  if [ -n "${RECORD:-}" ]; then
    cp "$name.out" "$sessions/$name.out"
  elif ! diff -u "$sessions/$name.out" "$name.out" >&2; then
    echo "$name: other answers than recorded" >&2
    failed=1
  fi
done
exit "$failed"
