# Published configurations: the imported text is well formed and has the published number of parameters. Then everything
# that a configuration can get wrong.
. "$(dirname "$0")/../tools/lib.sh"

# counts NAME ELEMENTS: the number published for configs/NAME.json.
counts() {
  expect 0 import hf-config "$CONFIGS/$1.json" -o "$1.pmodel"
  silent out
  silent err
  expect 0 check "$1.pmodel"
  expect 0 fmt --check "$1.pmodel"
  expect 0 show params "$1.pmodel" --json
  says out "\"elements\": $2,?\$"
  awk 'length($0) > 120 { exit 1 }' "$1.pmodel" || complain "$1.pmodel has a line of more than 120 columns"
}
counts gpt2 124439808
counts llama3_8b 8030261248
counts qwen2.5_0.5b 494032768
counts qwen2.5_7b 7615616512
counts qwen3_0.6b 596049920
counts qwen3_30b_a3b 30532122624
counts mixtral_8x7b 46702792704
counts deepseek_moe_16b 16375728128
# Published with scaled rope, which has no parameters: latent attention counts the same without.
counts deepseek_v2_lite_plain 15706484224
says gpt2.pmodel '^axis vocab = 50257 +# vocab_size$'
says gpt2.pmodel '^# without influence on this text: .*resid_pdrop'

# The text also trains: shrunk, with the lines that a configuration does not have.
experts=(--set expert=4 --set choice=2 --set expertff=8)
seq 1 999 >bytes.txt
small=(--set batch=2 --set seq=16 --set vocab=256 --set layer=2 --set embed=16 --set ff=16)
trains() {  # NAME [OPTION...]
  {
    cat "$1.pmodel"
    printf 'train {\n  optimizer = sgd()\n  lr = constant(0.1)\n  steps = 2; seed = 1\n'
    printf '  data = tokens("bytes.txt", format="bytes", x=tokens, y=targets)\n}\n'
  } >"train_$1.pmodel"
  expect 0 train "train_$1.pmodel" --threads 1 "${small[@]}" "${@:2}"
}
trains gpt2 --set heads=2
trains qwen3_0.6b --set kvheads=1 --set group=2 --set hdim=8
trains deepseek_moe_16b --set kvheads=2 "${experts[@]}"
latent=(--set heads=2 --set kvrank=8 --set nope=8 --set turn=4 --set vdim=8)
trains deepseek_v2_lite_plain "${experts[@]}" "${latent[@]}"

# Answers
expect 0 import hf-config "$CONFIGS/gpt2.json"
cmp out gpt2.pmodel || complain "without -o the text is another one"
expect 0 import hf-config "$CONFIGS/gpt2.json" --json
says out '"model_type": "gpt2"'
expect 2 import
says err 'needs a form'
expect 2 import hf "$CONFIGS/gpt2.json"
expect 2 import hf-config
says err 'needs a file'
expect 2 import hf-config "$CONFIGS/gpt2.json" --json -o -
expect 3 import hf-config nosuch.json

