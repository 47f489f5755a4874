#!/usr/bin/env bash
# Writes docs/errors.md from the table of diagnostics: scripts/errors_md.sh PMODEL
set -euo pipefail
"$1" explain --all >"$(dirname "$0")/../docs/errors.md"
