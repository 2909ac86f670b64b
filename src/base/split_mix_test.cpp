#include "base/split_mix.h"

#include <gtest/gtest.h>

namespace tagalong::base {
namespace {

// The first numbers of seed 1234567, as the generator's authors publish them.
TEST(SplitMix64, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  for (const std::uint64_t expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                       4593380528125082431U, 16408922859458223821U}) {
    EXPECT_EQ(random.next(), expected);
  }
}

}  // namespace
}  // namespace tagalong::base
