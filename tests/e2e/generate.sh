#!/bin/sh
# generate.sh PROGRAM MODEL: what run, logits and demo print, that the same seed gives the same text, and how they
# refuse what they cannot do.
set -u
program=$1
model=$2
. "$(dirname "$0")/expect.sh"
unset TAGALONG_ISA TAGALONG_COMPUTE TAGALONG_THREADS TAGALONG_OEA_K0 TAGALONG_OEA_MIN_ROWS TAGALONG_POLICY SGLANG_OEA_K0

# story ARGUMENT...: the text, and the hash of the last logits.
story() {
  "$program" run "$model" -p 'Once upon a time' -n 24 "$@" 2>"$folder/err" </dev/null || fail "run $*: exit code $?"
  grep -o 'logits [0-9a-f]*' "$folder/err"
}

# The same seed gives the same text, to the last bit, with any threads and instruction set.
first=$(story --seed 7)
case $first in
  'Once upon a time'*'logits '*) ;;
  *) fail "run does not print the prompt, the text and the hash: $first" ;;
esac
[ "$(story --seed 7)" = "$first" ] || fail "the same seed gives another text"
[ "$(story --seed 7 --threads 1)" = "$first" ] || fail "another number of threads gives another text"
[ "$(story --seed 7 --threads 3 --isa scalar)" = "$first" ] || fail "another instruction set gives another text"
[ "$(story --seed 7 --compute accurate)" != "$first" ] || fail "--compute accurate does nothing"
[ "$(story --seed 8)" != "$first" ] || fail "another seed gives the same text"
[ "$(story --temperature 0 --seed 1)" = "$(story --temperature 0 --seed 2)" ] || fail "greedy depends on the seed"
[ "$(story --top-k 1 --seed 1)" = "$(story --temperature 0)" ] || fail "top-k 1 is not greedy"
# One sequence is fewer than the rows that batch-aware routing wants.
[ "$(story --seed 7 --oea-k0 2)" = "$first" ] || fail "OEA touches a sequence that is alone"
[ "$(story --seed 7 --oea-k0 2 --oea-min-rows 1)" != "$first" ] || fail "OEA does nothing where it may"

# Which policy holds: the flag, then TAGALONG_OEA_K0, then its alias.
policy() { story "$@" >"$folder/out"; grep -oE 'exact|oea:[^ ,]*' "$folder/err"; }
[ "$(policy)" = exact ] || fail "the default policy is not exact: $(policy)"
[ "$(policy --oea-k0 4)" = oea:k0=4 ] || fail "--oea-k0 4 is $(policy --oea-k0 4)"
[ "$(policy --oea-k0 8)" = exact ] || fail "the model's own k is not exact: $(policy --oea-k0 8)"
[ "$(TAGALONG_OEA_K0=3 policy)" = oea:k0=3 ] || fail "TAGALONG_OEA_K0 is not read"
[ "$(SGLANG_OEA_K0=5 policy)" = oea:k0=5 ] || fail "SGLANG_OEA_K0 is not read"
[ "$(SGLANG_OEA_K0=5 TAGALONG_OEA_K0=3 policy)" = oea:k0=3 ] || fail "the alias wins over TAGALONG_OEA_K0"
[ "$(SGLANG_OEA_K0=5 policy --oea-k0 2)" = oea:k0=2 ] || fail "the alias wins over the flag"
[ "$(policy --policy oea:k0=6)" = oea:k0=6 ] || fail "--policy is not read"

