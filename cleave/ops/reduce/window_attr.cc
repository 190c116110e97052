#include "cleave/ops/reduce/window_attr.h"

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

constexpr int64_t kMostEntry = int64_t{1} << 40;

}  // namespace

std::vector<int64_t> window_entries(const Node& node, const char* name, size_t count,
                                    int64_t fallback) {
  std::vector<int64_t> values = node.attrs.get_ints_or_empty(name);
  if (const Attribute* attribute = node.attrs.find(name);
      attribute && attribute->as<ElementsAttr>()) {
    const Type& type = attribute->as<ElementsAttr>()->literal.type;
    const bool pairs = std::string_view(name) == "padding";
    require(type.rank() == (pairs ? 2 : 1) && (!pairs || values.empty() || type.shape[1] == 2),
            node, "{} must be {}, got {}", name, pairs ? "an n x 2 matrix" : "a list",
            to_string(type));
  }
  if (values.empty()) values.assign(count, fallback);
  require(values.size() == count, node, "{} {} must have {} entries", name, ints_text(values),
          count);
  for (int64_t value : values)
    require(value >= -kMostEntry && value <= kMostEntry, node, "{} {} is out of range", name,
            ints_text(values));
  return values;
}

std::vector<int64_t> positive_window_entries(const Node& node, const char* name, size_t count) {
  std::vector<int64_t> values = window_entries(node, name, count, 1);
  for (int64_t value : values)
    require(value > 0, node, "{} {} must be positive", name, ints_text(values));
  return values;
}

Window window_of(const Node& node, size_t rank) {
  auto positive = [&](const char* name) { return positive_window_entries(node, name, rank); };
  require(rank == 0 || node.attrs.has("window_dimensions"), node, "window_dimensions is missing");
  const auto size = positive("window_dimensions"), stride = positive("window_strides");
  const auto base = positive("base_dilations"), dilation = positive("window_dilations");
  const auto padding = window_entries(node, "padding", 2 * rank, 0);
  Window window;
  for (size_t d = 0; d < rank; ++d)
    window.dims.push_back(
        {size[d], stride[d], base[d], dilation[d], padding[2 * d], padding[2 * d + 1]});
  return window;
}

bool is_trivial(const Window::Dim& dim) {
  return dim.size == 1 && dim.stride == 1 && dim.low == 0 && dim.high == 0;
}

}  // namespace cleave
