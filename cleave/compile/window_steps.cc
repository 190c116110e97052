#include "cleave/compile/window_steps.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cleave/compile/strided_copy.h"
#include "cleave/compile/team.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/reduce/reducer.h"

namespace cleave {
namespace {

constexpr size_t kMostWindowDims = 16;

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

int64_t index_at(const std::byte* data, DType dtype, int64_t offset) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8:
      return reinterpret_cast<const uint8_t*>(data)[offset];
    case DType::I8:
      return reinterpret_cast<const int8_t*>(data)[offset];
    case DType::U16:
      return reinterpret_cast<const uint16_t*>(data)[offset];
    case DType::I16:
      return reinterpret_cast<const int16_t*>(data)[offset];
    case DType::U32:
      return reinterpret_cast<const uint32_t*>(data)[offset];
    case DType::I32:
      return reinterpret_cast<const int32_t*>(data)[offset];
    case DType::U64:
      return static_cast<int64_t>(
          std::min<uint64_t>(reinterpret_cast<const uint64_t*>(data)[offset],
                             std::numeric_limits<int64_t>::max() / 2));
    default:
      return reinterpret_cast<const int64_t*>(data)[offset];
  }
}

// Where the windows are: prepared once, so that a walk over them allocates nothing.
class WindowWalk {
 public:
  WindowWalk(const WindowMap& map, const CodeView& operand, const CodeView& indices,
             const CodeView& slices)
      : indices_(indices) {
    int64_t next = 0;  // dimension of the indices
    for (int64_t d = 0; d < static_cast<int64_t>(slices.type.shape.size()); ++d) {
      if (contains(map.window_dims, d)) continue;
      if (next == map.index_vector_dim) ++next;
      Batch batch{slices.type.shape[d], indices.type.strides[next], slices.type.strides[d], 0};
      for (size_t k = 0; k < map.indices_batching_dims.size(); ++k)
        if (map.indices_batching_dims[k] == next)
          batch.operand = operand.type.strides[map.operand_batching_dims[k]];
      batches_.push_back(batch);
      empty_ |= batch.size == 0;
      ++next;
    }
    const bool has_vector = map.index_vector_dim < static_cast<int64_t>(indices.type.shape.size());
    for (size_t k = 0; k < map.index_map.size(); ++k)
      components_.push_back(
          {has_vector ? static_cast<int64_t>(k) * indices.type.strides[map.index_vector_dim] : 0,
           operand.type.strides[map.index_map[k]], map.index_map[k]});
  }

  size_t num_batches() const { return batches_.size(); }

  // visit(offset in the operand, offset in the slices), in elements; `place` turns an index along
  // a dimension into a position, or says that the window is left out (negative).
  template <typename Place, typename Visit>
  void run(const Frame& frame, Place place, Visit visit) const {
    if (empty_) return;
    const std::byte* data = frame.data(indices_);
    int64_t position[kMostWindowDims] = {};
    int64_t at = 0, slice = 0, batch_offset = 0;
    while (true) {
      int64_t offset = batch_offset;
      bool inside = true;
      for (const Component& component : components_) {
        const int64_t index =
            place(component.dim, index_at(data, indices_.type.dtype, at + component.offset));
        inside &= index >= 0;
        offset += index * component.stride;
      }
      if (inside) visit(offset, slice);
      size_t b = batches_.size();
      while (b-- > 0) {
        const Batch& batch = batches_[b];
        at += batch.index;
        slice += batch.slices;
        batch_offset += batch.operand;
        if (++position[b] < batch.size) break;
        at -= batch.index * batch.size;
        slice -= batch.slices * batch.size;
        batch_offset -= batch.operand * batch.size;
        position[b] = 0;
      }
      if (b == SIZE_MAX) return;
    }
  }

 private:
  struct Batch {
    int64_t size, index, slices, operand;  // strides
  };
  struct Component {
    int64_t offset, stride, dim;
  };
  CodeView indices_;
  std::vector<Batch> batches_;
  std::vector<Component> components_;
  bool empty_ = false;
};

Shape pick(const Shape& from, const std::vector<int64_t>& dims) {
  Shape result;
  for (int64_t d : dims) result.push_back(from[d]);
  return result;
}

