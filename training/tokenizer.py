"""Trains the storyteller's tokenizer and turns the corpus into token ids.

    python tokenizer.py train  CORPUS.txt.xz MODEL_DIR
    python tokenizer.py encode MODEL_DIR CORPUS.txt.xz OUT.npy

The tokenizer is GLM's in small: byte-level BPE, the same split pattern, no normaliser,
`ignore_merges`, 4096 entries. The only special token is `<|endoftext|>`, which separates books in
the corpus and serves as end-of-sequence and padding. Tokens are stored as uint16.
"""

import argparse
import json
import lzma
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

EOT = "<|endoftext|>"
VOCAB_SIZE = 4096

# The pattern of Llama 3 and GLM-4/5: contractions, words, numbers of up to three digits,
# punctuation with its line ends, white space.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

# A base model has no turns to mark: the messages simply become one text, which the model continues.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ message['content'] }}"
    "{%- if not loop.last -%}{{ '\\n\\n' }}{%- endif -%}"
    "{%- endfor -%}"
)


def read_books(path):
    """The books of a corpus file, without the separator lines between them."""
    opener = lzma.open if str(path).endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        text = file.read()
    books = (book.strip("\n") for book in text.split(EOT))
    return [book for book in books if book]


def paragraphs(books):
    """Pieces for the trainer; it counts words, so only paragraph ends must stay intact."""
    for book in books:
        for part in book.split("\n\n"):
            yield part + "\n\n"


def train(corpus, model_dir):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[EOT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(paragraphs(read_books(corpus)), trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE and tokenizer.token_to_id(EOT) == 0

    model_dir.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(model_dir / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOT,
        "pad_token": EOT,
        "bos_token": None,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": CHAT_TEMPLATE,
    }
    (model_dir / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def encode_books(tokenizer, books):
    """One array for all books; each begins with the separator, which the model learns as a start."""
    ids = []
    for encoding in tokenizer.encode_batch(books):
        ids.append(np.asarray([0] + encoding.ids, dtype=np.uint16))
    return np.concatenate(ids)


def encode(model_dir, corpus, out):
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    books = read_books(corpus)
    ids = encode_books(tokenizer, books)
    np.save(out, ids)
    size = sum(len(book.encode()) for book in books)
    print(f"{len(books)} books, {size} bytes, {len(ids)} tokens, {size / len(ids):.3f} bytes per token")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    command.add_argument("corpus", type=Path)
    command.add_argument("model_dir", type=Path)
    command = commands.add_parser("encode")
    command.add_argument("model_dir", type=Path)
    command.add_argument("corpus", type=Path)
    command.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.command == "train":
        train(args.corpus, args.model_dir)
    else:
        encode(args.model_dir, args.corpus, args.out)


if __name__ == "__main__":
    main()
