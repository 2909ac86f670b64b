#include "nn/slot_choice.h"

#include <array>
#include <bit>

namespace tagalong::nn {

namespace {

// Ranks scores as unsigned integers, NaN below every number.
std::uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  // All ones for negative numbers, whose order is turned over; without a branch, which would be taken at
  // random.
  const std::uint32_t sign = 0U - (bits >> 31);
  const std::uint32_t rank = bits ^ (sign | 0x80000000U);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0 : rank;
}

}  // namespace

// Finds the rank of the k-th best digit by digit, from the greatest down, by counting the positions of each
// digit; then one walk takes what is above it, and of its equals the first ones. Nothing is sorted.
void choose_slots(const float* scores, int count, int k, const std::int32_t* slots, std::int32_t* out) {
  constexpr std::array<int, 3> kShifts{21, 10, 0};  // digits of 11, 11 and 10 bits
  std::uint32_t threshold = 0;
  std::uint32_t known = 0;  // mask of the digits found
  int wanted = k;           // of those that agree with the threshold so far
  for (const int shift : kShifts) {
    std::array<std::int32_t, 2048> counts{};
    const std::uint32_t digits = shift == 0 ? 0x3FFU : 0x7FFU;
    for (int s = 0; s < count; ++s) {
      const std::uint32_t rank = rank_of(scores[s]);
      if ((rank & known) == threshold) ++counts[(rank >> shift) & digits];
    }
    std::uint32_t digit = digits;
    while (counts[digit] < wanted) wanted -= counts[digit--];
    threshold |= digit << shift;
    known |= digits << shift;
  }
  for (int s = 0; s < count; ++s) {
    const std::uint32_t rank = rank_of(scores[s]);
    if (rank < threshold || (rank == threshold && wanted-- <= 0)) continue;
    *out++ = slots[s];
  }
}

}  // namespace tagalong::nn
