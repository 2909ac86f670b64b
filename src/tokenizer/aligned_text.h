// Text on its way through normaliser and pre-tokenizer, which still knows the bytes that it came from.
//
// Built and read by one thread. Ranges are bytes of the original text. The alignment is kept only when asked
// for, because most callers want ids alone.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tokenizer {

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

enum class Alignment { none, kept };

class AlignedText {
 public:
  // A view of the original from `base` on; `text` must outlive this object.
  AlignedText(std::string_view text, std::size_t base, Alignment alignment)
      : view_(text), base_(base), alignment_(alignment) {}

  std::string_view view() const { return rewritten_ ? std::string_view(owned_) : view_; }
  Alignment alignment() const { return alignment_; }
  // Where the text begins in the original.
  std::size_t base() const { return base_; }
  // Where a non-empty range of view() came from. Meaningless once rewritten with Alignment::none.
  TextRange origin(std::size_t begin, std::size_t end) const {
    if (!rewritten_) return {base_ + begin, base_ + end};
    if (map_.empty()) return {};
    return {map_[begin].begin, map_[end - 1].end};
  }

  // Builds the next state of a text from the present one, front to back.
  class Rewriter {
   public:
    explicit Rewriter(AlignedText& text) : text_(text) {}
    void keep(std::size_t begin, std::size_t end) {
      out_ += text_.view().substr(begin, end - begin);
      if (text_.alignment_ == Alignment::none) return;
      for (std::size_t i = begin; i < end; ++i) map_.push_back(text_.origin(i, i + 1));
    }
    // `by` stands for the range [begin, end), which may be empty.
    void replace(std::size_t begin, std::size_t end, std::string_view by) {
      out_ += by;
      if (text_.alignment_ == Alignment::none) return;
      map_.insert(map_.end(), by.size(), begin < end ? text_.origin(begin, end) : place(begin));
    }
    void replace_at(TextRange origin, std::string_view by) {
      out_ += by;
      if (text_.alignment_ == Alignment::kept) map_.insert(map_.end(), by.size(), origin);
    }
    void finish() {
      text_.owned_ = std::move(out_);
      text_.map_ = std::move(map_);
      text_.rewritten_ = true;
    }

   private:
    // The empty range in front of byte `at`.
    TextRange place(std::size_t at) const {
      const std::size_t size = text_.view().size();
      if (size == 0) return {text_.base_, text_.base_};
      const std::size_t point = at < size ? text_.origin(at, at + 1).begin : text_.origin(size - 1, size).end;
      return {point, point};
    }

    AlignedText& text_;
    std::string out_;
    std::vector<TextRange> map_;
  };

 private:
  std::string_view view_;
  std::size_t base_;
  Alignment alignment_;
  bool rewritten_ = false;
  std::string owned_;
  std::vector<TextRange> map_;  // for each byte of owned_, if the alignment is kept
};

// Part of an AlignedText, as the pre-tokenizer cuts it. Never empty.
struct Piece {
  const AlignedText* source;
  std::string_view text;  // inside source->view()

  std::size_t offset() const { return static_cast<std::size_t>(text.data() - source->view().data()); }
  TextRange origin(std::size_t begin, std::size_t end) const {
    return source->origin(offset() + begin, offset() + end);
  }
};

// The pieces of one text, and the texts that were rewritten on the way.
struct PieceList {
  std::vector<Piece> pieces;
  std::deque<AlignedText> rewritten;  // addresses stay
};

}  // namespace tagalong::tokenizer
