# Twenty steps on every mesh have the losses of one rank, relative difference at most 1e-5; and so have threads.
. "$(dirname "$0")/lib.sh"

losses() {
  grep '"event":"step"' "$1" | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}

for model in gpt_tiny llama_tiny mixtral_tiny deepseek_moe_tiny; do
  expect 0 train "$EXAMPLES/$model.pmodel" --steps 20 --json
  losses out >one
  [ "$(wc -l <one)" -eq 20 ] || complain "$model: $(wc -l <one) steps"
  awk 'NR == 1 { a = $1 } END { exit !($1 < 0.8 * a) }' one || complain "$model: the loss does not fall: $(tr '\n' ' ' <one)"
  for mesh in data=2 tensor=2 data=2,tensor=2; do
    expect 0 train "$EXAMPLES/$model.pmodel" --plan dp2_tp2 --mesh $mesh --steps 20 --json
    silent err
    losses out >many
    paste one many | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
      END { print "worst", worst; exit !(n == 20 && worst <= 1e-5) }' >worst || complain "$model $mesh: $(cat worst)"
  done
done
expect 0 train "$EXAMPLES/llama_tiny.pmodel" --steps 5 --threads 1 --json
losses out >single
expect 0 train "$EXAMPLES/llama_tiny.pmodel" --steps 5 --threads 3 --json
losses out >several
cmp single several || complain "the number of threads changes the losses"
done_testing
