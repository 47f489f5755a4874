#!/usr/bin/env bash
# check_grammars.sh ROOT: every reserved word and every builtin stands in each grammar of editors/, and every word that
# the grammars list is one.
set -euo pipefail
cd "$1"

failed=0
complain() {
  echo "$1" >&2
  failed=1
}

reserved=$(sed -nE 's/^"([a-z]+)" +\{ return KW_.*/\1/p' frontend/lexer.l)
builtins=$(sed -nE 's/^BUILTIN\(([a-z0-9_]+),.*/\1/p' frontend/builtins.def)
[ "$(wc -w <<<"$reserved")" -ge 20 ] || complain "the pattern of this script no longer fits frontend/lexer.l"
[ "$(wc -w <<<"$builtins")" -ge 20 ] || complain "the pattern of this script no longer fits frontend/builtins.def"

vim=editors/vim/syntax/pmodel.vim
textmate=editors/pmodel.tmLanguage.json

# Words of the lists: Vim's `syn keyword GROUP ...`, TextMate's \b(a|b|c).
vim_words() { sed -nE 's/^syn keyword [A-Za-z]+ //p' "$vim" | tr ' ' '\n'; }
textmate_words() { grep -oE '"match": "\\\\b\([a-z0-9_|]+\)' "$textmate" | sed -E 's/.*\(//; s/\)$//' | tr '|' '\n'; }

for grammar in vim textmate; do
  words=$("${grammar}_words" | sort -u)
  missing=$(comm -23 <(tr ' ' '\n' <<<"$reserved"$'\n'"$builtins" | sort -u) <(echo "$words"))
  foreign=$(comm -13 <(printf '%s\n' "$reserved" "$builtins" true false none | sort -u) <(echo "$words"))
  [ -z "$missing" ] || complain "the $grammar grammar lacks: "$missing
  [ -z "$foreign" ] || complain "the $grammar grammar has words that the language does not know: "$foreign
done

# Prints JSON's nesting without strings: what opens must close.
brackets=$(sed -E 's/\\\\//g; s/\\"//g; s/"[^"]*"//g' "$textmate" | tr -cd '][}{')
while [[ $brackets == *'{}'* || $brackets == *'[]'* ]]; do
  brackets=${brackets//'{}'/}
  brackets=${brackets//'[]'/}
done
[ -z "$brackets" ] || complain "$textmate: brackets do not match"

exit "$failed"
