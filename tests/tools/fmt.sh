# `fmt`: to stdout, in place, and as a check; comments and programs stay.
. "$(dirname "$0")/lib.sh"

printf 'axis a=1 # one\nmodel m{\nminimize a\n}\n' >messy.pmodel
printf 'axis a = 1  # one\nmodel m {\n  minimize a\n}\n' >wanted
expect 0 fmt messy.pmodel
cmp out wanted || complain "fmt prints another layout: $(cat out)"
expect 1 fmt --check messy.pmodel
says out '^messy.pmodel$'
says err 'not in the canonical layout'
expect 0 fmt -i messy.pmodel
silent out
cmp messy.pmodel wanted || complain "fmt -i writes another layout"
expect 0 fmt --check messy.pmodel "$EXAMPLES"/*.pmodel
silent out

# A byte order mark and line ends of two bytes are no part of the program.
for name in gpt_tiny mlp_dropout; do
  { printf '\xef\xbb\xbf'; sed 's/$/\r/' "$EXAMPLES/$name.pmodel"; } >marked.pmodel
  expect 0 check marked.pmodel
  expect 1 fmt --check marked.pmodel
  expect 0 fmt marked.pmodel
  cmp out "$EXAMPLES/$name.pmodel" || complain "fmt of a marked file prints another text"
  expect 0 fmt -i marked.pmodel
  cmp marked.pmodel "$EXAMPLES/$name.pmodel" || complain "fmt -i of a marked file writes another text"
done
printf '\xef\xbb\xbfmesh a = 2\r\nshard x->a # one\r\n' >marked.pplan
expect 0 fmt marked.pplan
printf 'mesh a=2\nshard x -> a  # one\n' >wanted
cmp out wanted || complain "fmt of a marked plan prints another text"
expect 2 fmt -i --check messy.pmodel
expect 2 fmt
expect 3 fmt no_such.pmodel
printf 'mesh a = 2\nshard x->a\n' >plan.pplan
expect 0 fmt plan.pplan
says out '^mesh a=2$'
printf 'model m {\n' >broken.pmodel
cp broken.pmodel before
expect 1 fmt -i broken.pmodel
says err 'E0101'
cmp broken.pmodel before || complain "fmt changed a file that it cannot read"
done_testing
