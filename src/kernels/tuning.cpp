#include "kernels/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <system_error>

#include "base/error.h"

namespace tagalong::kernels {

namespace {

struct Field {
  std::string_view name;
  int Tuning::*value;
  int least;
  int most;
};

constexpr std::array kFields{
    Field{"row_tile", &Tuning::row_tile, 1, kMaxRows},
    Field{"activate_tiles", &Tuning::activate_tiles, 1, kMaxTaskTiles},
    Field{"project_tiles", &Tuning::project_tiles, 0, kMaxTaskTiles},
    Field{"activate_workers", &Tuning::activate_workers, 0, kMaxTuningWorkers},
    Field{"project_workers", &Tuning::project_workers, 0, kMaxTuningWorkers},
    Field{"prefetch", &Tuning::prefetch, 0, kMaxPrefetch},
    Field{"attention_tasks", &Tuning::attention_tasks, 1, kMaxAttentionTasks},
};

constexpr std::string_view kSchedule = "schedule";
constexpr std::string_view kStatic = "static";
constexpr std::string_view kStealing = "stealing";
constexpr std::string_view kDefaults = "default";

void set(Tuning& tuning, std::string_view name, std::string_view value, std::string_view text) {
  if (name == kSchedule) {
    if (value != kStatic && value != kStealing) {
      throw base::input_error("tuning '{}': schedule is '{}', expected static or stealing", text, value);
    }
    tuning.schedule = value == kStatic ? base::Schedule::kStatic : base::Schedule::kStealing;
    return;
  }
  const auto field =
      std::find_if(kFields.begin(), kFields.end(), [name](const Field& f) { return f.name == name; });
  if (field == kFields.end()) {
    std::string names(kSchedule);
    for (const Field& known : kFields) names += ", " + std::string(known.name);
    throw base::input_error("tuning '{}': no setting '{}'; known: {}", text, name, names);
  }
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < field->least ||
      number > field->most) {
    throw base::input_error("tuning '{}': {} is '{}', expected {} to {}", text, name, value, field->least,
                            field->most);
  }
  tuning.*(field->value) = number;
}

}  // namespace

std::string to_string(const Tuning& tuning) {
  const Tuning defaults;
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  };
  if (tuning.schedule != defaults.schedule) {
    add(kSchedule, tuning.schedule == base::Schedule::kStatic ? kStatic : kStealing);
  }
  for (const Field& field : kFields) {
    if (tuning.*(field.value) != defaults.*(field.value)) add(field.name, tuning.*(field.value));
  }
  return text.empty() ? std::string(kDefaults) : text;
}

Tuning parse_tuning(std::string_view text) {
  Tuning tuning;
  if (text == kDefaults) return tuning;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw base::input_error("tuning '{}': '{}' is not NAME=VALUE", text, item);
    }
    set(tuning, item.substr(0, equals), item.substr(equals + 1), text);
    begin = end + 1;
  }
  return tuning;
}

int TuningTable::bucket_of(int rows) {
  return std::min(kBuckets, static_cast<int>(std::bit_width(static_cast<unsigned>(rows)))) - 1;
}

}  // namespace tagalong::kernels