run="run $model -p x -n 1"
# shellcheck disable=SC2086  # $run is several arguments
{
  expect 2 'prompt is required' run "$model"
  expect_refusal '/none: no such directory' run "$folder/none" -p x
  expect_refusal "instruction set 'neon' is not one of .*scalar" $run --isa neon
  TAGALONG_ISA=sse9 expect_refusal "instruction set 'sse9'" $run
  expect_refusal "compute class 'exact' is not one of fast, accurate" $run --compute exact
  expect_refusal "KV cache type 'int8' is not one of bf16, f32, fp8" $run --kv-type int8
  expect_refusal 'max_context is 513, expected 2 to 512' $run -c 513
  expect_refusal 'the prompt has no tokens' run "$model" -p ''
  expect_refusal 'temperature is -1, expected' $run --temperature -1
  expect_refusal 'top_p is 2, expected' $run --top-p 2
  expect_refusal "policy 'best': no policy 'best'" $run --policy best
  expect_refusal "policy 'oea:k0=0': k0 = 0, expected" $run --policy oea:k0=0
  expect 2 'oea-k0' $run --oea-k0 0
  expect 2 'oea-k0' $run --oea-k0 65
  expect 2 'oea-k0' $run --oea-k0 many
  TAGALONG_OEA_K0=0 expect 2 'oea-k0' $run
  SGLANG_OEA_K0=none expect 2 "SGLANG_OEA_K0: 'none' is not a number of experts" $run
  expect 2 'max-tokens' $run -n 0
  expect 2 'threads' $run --threads -1
}
long=$(head -c 6000 /dev/zero | tr '\0' 'z' | sed 's/zz/z /g')
expect_refusal 'the prompt has [0-9]{4} tokens, but the context holds 512' run "$model" -p "$long"
expect_refusal 'the prompt has [0-9]* tokens, but the context holds 4' run "$model" -c 4 -p 'Once upon a time there was'

# logits: whole rows of float32, the same whether the text or its ids are given; nothing half-written.
printf '12 7\n4095\t0 99' >"$folder/ids"
expect 0 '5 tokens, 4096 logits each' logits "$model" --ids "$folder/ids" --out "$folder/logits"
[ "$(wc -c <"$folder/logits")" = $((5 * 4096 * 4)) ] || fail "logits: not 5 rows of 4096 float32"
for isa in scalar auto; do
  expect 0 '5 tokens' logits "$model" --ids "$folder/ids" --out "$folder/logits.$isa" --isa $isa --threads 1
  cmp "$folder/logits" "$folder/logits.$isa" || fail "logits differ with --isa $isa"
done
printf '12 4096' >"$folder/bad"
expect_refusal "bad: '4096' is not a token id from 0 to 4095" logits "$model" --ids "$folder/bad" --out "$folder/none"
printf '12 -3x' >"$folder/bad"
expect_refusal "bad: '-3x' is not a token id" logits "$model" --ids "$folder/bad" --out "$folder/none"
yes 5 | head -n 513 >"$folder/bad"
expect_refusal 'bad: 513 tokens, but the context holds 512' logits "$model" --ids "$folder/bad" --out "$folder/none"
: >"$folder/bad"
expect_refusal 'bad: no tokens' logits "$model" --text "$folder/bad" --out "$folder/none"
expect_refusal 'cannot be written' logits "$model" --ids "$folder/ids" --out "$folder/no/folder"
expect 2 'Exactly 1 option' logits "$model" --out "$folder/none"
expect 2 'Exactly 1 option' logits "$model" --ids "$folder/ids" --text "$folder/ids" --out "$folder/none"
ls "$folder" | grep -E 'none|partial' && fail "something was left half-written"

# demo: both rows of the table, and a quarter of the experts saved.
expect 0 '^exact  *[0-9]' demo "$model" -n 24 --eval-batches 1 --skip-large-layer
awk 'NF == 7 && $1 == "exact" && $2 ~ /^[0-9]/ { exact = $3; bits = $6 }
     NF == 7 && $1 ~ /^oea:k0=4/ && $2 ~ /^[0-9]/ { oea = $3; more = $6 }
     END {
       if (!(exact > 8 && exact <= 64 && oea > 4 && oea <= 0.75 * exact)) { print "experts:", exact, oea; exit 1 }
       if (!(bits > 1 && bits < 2.5 && more > 1 && more < 2.5)) { print "bits per byte:", bits, more; exit 1 }
     }' "$folder/out" || fail "demo: the table is not as it should be: $(cat "$folder/out")"
grep -q 'bytes saved are not yet time saved' "$folder/out" || fail "demo does not say what the saving is worth"
expect_refusal 'oea-k0 is 8, but the model uses 8 experts' demo "$model" --oea-k0 8

[ "$failures" = 0 ]