# wrong MESSAGE SED_SCRIPT [NAME]: the configuration, so changed, is refused with the message, and nothing is written.
wrong() {
  rm -f wrong.pmodel
  sed -E "$2" "$CONFIGS/${3:-llama3_8b}.json" >wrong.json
  expect 1 import hf-config wrong.json -o wrong.pmodel
  says err "wrong.json:[0-9]+:[0-9]+: .*$1"
  silent out
  [ ! -e wrong.pmodel ] || complain "a file was written"
}
wrong 'does not know this `model_type`: did you mean llama; it knows deepseek' 's/"llama"/"lama"/'
wrong 'the key `model_type` is missing' '/model_type/d'
wrong '`model_type` must be a string, not an integer' 's/"llama"/3/'
wrong 'the key `hidden_size` is missing, which a llama' '/hidden_size/d'
wrong 'the key `hidden_size` is missing' 's/("hidden_size": )4096/\1null/'
wrong '`hidden_size` must be an integer, not a string' 's/4096/"4096"/'
wrong '`hidden_size` must be an integer, not a number with a fraction' 's/4096/4096.5/'
wrong '`hidden_size` must be an integer, not a number with .*more than 63 bits' 's/4096/99999999999999999999/'
wrong 'a number is out of range' 's/4096/1e999/'
wrong '`hidden_size` is 9000000000000000000: it must be from 1 to' 's/4096/9000000000000000000/'
wrong '`hidden_size` is 0: it must be from 1' 's/4096/0/'
wrong '`hidden_size` is -1: it must be' 's/4096/-1/'
wrong '`rms_norm_eps` must be more than 0' 's/1e-05/0/'
wrong '`rms_norm_eps` must be a number, not true or false' 's/1e-05/true/'
wrong '`tie_word_embeddings` must be true or false' 's/("tie_word_embeddings": )false/\1"no"/'
wrong '`num_key_value_heads` is 7: it must divide `num_attention_heads`, which is 32' 's/(key_value_heads": )8/\17/'
wrong '`num_attention_heads` is 33: it must divide `hidden_size`' 's/(attention_heads": )32/\133/'
wrong 'the size of a head, 129, must be even' 's/"hidden_act"/"head_dim": 129, &/'
wrong 'names an activation .*: did you mean silu' 's/"silu"/"sillu"/'
wrong '`hidden_act` must be a string' 's/"silu"/1/'
scaling() { echo 's/"rope_scaling": null/"rope_scaling": '"$1/"; }
wrong '`rope_scaling` of type "dynamic" cannot be imported: the importer knows default' "$(scaling '{"type": "dynamic"}')"
wrong '`rope_scaling` of type "yarn" cannot be imported: .*; without the key' "$(scaling '{"rope_type": "yarn", "type": "linear"}')"
wrong '`rope_scaling` cannot be imported: the importer knows' "$(scaling '{"type": "a b"}')"
wrong '`rope_scaling` is an object whose `rope_type` names' "$(scaling '{"factor": 2}')"
wrong '`rope_scaling` is an object whose `rope_type` names' "$(scaling '{"rope_type": 2}')"
wrong '`rope_scaling` is an object whose `rope_type` names' "$(scaling '2')"
wrong '`factor` of `rope_scaling` must be a number above 0' "$(scaling '{"type": "linear"}')"
wrong '`factor` of `rope_scaling` must be a number above 0' "$(scaling '{"type": "linear", "factor": 0}')"
wrong '`low_freq_factor` of `rope_scaling` must be a number above 0' "$(scaling '{"type": "llama3", "factor": 2}')"
three='"type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192'
wrong '`high_freq_factor` of `rope_scaling` must be above' \
  "$(scaling "{$three, \"low_freq_factor\": 4, \"high_freq_factor\": 4}")"
wrong '`use_sliding_window` cannot be imported' 's/(use_sliding_window": )false/\1true/' qwen2.5_7b
wrong '`sliding_window` cannot be imported: `causal_attention`' 's/(sliding_window": )null/\14096/' mixtral_8x7b
wrong '`num_experts_per_tok` is 9: it must be at most `num_local_experts`' 's/(per_tok": )2/\19/' mixtral_8x7b
wrong '`first_k_dense_replace` is 28: it must be less than `num_hidden_layers`' 's/(replace": )1/\128/' deepseek_moe_16b
wrong '`kv_lora_rank` cannot be imported' 's/"hidden_act"/"kv_lora_rank": 8, &/'
wrong '`scoring_func` other than "softmax"' 's/"softmax"/"sigmoid"/' deepseek_moe_16b
wrong 'the size of a head, 63, must be even' 's/(rope_head_dim": )64/\163/' deepseek_v2_lite_plain
wrong '`moe_layer_freq` other than 1 cannot be imported' 's/(layer_freq": )1/\12/' deepseek_moe_16b
wrong '`mlp_only_layers` cannot be imported' 's/\[\]/[1]/' qwen3_30b_a3b
wrong 'the key stands here a second time' 's/"hidden_act"/"hidden_size"/'
wrong 'this is not JSON: a key in quotes' 's/^\}/, }/'
wrong 'this is not JSON: something stands behind' 's/^\}/}}/'
wrong 'a configuration is an object, not an array' '1s/.*/[]/;2,$d'
wrong 'the text ends too early' 'd'

# scaled NAME SCALING: llama3_8b so scaled, which has no other parameters.
scaled() {
  sed -E "$(scaling "$2")" "$CONFIGS/llama3_8b.json" >"$1.json"
  expect 0 import hf-config "$1.json" -o "$1.pmodel"
  expect 0 fmt --check "$1.pmodel"
  expect 0 show params "$1.pmodel" --json
  says out '"elements": 8030261248,?$'
}
expect 0 import hf-config "$CONFIGS/llama3_8b.json" -o plain.pmodel
for none in '{"rope_type": "default"}' '{"type": "default", "factor": 3}' '{}' 'false'; do
  scaled default "$none"
  tail -n +2 plain.pmodel | diff - <(tail -n +2 default.pmodel) || complain "$none is no scaling, and changes the text"
