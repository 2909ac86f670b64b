// Megabytes a second of encoding and decoding. To be run in the source folder, where the bundled model lies.
#include "tokenizer/tokenizer.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "base/mapped_file.h"

namespace tagalong::tokenizer {
namespace {

// Any tokenizer and any text: TAGALONG_BENCH_MODEL (a folder) and TAGALONG_BENCH_TEXT (a file).
const Tokenizer& bench_tokenizer() {
  static const Tokenizer tokenizer = [] {
    const char* folder = std::getenv("TAGALONG_BENCH_MODEL");
    return Tokenizer::load(folder != nullptr ? folder : "models/storyteller");
  }();
  return tokenizer;
}

const std::string& bench_text() {
  static const std::string text = [] {
    const char* file = std::getenv("TAGALONG_BENCH_TEXT");
    if (file != nullptr) return base::read_text_file(file);
    const std::string page =
        "The gate chooses eight of 256 experts for every token; two tokens that choose alike share the "
        "bytes.\n"
        "    if (a[i] >= 10) { total += a[i] * 2.5f; }  // it's cheap\n\nÜber die Brücke 渡る橋 — naïve "
        "café, 12,345 km.\n";
    std::string pages;
    while (pages.size() < (2u << 20)) pages += page;
    return pages;
  }();
  return text;
}

void encode(benchmark::State& state) {
  std::size_t tokens = bench_tokenizer().encode(bench_text()).size();  // loads both outside the measured time
  for (auto _ : state) {
    const auto ids = bench_tokenizer().encode(bench_text());
    tokens = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bench_text().size()));
  state.counters["bytes_per_token"] = static_cast<double>(bench_text().size()) / static_cast<double>(tokens);
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const auto ids = bench_tokenizer().encode(bench_text());
  for (auto _ : state) benchmark::DoNotOptimize(bench_tokenizer().decode(ids));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bench_text().size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

// A run of one character, often one piece: the worst case of byte-pair encoding. The time must be linear.
void encode_run(benchmark::State& state) {
  const std::string text(static_cast<std::size_t>(state.range(0)), static_cast<char>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(bench_tokenizer().encode(text));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(encode_run)
    ->ArgNames({"bytes", "character"})
    ->ArgsProduct({{1 << 16, 1 << 20, 10'000'000}, {'a', ' ', '0', '\n'}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tagalong::tokenizer
