"""The environment in which chat templates are written to run: Jinja2's immutable sandbox with a few additions."""
import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1767182400  # 2025-12-31 12:00:00 UTC


class GenerationTag(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW).strftime(format)


@functools.lru_cache(maxsize=1)
def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


@functools.lru_cache(maxsize=64)
def template(source):
    return environment().from_string(source)


def render(source, context):
    """The output, or None if the template fails."""
    try:
        return template(source).render(**context)
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, ZeroDivisionError, OverflowError, SyntaxError):
        return None