class GatherStep : public CodeStep {
 public:
  GatherStep(const WindowMap& map, Shape window, const std::vector<CodeView>& operands,
             const CodeView& result)
      : operand_(operands[0]),
        result_(result),
        window_(std::move(window)),
        walk_(map, operands[0], operands[1], result) {
    const std::vector<int64_t> dims = map.window_operand_dims(window_.size());
    copy_ =
        StridedCopy(pick(window_, dims), pick(operand_.type.strides, dims),
                    pick(result_.type.strides, map.window_dims), byte_size(operand_.type.dtype));
  }

  Next run(Frame& frame) const override {
    const int64_t size = byte_size(operand_.type.dtype);
    const std::byte* from = frame.data(operand_);
    std::byte* to = frame.data(result_);
    walk_.run(
        frame,
        [&](int64_t dim, int64_t index) {
          return std::clamp<int64_t>(index, 0, operand_.type.shape[dim] - window_[dim]);
        },
        [&](int64_t a, int64_t b) { copy_.run(from + a * size, to + b * size); });
    return Next::Continue;
  }

 private:
  CodeView operand_, result_;
  Shape window_;
  WindowWalk walk_;
  StridedCopy copy_;
};

// What a scatter does with a run of elements that lie behind each other.
class Combine {
 public:
  Combine(const LoopChoice& choice, DType dtype) : dtype_(dtype), loop_(choice.loop) {
    if (loop_ && choice.in != dtype) {
      widen_ = convert_loop(dtype, choice.in);
      narrow_ = convert_loop(choice.out, dtype);
    }
  }

  void run(std::byte* at, const std::byte* update, int64_t n) const {
    const std::byte* in[2] = {at, update};
    if (widen_)
      run_wide(at, update, n);
    else if (loop_)
      loop_(in, at, n);
    else
      std::memcpy(at, update, static_cast<size_t>(n * byte_size(dtype_)));
  }

 private:
  void run_wide(std::byte* at, const std::byte* update, int64_t count) const {
    constexpr int64_t kChunk = 256;
    alignas(64) std::byte wide[2][kChunk * sizeof(float)];
    const int64_t size = byte_size(dtype_);
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t n = std::min(kChunk, count - begin);
      const std::byte* a = at + begin * size;
      const std::byte* b = update + begin * size;
      widen_(&a, wide[0], n);
      widen_(&b, wide[1], n);
      const std::byte* in[2] = {wide[0], wide[1]};
      loop_(in, wide[0], n);
      narrow_(in, at + begin * size, n);
    }
  }

  DType dtype_;
  Loop loop_;                                // null: overwrites
  Loop widen_ = nullptr, narrow_ = nullptr;  // of 16 bits, which are combined as float32
};

// Windows in one piece, which cannot stick out along their own dimensions.
class ScatterStep : public CodeStep {
 public:
  ScatterStep(const WindowMap& map, const std::vector<CodeView>& operands, const CodeView& result,
              int64_t run, const Combine& combine)
      : operand_(operands[0]),
        updates_(operands[2]),
        result_(result),
        whole_(operand_.type.shape, operand_.type.strides, result.type.strides,
               byte_size(result.type.dtype)),
        walk_(map, result, operands[1], operands[2]),
        run_(run),
        combine_(combine) {}

  Next run(Frame& frame) const override {
    const int64_t size = byte_size(result_.type.dtype);
    std::byte* to = frame.data(result_);
    const std::byte* updates = frame.data(updates_);
    if (frame.data(operand_) != to) whole_.run(frame.data(operand_), to);
    // Each worker walks over all indices and takes its share of the targets: two windows are the
    // same or do not touch, and those of one target come in the order of the indices.
    const int64_t parts = frame.team && is_large() ? frame.team->size() : 1;
    const auto run_part = [&](int64_t part, int) {
      walk_.run(
          frame,
          [&](int64_t dim, int64_t index) {
            return index < result_.type.shape[dim] ? index : int64_t{-1};
          },
          [&](int64_t a, int64_t b) {
            if (parts == 1 || a / run_ % parts == part)
              combine_.run(to + a * size, updates + b * size, run_);
          });
    };
    if (parts > 1)
      frame.team->run(parts, run_part);
    else
      run_part(0, 0);
    return Next::Continue;
  }

