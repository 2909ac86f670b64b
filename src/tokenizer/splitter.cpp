#include "tokenizer/splitter.h"

#include "base/error.h"
#include "tokenizer/known_splitters.h"
#include "tokenizer/regex.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

// Puts gaps between matches that come from left to right.
class Fragments {
 public:
  Fragments(std::string_view text, std::vector<Fragment>& out) : size_(text.size()), out_(out) {}
  void match(std::size_t begin, std::size_t end) {
    if (begin > covered_) out_.push_back({covered_, begin, false});
    out_.push_back({begin, end, true});
    covered_ = end;
  }
  void finish() {
    if (covered_ < size_) out_.push_back({covered_, size_, false});
  }

 private:
  std::size_t size_;
  std::size_t covered_ = 0;
  std::vector<Fragment>& out_;
};

class ClassSplitter : public Splitter {
 public:
  explicit ClassSplitter(ClassSet set) : set_(set) {}
  void find(std::string_view text, std::vector<Fragment>& out) const override {
    const CodePointTable& table = CodePointTable::instance();
    Fragments fragments(text, out);
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      if (table.is(c.value, set_)) fragments.match(at, at + c.length);
      at += c.length;
    }
    fragments.finish();
  }

 private:
  ClassSet set_;
};

class LiteralSplitter : public Splitter {
 public:
  explicit LiteralSplitter(std::string_view literal) : literal_(literal) {}
  void find(std::string_view text, std::vector<Fragment>& out) const override {
    Fragments fragments(text, out);
    for (std::size_t at = text.find(literal_); at != text.npos;
         at = text.find(literal_, at + literal_.size())) {
      fragments.match(at, at + literal_.size());
    }
    fragments.finish();
  }

 private:
  std::string literal_;
};

class PcreSplitter : public Splitter {
 public:
  PcreSplitter(std::string_view pattern, std::string_view path) : regex_(pattern, path) {}
  void find(std::string_view text, std::vector<Fragment>& out) const override {
    Fragments fragments(text, out);
    regex_.for_each_match(text, [&](TextRange match) { fragments.match(match.begin, match.end); });
    fragments.finish();
  }

 private:
  Regex regex_;
};

}  // namespace

std::unique_ptr<Splitter> class_splitter(ClassSet set) { return std::make_unique<ClassSplitter>(set); }

std::unique_ptr<Splitter> literal_splitter(std::string_view literal, std::string_view path) {
  if (literal.empty()) throw base::input_error("{}: an empty pattern", path);
  return std::make_unique<LiteralSplitter>(literal);
}

std::unique_ptr<Splitter> pcre_splitter(std::string_view pattern, std::string_view path) {
  return std::make_unique<PcreSplitter>(pattern, path);
}

std::unique_ptr<Splitter> regex_splitter(std::string_view pattern, std::string_view path) {
  if (auto known = known_splitter(pattern)) return known;
  return pcre_splitter(pattern, path);
}

}  // namespace tagalong::tokenizer
