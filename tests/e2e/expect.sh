# For the scripts of this folder, which source it: runs $program and compares. Counts what is wrong in $failures,
# and leaves output in $folder, which is removed at the end.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
export TAGALONG_TUNE=off XDG_CACHE_HOME="$folder/cache"  # nothing is measured, nothing written outside

fail() {
  echo "$*" | cut -c 1-2000
  failures=$((failures + 1))
}

# expect CODE 'PATTERN' ARGUMENT...: the exit code, and a line of stdout or stderr that matches.
expect() {
  code=$1
  pattern=$2
  shift 2
  "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null
  found=$?
  if [ "$found" != "$code" ]; then
    fail "tagalong $*: exit code $found, expected $code: $(cat "$folder/err")"
  elif ! cat "$folder/out" "$folder/err" | grep -qE -- "$pattern"; then
    fail "tagalong $*: no line matches '$pattern': $(cat "$folder/out" "$folder/err")"
  fi
}

# A refusal of input is one line on stderr and nothing on stdout.
expect_refusal() {
  expect 1 "$@"
  shift
  if [ "$(wc -l <"$folder/err")" != 1 ] || [ -s "$folder/out" ]; then
    fail "tagalong $*: expected one line on stderr, nothing on stdout"
  fi
}
