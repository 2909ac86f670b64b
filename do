#!/bin/sh
# ./do COMMAND: what one does with this repository, on a bare Debian 12 as on a developer's machine.
set -eu
cd "$(dirname "$0")"

usage() {
  cat <<'TEXT'
Usage: ./do COMMAND

  demo          build the program and let it write sixteen stories, with exact and with batch-aware routing
  test [ARG..]  build everything and run all tests; arguments go to ctest, such as -R routing
  build         build everything into build/release
  bench [ARG..] build the program and run `tagalong bench`
  format        format all C++ sources in place
  lint          run clang-tidy over all C++ sources
  help          print this

On Debian, missing packages of packaging/debian-packages.txt are installed first, as root or through sudo.
TEXT
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "./do: packages are missing and neither root nor sudo is here: $missing" >&2
    exit 1
  fi
}

install_missing() {
  command -v dpkg-query >/dev/null || return 0  # not Debian: whoever builds here has seen to it
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
  missing=$(echo "$installed" | grep -vxFf - packaging/debian-packages.txt | tr '\n' ' ') || true
  [ -n "$missing" ] || return 0
  echo "./do: installing $missing"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
  # shellcheck disable=SC2086  # a list of words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $missing
}

build() {
  install_missing
  cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
  cmake --build --preset release "$@"
}

cpp_files() { git ls-files '*.cpp' '*.h'; }

command=${1:-help}
[ $# -eq 0 ] || shift
mkdir -p build
case $command in
  demo)
    build --target tagalong
    exec build/release/bin/tagalong demo models/storyteller "$@"
    ;;
  test)
    build
    exec ctest --test-dir build/release --output-on-failure -j2 "$@"
    ;;
  build) build ;;
  bench)
    build --target tagalong
    exec build/release/bin/tagalong bench "$@"
    ;;
  format)
    install_missing
    cpp_files | xargs clang-format -i
    ;;
  lint)
    build
    # GCC's names of warnings are not all known to clang.
    git ls-files '*.cpp' | grep -v '^tests/fuzz/' |
      xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/release --extra-arg=-Wno-unknown-warning-option
    ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
