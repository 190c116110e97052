#include "cleave/ops/conv_attr.h"

#include <cctype>
#include <string>
#include <string_view>

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// One group of "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]": letters by position, numbers by value.
struct Labels {
  int64_t batch = -1, feature = -1, input = -1, output = -1;
  std::vector<int64_t> spatial;
};

Labels parse_labels(const Node& node, std::string_view& text) {
  const size_t open = text.find('['), close = text.find(']');
  require(open != text.npos && close != text.npos && open < close, node,
          "dimension_numbers must look like [b, 0, f]x[0, i, o]->[b, 0, f]");
  Labels labels;
  std::vector<std::pair<int64_t, int64_t>> spatial;
  int64_t position = 0;
  for (size_t i = open + 1; i < close; ++i) {
    const char c = text[i];
    if (c == 'b') labels.batch = position++;
    if (c == 'f') labels.feature = position++;
    if (c == 'i') labels.input = position++;
    if (c == 'o') labels.output = position++;
    if (c == '?') ++position;
    if (std::isdigit(static_cast<unsigned char>(c))) spatial.emplace_back(c - '0', position++);
  }
  labels.spatial.assign(spatial.size(), -1);
  for (auto [number, at] : spatial)
    if (number < static_cast<int64_t>(spatial.size())) labels.spatial[number] = at;
  text.remove_prefix(close + 1);
  return labels;
}

ConvDims from_text(const Node& node, std::string_view text) {
  const Labels input = parse_labels(node, text), kernel = parse_labels(node, text),
               output = parse_labels(node, text);
  return {input.batch,    input.feature, input.spatial,  kernel.input,  kernel.output,
          kernel.spatial, output.batch,  output.feature, output.spatial};
}

}  // namespace

ConvDims conv_dims(const Node& node) {
  const Attribute* attribute = node.attrs.find("dimension_numbers");
  require(attribute != nullptr, node, "attribute 'dimension_numbers' (#stablehlo.conv) is missing");
  if (auto* text = attribute->as<OpaqueAttr>()) return from_text(node, text->text);
  const StructAttr* numbers = attribute->as<StructAttr>();
  require(numbers != nullptr, node, "attribute 'dimension_numbers' must be #stablehlo.conv");
  return {numbers->get_int("input_batch_dimension", -1),
          numbers->get_int("input_feature_dimension", -1),
          numbers->get_ints_or_empty("input_spatial_dimensions"),
          numbers->get_int("kernel_input_feature_dimension", -1),
          numbers->get_int("kernel_output_feature_dimension", -1),
          numbers->get_ints_or_empty("kernel_spatial_dimensions"),
          numbers->get_int("output_batch_dimension", -1),
          numbers->get_int("output_feature_dimension", -1),
          numbers->get_ints_or_empty("output_spatial_dimensions")};
}

ConvWindow conv_window(const Node& node, const ConvDims& dims, const Shape& kernel) {
  const size_t spatial = dims.kernel_spatial.size();
  auto entries = [&](const char* name, size_t count, int64_t fallback) {
    std::vector<int64_t> values = node.attrs.get_ints_or_empty(name);
    if (values.empty()) values.assign(count, fallback);
    require(values.size() == count, node, "{} {} must have {} entries", name, ints_text(values),
            count);
    return values;
  };
  auto positive = [&](const char* name) {
    std::vector<int64_t> values = entries(name, spatial, 1);
    for (int64_t value : values)
      require(value > 0, node, "{} {} must be positive", name, ints_text(values));
    return values;
  };
  const auto stride = positive("window_strides"), base = positive("lhs_dilation");
  const auto dilation = positive("rhs_dilation");
  const auto padding = entries("padding", 2 * spatial, 0);
  const auto reversal = entries("window_reversal", spatial, 0);
  ConvWindow window;
  for (size_t i = 0; i < spatial; ++i) {
    window.window.dims.push_back({kernel[dims.kernel_spatial[i]], stride[i], base[i], dilation[i],
                                  padding[2 * i], padding[2 * i + 1]});
    window.reversed.push_back(reversal[i] != 0);
  }
  window.feature_groups = node.attrs.get_int("feature_group_count", 1);
  window.batch_groups = node.attrs.get_int("batch_group_count", 1);
  return window;
}

}  // namespace cleave
