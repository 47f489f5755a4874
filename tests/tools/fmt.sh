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
