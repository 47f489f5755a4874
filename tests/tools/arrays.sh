# arrays.sh: writes, into the current folder, the arrays that examples/autoencoder.pmodel and examples/classifier.pmodel
# read, made of the licences that every Debian has.
#   rows0.npy, rows1.npy      f4[N, 24]: in each piece of 128 bytes of the GPL, how often 24 letters stand, times 10 / 128
#   bytes.npy, classes.npy    u1[752, 32], u1[752]: pieces of 32 bytes of four licences, and whose they are
set -euo pipefail
export LC_ALL=C
licences=/usr/share/common-licenses

# begin FILE DTYPE SHAPE: the header.
begin() {
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': $3, }" >"$1"
}

# Bytes as one text for printf: "\x0a\xff...".
escaped() {
  od -An -v -tx1 | tr -d '\n' | sed 's/ /\\x/g'
}

# Numbers >= 0, one a line, as f4.
floats() {
  awk '{
    e = 0; m = $1; bits = 0
    if (m > 0) {
      while (m >= 2) { m /= 2; e++ }
      while (m < 1) { m *= 2; e-- }
      bits = (e + 127) * 8388608 + int((m - 1) * 8388608)
    }
    for (i = 0; i < 4; i++) { printf "\\x%02x", bits % 256; bits = int(bits / 256) }
  }'
}

# letters FROM PIECES: the frequencies in pieces of the GPL that begin at byte FROM * 128.
letters() {
  tail -c +$(($1 * 128 + 1)) "$licences/GPL-3" | head -c $(($2 * 128)) | od -An -v -w128 -tu1 | awk '{
    for (i = 97; i < 121; i++) n[i] = 0
    for (i = 1; i <= NF; i++) n[$i >= 65 && $i <= 90 ? $i + 32 : $i]++
    for (i = 97; i < 121; i++) print n[i] * 10 / 128
  }'
}

begin rows0.npy '<f4' '(200, 24)'
printf "$(letters 0 200 | floats)" >>rows0.npy
begin rows1.npy '<f4' '(72, 24)'
printf "$(letters 200 72 | floats)" >>rows1.npy

begin bytes.npy '|u1' '(752, 32)'
begin classes.npy '|u1' '(752,)'
class=0
for licence in Apache-2.0 Artistic GPL-3 MPL-2.0; do
  printf "$(head -c $((188 * 32)) "$licences/$licence" | escaped)" >>bytes.npy
  for ((i = 0; i < 188; i++)); do printf "\\x0$class" >>classes.npy; done
  class=$((class + 1))
done
