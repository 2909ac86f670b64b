#include "ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace tagalong::tools {

namespace {

constexpr int kRounds = 200'000;

double seconds_of(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Ceilings::Ceilings(const kernels::Kernels& kernels, base::ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      arena_(base::Pages::kHuge, pool.crews()),
      parts_(static_cast<std::size_t>(pool.size())),
      part_bytes_(kBytes / parts_.size() / 256 * 256) {
  pool_.run(pool_.size(), [&](int part, int worker) {
    void* data = arena_.allocate(part_bytes_, pool_.crews().crew_of(worker));
    std::memset(data, 0, part_bytes_);  // reading what was never written would read one page of zeros
    parts_[part] = static_cast<std::byte*>(data);
  });
}

double Ceilings::sample_bandwidth() {
  std::atomic<std::uint32_t> bits = 0;
  const double reading = seconds_of([&] {
    pool_.run(pool_.size(), [&](int part, int) { bits |= kernels_.read_stream(parts_[part], part_bytes_); });
  });
  CHECK(bits == 0, "the buffer is zero, {:x} was read", bits.load());
  bandwidths_.push_back(static_cast<double>(part_bytes_) * pool_.size() / reading);
  return bandwidths_.back();
}

void Ceilings::sample() {
  sample_bandwidth();
  std::atomic<std::int64_t> products = 0;
  const double multiplying = seconds_of(
      [&] { pool_.run(pool_.size(), [&](int, int) { products += kernels_.multiply_peak(kRounds); }); });
  rates_.push_back(static_cast<double>(products.load()) / multiplying);
}

double Ceilings::bytes_per_second() const { return median(bandwidths_); }
double Ceilings::products_per_second() const { return median(rates_); }

double median(std::vector<double> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tagalong::tools
