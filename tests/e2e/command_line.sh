#!/bin/sh
# command_line.sh PROGRAM MODEL: exit codes and messages of every command: 0 done, 1 bad input, 2 wrong usage.
set -u
program=$1
model=$2
. "$(dirname "$0")/expect.sh"

expect 0 '^tagalong [0-9]+\.[0-9]+\.[0-9]+ \(commit ' --version
expect 0 '^kernels: .*scalar on this CPU' version
expect 0 'Exit codes: 0 done' --help
expect 2 'subcommand is required'
expect 2 "^tagalong: unknown command or flag '--no-such-flag'" --no-such-flag
expect 2 "^tagalong: unknown command or flag 'no-such-command'" no-such-command

commands=$("$program" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
for command in $commands; do
  expect 0 '^Usage: tagalong ' "$command" --help
  expect 2 "Try 'tagalong $command --help'" "$command" --no-such-flag
done
case $commands in
  *inspect*) ;;
  *) echo "the help lists no commands"; failures=$((failures + 1)) ;;
esac

expect 2 'model is required' inspect
expect_refusal '^tagalong: .*/none: not a directory' inspect "$folder/none"
expect_refusal '^tagalong: .*config.json: cannot open' inspect "$folder"
echo '{"model_type":"glm_moe_dsa"}' >"$folder/config.json"
expect_refusal '^tagalong: .*neither model.safetensors nor' inspect "$folder"
head -c 100000 "$model/model.safetensors" >"$folder/model.safetensors"
expect_refusal '^tagalong: .*model.safetensors: .*incomplete download' inspect "$folder"
cp "$model/model.safetensors" "$folder"
expect_refusal "^tagalong: .*config.json: missing key 'num_hidden_layers'" inspect "$folder"

expect 0 'architecture +glm_moe_dsa' inspect "$model"
expect 0 'routed experts +[0-9].*NVFP4' inspect "$model"
expect 0 'F32 .* model\.layers\.1\.mlp\.gate\.e_score_correction_bias' inspect "$model" --tensors
expect 0 '"model_type": "glm_moe_dsa"' inspect "$model" --json
"$program" inspect "$model" >/dev/full 2>"$folder/err"
if [ $? != 1 ]; then
  echo "tagalong inspect >/dev/full: a full disk is not noticed"
  failures=$((failures + 1))
fi

expect_refusal "^tagalong: no model shape is named 'no-such-model'; known: qwen3-30b-a3b" synth "$folder/none" --like no-such-model
expect_refusal '^tagalong: .*cannot be made' synth "$folder/config.json/below" --like qwen3-tiny
for shape in qwen3-tiny glm-tiny; do
  expect 0 'GB$' synth "$folder/$shape" --like $shape --layers 2 --vocab 100
  expect 0 '^ +prefill 20 ' bench "$folder/$shape" -b 1,3 --prefill 20 --rounds 1 --steps 1 --random-tokens
  expect 0 '"tokens_per_second": [0-9]' bench "$folder/$shape" -b 2 --prefill 0 --rounds 1 --json
done
expect 2 'model, or a subcommand' bench
expect_refusal '^tagalong: 60000 positions are needed' bench "$folder/qwen3-tiny" --prefill 60000

[ "$failures" = 0 ]
