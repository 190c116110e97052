#include "cleave/compile/select_scatter_step.h"

#include <array>
#include <cstring>

#include "cleave/compile/strided_copy.h"
#include "cleave/core/aligned.h"

namespace cleave {
namespace {

constexpr size_t kMostDims = 16;

// Where things lie in the work memory.
struct Parts {
  size_t here, best, current, keeps, scratch, bytes;
  Parts(int64_t windows, int64_t element, size_t loop) {
    const auto n = static_cast<size_t>(windows), size = static_cast<size_t>(element);
    here = aligned(n * sizeof(int64_t));
    best = here + aligned(n * sizeof(int64_t));
    current = best + aligned(n * size);
    keeps = current + aligned(n * size);
    scratch = keeps + aligned(n);
    bytes = scratch + loop;
  }
};

class SelectScatterStep : public CodeStep {
 public:
  explicit SelectScatterStep(SelectScatter plan)
      : p_(std::move(plan)),
        count_(num_elements(p_.source.type.shape)),
        size_(byte_size(p_.operand.type.dtype)),
        parts_(count_, size_, p_.select.scratch_bytes()),
        fill_(p_.result.type.shape, Shape(p_.result.type.shape.size(), 0), p_.result.type.strides,
              byte_size(p_.result.type.dtype)) {}

  Next run(Frame& frame) const override {
    std::byte* const work = frame.data(p_.work);
    auto* const chosen = reinterpret_cast<int64_t*>(work);
    for (int64_t i = 0; i < count_; ++i) chosen[i] = -1;
    std::memset(work + parts_.best, 0, parts_.keeps - parts_.best);
    std::array<int64_t, kMostDims> offset{};
    const size_t rank = p_.window.dims.size();
    while (true) {
      choose(frame, offset, work);
      size_t d = rank;
      while (d-- > 0) {
        if (++offset[d] < p_.window.dims[d].size) break;
        offset[d] = 0;
      }
      if (d == SIZE_MAX) break;
    }
    fill_.run(frame.data(p_.init), frame.data(p_.result));
    const int64_t size = byte_size(p_.result.type.dtype);
    for (int64_t i = 0; i < count_; ++i) {
      if (chosen[i] < 0) continue;
      std::byte* const to = frame.data(p_.result) + chosen[i] * size;
      const std::byte* in[2] = {to, frame.data(p_.source) + i * size};
      p_.combine(in, to, 1);
    }
    return Next::Continue;
  }

 private:
  // Looks at one element of every window.
  void choose(const Frame& frame, const std::array<int64_t, kMostDims>& offset,
              std::byte* work) const {
    auto* const chosen = reinterpret_cast<int64_t*>(work);
    auto* const here = reinterpret_cast<int64_t*>(work + parts_.here);
    const auto size = static_cast<size_t>(size_);
    const Shape& windows = p_.source.type.shape;
    const Shape& shape = p_.operand.type.shape;
    const std::byte* const operand = frame.data(p_.operand);
    std::array<int64_t, kMostDims> index{};
    for (int64_t i = 0; i < count_; ++i) {
      int64_t position = 0;
      for (size_t d = 0; d < shape.size() && position >= 0; ++d) {
        const Window::Dim& dim = p_.window.dims[d];
        const int64_t at = index[d] * dim.stride + offset[d] - dim.low;
        position = at < 0 || at >= shape[d] ? -1 : position + at * p_.operand.type.strides[d];
      }
      here[i] = position;
      if (position >= 0)
        std::memcpy(work + parts_.current + static_cast<size_t>(i) * size,
                    operand + static_cast<size_t>(position) * size, size);
      for (size_t d = shape.size(); d-- > 0;) {
        if (++index[d] < windows[d]) break;
        index[d] = 0;
      }
    }
    const std::byte* args[2] = {work + parts_.best, work + parts_.current};
    std::byte* keeps = work + parts_.keeps;
    p_.select.run(args, &keeps, count_, work + parts_.scratch);
    for (int64_t i = 0; i < count_; ++i) {
      if (here[i] < 0 || (chosen[i] >= 0 && keeps[i] != std::byte{0})) continue;
      chosen[i] = here[i];
      std::memcpy(work + parts_.best + static_cast<size_t>(i) * size,
                  work + parts_.current + static_cast<size_t>(i) * size, size);
    }
  }

  SelectScatter p_;
  int64_t count_, size_;
  Parts parts_;
  StridedCopy fill_;
};

}  // namespace

size_t select_scatter_work(const CodeView& operand, const CodeView& source,
                           const RegionLoop& select) {
  return Parts(num_elements(source.type.shape), byte_size(operand.type.dtype),
               select.scratch_bytes())
      .bytes;
}

std::unique_ptr<CodeStep> make_select_scatter_step(SelectScatter plan) {
  return plan.window.dims.size() > kMostDims ? nullptr
                                             : std::make_unique<SelectScatterStep>(std::move(plan));
}

}  // namespace cleave
