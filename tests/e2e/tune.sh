#!/bin/sh
# tune.sh PROGRAM MODEL: what the tuner keeps and where, what it leaves alone, and that it changes no text.
set -u
program=$1
model=$2
. "$(dirname "$0")/expect.sh"
unset TAGALONG_TUNE TAGALONG_ISA TAGALONG_THREADS TAGALONG_COMPUTE

story() {
  "$program" run "$model" -p 'Once upon a time' -n 8 --seed 7 "$@" 2>"$folder/err" </dev/null || fail "run $*: exit code $?"
  grep -o 'logits [0-9a-f]*' "$folder/err"
}
file() { find "$folder/cache" -type f; }
warnings() { grep -c warning "$folder/err"; }

# Off: nothing is measured or written. Auto: the first start measures, the second reads.
first=$(story --tune off)
[ -z "$(find "$folder/cache" 2>/dev/null)" ] || fail "--tune off has written a file"
expect 1 'nothing is stored for' tune "$model" --show
[ "$(story)" = "$first" ] || fail "the tuner changes the text"
grep -q 'first start' "$folder/err" || fail "the first start does not say that it measures: $(cat "$folder/err")"
case $(file) in
  "$folder"/cache/tagalong/tune/*.json) ;;
  *) fail "not one file in the cache: $(file)" ;;
esac
cp "$(file)" "$folder/kept"
[ "$(story)" = "$first" ] || fail "the stored settings change the text"
grep -q 'first start' "$folder/err" && fail "the second start measures again"
cmp -s "$(file)" "$folder/kept" || fail "the second start writes"
[ "$(TAGALONG_TUNE=off story)" = "$first" ] || fail "TAGALONG_TUNE is not read"

expect 0 '^ +16 .* (default|([a-z_]+=[a-z0-9]+,?)+)$' tune "$model" --show
expect 0 'huge pages: ' tune "$model" --export "$folder/exported"
rm "$(file)"
expect 0 '^ +16 .* (default|([a-z_]+=[a-z0-9]+,?)+)$' tune "$model" --import "$folder/exported"
[ -f "$(file)" ] || fail "--import stores nothing"
expect 0 '^ +64 .* (default|([a-z_]+=[a-z0-9]+,?)+)$' tune "$model"
expect 1 'no such file' tune "$model" --import "$folder/none"
expect 2 '' tune "$model" --quick --show
expect 2 'tune' run "$model" -p x --tune always

# A benchmark runs with what is stored and says so; a model without a tokenizer can be tuned and measured.
bench() { "$program" bench "$model" -b 16 --prefill 0 --rounds 1 --steps 2 --json "$@" 2>"$folder/err" | grep -v '"peak_rss\|second'; }
sed -i '/"16": {/,/}/ s/"tuning": "[^"]*"/"tuning": "row_tile=3"/' "$(file)"
bench --tune auto >"$folder/tuned"
grep -q 'first start' "$folder/err" && fail "bench measures what is stored"
bench --tune off >"$folder/plain"
grep -q '"tune": "auto"' "$folder/tuned" && grep -q '"tuning": .*"row_tile=3"' "$folder/tuned" ||
  fail "bench does not use the stored settings: $(cat "$folder/tuned")"
grep -q '"tune": "off"' "$folder/plain" || fail "bench does not say that tuning is off: $(cat "$folder/plain")"
grep -q '"tuning": .*"row_tile=3"' "$folder/plain" && fail "bench --tune off uses the stored settings"
[ "$(grep '"hash"' "$folder/tuned")" = "$(grep '"hash"' "$folder/plain")" ] || fail "the tuner changes a benchmark's hash"
expect 0 ' row_tile=3$' bench "$model" -b 16 --prefill 0 --rounds 1 --steps 2 --tune auto
expect 0 ' default$' bench "$model" -b 16 --prefill 0 --rounds 1 --steps 2 --tune off
expect 0 'GB$' synth "$folder/tiny" --like qwen3-tiny --layers 1
expect 1 'nothing is stored for nvfp4 32x4 256x64' tune "$folder/tiny" --show

# Another machine's file: one warning, and it stays as it is.
stored=$(file)
sed -i 's/"topology": "/&other /' "$stored"
cp "$stored" "$folder/kept"
[ "$(story)" = "$first" ] || fail "another machine's file changes the text"
[ "$(warnings)" = 1 ] || fail "not one warning about another machine's file: $(cat "$folder/err")"
cmp -s "$stored" "$folder/kept" || fail "another machine's file is overwritten"
expect 1 'not made on this machine' tune "$model"
cmp -s "$stored" "$folder/kept" || fail "tune overwrites another machine's file"
expect 1 'not made on this machine' tune "$model" --import "$folder/kept"

# A cache that cannot be written: one warning, no file, the same text.
rm -r "$folder/cache"
: >"$folder/cache"
[ "$(story)" = "$first" ] || fail "a cache that cannot be written changes the text"
[ "$(warnings)" = 1 ] || fail "not one warning about the cache: $(cat "$folder/err")"
[ ! -s "$folder/cache" ] || fail "something was written in the cache's place"

[ "$failures" = 0 ]
