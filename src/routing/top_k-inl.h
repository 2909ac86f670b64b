// The k best of the candidates offered, ascending ids: a sorted list of composites, the code above and the
// complement of the id below, so that one comparison of integers is the whole ranking rule. Included like
// gate_math-inl.h, by each instruction set for itself.

class BestList {
 public:
  explicit BestList(int k) : k_(k) {}

  void offer(std::uint32_t code, int id) {
    const std::uint64_t candidate =
        (std::uint64_t{code} << 32) | (0xffffffffU - static_cast<std::uint32_t>(id));
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
