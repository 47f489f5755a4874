#!/usr/bin/env bash
# check_docs.sh [ROOT]: docs/ against the tree. Refuses
#   - `path/file.c:function` where the file or the function is not there, and `path` under a folder of the house that is not;
#   - a link to a file that is not there;
#   - a diagnostic code, or an option of the command, that no table has;
#   - an op, scalar function, pass, builtin, reserved word, command or option of the tables that its page leaves out;
#   - a page of more than 150 lines, but for the walk.
# docs/errors.md is printed from the table of diagnostics, and tests/tools/explain.sh compares it.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

failed=0
complain() {
  echo "$1" >&2
  failed=1
}

# Prints the first argument of each row MACRO(name, ...) of a table.
rows() { sed -nE "s/^$1\(([A-Za-z0-9_]+),.*/\1/p" "$2" | sort -u; }

# A page without its fenced blocks.
prose() { awk '/^```/ { fenced = !fenced; next } !fenced' "$1"; }
# Everything between backquotes, one a line.
quoted() { prose "$1" | grep -oE '`[^`]+`' | tr -d '`' || true; }

pages=(docs/*.md)
places=0
for page in "${pages[@]}"; do
  [ "$page" != docs/errors.md ] || continue
  while IFS= read -r text; do
    if [[ $text =~ ^([A-Za-z0-9_./-]+\.[a-z]+):([A-Za-z0-9_]+)$ ]]; then
      file=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
      places=$((places + 1))
      if [ ! -f "$file" ]; then
        complain "$page: \`$text\`: there is no file $file"
      elif ! grep -qE "(^|[^A-Za-z0-9_])$name\(" "$file"; then
        complain "$page: \`$text\`: $file has no function $name"
      fi
    elif [[ $text =~ ^(base|ir|frontend|passes|codegen|runtime|tools|examples|tests|scripts|docs)/[A-Za-z0-9_./-]*$ ]]; then
      [ -e "$text" ] || complain "$page: there is no \`$text\`"
    fi
  done < <(quoted "$page")

  while IFS= read -r link; do
    [[ $link == http* ]] || [ -e "docs/${link%%#*}" ] || complain "$page: broken link to $link"
  done < <(prose "$page" | sed -E 's/`[^`]*`//g' | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\((.*)\)$/\1/' || true)

  while IFS= read -r code; do
    grep -q "\"$code\"" base/diag.def || complain "$page: no diagnostic has the code $code"
  done < <(grep -oE '\b[EW]0[0-9]{3}\b' "$page" | sort -u || true)

  while IFS= read -r option; do
    case $option in --help | --version) continue ;; esac
    grep -q "\"$option\"" base/options.def || complain "$page: the command has no option $option"
  done < <({ quoted "$page"; grep -h 'bin/pmodel' "$page" || true; } | grep -oE '(^|[ |])--[a-z][a-z-]*' | tr -d ' |' | sort -u || true)

  lines=$(wc -l <"$page")
  [ "$page" = docs/architecture.md ] || [ "$lines" -le 150 ] || complain "$page: $lines lines, at most 150"
done
[ "$places" -ge 50 ] || complain "only $places places found: the pattern of this script no longer fits the pages"

# covers PAGE WHAT: each name on stdin stands in the page as a word of its own. Not behind a pipe, whose shell
# would keep what has failed to itself.
covers() {
  local page=$1 what=$2 name
  while IFS= read -r name; do
    grep -qE "(^|[^A-Za-z0-9_-])${name}([^A-Za-z0-9_-]|$)" "$page" || complain "$page: $what \`$name\` is missing"
  done
}
covers docs/ir.md op < <(rows OP ir/ops.def)
covers docs/ir.md "scalar function" < <(rows SCALAR ir/scalars.def)
covers docs/ir.md pass < <(rows PASS passes/passes.def)
covers docs/language.md builtin < <(rows BUILTIN frontend/builtins.def)
covers docs/language.md "reserved word" < <(sed -nE 's/^"([a-z]+)" +\{ return KW_.*/\1/p' frontend/lexer.l)
covers docs/commands.md command < <(rows COMMAND base/options.def)
covers docs/commands.md option < <(sed -nE 's/^OPTION\([a-z_]+, *[A-Za-z]+, *"(-[a-z-]+)".*/\1/p' base/options.def)

exit "$failed"