 private:
  // Whether reading the indices once more is little beside the work.
  bool is_large() const { return num_elements(updates_.type.shape) >= (1 << 16) && run_ >= 8; }

  CodeView operand_, updates_, result_;
  StridedCopy whole_;
  WindowWalk walk_;
  int64_t run_;  // elements of a window
  Combine combine_;
};

// Any windows; what sticks out is cut off.
class CutScatterStep : public CodeStep {
 public:
  CutScatterStep(const WindowMap& map, const std::vector<CodeView>& operands,
                 const CodeView& result, const Combine& combine)
      : operand_(operands[0]),
        updates_(operands[2]),
        result_(result),
        whole_(operand_.type.shape, operand_.type.strides, result.type.strides,
               byte_size(result.type.dtype)),
        walk_(map, result, operands[1], operands[2]),
        combine_(combine),
        in_window_(result.type.shape.size()) {
    const std::vector<int64_t> dims = map.window_operand_dims(result.type.shape.size());
    for (size_t w = 0; w < dims.size(); ++w) {
      in_window_[static_cast<size_t>(dims[w])] = true;
      window_.push_back({dims[w], updates_.type.shape[map.window_dims[w]],
                         result.type.strides[dims[w]], updates_.type.strides[map.window_dims[w]]});
    }
    has_rows_ = !window_.empty() && window_.back().to == 1 && window_.back().from == 1;
  }

  Next run(Frame& frame) const override {
    const int64_t size = byte_size(result_.type.dtype);
    std::byte* to = frame.data(result_);
    const std::byte* updates = frame.data(updates_);
    if (frame.data(operand_) != to) whole_.run(frame.data(operand_), to);
    int64_t start[kMostWindowDims] = {};
    walk_.run(
        frame,
        [&](int64_t dim, int64_t index) {
          start[dim] = index;
          return int64_t{0};
        },
        [&](int64_t a, int64_t b) { add_window(start, to + a * size, updates + b * size); });
    return Next::Continue;
  }

 private:
  struct Dim {
    int64_t dim, size, to, from;  // strides of the result and of the updates
  };

  void add_window(const int64_t* start, std::byte* to, const std::byte* update) const {
    const int64_t size = byte_size(result_.type.dtype);
    int64_t low[kMostWindowDims] = {}, count[kMostWindowDims] = {}, at[kMostWindowDims] = {};
    int64_t a = 0, b = 0;
    for (size_t d = 0; d < in_window_.size(); ++d) {
      if (!in_window_[d] && (start[d] < 0 || start[d] >= result_.type.shape[d])) return;
      a += start[d] * result_.type.strides[d];
    }
    for (size_t w = 0; w < window_.size(); ++w) {
      const Dim& dim = window_[w];
      low[w] = std::max<int64_t>(0, -start[dim.dim]);
      count[w] = std::min(dim.size, result_.type.shape[dim.dim] - start[dim.dim]) - low[w];
      if (count[w] <= 0) return;
      a += low[w] * dim.to;
      b += low[w] * dim.from;
    }
    const size_t outer = window_.size() - (has_rows_ ? 1 : 0);
    const int64_t row = has_rows_ ? count[outer] : 1;
    while (true) {
      combine_.run(to + a * size, update + b * size, row);
      size_t w = outer;
      while (w-- > 0) {
        a += window_[w].to;
        b += window_[w].from;
        if (++at[w] < count[w]) break;
        a -= window_[w].to * count[w];
        b -= window_[w].from * count[w];
        at[w] = 0;
      }
      if (w == SIZE_MAX) return;
    }
  }

  CodeView operand_, updates_, result_;
  StridedCopy whole_;
  WindowWalk walk_;
  Combine combine_;
  std::vector<bool> in_window_;  // by dimension of the result
  std::vector<Dim> window_;
  bool has_rows_ = false;
};

