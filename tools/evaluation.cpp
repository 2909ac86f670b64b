#include "evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "engine/log_probability.h"
#include "engine/teacher.h"

namespace tagalong::tools {

namespace {

std::size_t size(int n) { return static_cast<std::size_t>(n); }

std::vector<std::filesystem::path> text_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

EvaluationText read_evaluation(const std::filesystem::path& directory, const tokenizer::Tokenizer& tokenizer,
                               const EvaluationShape& shape) {
  if (!std::filesystem::is_directory(directory)) return {};
  std::vector<std::vector<std::int32_t>> all;  // every whole window
  for (const std::filesystem::path& file : text_files(directory)) {
    const std::vector<std::int32_t> tokens = tokenizer.encode(base::read_text_file(file));
    for (std::size_t begin = 0; begin + size(shape.window()) <= tokens.size();
         begin += size(shape.window())) {
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
      all.emplace_back(first, first + shape.window());
    }
  }
  const std::size_t wanted = size(shape.rows * shape.batches);
  if (all.size() < wanted) {
    throw base::input_error("{}: the texts make {} windows of {} tokens, expected {} or more",
                            directory.string(), all.size(), shape.window(), wanted);
  }
  EvaluationText text;
  for (std::size_t i = 0; i < wanted; ++i) {
    text.windows.push_back(all[i * all.size() / wanted]);
    for (const std::int32_t id : std::span(text.windows.back()).last(size(shape.counted_tokens))) {
      text.bytes += tokenizer.token_bytes(id).size();
    }
  }
  return text;
}

EvaluationResult evaluate(const EvaluationText& text, const EvaluationShape& shape,
                          const EvaluationRun& run) {
  engine::Teacher teacher(
      run.model, run.pool,
      {.sequences = shape.rows, .tokens = shape.window(), .kv_type = run.kv_type, .policy = run.policy});
  const std::size_t vocab = size(run.model.info().vocab);
  EvaluationResult result;
  std::vector<std::int32_t> ids(size(shape.rows));
  std::vector<double> nats(size(shape.rows));  // by row, so that the sum has one order whatever the threads
  for (int batch = 0; batch < shape.batches; ++batch) {
    const auto windows = std::span(text.windows).subspan(size(batch * shape.rows), size(shape.rows));
    teacher.reset();
    // The last token of the prompt is fed as a decode row: the first counted token is then predicted like all
    // others.
    const std::size_t prompt = size(shape.prompt_tokens - 1);
    for (int row = 0; row < shape.rows; ++row)
      teacher.prompt(row, std::span(windows[size(row)]).first(prompt));
    for (std::size_t position = prompt; position + 1 < size(shape.window()); ++position) {
      for (std::size_t row = 0; row < windows.size(); ++row) ids[row] = windows[row][position];
      const std::span<const float> logits = teacher.decode(ids);
      run.pool.run(shape.rows, [&](int task, int) {
        const std::size_t row = size(task);
        nats[row] -= engine::log_probability(logits.subspan(row * vocab, vocab), windows[row][position + 1]);
      });
      result.tokens += windows.size();
      if (run.on_step) run.on_step();
    }
  }
  result.routing = teacher.decode_routing().totals();
  for (const double row : nats) result.bits += row / std::numbers::ln2;
  return result;
}

}  // namespace tagalong::tools
