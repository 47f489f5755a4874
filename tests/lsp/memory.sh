#!/usr/bin/env bash
# memory.sh PMODEL: a text whose check passes the limit of memory gets a diagnostic, and the server goes on.
set -euo pipefail
export LC_ALL=C
pmodel=$1

frame() {
  printf 'Content-Length: %d\r\n\r\n%s' "${#1}" "$1"
}

lines=$(yes '  y = y * w\n' | head -n 60000 | tr -d '\n' || true)
head='pmodel 1\naxis b = 4, d = 8\nmodel m {\n  input x[b, d] : f32\n  param w[d] ~ zeros\n  y = x * w\n'
tail='  minimize sum[b, d](y)\n}\ntrain {\n  optimizer = o()\n  lr = 1\n}\noptimizer o() {\n  value = value - lr * grad\n}\n'
open='{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///m.pmodel","text":"'
hover='{"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///m.pmodel"},"position":{"line":5,"character":2}}}'
{
  frame '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
  frame "$open$head$lines$tail\"}}}"
  frame "$hover"
  frame '{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///m.pmodel"},"contentChanges":[{"text":"'"$head$tail"'"}]}}'
  frame "$hover"
  frame '{"jsonrpc":"2.0","id":3,"method":"shutdown"}'
  frame '{"jsonrpc":"2.0","method":"exit"}'
} >in
"$pmodel" lsp <in >out 2>err || { echo "the server ended with $?: $(cat err)" >&2; exit 1; }
[ "$(grep -c 'passes the limit of memory' out)" = 1 ] || { echo "no diagnostic: $(head -c 2000 out)" >&2; exit 1; }
grep -q '"diagnostics":\[\]' out || { echo "the next text has no answer: $(head -c 2000 out)" >&2; exit 1; }
grep -q 'y`: `f32\[b:4, d:8\]`' out || { echo "no hover: $(head -c 2000 out)" >&2; exit 1; }
[ ! -s err ] || { cat err >&2; exit 1; }
