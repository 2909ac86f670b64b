"""Writes the opening pages of each held-out book as plain text, for users to measure with.

    python excerpts.py VALID.txt.xz MODEL_DIR/eval
"""

import argparse
from pathlib import Path

from tokenizer import read_books

# In the order of the corpus file.
NAMES = ["the_hound_of_the_baskervilles", "persuasion", "the_wind_in_the_willows", "through_the_looking_glass"]
SIZE = 75_000  # characters, then to the end of the paragraph


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    books = read_books(args.corpus)
    assert len(books) == len(NAMES)
    for name, book in zip(NAMES, books):
        end = book.find("\n\n", SIZE)
        text = book[:end] + "\n"
        (args.folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
        print(f"{name}.txt: {len(text.encode())} bytes: {text[:60]!r}")


if __name__ == "__main__":
    main()