done
scaled linear '{"type": "linear", "factor": 4.0}'
scaled llama3 "{$three, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}"
trains llama3 --set kvheads=1 --set group=2

# angles NAME: at position 2000, of the pairs below, by the text: `rope` of ones has cos - sin and cos + sin.
pairs='3 10 29 31 34 50 63'
angles() {
  {
    printf 'pmodel 1\nimport "std"\naxis seq = 2048, hdim = 128, batch = 1, byte = 256\n'
    sed -n '/^fn scaled_rope/,/^}/p' "$1.pmodel"
    printf 'model m {\n  input a[batch, seq] in byte\n  param w[seq, hdim] ~ ones\n  y = scaled_rope[seq, hdim](w, 500000.0)\n'
    for i in $pairs; do
      printf '  report d%d = y[seq = 2000][hdim = %d]\n  report s%d = y[seq = 2000][hdim = %d]\n' "$i" "$i" "$i" $((i + 64))
    done
    printf '  minimize mean[seq, hdim](w)\n}\ntrain {\n  optimizer = sgd()\n  lr = 0.1\n'
    printf '  data = tokens("bytes.txt", format="bytes", x=a)\n}\n'
  } >"angles_$1.pmodel"
  expect 0 train "angles_$1.pmodel" --steps 1 --json
  for i in $pairs; do
    echo "$i $(grep -m 1 -o "\"d$i\":[^,}]*" out | cut -d : -f 2) $(grep -m 1 -o "\"s$i\":[^,}]*" out | cut -d : -f 2)"
  done
}
# agrees NAME: with the published formulas of the frequencies, written with their cases.
agrees() {
  angles "$1" >"$1.angles"
  awk -v kind="$1" '
    BEGIN { pi = 3.141592653589793; context = 8192; factor = kind == "linear" ? 4 : 8; low = 1; high = 4 }
    {
      f = exp(-2 * $1 / 128 * log(500000)); wave = 2 * pi / f
      if (kind == "linear" || wave > context / low) g = f / factor
      else if (wave < context / high) g = f
      else { s = (context / wave - low) / (high - low); g = (1 - s) * f / factor + s * f }
      dc = ($2 + $3) / 2 - cos(2000 * g); ds = ($3 - $2) / 2 - sin(2000 * g)
      if (NF != 3 || dc * dc + ds * ds > 1e-10) bad = 1
      cases[wave > context / low ? 2 : wave >= context / high]++
    }
    END { exit bad || NR != 7 || !cases[0] || !cases[1] || !cases[2] }' "$1.angles" ||
    complain "other angles than published: $(cat "$1.angles")"
}
agrees linear
agrees llama3

# Each reason why DeepSeek-V3 cannot be said, at its key. Without these it is its 671,026,419,200 parameters, of which the
# 58 * 256 of the routers' biases are states here.
expect 1 import hf-config "$CONFIGS/deepseek_v3.json"
for key in n_group num_nextn_predict_layers rope_scaling; do
  says err "deepseek_v3.json:[0-9]+:[0-9]+: \`$key\` .*cannot be imported: "
done
[ "$(wc -l <err)" -eq 4 ] || complain "other reasons too: $(cat err)"
sed -E 's/(n_group": )8/\11/; /rope_scaling/d; /num_nextn/d' "$CONFIGS/deepseek_v3.json" >v3.json
expect 0 import hf-config v3.json -o v3.pmodel
expect 0 show params v3.pmodel --json
says out '"elements": 671026404352,?$'
trains v3 "${experts[@]}" "${latent[@]}" --set qrank=8
expect 1 import hf-config "$CONFIGS/deepseek_v3.json" --diagnostics=json
says err '^\{"level":"error","message":".*rope_scaling.*","exit":1\}$'

# Names of files and keys reach a comment and nothing else.
sed 's/"n_ctx"/"a\\nb } model", "n_ctx"/; s/"n_ctx": 1024/"n_ctx": 1024, "z*": 1/' "$CONFIGS/gpt2.json" >bad.json
sed -i 's/"a\\nb } model"/&: 1/' bad.json
name=$'x\ny.json'
cp bad.json "$name"
expect 0 import hf-config "$name" -o named.pmodel
says named.pmodel 'from x\?y\.json$'
says named.pmodel 'and 2 more$'
expect 0 check named.pmodel
done_testing
