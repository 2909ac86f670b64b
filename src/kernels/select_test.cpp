#include "kernels/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tagalong::kernels {
namespace {

TEST(Select, TakesScalarWhereTheCpuHasNothingElseAndRefusesWhatItLacks) {
  base::CpuInfo plain;
  plain.name = "Plain";
  EXPECT_EQ(select_kernels("auto", Compute::kFast, plain).name, "scalar");
  for (const char* isa : {"avx2", "avx2_vnni", "avx512_vnni", "avx512"}) {
    try {
      select_kernels(isa, Compute::kAccurate, plain);
      ADD_FAILURE() << isa;
    } catch (const base::InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("instruction set '") + isa + "' needs AVX"));
      EXPECT_THAT(error.what(), testing::HasSubstr("which this CPU (Plain) lacks"));
    }
  }
  base::CpuInfo older = plain;
  older.avx2_fma = true;
  EXPECT_EQ(select_kernels("auto", Compute::kFast, older).name, "avx2");
  older.avx512 = older.avx512_vnni = true;  // as before VBMI
  EXPECT_EQ(select_kernels("auto", Compute::kFast, older).name, "avx512_vnni");
  EXPECT_THROW(select_kernels("avx512", Compute::kFast, older), base::InputError);
}

}  // namespace
}  // namespace tagalong::kernels
