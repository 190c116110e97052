#include "cleave/runtime/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

constexpr int64_t kMaxShown = 1000;  // elements, beyond which only the ends are shown
constexpr int64_t kEdge = 3;

// The elements that are shown, as text of one width.
class ValuesText {
 public:
  explicit ValuesText(const Array& host) : shape_(host.shape()) {
    summary_ = host.num_elements() > kMaxShown;
    const Array packed = host.contiguous();
    if (is_complex(host.dtype()))
      collect<std::complex<double>>(cleave::convert(packed, DType::C128));
    else if (is_float(host.dtype()))
      collect<double>(cleave::convert(packed, DType::F64));
    else if (host.dtype() == DType::U64)
      collect<uint64_t>(packed);
    else
      collect<int64_t>(cleave::convert(packed, DType::I64), host.dtype() == DType::Bool);
    size_t width = 0;
    for (const std::string& text : texts_) width = std::max(width, text.size());
    for (std::string& text : texts_) text.insert(0, width - text.size(), ' ');
  }

  std::string text() {
    next_ = 0;
    std::string out;
    append(out, 0);
    return out;
  }

 private:
  template <typename T>
  void collect(const Array& values, bool is_bool = false) {
    double largest = 0, smallest = INFINITY;
    std::vector<int64_t> shown;
    add_shown(shown, 0, 0);
    const T* data = values.data<T>();
    if constexpr (!std::is_integral_v<T>)
      for (int64_t i : shown) {
        const double size = std::abs(data[i]);
        if (!std::isfinite(size)) continue;
        largest = std::max(largest, size);
        if (size > 0) smallest = std::min(smallest, size);
      }
    const bool exponents =
        largest >= 1e8 || (largest > 0 && (largest < 1e-3 || largest / smallest > 1e7));
    auto number = [&](double x) {
      if (std::isnan(x)) return std::string("nan");
      if (std::isinf(x)) return std::string(x > 0 ? "inf" : "-inf");
      return exponents ? fmt::format("{:.4e}", x) : fmt::format("{:.4f}", x);
    };
    for (int64_t i : shown) {
      if constexpr (std::is_integral_v<T>)
        texts_.push_back(is_bool ? (data[i] ? "true" : "false") : fmt::format("{}", data[i]));
      else if constexpr (std::is_same_v<T, double>)
        texts_.push_back(number(data[i]));
      else
        texts_.push_back(number(data[i].real()) + (std::signbit(data[i].imag()) ? "-" : "+") +
                         number(std::abs(data[i].imag())) + "i");
    }
  }

  bool cuts(size_t d) const { return summary_ && shape_[d] > 2 * kEdge; }

  void add_shown(std::vector<int64_t>& shown, size_t d, int64_t offset) const {
    if (d == shape_.size()) return shown.push_back(offset);
    for (int64_t i = 0; i < shape_[d]; ++i) {
      if (cuts(d) && i == kEdge) i = shape_[d] - kEdge;
      add_shown(shown, d + 1, offset * shape_[d] + i);
    }
  }

  void append(std::string& out, size_t d) {
    if (d == shape_.size()) {
      out += texts_[next_++];
      return;
    }
    const size_t below = shape_.size() - d - 1;
    out += '[';
    for (int64_t i = 0; i < shape_[d]; ++i) {
      const bool cut = cuts(d) && i == kEdge;
      if (i > 0) out += below ? "," + std::string(below, '\n') + std::string(d + 1, ' ') : ", ";
      if (cut) {
        out += "...";
        out += below ? "," + std::string(below, '\n') + std::string(d + 1, ' ') : ", ";
        i = shape_[d] - kEdge;
      }
      append(out, d + 1);
    }
    out += ']';
  }

  Shape shape_;
  bool summary_ = false;
  std::vector<std::string> texts_;
  size_t next_ = 0;
};

}  // namespace

std::string values_text(const Array& host) { return ValuesText(host).text(); }

std::string to_string(const Tensor& tensor) {
  if (!tensor.valid()) return "an empty Tensor";
  std::string text = to_string(tensor.type());
  if (tensor.mesh())
    text += fmt::format(" {} on {}", to_string(tensor.sharding()), to_string(*tensor.mesh()));
  if (tensor.is_traced()) return text + ", in a trace: without a value";
  return text + "\n" + values_text(tensor.to_host());
}

}  // namespace cleave
