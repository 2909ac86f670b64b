#!/bin/sh
# serve.sh PROGRAM MODEL: how `tagalong serve` starts, what it refuses, and how signals end it.
set -u
program=$1
model=$2
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$folder"' EXIT
failures=0
export TAGALONG_TUNE=off XDG_CACHE_HOME="$folder/cache"  # nothing is measured, nothing written outside

fail() {
  echo "$*"
  failures=$((failures + 1))
}

# Starts a server and waits until it has said its address; $server and $address.
start() {
  : >"$folder/out"
  "$program" serve "$model" --port 0 "$@" >"$folder/out" 2>"$folder/err" &
  server=$!
  tries=0
  until grep -q '^http://' "$folder/out"; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
      fail "the server did not start"
      cat "$folder/err"
      exit 1
    fi
    sleep 0.1
  done
  address=$(sed 's/ .*//' "$folder/out")
}

# stop SIGNAL CODE: the signal, and the exit code that it must lead to.
stop() {
  kill -s "$1" "$server"
  wait "$server"
  code=$?
  server=
  [ "$code" = "$2" ] || fail "SIG$1 led to exit code $code, expected $2"
}

# refuse CODE 'PATTERN' ARGUMENT...
refuse() {
  expected=$1
  pattern=$2
  shift 2
  timeout 60 "$program" serve "$@" >"$folder/out" 2>"$folder/err"
  code=$?
  [ "$code" = "$expected" ] || fail "serve $*: exit code $code, expected $expected"
  grep -qE -- "$pattern" "$folder/err" || { fail "serve $*: no '$pattern' on stderr"; cat "$folder/err"; }
}

start
[ "$(wc -l <"$folder/out")" = 1 ] || fail "more than one line on stdout"
grep -q ' serves storyteller .*routing exact' "$folder/out" || fail "the line does not name model and routing"
port=${address##*:}
refuse 1 "cannot listen on 127.0.0.1:$port: Address already in use" "$model" --port "$port"
stop TERM 0

start --oea-k0 4 --served-model-name mine
grep -q ' serves mine .*routing oea:k0=4' "$folder/out" || fail "batch-aware routing is not named"
stop INT 0

: >"$folder/keys"
refuse 1 'keys: no API key in it' "$model" --port 0 --api-key-file "$folder/keys"
refuse 1 'missing' "$model" --port 0 --api-key-file "$folder/missing"
refuse 1 'cannot listen on 203.0.113.1' "$model" --port 0 --host 203.0.113.1
refuse 2 '--port' "$model" --port 70000
refuse 2 '--max-sequences' "$model" --port 0 --max-sequences 0
refuse 1 'no such directory' "$folder/none" --port 0

[ "$failures" = 0 ] || { echo "$failures failures"; exit 1; }
echo "all passed"
