# make_corpus.sh EXAMPLES OUT: graphs and run plans of small models, two arrays, and what a connection brings.
set -euo pipefail
rm -rf "$2"/*.pir "$2/ring"  # dumps of a build with other passes
small=(--set batch=4 --set seq=4)
rm -f "$2"/*-partition.pir
"$PMODEL" compile "$1/mlp.pmodel" -o "$2/mlp.prun" > "$2/log"
"$PMODEL" compile "$1/mlp.pmodel" --text -o "$2/mlp.txt" > "$2/log"
"$PMODEL" compile "$1/llama_tiny.pmodel" --plan tp2 "${small[@]}" -o "$2/llama.prun" --dump-to "$2" > "$2/log"
cp "$2"/*-partition.pir "$2/llama.pir"
"$PMODEL" compile "$1/mixtral_tiny.pmodel" --plan ep4_tp2 "${small[@]}" -o "$2/moe.prun" --dump-to "$2" > "$2/log"
cp "$2"/*-partition.pir "$2/moe.pir"
"$PMODEL" compile "$1/llama_tiny.pmodel" --plan cp2_ring "${small[@]}" -o "$2/ring.prun" --dump-to "$2/ring" > "$2/log"
cp "$2"/ring/*-partition.pir "$2/ring.pir"
"$PMODEL" show graph "$1/mlp.pmodel" > "$2/mlp.pir"
printf 'mesh a=2, b=2\nshard input batch -> a\nshard act batch -> b\n' > "$2/hands.pplan"
"$PMODEL" compile "$1/mlp.pmodel" --plan "$2/hands.pplan" --text -o "$2/hands.txt" > "$2/log"
grep -q ' permute ' "$2/hands.txt"
# Version 1.0 with two bytes of length, version 2.0 with four.
printf '\x93NUMPY\x01\x00\x3c\x00%-59s\n%24s' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}" "" > "$2/f4.npy"
printf '\x93NUMPY\x02\x00\x3c\x00\x00\x00%-59s\n%16s' "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }" "" > "$2/i8.npy"
printf 'mesh data=2\nshard batch -> data\naccumulate(micro=2)\n' > "$2/micro.pplan"
"$PMODEL" compile "$1/deepseek_moe_tiny.pmodel" --plan "$2/micro.pplan" "${small[@]}" -o "$2/micro.prun" --dump-to "$2/micro" > "$2/log"
cp "$2"/micro/*-frontend.pir "$2/micro.pir"
cp "$2"/micro/*-bucket.pir "$2/bucket.pir"
# A receive and its message, one that is kept and taken, a large one that waits until nobody wants it.
printf '\x02\x00\x10\x01\x00\x01\x04\x00\x01\x04abcd\x00\x02\x03\x00\x01\x03xyz\x04\x02' > "$2/small.tcp"
printf '\x00\x03\xff\x0a\x01\x20%-32s\x05\x83\x01\xff%-255s\x02\x01\x10\x03' "" "" > "$2/large.tcp"
