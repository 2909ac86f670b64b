// What the instruction sets share of top-k. Candidates are composites, the code above and the complement of
// the id below, so that one comparison of integers is the whole ranking rule and no two are equal. Included
// like gate_math-inl.h, by each instruction set for itself.

inline std::uint64_t composite(const std::uint32_t* codes, int id) {
  return (std::uint64_t{codes[id]} << 32) | (0xffffffffU - static_cast<std::uint32_t>(id));
}

// The k best of the candidates offered, as a sorted list.
class BestList {
 public:
  explicit BestList(int k) : k_(k) {}

  void offer(std::uint64_t candidate) {
    if (found_ == k_ && candidate < best_[k_ - 1]) return;
    int at = found_ < k_ ? found_++ : k_ - 1;
    for (; at > 0 && best_[at - 1] < candidate; --at) best_[at] = best_[at - 1];
    best_[at] = candidate;
  }

  int write(std::int32_t* ids) const {
    for (int i = 0; i < found_; ++i) {
      ids[i] = static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(best_[i]));
    }
    return found_;
  }

 private:
  int k_;
  int found_ = 0;
  std::uint64_t best_[kMaxTopK];  // [found_], best first
};

// The same of hits, the ids whose codes may be among the best, as bits in `words` words.
inline int best_of_hits(const std::uint32_t* codes, const std::uint64_t* hits, int words, int k,
                        std::int32_t* ids) {
  BestList best(k);
  for (int word = 0; word < words; ++word) {
    for (std::uint64_t rest = hits[word]; rest != 0; rest &= rest - 1) {
      best.offer(composite(codes, word * 64 + std::countr_zero(rest)));
    }
  }
  return best.write(ids);
}

// The composites of the hits, ascending ids.
inline void gather_hits(const std::uint32_t* codes, const std::uint64_t* hits, int words,
                        std::uint64_t* candidates) {
  int count = 0;
  for (int word = 0; word < words; ++word) {
    for (std::uint64_t rest = hits[word]; rest != 0; rest &= rest - 1) {
      candidates[count++] = composite(codes, word * 64 + std::countr_zero(rest));
    }
  }
}
