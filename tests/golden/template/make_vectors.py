#!/usr/bin/env python3
"""Records what Python's Jinja2 makes of chat templates, for tests without Python.

Writes beside itself: conversations.json (the contexts), NAME.json for each NAME.jinja (the output for each
context, null where the template fails) and language.json (small templates, one context).
"""
import json
import os
import pathlib
import time

import conversations
import environment
import language

HERE = pathlib.Path(__file__).parent


def write(name, value):
    if isinstance(value, dict):
        rows = ",\n".join(json.dumps(k, ensure_ascii=False) + ": " + json.dumps(v, ensure_ascii=False) for k, v in value.items())
        text = "{\n" + rows + "\n}\n"
    else:
        text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n]\n"
    (HERE / name).write_text(text)


def main():
    os.environ["TZ"] = "UTC"
    time.tzset()
    contexts = dict(conversations.contexts())
    write("conversations.json", contexts)
    for path in sorted(HERE.glob("*.jinja")):
        source = path.read_text()
        outputs = {name: environment.render(source, context) for name, context in contexts.items()}
        write(path.stem + ".json", outputs)
        print(path.stem, len(outputs), "renderings,", sum(o is None for o in outputs.values()), "refused")
    rows = [[source, environment.render(source, language.CONTEXT)] for source in language.templates()]
    write("language.json", [language.CONTEXT] + rows)
    print("language", len(rows), "templates,", sum(o is None for _, o in rows), "refused")


if __name__ == "__main__":
    main()
