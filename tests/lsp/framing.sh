#!/usr/bin/env bash
# framing.sh PMODEL: streams that are no messages end with exit code 1, and a message that is too long is passed over.
set -euo pipefail
pmodel=$1
failed=0

# refuses WHAT: the stream in ./in. A file, as a pipe would end its writer when the server stops reading.
refuses() {
  local got=0
  "$pmodel" lsp <in >out 2>err || got=$?
  if [ "$got" -ne 1 ] || ! grep -q '^pmodel: error: ' err; then
    echo "$1: exit $got: $(cat err)" >&2
    failed=1
  fi
}

# stream WHAT FORMAT ARGS...: the same for the text that printf makes.
stream() {
  # shellcheck disable=SC2059
  printf "${@:2}" >in
  refuses "$1"
}

stream "an empty stream" ''
stream "a stream that ends inside a message" 'Content-Length: 10\r\n\r\n{}'
stream "a negative length" 'Content-Length: -1\r\n\r\n{}'
stream "a length past every integer" 'Content-Length: 99999999999999999999\r\n\r\n{}'
stream "a length that is no number" 'Content-Length: 2x\r\n\r\n{}'
stream "no length" 'Content-Type: x\r\n\r\n{}'
stream "a NUL in a header" 'Content-Length: 2\r\n\0\r\n{}'
head -c 100000 /dev/zero >in
refuses "zeros"
printf 'a%.0s' {1..10000} >in
refuses "a header without end"
printf 'a: b\n%.0s' {1..10000} >in
refuses "too many headers"

message='{"jsonrpc":"2.0","id":1,"method":"shutdown"}'
{
  printf 'Content-Length: 20000000\r\n\r\n'
  head -c 20000000 /dev/zero
  printf 'content-length:%d\nX-Other: 1\n\n%s' "${#message}" "$message"
} >in
refuses "a stream without exit"
rm in
says() { grep -qF "$1" out || { echo "the answer lacks $1: $(cat out)" >&2; failed=1; }; }
says 'the message is too long'
says '"id":1,"error":{"code":-32002'
exit "$failed"
