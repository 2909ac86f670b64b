#!/usr/bin/env python3
"""openai_client.py PROGRAM MODEL: the official OpenAI client against `tagalong serve`.

Needs the `openai` package (pip install openai), which nothing else in this repository does: it is run by hand.
Starts the server on a free port, streams a story and a chat, compares them with the unstreamed answers, provokes
errors, leaves a stream half-way, and ends the server with SIGTERM.
"""

import signal
import subprocess
import sys
import time

import openai

PROMPT = "Once upon a time, in a mill beside a slow green river,"


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def start(program, model):
    server = subprocess.Popen([program, "serve", model, "--port", "0", "--max-sequences", "4", "--queue", "4"],
                              stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().split(" ")[0]
    check(address.startswith("http://127.0.0.1:"), f"no address in the first line: {address!r}")
    return server, address


def story(client, model):
    request = dict(model=model, prompt=PROMPT, max_tokens=64, seed=7, temperature=0.8,
                   extra_body={"ignore_eos": True})
    whole = client.completions.create(**request)
    check(whole.usage.completion_tokens == 64, "usage counts the tokens")
    check(whole.choices[0].finish_reason == "length", "finish_reason")
    check(whole.system_fingerprint.endswith("-exact"), "the fingerprint names the routing")
    print(PROMPT, end="")
    pieces, usage = [], None
    for chunk in client.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.text)
            print(choice.text, end="", flush=True)
    print("\n")
    check("".join(pieces) == whole.choices[0].text, "the stream says the same as the whole answer")
    check(len(pieces) > 10, "the stream comes in pieces")
    check(usage.completion_tokens == 64, "the stream ends with the usage")


def chat(client, model):
    messages = [{"role": "user", "content": [{"type": "text", "text": "The captain shook his head. \"No,\" he said,"}]}]
    request = dict(model=model, messages=messages, max_completion_tokens=48, temperature=0,
                   extra_body={"ignore_eos": True, "routing": {"policy": "exact"}})
    whole = client.chat.completions.create(**request, logprobs=True, top_logprobs=2)
    check(whole.choices[0].message.role == "assistant", "role")
    check(len(whole.choices[0].logprobs.content) == 48, "a log probability for each token")
    text, finishes = "", []
    for chunk in client.chat.completions.create(**request, stream=True):
        text += chunk.choices[0].delta.content or ""
        finishes += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
    check(text == whole.choices[0].message.content, "the streamed chat says the same as the whole one")
    check(finishes == ["length"], f"one finish_reason, got {finishes}")
    print(messages[0]["content"][0]["text"] + text + "\n")

    with client.chat.completions.stream(**{**request, "max_completion_tokens": 400}) as stream:
        try:
            for _ in stream:
                pass
        except openai.LengthFinishReasonError:
            pass  # the helper's way to say finish_reason "length"


def errors(client, model):
    for expected, request in [
        (openai.NotFoundError, dict(model="another", prompt="x")),
        (openai.BadRequestError, dict(model=model, prompt="x", temperature=9)),
        (openai.BadRequestError, dict(model=model, prompt=[5] * 5000, stream=True)),
        (openai.BadRequestError, dict(model=model, prompt="x", presence_penalty=1.0)),
    ]:
        try:
            client.completions.create(**request)
            sys.exit(f"FAILED: no {expected.__name__}")
        except expected as error:
            check(error.body["message"] and error.body["type"] == "invalid_request_error", f"body {error.body}")


def leave_halfway(client, model):
    stream = client.completions.create(model=model, prompt=PROMPT, max_tokens=400, stream=True, n=4,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    begin = time.monotonic()
    client.completions.create(model=model, prompt=PROMPT, max_tokens=1)
    check(time.monotonic() - begin < 5, "the places of a client that left are free again")


def main():
    server, address = start(*sys.argv[1:3])
    try:
        client = openai.OpenAI(base_url=address + "/v1", api_key="any", max_retries=0, timeout=60)
        models = [model.id for model in client.models.list()]
        check(len(models) == 1 and client.models.retrieve(models[0]).id == models[0], f"models: {models}")
        story(client, models[0])
        chat(client, models[0])
        errors(client, models[0])
        leave_halfway(client, models[0])
        server.send_signal(signal.SIGTERM)
        check(server.wait(timeout=30) == 0, "SIGTERM ends the server with exit code 0")
    finally:
        server.kill()
    print(f"openai {openai.__version__}: all passed")


if __name__ == "__main__":
    main()
