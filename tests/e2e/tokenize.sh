#!/bin/sh
# tokenize.sh PROGRAM MODEL: `tagalong tokenize` and `tagalong template` as a user runs them.
set -u
program=$1
model=$2
. "$(dirname "$0")/expect.sh"

same() {
  [ "$2" = "$3" ] || fail "$1: found '$2', expected '$3'"
}

# Text to ids and back, also of what the shell would take apart.
text='Once upon a time, "there" was a  fox: Zürich 😀'
ids=$("$program" tokenize "$model" "$text")
same 'the text of the ids' "$("$program" tokenize "$model" --decode "$ids")" "$text"
same 'the ids as JSON' "$("$program" tokenize "$model" --json "$text" | tr ',' ' ' | tr -d '[]')" "$ids"
same 'the ids of standard input' "$(printf %s "$text" | "$program" tokenize "$model")" "$ids"
printf %s "$text" >"$folder/text"
same 'the ids of a file' "$("$program" tokenize "$model" --file "$folder/text")" "$ids"
count=$(echo "$ids" | wc -w)
expect 0 "^$count tokens, 50 bytes\$" tokenize "$model" --count "$text"
same 'tokens with offsets' "$("$program" tokenize "$model" --offsets "$text" | wc -l)" "$count"
expect 0 '^ *[0-9]+ +0\.\.1 +"O"$' tokenize "$model" --offsets "$text"
expect 0 '"id":0,"begin":1,"end":14,"text":"<\|endoftext\|>","special":true' \
  tokenize "$model" --offsets --json 'a<|endoftext|>'
expect 0 '^[1-9][0-9]* [1-9].* [1-9]' tokenize "$model" --text-only '<|endoftext|>'
expect 0 '^ids after decoding and encoding:  the same$' tokenize "$model" --verify "$text"
same 'a batch' "$(printf '"a"\n[0]\n' | "$program" tokenize "$model" --batch | tail -1)" '"<|endoftext|>"'

expect_refusal 'tokenizer.json: cannot open' tokenize "$folder" x
expect_refusal '"x" is no token id' tokenize "$model" --decode x
expect_refusal 'no token has id 4096' tokenize "$model" --decode 4096
expect_refusal 'no token has id -1' tokenize "$model" --decode -- -1
printf 'a\377' >"$folder/text"
expect_refusal 'invalid UTF-8 at byte 1 \(0xFF\)' tokenize "$model" --file "$folder/text"
expect 2 'excludes' tokenize "$model" --count --verify x

# A conversation as text, as ids, and with what the user wrote marked.
echo '[{"role": "user", "content": "a<|endoftext|>b"}]' >"$folder/messages.json"
same 'a conversation' "$("$program" template "$model" "$folder/messages.json")" 'a<|endoftext|>b'
same 'the ids of a conversation' "$("$program" template "$model" "$folder/messages.json" --ids)" \
  "$("$program" tokenize "$model" --text-only 'a<|endoftext|>b')"
expect 0 '"text": "a<\|endoftext\|>b"' template "$model" "$folder/messages.json" --marks
printf '{{ eos_token }}{{ n }}' >"$folder/own.jinja"
same 'a template of the user' \
  "$("$program" template "$model" "$folder/messages.json" --template "$folder/own.jinja" --set n=3)" '<|endoftext|>3'

expect_refusal 'the model has no chat template' template "$folder" "$folder/messages.json"
expect_refusal 'messages.json.x: cannot open' template "$model" "$folder/messages.json.x"
printf '[{"content": "\\ud800"}]' >"$folder/messages.json"
expect_refusal 'not valid JSON: .*surrogate' template "$model" "$folder/messages.json"
echo '5' >"$folder/messages.json"
expect_refusal 'neither a list of messages nor an object' template "$model" "$folder/messages.json"
echo '[]' >"$folder/messages.json"
printf '\n{%% include "x" %%}' >"$folder/own.jinja"
expect_refusal 'line 2: "include" asks for another template' \
  template "$model" "$folder/messages.json" --template "$folder/own.jinja"

[ "$failures" = 0 ]
