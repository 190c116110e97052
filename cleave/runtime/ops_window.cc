#include "cleave/core/error.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"

// Convolution and pooling.
namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

// For n spatial dimensions: layout, groups, n, then strides, padding, dilation, window.
struct WindowParams {
  bool first = false;
  int64_t groups = 1;
  std::vector<int64_t> strides, padding, dilation, window;

  static std::vector<int64_t> write(std::string_view op, const WindowOptions& options,
                                    size_t spatial, const std::vector<int64_t>& window) {
    auto or_else = [&](const char* what, std::vector<int64_t> values, size_t count,
                       int64_t fallback) {
      if (values.empty()) values.assign(count, fallback);
      if (values.size() != count)
        throw_user("{}: {} has {} entries, {} are needed", op, what, values.size(), count);
      return values;
    };
    std::vector<int64_t> params{options.layout == ImageLayout::ChannelsFirst, options.groups,
                                static_cast<int64_t>(spatial)};
    for (const auto& list :
         {or_else("strides", options.strides, spatial, 1),
          or_else("padding", options.padding, 2 * spatial, 0),
          or_else("dilation", options.dilation, spatial, 1), or_else("window", window, spatial, 1)})
      params.insert(params.end(), list.begin(), list.end());
    return params;
  }

  static WindowParams read(Params params) {
    const int64_t n = params[2];
    auto next = params.begin() + 3;
    auto list = [&](int64_t count) {
      std::vector<int64_t> values(next, next + count);
      next += count;
      return values;
    };
    WindowParams result;
    result.first = params[0];
    result.groups = params[1];
    result.strides = list(n);
    result.padding = list(2 * n);
    result.dilation = list(n);
    result.window = list(n);
    return result;
  }
};

std::vector<int64_t> counted(int64_t from, size_t count) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(from + static_cast<int64_t>(i));
  return values;
}

Values conv_form(GraphBuilder& b, Params params) {
  const WindowParams window = WindowParams::read(params);
  const size_t n = window.strides.size();
  const auto last = static_cast<int64_t>(n) + 1;
  const DType dtype = promote(b.dtype(b.arg(0)), b.dtype(b.arg(1)));
  const bool first = window.first;
  const int64_t feature = first ? 1 : last;
  const std::vector<int64_t> spatial = counted(first ? 2 : 1, n);
  AttrDict attrs;
  attrs.set(kConvDims, conv_dims_attr({0, feature, spatial, first ? 1 : last - 1, first ? 0 : last,
                                       counted(first ? 2 : 0, n), 0, feature, spatial}));
  attrs.set("window_strides", ints_attr(window.strides));
  attrs.set("padding", pairs_attr(window.padding));
  attrs.set("rhs_dilation", ints_attr(window.dilation));
  attrs.set("feature_group_count", int_attr(window.groups));
  attrs.set("batch_group_count", int_attr(1));
  return {b.emit("stablehlo.convolution",
                 {cast_to(b, b.arg(0), dtype), cast_to(b, b.arg(1), dtype)}, std::move(attrs))};
}

ValueId pool(GraphBuilder& b, const WindowParams& window, const char* op, ValueId start) {
  const ValueId x = b.arg(0);
  const DType dtype = b.dtype(x);
  const size_t rank = b.shape(x).size(), offset = window.first ? 2 : 1;
  auto widen = [&](const std::vector<int64_t>& values) {
    std::vector<int64_t> result(rank, 1);
    for (size_t i = 0; i < values.size(); ++i) result[offset + i] = values[i];
    return result;
  };
  std::vector<int64_t> padding(2 * rank, 0);
  for (size_t i = 0; i < window.padding.size(); ++i) padding[2 * offset + i] = window.padding[i];
  AttrDict attrs;
  attrs.set("window_dimensions", ints_attr(widen(window.window)));
  attrs.set("window_strides", ints_attr(widen(window.strides)));
  attrs.set("window_dilations", ints_attr(widen(window.dilation)));
  attrs.set("padding", pairs_attr(padding));
  Shape shape = b.shape(x);
  for (size_t i = 0; i < window.window.size(); ++i) {
    const int64_t covered = (window.window[i] - 1) * window.dilation[i] + 1;
    const int64_t room =
        shape[offset + i] + window.padding[2 * i] + window.padding[2 * i + 1] - covered;
    shape[offset + i] = room < 0 ? 0 : room / window.strides[i] + 1;
  }
  return emit_with_body(b, "stablehlo.reduce_window", {x, start}, {Type::tensor(dtype, shape)},
                        std::move(attrs), {dtype, dtype}, [&](GraphBuilder& r) {
                          r.finish({r.emit(op, {r.arg(0), r.arg(1)})});
                        })[0];
}

size_t spatial_dims(std::string_view op, const Tensor& x, size_t window) {
  if (x.rank() < 3)
    throw_user("{}: tensor<{}> has rank {}; it takes batch, channels and at least one more", op,
               to_string(x.shape()), x.rank());
  if (window != static_cast<size_t>(x.rank() - 2))
    throw_user("{}: tensor<{}> has {} dimensions beside batch and channels, the window has {}", op,
               to_string(x.shape()), x.rank() - 2, window);
  return window;
}

void check_no_groups(std::string_view op, const WindowOptions& options) {
  if (options.groups != 1)
    throw_user("{}: {} groups; only conv has groups, a pool takes each channel by itself", op,
               options.groups);
}

}  // namespace

Tensor conv(const Tensor& x, const Tensor& kernel, const WindowOptions& options) {
  const size_t n =
      spatial_dims("conv", x, kernel.rank() < 2 ? 0 : static_cast<size_t>(kernel.rank() - 2));
  const Tensor operands[] = {x, kernel};
  return record_one(conv_form, WindowParams::write("conv", options, n, {}), operands);
}

Tensor max_pool(const Tensor& x, const std::vector<int64_t>& window, const WindowOptions& options) {
  const size_t n = spatial_dims("max_pool", x, window.size());
  check_no_groups("max_pool", options);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {pool(b, WindowParams::read(params), "stablehlo.maximum",
                     lowest_constant(b, b.dtype(b.arg(0))))};
      },
      WindowParams::write("max_pool", options, n, window), {&x, 1});
}

Tensor avg_pool(const Tensor& x, const std::vector<int64_t>& window, const WindowOptions& options) {
  const size_t n = spatial_dims("avg_pool", x, window.size());
  check_no_groups("avg_pool", options);
  const Tensor real = is_float(x.dtype()) || is_complex(x.dtype()) ? x : cast(x, DType::F32);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const WindowParams window = WindowParams::read(params);
        const ValueId total = pool(b, window, "stablehlo.add", b.constant(0, b.dtype(b.arg(0))));
        int64_t count = 1;
        for (int64_t size : window.window) count *= size;
        return {b.binary("stablehlo.divide", total,
                         b.constant_like(static_cast<double>(count), total))};
      },
      WindowParams::write("avg_pool", options, n, window), {&real, 1});
}

}  // namespace cleave
