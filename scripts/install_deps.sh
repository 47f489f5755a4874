#!/usr/bin/env bash
# Installs what pmodel needs on Debian 12, by package name. `install_deps.sh`: to build; `install_deps.sh test`: to test too.
# Does nothing, and needs no network, when everything is there.
set -euo pipefail

packages=(gcc libc6-dev cmake ninja-build flex bison llvm-19-dev libopenblas-dev libxxhash-dev)
case "${1-}" in
  "") ;;
  test) packages+=(libcmocka-dev clang libclang-rt-dev libopenmpi-dev openmpi-bin) ;;
  *) echo "usage: $0 [test]" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
