"""Small templates, for the language itself. All see the same context."""

CONTEXT = {
    "n": 7, "neg": -3, "f": 2.5, "t": True, "no": False, "nil": None, "s": "Hello, Wörld", "e": "", "sp": "  a b  \n",
    "xs": [3, 1, 2], "ws": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, "x", None, 2.0], "items2": {"k": "v"}},
    "rows": [{"n": "x", "v": 2, "on": True}, {"n": "Y", "v": 1, "on": False}, {"n": "z", "v": 3}],
    "quotes": "it's \"q\" \\ \n\t\u0001é\u200b😀", "nested": {"a": {"b": {"c": [1, [2, {"d": "e"}]]}}}, "big": 9007199254740993,
}

EXPRESSIONS = """
n|n + 1|n - 10|n * 2|n / 2|n // 2|neg // 2|n % 4|neg % 4|f % 2|neg // f|2 ** 10|2 ** -1|-n|+n|-n|abs
(1 + 2) * 3|1 + 2 * 3 ** 2|-2 ** 2|not n|not e|n and s|e or s|e and s|nil or 0|n > 3 and n < 10|1 < n < 10|1 < n > 10
n == 7|n == 7.0|t == 1|n != 7|s == 'x'|'W' in s|'z' not in s|2 in xs|'b' in d|5 not in xs|xs == [3, 1, 2]|(1, 2) == [1, 2]
f|1.0|1e16|1e15|0.1 + 0.2|1e-5|0.0001|1.5e300|123456789.123|2.0 * 3|7 / 7|1e22|100.0|-0.0|nil|t|no|big
s|s[0]|s[-1]|s[1:4]|s[::-1]|s[:-2]|s[::2]|s[5:]|s[10:100]|s[100:]|s[-3:-1]|s[4:1:-1]|xs[0]|xs[-1]|xs[5]|xs[1:]|xs[::-1]|xs[:0]
d.b|d['b']|d.missing|d.missing is defined|d['a'][1]|d.a.1|d.a[3]|nested.a.b.c[1][1].d|nested['a'].b['c']|missing|missing is defined
missing.x|missing + 1|missing ~ 'x'|'' ~ nil ~ t ~ n ~ f ~ xs|s + n|s + nil|n + s|s * 2|'ab' * 0|2 * 'ab'|[1] * 3|xs + [4]|xs + 'a'|xs + (1,)
xs|ws|d|nested|[nil, t, 1.5, 'a\\'b', "c\\"d", 'e\\'f"g']|(1,)|(1, 2)|()|[]|{}|{'a': 1, 2: [3]}|{'a': 1, 'a': 2}|quotes|[quotes]
s|upper|s|lower|sp|trim|[sp|trim]|s|length|xs|length|d|length|n|length|missing|length|nil|length|s|title|'a-b (c d'|title|'hELLO wORLD'|capitalize
xs|sort|ws|sort|ws|sort(case_sensitive=true)|xs|sort(reverse=true)|rows|sort(attribute='v')|map(attribute='n')|list|[1, 'a']|sort|xs|first|xs|last|e|first|[]|last
xs|join|xs|join(', ')|ws|join('-')|rows|join(',', attribute='n')|rows|map(attribute='v')|join(' ')|rows|map(attribute='on', default='?')|list|xs|map('string')|list
ws|map('upper')|join|xs|select('gt', 1)|list|xs|reject('odd')|list|rows|selectattr('on')|map(attribute='n')|list|rows|rejectattr('on')|list|rows|selectattr('v', 'ge', 2)|list
rows|selectattr('on', 'defined')|map(attribute='n')|list|rows|selectattr('n', 'equalto', 'x')|list|xs|max|xs|min|ws|min|[]|max|xs|reverse|list|s|reverse|xs|unique|list
[1, 1, 2]|unique|list|['a', 'A']|unique|list|d|list|s|list|d|items|list|d|dictsort|d.items()|list|d.keys()|list|d.values()|list|d.get('b')|d.get('z')|d.get('z', 5)
missing|default('x')|e|default('x')|e|default('x', true)|nil|default('x')|nil|d('x', true)|missing|default|s|replace('l', 'L')|s|replace('l', 'L', 1)|'aaa'|replace('a', 'bb')
s.replace('o', '0')|s.upper()|s.lower()|s.split(', ')|s.split('o')|s.split('o', 1)|sp.split()|'a  b c'.split(' ')|'a b c'.rsplit(' ', 1)|'a,b,c'.rsplit(',')|e.split(',')|e.split()
sp.strip()|[sp.lstrip()]|[sp.rstrip()]|'xxaxx'.strip('x')|'xyaxy'.strip('yx')|'xxa'.lstrip('x')|'axx'.rstrip('x')|s.startswith('He')|s.endswith('ld')|s.startswith(('a', 'H'))
s.find('o')|s.find('zz')|s.rfind('o')|s.count('l')|'-'.join(ws)|'-'.join(xs)|'a\\nb\\r\\nc\\n'.splitlines()|'abc'.title()|"they're bill's".title()|'äöü'.upper()|'ß'.upper()|'ÀB'.lower()
'123'.isdigit()|'a1'.isdigit()|' '.isspace()|e.isspace()|'abc'.isalpha()|'x.py'.removesuffix('.py')|'x.py'.removeprefix('x')|s.format()|s.nothing|s.nothing()|s._private|s.__class__
n is odd|n is even|n is divisibleby 7|n is divisibleby(3)|s is string|n is string|n is number|f is number|t is number|f is float|n is integer|t is integer|t is boolean|d is mapping|xs is mapping
xs is sequence|s is sequence|d is sequence|n is sequence|xs is iterable|n is iterable|missing is iterable|missing is sequence|nil is none|n is none|t is true|n is true|no is false|e is false
n is eq 7|n is not eq 7|n is in xs|2 is in xs|s is not string|missing is undefined|n is gt 3|n is sameas 7|'a' is lower|'A' is upper|n is defined and n > 3|not n is defined|n is not defined
n if t else s|n if no else s|n if no|(n if no) is defined|'a' if n > 3 else 'b' if n > 1 else 'c'|'5'|int|'x'|int|'x'|int(9)|'5.7'|int|f|int|'0x1f'|int(0, 16)|'2.5'|float|'x'|float(1.5)|n|float|n|string|f|round
2.5|round|3.5|round|2.345|round(2)|2.3|round(0, 'ceil')|2.7|round(method='floor')|-3|abs|xs|tojson|d|tojson|quotes|tojson|quotes|tojson(ensure_ascii=true)|nil|tojson|f|tojson|1e16|tojson|big|tojson|1e-7|tojson
d|tojson(indent=2)|nested|tojson(indent=4)|{}|tojson(indent=2)|[]|tojson(indent=2)|[[]]|tojson(indent=1)|d|tojson(sort_keys=true)|d|tojson(separators=(',', ':'))|d|tojson(indent='\\t')|missing|tojson|'</script>&'|tojson|{1: 2, true: 3, none: 4}|tojson
range(3)|list|range(1, 4)|list|range(5, 0, -2)|list|range(0)|list|range(3)|length|range(1, 2, 0)|range(1000000)|dict(a=1, b=2)|namespace(a=1).a|namespace(a=1).b|raise_exception('no')|strftime_now('%Y-%m-%d %H:%M')
1 / 0|1 // 0|1 % 0|1.0 / 0|'a' < 'b'|'a' < 1|nil < 1|[1, 2] < [1, 3]|xs.append(4)|d.update({})|d.pop('b')|n()|s()|missing()|n.x|n.x.y|n[0]|nil.x|d[nil]|xs['a']|s|nofilter|n is notest
'a' 'b'|"tab\\tnew\\nline"|'\\u00e9\\x41'|'back\\\\slash'|'\\q'|1_000|'%' ~ '}}'|{'a': {'b': 1}}['a']['b']|[1, [2]][1][0]|(xs|first) + 1|xs|first + 1|-xs|first|n ~ s|lower|'a' ~ 'B'|lower|not 'x' in s|'x' in s == false
'a\\nb\\n\\nc'|indent|'a\\nb'|indent(2, true)|'a\\n\\nb'|indent(2, blank=true)|n|safe|'x' * 3 ~ 'y'|1 + 1 ~ 1 + 1|1 if n is defined else 2|[x for x in xs]|lambda: 1|n = 3|1 +|(1|[1|'open|{{|a b
9223372036854775807|9223372036854775807 + 1|99999999999999999999|s is startswith('H')|d.a is sequence and d.a is not string|xs[n]|xs[n - 7]|loop|xs | length > 2 and xs | first == 3|xs|length == 3 and true
"""


