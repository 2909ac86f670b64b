#include "tokenizer/pre_tokenizer.h"

#include <utility>
#include <vector>

#include "tokenizer/split.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Calls cut_one(piece, pieces) for each piece; it appends to the new list.
template <typename CutOne>
void cut_each(PieceList& list, CutOne&& cut_one) {
  std::vector<Piece> finer;
  finer.reserve(list.pieces.size());
  for (const Piece& piece : list.pieces) cut_one(piece, finer);
  list.pieces = std::move(finer);
}

// A copy of the piece that may be rewritten; it stays in the list.
AlignedText& own(PieceList& list, const Piece& piece) {
  const Alignment alignment = piece.source->alignment();
  const TextRange origin = piece.origin(0, piece.text.size());
  AlignedText& copy = list.rewritten.emplace_back(piece.text, origin.begin, alignment);
  if (alignment == Alignment::none) return copy;
  // The source may be rewritten itself: each byte keeps its own origin.
  AlignedText::Rewriter out(copy);
  for (std::size_t i = 0; i < piece.text.size(); ++i)
    out.replace_at(piece.origin(i, i + 1), piece.text.substr(i, 1));
  out.finish();
  return copy;
}

class Split : public PreTokenizer {
 public:
  explicit Split(const JsonView& json)
      : behavior_(parse_behavior(json.at("behavior"))), invert_(json.boolean("invert", false)) {
    const JsonView pattern = json.at("pattern");
    if (const auto literal = pattern.find("String")) {
      splitter_ = literal_splitter(literal->string(), literal->path());
    } else {
      const JsonView regex = pattern.at("Regex");
      splitter_ = regex_splitter(regex.string(), regex.path());
    }
  }
  Split(std::unique_ptr<Splitter> splitter, SplitBehavior behavior)
      : splitter_(std::move(splitter)), behavior_(behavior), invert_(false) {}

  void cut(PieceList& list) const override {
    std::vector<Fragment> fragments;
    cut_each(list, [&](const Piece& piece, std::vector<Piece>& out) {
      fragments.clear();
      splitter_->find(piece.text, fragments);
      if (invert_) {
        for (Fragment& fragment : fragments) fragment.match = !fragment.match;
      }
      apply_behavior(behavior_, fragments);
      for (const Fragment& f : fragments) {
        if (f.begin < f.end) out.push_back({piece.source, piece.text.substr(f.begin, f.end - f.begin)});
      }
    });
  }

 private:
  std::unique_ptr<Splitter> splitter_;
  SplitBehavior behavior_;
  bool invert_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void cut(PieceList& list) const override {
    for (Piece& piece : list.pieces) {
      if (piece.text.starts_with(' ')) continue;
      AlignedText& text = own(list, piece);
      const std::size_t size = text.view().size();
      AlignedText::Rewriter out(text);
      out.replace(0, code_point_at(text.view(), 0).length, " ");
      out.keep(0, size);
      out.finish();
      piece = {&text, text.view()};
    }
  }
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonView& json) : replacement_(json.string("replacement")) {
    if (replacement_.empty() || code_point_at(replacement_, 0).length != replacement_.size()) {
      throw base::input_error("{}.replacement: expected one character", json.path());
    }
    const auto scheme = json.find("prepend_scheme");
    const std::string_view name = scheme                                   ? scheme->string()
                                  : json.boolean("add_prefix_space", true) ? "always"
                                                                           : "never";
    if (name != "always" && name != "first" && name != "never") {
      throw base::input_error("{}.prepend_scheme: unknown scheme \"{}\"", json.path(), name);
    }
    always_ = name == "always";
    first_ = name == "first";
    if (json.boolean("split", true))
      splitter_.emplace(literal_splitter(replacement_, json.path()), SplitBehavior::merged_with_next);
  }

  void cut(PieceList& list) const override {
    for (Piece& piece : list.pieces) {
      AlignedText& text = own(list, piece);
      const std::string_view view = text.view();
      AlignedText::Rewriter out(text);
      const bool starts = view.starts_with(replacement_) || view.starts_with(' ');
      // The reference asks whether the piece is the first of the whole text, not of its segment.
      if (!starts && (always_ || (first_ && piece.source->base() == 0 && piece.offset() == 0))) {
        out.replace(0, code_point_at(view, 0).length, replacement_);
      }
      std::size_t kept = 0;
      for (std::size_t at = view.find(' '); at != view.npos; at = view.find(' ', kept)) {
        out.keep(kept, at);
        out.replace(at, at + 1, replacement_);
        kept = at + 1;
      }
      out.keep(kept, view.size());
      out.finish();
      piece = {&text, text.view()};
    }
    if (splitter_) splitter_->cut(list);
  }

 private:
  std::string replacement_;
  bool always_ = false;
  bool first_ = false;
  std::optional<Split> splitter_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void cut(PieceList& list) const override {
    for (const auto& part : parts_) part->cut(list);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

class Parser {
 public:
  explicit Parser(std::vector<std::unique_ptr<PreTokenizer>>& parts) : parts_(parts) {}

  void parse(const JsonView& json, int depth) {
    if (depth > kMaxDepth) throw base::input_error("{}: nested deeper than {}", json.path(), kMaxDepth);
    const std::string_view type = json.string("type");
    if (type == "Sequence") {
      json.at("pretokenizers").for_each([&](const JsonView& part) { parse(part, depth + 1); });
      return;
    }
    // What follows would see the byte alphabet instead of the text.
    if (byte_level) throw base::input_error("{}: \"{}\" after ByteLevel is not supported", json.path(), type);
    if (type == "ByteLevel") {
      byte_level = true;
      if (json.boolean("add_prefix_space", true)) parts_.push_back(std::make_unique<PrefixSpace>());
      if (json.boolean("use_regex", true)) {
        parts_.push_back(
            std::make_unique<Split>(regex_splitter(kGpt2Pattern, json.path()), SplitBehavior::isolated));
      }
    } else if (type == "Split") {
      parts_.push_back(std::make_unique<Split>(json));
    } else if (type == "Digits") {
      const bool individual = json.boolean("individual_digits", false);
      parts_.push_back(std::make_unique<Split>(
          class_splitter(kNumbers), individual ? SplitBehavior::isolated : SplitBehavior::contiguous));
    } else if (type == "WhitespaceSplit") {
      parts_.push_back(std::make_unique<Split>(class_splitter(kSpaces), SplitBehavior::removed));
    } else if (type == "Metaspace") {
      parts_.push_back(std::make_unique<Metaspace>(json));
    } else {
      throw base::input_error("{}: unknown pre_tokenizer \"{}\"", json.path(), type);
    }
  }

  bool byte_level = false;

 private:
  std::vector<std::unique_ptr<PreTokenizer>>& parts_;
};

}  // namespace

PreTokenizer::Parsed PreTokenizer::parse(const std::optional<JsonView>& json) {
  if (!json) return {};
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  Parser parser(parts);
  parser.parse(*json, 0);
  return {std::make_unique<Sequence>(std::move(parts)), parser.byte_level};
}

}  // namespace tagalong::tokenizer
