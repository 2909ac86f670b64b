"""Random strings that are hard on tokenizers. Deterministic for a seed."""
import random
import unicodedata

WORDS = """the a of and to in is you that it he was for on are as with his they I at be this have from or one had by
word but not what all were we when your can said there use an each which she do how their if will up other about out
many then them these so some her would make like him into time has look two more write go see number no way could
people my than first water been call who oil its now find long down day did get come made may part routing expert
gate tokens kernel quantisation reproducible Übergröße naïve façade coöperate résumé Straße ångström œuvre""".split()
CODE = [
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n",
    "def f(x, *, y=None):\n    return {k: v for k, v in x.items() if k != y}\n",
    "SELECT COUNT(*) FROM t WHERE a >= 10 AND b LIKE '%x%';",
    "<div class=\"a b\">\n  <p>it's</p>\n</div>\r\n",
    "#include <vector>\nusing namespace std; // TODO(x): 100%\n",
    "{\"a\": [1, 2.5e-10, null], \"b\": {\"c\": \"\\u00e9\"}}",
    "fn main() -> Result<(), Box<dyn Error>> { println!(\"{:?}\", 0xFF_u8); Ok(()) }",
    "https://example.org/a/b?c=d&e=%20f#g  user@example.org  C:\\dir\\file.txt",
    "if __name__ == '__main__':\n\n\n        main()\n    \n",
    "$x^2 + \\frac{1}{2} \\le \\sum_{i=0}^{\\infty} a_i$",
]
TAILS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Re", "'\u017f", "\u2019s", "'", "''s", "'x"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2009", "\u200b", "\u180e",
          "\x0b", "\x0c", "\x85", "\u2028", "\ufeff", "\r", "        ", "\x1c", "\x00"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "🫠", "1️⃣", "☃", "♾️"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x531, 0x5FF), (0x600, 0x7FF), (0x900, 0xDFF),
          (0xE00, 0xFFF), (0x1000, 0x11FF), (0x1200, 0x1AFF), (0x1B00, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x2FFF),
          (0x3000, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFAFF), (0xFB00, 0xFFFD),
          (0x10000, 0x11FFF), (0x12000, 0x16FFF), (0x1B000, 0x1D7FF), (0x1E000, 0x1FAFF), (0x20000, 0x33FFF),
          (0xE0000, 0xE01FF), (0x10FF00, 0x10FFFF)]
MARKS = [0x300, 0x301, 0x302, 0x303, 0x308, 0x30A, 0x323, 0x327, 0x328, 0x334, 0x338, 0x345, 0x5B0, 0x64B, 0x93C, 0x9BE,
         0x3099, 0x309A, 0x1161, 0x1175, 0x11A8, 0x11C2, 0x20D0, 0xFE0F, 0x1DF6, 0x1D165, 0x11930]
BASES = "aAeEiIoOuUcCnNsSyYzZ가각ᄀᄒかはカハωΑअকகഎ中😀" + "Åﬁ①½²ΩﬀǅÅ̈"


def _letters(r):
    low, high = r.choice(BLOCKS)
    return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 12)))


def _marks(r):
    return "".join(r.choice(BASES) + "".join(chr(r.choice(MARKS)) for _ in range(r.randint(0, 3)))
                   for _ in range(r.randint(1, 8)))


def _word(r):
    word = r.choice(WORDS)
    case = r.random()
    if case < 0.1:
        word = word.upper()
    elif case < 0.25:
        word = word.capitalize()
    elif case < 0.3:
        word += r.choice(WORDS).capitalize()
    return word + (r.choice(TAILS) if r.random() < 0.15 else "")


def _prose(r):
    return "".join(_word(r) + r.choice([" "] * 8 + [", ", ". ", "; ", "—", " (", ") ", "\n"])
                   for _ in range(r.randint(1, 15)))


def _number(r):
    text = str(r.randint(0, 10 ** r.randint(1, 18)))
    return r.choice([text, "-" + text, text + ".5", "1,000,000", "٣٤٥", "Ⅻ", "½²", "१२३", text + "px", "v" + text])


def _run(r):
    unit = r.choice(["a", " ", "\n", "=", "-", "é", "中", "0", "😀", "ab", "A", "\u0301", ".", "/", "\t", "か", "'s", "Aa"])
    return unit * r.randint(2, 120)


def _mixed(r):
    return "".join(r.choice([_word, _number, _letters, lambda q: q.choice(SPACES), lambda q: q.choice(EMOJI),
                             lambda q: chr(q.randint(0, 0x7F))])(r) for _ in range(r.randint(2, 10)))


def _code(r):
    text = r.choice(CODE)
    cut = r.randint(0, len(text))
    return text[cut:] + text[:cut] if r.random() < 0.5 else text


def _any(r):
    text = ""
    for _ in range(r.randint(1, 10)):
        c = r.randint(0, 0x10FFFF)
        text += chr(c) if not 0xD800 <= c < 0xE000 else "x"
    return text


def generate(seed, count):
    """`count` strings. The first ones walk once through every assigned character outside the large blocks."""
    r = random.Random(seed)
    result = ["", " ", "\n", "a", "\x00", "\ufffd"]
    walk = [chr(c) for c in list(range(0x3400)) + list(range(0xA000, 0xAC00)) + list(range(0xF900, 0x17000))
            + list(range(0x1AFF0, 0x1FBFF)) if not 0xD800 <= c < 0xF900 and unicodedata.category(chr(c)) != "Co"]
    if count > 10000:
        for start in range(0, len(walk), 40):
            part = walk[start : start + 40]
            result.append(r.choice(["", " "]).join(c + r.choice(["", "", "a", "B", "1", " "]) for c in part))
    kinds = [_letters, _marks, _prose, _prose, _number, _run, _mixed, _mixed, _code, _any]
    while len(result) < count:
        text = r.choice(kinds)(r)
        if r.random() < 0.3:
            text = r.choice(SPACES) + text
        if r.random() < 0.3:
            text += r.choice(SPACES)
        result.append(text)
    return result


def around(token):
    """A token in the text. The C++ test makes the same strings."""
    return [token, "a" + token + "b", " " + token + " ", token + token, token[:-1], "é\n" + token + "\u0301",
            token[1:] + token]