def expressions():
    """The separator is a bar without blanks; a filter's bar is told apart by the word after it."""
    filters = ("abs upper lower trim length title capitalize sort map join first last reverse unique list items dictsort default "
               "replace int float string round tojson select reject selectattr rejectattr max min indent safe d nofilter").split()
    for line in EXPRESSIONS.strip().split("\n"):
        pending = None
        for part in line.split("|"):
            word = part.split("(")[0].split(" ")[0]
            if pending is not None and word in filters:
                pending += "|" + part
                continue
            if pending is not None:
                yield pending
            pending = part
        yield pending


STATEMENTS = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a {%- if t -%} b {%- endif -%} c",
    "  {%+ if t %}x{% endif %}", "{% if t +%}\nx{% endif %}", "a\n  {# c #}\nb", "a {#- c -#} b", "{{ n }}\n{{ s }}\n", "  {{ n }}  \n", "{{- n -}}  x",
    "x  {{- n -}}  \n y", "{% raw %}{{ n }} {% if %}{% endraw %}", "{%- raw -%} {{ n }} {%- endraw -%} x", "{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}",
    "{% for x in xs %}{{ x }}{% endfor %}", "{% for x in [] %}a{% else %}b{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in xs if x > 1 %}{{ x }}/{{ loop.length }} {% endfor %}", "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for a in xs %}{% for b in xs %}{{ loop.depth }}{% endfor %}{% endfor %}",
    "{% for c in s %}[{{ c }}]{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in nil %}{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in xs %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = xs %}", "{% set x %}a{{ n }}b{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set d.x = 1 %}", "{% set ns.x = 1 %}", "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c=5) }}|{{ m(b=1, a=2) }}|{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% set x = 5 %}{% macro m() %}{{ x }}{% set x = 6 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ m() }}", "{% macro m() %} a {% endmacro %}[{{ m() | trim }}]{{ m() == ' a ' }}",
    "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{{ n }}{% endcall %}", "{% macro w(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b) w(1) %}{{ a }}{{ b }}{% endcall %}",
    "{% filter upper %}ab{{ s }}{% endfilter %}", "{% filter replace('a', 'b') %}banana{% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% generation %}x{{ n }}{% endgeneration %}",
    "{% for m in rows %}{% if loop.first and m.on %}F{% endif %}{{ rows[loop.index0 - 1].n }}{% endfor %}", "{% for m in rows[::-1] %}{{ loop.index0 }}{{ m.n }}{% endfor %}",
    "{% if not x is defined %}{% set x = 4 %}{% endif %}{{ x }}", "{% for i in xs %}{% set q = i %}{% endfor %}{{ q is defined }}", "{% break %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% block b %}x{% endblock %}{% endblock %}",
    "{% if %}{% endif %}", "{% if t %}", "{% endif %}", "{% for x xs %}{% endfor %}", "{% unknown %}", "{{ n", "{% if t ", "{# open", "{{ }}", "{% set %}", "{{ 'a' if }}", "}} %} #} { % {", "{", "{%", "", "\n", "\n\n", "a\r\nb\rc\n", "{{ 'a\r\nb' }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}", "{% for x in xs %}\n  {{ x }}\n{% endfor %}\nend", "{%- for x in xs %}\n  {{- x }}\n{%- endfor %}\nend", "{% for x in xs -%}\n  {{ x }}\n{%- endfor %}",
    "{% if t %}{# c #}\n{% endif %}\n x", "{{ n }}{# c #}\n\nx", "a{% if t %} \n b{% endif %}", "\t{% if t %}\tb{% endif %}", "a\n{%- if t %}\nb{% endif %}", "{% set x = {'a': [1, {'b': 2}]} %}{{ x.a[1].b }}", "{{ {'}}': '%}'}['}}'] }}",
    "{% for x in xs %}{% for y in ws %}{% if y == 'A' %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{% endfor %}", "{% set l = [] %}{% set l = l + [1] %}{{ l }}", "{% if d.b == 1 and (d.a is sequence) %}y{% endif %}",
    "{%- macro a() -%} x {%- endmacro -%} {{- a() -}} {{ a() }}", "{% if t %}\n\n\nx{% endif %}", "{% set x = 'a' if t else 'b' %}{{ x }}", "{% set x = n, %}{{ x }}", "{{ n, s }}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for (a, b) in d.items() %}{{ a }}{% endfor %}",
]


def templates():
    for expression in expressions():
        yield "{{ " + expression + " }}"
    yield from STATEMENTS
