// exact: each row uses its own k best experts.
#include "routing/policy_methods.h"

namespace tagalong::routing {

const PolicyMethod kExactMethod = {
    .kind = PolicyKind::kExact,
    .name = "exact",
    .summary = "each token uses its own k best experts, as the model was trained",
    .needed_keys = {},
    .optional_keys = {},
    .min_rows = 1,
    .shape = PolicyMethod::Shape::kExact,
    .is_exact = [](const PolicyStep&) { return true; },
    .choose = [](const PolicyStep&) {},
    .example = "exact",
    .check = nullptr,
};

}  // namespace tagalong::routing
