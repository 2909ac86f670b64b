#!/bin/sh
# trace.sh PROGRAM MODEL: a run is recorded by `tagalong trace` and replayed by `tagalong route`; both show the
# same exact T.
set -u
program=$1
model=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
unset TAGALONG_OEA_K0 TAGALONG_OEA_MIN_ROWS TAGALONG_POLICY SGLANG_OEA_K0

fail() {
  echo "$*"
  failures=$((failures + 1))
}

# refuse CODE 'PATTERN' ARGUMENT...
refuse() {
  expected=$1
  pattern=$2
  shift 2
  "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null
  code=$?
  [ "$code" = "$expected" ] || fail "$*: exit code $code, expected $expected"
  grep -qE -- "$pattern" "$folder/err" || { fail "$*: no '$pattern' on stderr"; cat "$folder/err"; }
}

printf 'Once upon a time\n\nThe little dog\nTom and Mia went to the park.\n' >"$folder/prompts"
"$program" trace "$model" --prompts "$folder/prompts" -p 'One day' -n 12 --out "$folder/trace" >"$folder/counted" ||
  fail "trace: exit code $?"
grep -q ': 4 prompts, .* exact$' "$folder/counted" || fail "trace does not say what it ran: $(cat "$folder/counted")"
"$program" route --trace "$folder/trace" --policy exact --policy oea:k0=3 >"$folder/replayed" ||
  fail "route: exit code $?"
counted=$(awk '$1 == "all" { print $4 }' "$folder/counted")
replayed=$(awk '$1 == "exact" { print $4 }' "$folder/replayed")
{ [ -n "$counted" ] && [ "$counted" = "$replayed" ]; } || fail "T exact: '$counted' counted, '$replayed' replayed"
awk '$1 == "oea:k0=3" && $5 < $4 { found = 1 } END { exit !found }' "$folder/replayed" || fail "oea saves nothing"

# Other modes are written, and refused by the replay; the policy and the seed are told and kept.
for mode in stat per_pass; do
  "$program" trace "$model" -p x -n 3 --mode $mode --policy oea:k0=2 --out "$folder/other" >"$folder/out" ||
    fail "$mode: exit code $?"
  grep -q "\"mode\":\"$mode\",\"policy\":\"oea:k0=2\"" "$folder/other" || fail "$mode: no header"
  refuse 1 "other:1: mode = \"$mode\", expected per_token" route --trace "$folder/other"
done
run="trace $model -p x -n 8"
# shellcheck disable=SC2086  # $run is several arguments
{
  "$program" $run --out "$folder/a" --seed 5 >/dev/null
  "$program" $run --out "$folder/b" --seed 5 -t 1 >/dev/null
  cmp "$folder/a" "$folder/b" || fail "the same run is recorded differently"
  refuse 1 "recorder mode 'all', expected stat, per_pass or per_token" $run --out "$folder/none" --mode all
  refuse 1 'none/x.* cannot be written: No such file' $run --out "$folder/none/x"
  refuse 2 '--out is required' $run
  refuse 2 '--rows' $run --out "$folder/none" --rows 0
}
refuse 2 "At least 1 option" trace "$model" --out "$folder/none"
: >"$folder/empty"
refuse 1 'empty: no prompts' trace "$model" --prompts "$folder/empty" --out "$folder/none"
refuse 1 'the prompt has no tokens' trace "$model" -p '' --out "$folder/none"
if [ -e "$folder/none" ] || [ -e "$folder/none.partial" ]; then fail "something was left half-written"; fi

[ "$failures" = 0 ]
