# Every example on more than 40 meshes of up to 16 ranks is the same as on one: loss, gradients, norm, parameters, states.
# The plans are those of meshes.txt that name the example's axes, and legal ones by lot. The first argument, an extended
# regular expression, picks examples; the second plans.
. "$(dirname "$0")/lib.sh"
table=$(dirname "$0")/meshes.txt

# worst: the largest relative error of the comparison in ./out.
worst() {
  sed -nE 's/^ *"(error|worst)": ([-+.e0-9]+),?$/\2/p' out | sort -g | tail -n 1
}

# example NAME ROLE=AXES... -- SIZE...: AXES is what the table's @ROLE stands for; SIZE is for --set.
example() {
  local name=$1 line sets plan left role axes size n=0 most=0 error args sizes=() edits=()
  shift
  [[ $name =~ ${only:-.} ]] || return 0
  while [ "$1" != -- ]; do
    edits+=(-e "s/@${1%%=*}\\b/${1#*=}/g")
    shift
  done
  shift
  for size; do sizes+=(--set "$size"); done
  while IFS= read -r line; do
    [[ $line =~ ${rows:-.} ]] || continue
    left=$(sed -E "${edits[@]}" <<<"$line")
    [[ $left != *@* ]] || continue
    plan=${left#*|}
    tr ';' '\n' <<<"${plan# }" >plan.pplan
    args=("${sizes[@]}")
    for size in ${left%%|*}; do args+=(--set "$size"); done
    expect 0 verify "$EXAMPLES/$name.pmodel" --plan plan.pplan --steps 1 --threads 1 --json "${args[@]}"
    if grep -q W0407 err; then complain "$name: a rule of \`$plan\` binds nothing: $(cat err)"; fi
    error=$(worst)
    most=$(printf '%s\n' "$most" "${error:-1}" | sort -g | tail -n 1)
    n=$((n + 1))
  done < <(grep -vE '^(#|$)' "$table")
  for size in 4 6 8 12 16; do
    [ -z "${rows:-}" ] || break
    expect 0 verify "$EXAMPLES/$name.pmodel" --random-plans 2 --ranks "$size" --steps 1 --threads 1 --json "${sizes[@]}"
    [ "$(grep -c '"plan"' out)" -eq 2 ] || complain "$name: not two plans for $size ranks"
    error=$(worst)
    most=$(printf '%s\n' "$most" "${error:-1}" | sort -g | tail -n 1)
    n=$((n + 2))
  done
  [ -n "${rows:-}" ] || [ "$n" -ge 40 ] || complain "$name: $n plans only"
  printf '%-18s %6d  %.2e\n' "$name" "$n" "$most"
}

only=${1:-} rows=${2:-}
printf '%-18s %6s  %s\n' example plans 'worst error'
gpt=(b=batch m=batch k=kv s=seq v=vocab h='heads, ff' e=embed p=wte -- batch=8 seq=8 vocab=32 embed=16 heads=4 layer=2)
llama=(b=batch m=batch k=kv s=seq v=vocab h='kvheads, ff' e=embed p=tok)
small=(batch=8 seq=8 vocab=32 embed=16 ff=16 kvheads=4 hdim=4 layer=2)
example mlp b=batch m=batch s=seq v=vocab h=hidden e=embed p=table -- batch=8 seq=8 vocab=64 embed=16 hidden=32
example mlp_dropout b=batch m=batch s=seq v=vocab h=hidden e=embed p=table -- batch=8 seq=8 vocab=64 embed=16 hidden=32 layer=2
example gpt_tiny "${gpt[@]}"
example llama_tiny "${llama[@]}" -- "${small[@]}"
example mixtral_tiny "${llama[@]}" x=expert -- "${small[@]}"
example deepseek_moe_tiny "${llama[@]/ff/ff, moeff}" x=expert y=expert -- "${small[@]}" moeff=16
example classifier b=batch m=batch s=seq v=byte h=ff e=embed p=letters -- batch=8 seq=8 byte=64 embed=16 ff=32
example autoencoder b=batch v=feature h=hidden p=w -- batch=8 feature=32 hidden=16
done_testing
