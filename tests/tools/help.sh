# Every subcommand has a help page on stdout, which lists the options that it takes.
. "$(dirname "$0")/lib.sh"

expect 0 --help
commands=$(sed -nE 's/^  ([a-z]+) +.*/\1/p' out)
[ "$(wc -w <<<"$commands")" -ge 7 ] || complain "too few commands: $commands"
for command in $commands; do
  expect 0 "$command" --help
  silent err
  says out "^usage: pmodel $command"
  says out '^  --diagnostics text\|json'
done
expect 0 train --help
says out '^  --sample N'
expect 0 --version
says out '^pmodel [0-9]'
expect 2
says err 'a command is needed'
done_testing
