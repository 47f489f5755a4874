# make_dict.sh SOURCE: a libFuzzer dictionary on stdout: the tokens of the language, its functions, its directives.
set -euo pipefail
cd "$1"
{
  sed -nE 's/^"([^"]+)" +\{ return .*/\1/p' frontend/lexer.l
  sed -nE 's/^[A-Z]+\(([a-z_0-9]+),.*/\1/p' frontend/builtins.def ir/ops.def ir/scalars.def ir/dtypes.def
  sed -nE 's/^(fn|block|optimizer) ([a-z_]+).*/\2/p' frontend/std.pmodel
  printf '%s\n' '(' ')' '[' ']' '{' '}' ',' '.' ':' '~' '=' '%' ' -> ' '"' inf 1e308 4294967296 9223372036854775807 \
    zero accumulate pipeline remat ring gather ulysses pad pin layout overlap bucket none stage over micro \
    batch.micro ragged logits value grad step steps lr rank
} | sort -u | sed -E 's/["\\]/\\&/g; s/.*/"&"/'