std::optional<BinaryOp> operator_of(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::Sum:
      return dtype == DType::Bool ? BinaryOp::Or : BinaryOp::Add;
    case ReduceOp::Prod:
      return dtype == DType::Bool ? BinaryOp::And : BinaryOp::Multiply;
    case ReduceOp::Max:
      return dtype == DType::Bool ? BinaryOp::Or : BinaryOp::Maximum;
    case ReduceOp::Min:
      return dtype == DType::Bool ? BinaryOp::And : BinaryOp::Minimum;
    case ReduceOp::And:
      return BinaryOp::And;
    case ReduceOp::Or:
      return BinaryOp::Or;
    default:
      return std::nullopt;
  }
}

class PadStep : public CodeStep {
 public:
  PadStep(const CodeView& operand, const CodeView& value, const CodeView& result,
          const CodeView& inside)
      : operand_(operand),
        value_(value),
        result_(result),
        inside_(inside),
        fill_(result.type.shape, Shape(result.type.shape.size(), 0), result.type.strides,
              byte_size(result.type.dtype)),
        copy_(operand_.type.shape, operand_.type.strides, inside_.type.strides,
              byte_size(result.type.dtype)) {}

  Next run(Frame& frame) const override {
    fill_.run(frame.data(value_), frame.data(result_));
    copy_.run(frame.data(operand_), frame.data(inside_));
    return Next::Continue;
  }

 private:
  CodeView operand_, value_, result_, inside_;
  StridedCopy fill_, copy_;
};

// Elements of the shape that lie behind each other in both layouts; nothing where they do not.
std::optional<int64_t> one_run(const Shape& shape, const Shape& a, const Shape& b) {
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (a[d] != expected || b[d] != expected) return std::nullopt;
    expected *= shape[d];
  }
  return expected;
}

}  // namespace

std::unique_ptr<CodeStep> make_gather_step(const Node& node, const std::vector<CodeView>& operands,
                                           const CodeView& result) {
  const WindowMap map = gather_map(node);
  if (result.type.shape.size() > kMostWindowDims) return nullptr;
  return std::make_unique<GatherStep>(map, node.attrs.get_ints("slice_sizes"), operands, result);
}

std::unique_ptr<CodeStep> make_scatter_step(const Graph& graph, const Node& node,
                                            const std::vector<CodeView>& operands,
                                            const CodeView& result) {
  const DType dtype = result.type.dtype;
  if (operands.size() != 3 || operands[2].type.dtype != dtype ||
      operands[2].type.shape.size() > kMostWindowDims ||
      result.type.shape.size() > kMostWindowDims || num_elements(operands[2].type.shape) == 0)
    return nullptr;
  const WindowMap map = scatter_map(node);
  LoopChoice choice;
  if (!returns_second_half(graph, node.regions[0])) {
    const auto reducer = common_reducer(graph, node.regions[0], false);
    const auto op = reducer ? operator_of(*reducer, dtype) : std::nullopt;
    if (!op) return nullptr;
    choice = binary_loop(*op, dtype);
    const bool wide = choice.in == DType::F32 && choice.out == DType::F32;
    if (!choice.loop || !(wide || (choice.in == dtype && choice.out == dtype))) return nullptr;
  }
  const Combine combine(choice, dtype);
  // Along the dimensions of its window an update is as large as the result.
  const std::vector<int64_t> dims = map.window_operand_dims(result.type.shape.size());
  bool fits = true;
  for (size_t w = 0; w < dims.size(); ++w)
    fits &= operands[2].type.shape[map.window_dims[w]] == result.type.shape[dims[w]] &&
            !contains(map.index_map, dims[w]);
  const auto run = one_run(pick(result.type.shape, dims), pick(result.type.strides, dims),
                           pick(operands[2].type.strides, map.window_dims));
  if (!fits || !run || *run == 0)
    return std::make_unique<CutScatterStep>(map, operands, result, combine);
  return std::make_unique<ScatterStep>(map, operands, result, *run, combine);
}

std::unique_ptr<CodeStep> make_pad_step(const CodeView& operand, const CodeView& value,
                                        const CodeView& result, const CodeView& inside) {
  return std::make_unique<PadStep>(operand, value, result, inside);
}

}  // namespace cleave
