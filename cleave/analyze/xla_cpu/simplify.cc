#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/ops/op.h"

namespace cleave::analyze::hlo {
namespace {

// What XLA's simplification does to ops that move elements, to products and to divisions.
class Simplifier {
 public:
  explicit Simplifier(Computation& computation) : c_(computation) {}

  void run() {
    merge_same();
    for (int round = 0; round < 6; ++round) {
      is_changed_ = false;
      for (int id : c_.post_order()) visit(id);
      if (!is_changed_) break;
    }
    merge_same();
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }
  int operand(int id, size_t i = 0) { return inst(id).operands[i]; }

  void replace(int id, int by) {
    c_.replace_uses(id, by);
    c_.remove(id);
    is_changed_ = true;
  }

  void visit(int id) {
    if (inst(id).is_dead) return;
    switch (inst(id).op) {
      case Op::Reshape:
        return reshape(id);
      case Op::Transpose:
        return transpose(id);
      case Op::Reorder:
        if (is_reshape(inst(operand(id)).shape(), inst(id).dims)) inst(id).op = Op::Reshape;
        return;
      case Op::Broadcast:
        return broadcast(id);
      case Op::Dot:
        return dot(id);
      case Op::Reduce:
        return reduce(id);
      case Op::Elementwise:
        if (inst(id).def == &def_of<op::Divide>()) divide(id);
        if (!inst(id).is_dead && inst(id).def == &def_of<op::Convert>()) convert(id);
        if (!inst(id).is_dead && inst(id).def == &def_of<op::Add>()) add(id);
        if (!inst(id).is_dead) without_zero(id);
        if (!inst(id).is_dead) sink_broadcast(id);
        return;
      default:
        return;
    }
  }

  void reshape(int id) {
    const int source = operand(id);
    if (inst(source).shape() == inst(id).shape()) return replace(id, source);
    if (inst(source).op == Op::Reshape) {
      c_.set_operand(id, 0, operand(source));
      c_.remove(source);
      is_changed_ = true;
      return;
    }
    if (inst(source).op == Op::Broadcast && is_scalar(inst(operand(source)).type()) &&
        inst(operand(source)).shape().empty()) {
      Inst made = inst(source);
      made.types = inst(id).types;
      return replace(id, c_.add(std::move(made)));
    }
  }

  // Moves nothing but dimensions of size 1.
  static bool is_reshape(const Shape& from, const std::vector<int64_t>& permutation) {
    int64_t last = -1;
    for (int64_t dim : permutation) {
      if (from[static_cast<size_t>(dim)] == 1) continue;
      if (dim < last) return false;
      last = dim;
    }
    return true;
  }

  void transpose(int id) {
    const int source = operand(id);
    if (is_reshape(inst(source).shape(), inst(id).dims)) {
      inst(id).op = Op::Reshape;
      inst(id).dims.clear();
      is_changed_ = true;
      return;
    }
    if (inst(source).op == Op::Transpose) {
      std::vector<int64_t> joined;
      for (int64_t dim : inst(id).dims)
        joined.push_back(inst(source).dims[static_cast<size_t>(dim)]);
      inst(id).dims = joined;
      c_.set_operand(id, 0, operand(source));
      c_.remove(source);
      is_changed_ = true;
      if (std::is_sorted(joined.begin(), joined.end())) replace(id, operand(id));
      return;
    }
    if (inst(source).op == Op::Broadcast) {  // one that adds dimensions elsewhere
      Inst made = inst(source);
      for (int64_t& dim : made.dims)
        dim = std::find(inst(id).dims.begin(), inst(id).dims.end(), dim) - inst(id).dims.begin();
      if (!std::is_sorted(made.dims.begin(), made.dims.end())) return;
      made.types = inst(id).types;
      return replace(id, c_.add(std::move(made)));
    }
    // The transpose of a product of matrices is the product of the other two.
    if (inst(source).op == Op::Dot && inst(source).shape().size() == 2 &&
        inst(source).users.size() == 1) {
      Inst made = inst(source);
      std::swap(made.operands[0], made.operands[1]);
      made.is_lhs_turned = !inst(source).is_rhs_turned;
      made.is_rhs_turned = !inst(source).is_lhs_turned;
      made.types = inst(id).types;
      return replace(id, c_.add(std::move(made)));
    }
  }

  void broadcast(int id) {
    const int source = operand(id);
    if (inst(source).op == Op::Broadcast) {
      std::vector<int64_t> joined;
      for (int64_t dim : inst(source).dims)
        joined.push_back(inst(id).dims[static_cast<size_t>(dim)]);
      inst(id).dims = joined;
      c_.set_operand(id, 0, operand(source));
      c_.remove(source);
      is_changed_ = true;
    }
  }

  // A transpose of the last two dimensions is part of the product.
  void dot(int id) {
    for (size_t i = 0; i < 2; ++i) {
      const int source = operand(id, i);
      if (inst(source).op != Op::Transpose) continue;
      const std::vector<int64_t>& dims = inst(source).dims;
      const size_t rank = dims.size();
      if (rank < 2 || inst(id).shape().size() != rank) continue;
      bool swaps = dims[rank - 1] == static_cast<int64_t>(rank) - 2 &&
                   dims[rank - 2] == static_cast<int64_t>(rank) - 1;
      for (size_t d = 0; d + 2 < rank; ++d) swaps = swaps && dims[d] == static_cast<int64_t>(d);
      if (!swaps) continue;
      bool& turned = i == 0 ? inst(id).is_lhs_turned : inst(id).is_rhs_turned;
      turned = !turned;
      c_.set_operand(id, i, operand(source));
      c_.remove(source);
      is_changed_ = true;
    }
  }

  void reduce(int id) {
    const int source = operand(id);
    if (inst(id).operands.size() != 2 || inst(source).op != Op::Transpose) return;
    std::vector<int64_t> reduced, kept;
    for (size_t d = 0; d < inst(source).dims.size(); ++d) {
      const bool is_reduced = std::find(inst(id).dims.begin(), inst(id).dims.end(),
                                        static_cast<int64_t>(d)) != inst(id).dims.end();
      (is_reduced ? reduced : kept).push_back(inst(source).dims[d]);
    }
    if (!std::is_sorted(kept.begin(), kept.end())) return;
    inst(id).dims = reduced;
    inst(id).detail += "t";
    c_.set_operand(id, 0, operand(source));
    c_.remove(source);
    is_changed_ = true;
  }

  // What is added to zeros is added to the other operand.
  void add(int id) {
    for (size_t i = 0; i < 2; ++i) {
      const int source = operand(id, i);
      const Inst& now = inst(source);
      if (now.op != Op::Scatter || !now.adds || now.users.size() != 1) continue;
      if (!is_constant(now.operands[0])) continue;
      const int zeros = operand(source);
      const std::string& bytes =
          inst(inst(zeros).op == Op::Broadcast ? operand(zeros) : zeros).detail;
      if (std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0; })) continue;
      Inst made = now;
      made.operands[0] = operand(id, 1 - i);
      if (made.operands[0] == source) continue;
      return replace(id, c_.add(std::move(made)));
    }
  }

  // The number zero, repeated or not.
  bool is_zero(int id) {
    if (inst(id).op == Op::Broadcast) id = operand(id);
    const std::string& bytes = inst(id).detail;
    if (inst(id).op != Op::Constant || bytes.empty() || !is_scalar(inst(id).type())) return false;
    const char last = bytes.back();
    const bool is_negative = is_float(inst(id).type().dtype) && last == '\x80';
    return (last == 0 || is_negative) &&
           std::all_of(bytes.begin(), bytes.end() - 1, [](char byte) { return byte == 0; });
  }

  // x + 0, 0 + x, x - 0
  void without_zero(int id) {
    const bool adds = inst(id).def == &def_of<op::Add>();
    if (!adds && inst(id).def != &def_of<op::Subtract>()) return;
    if (is_zero(operand(id, 1))) return replace(id, operand(id, 0));
    if (adds && is_zero(operand(id, 0))) replace(id, operand(id, 1));
  }

  void convert(int id) {
    const int source = operand(id);
    if (inst(source).type() == inst(id).type()) return replace(id, source);
    if (inst(source).op == Op::Constant) {
      Inst made = inst(source);
      made.types = inst(id).types;
      made.detail += "converted";
      return replace(id, c_.add(std::move(made)));
    }
    // There and back through a wider type.
    if (inst(source).op == Op::Elementwise && inst(source).def == &def_of<op::Convert>() &&
        inst(operand(source)).type() == inst(id).type() &&
        bytes_of(inst(source).type()) > bytes_of(inst(id).type()))
      return replace(id, operand(source));
    // The same around a view, which then is one of the narrow type.
    if (inst(source).op != Op::Reshape && inst(source).op != Op::Transpose) return;
    const int inner = operand(source);
    if (inst(inner).op != Op::Elementwise || inst(inner).def != &def_of<op::Convert>() ||
        inst(operand(inner)).type().dtype != inst(id).type().dtype ||
        bytes_of(inst(inner).type()) <= bytes_of(inst(operand(inner)).type()))
      return;
    Inst view = inst(source);
    view.types = inst(id).types;
    view.operands = {operand(inner)};
    replace(id, c_.add(std::move(view)));
  }

  // What is computed of a repeated value alone is computed before it is repeated.
  void sink_broadcast(int id) {
    int wide = -1;
    for (int source : inst(id).operands) {
      if (inst(source).op != Op::Broadcast) return;
      if (is_scalar(inst(operand(source)).type())) continue;
      if (wide >= 0 && wide != source) return;
      wide = source;
    }
    if (inst(id).operands.empty()) return;
    if (wide < 0) wide = operand(id);
    const Inst repeated = inst(wide);
    const Type narrow = inst(repeated.operands[0]).type();
    Inst made = inst(id);
    made.types = {Type::tensor(made.type().dtype, narrow.shape)};
    for (int& source : made.operands) {
      const int inner = operand(source);
      if (source == wide || inst(inner).shape() == narrow.shape)
        source = inner;
      else if (narrow.shape.empty())
        return;
      else
        source = c_.add({.op = Op::Broadcast,
                         .types = {Type::tensor(inst(inner).type().dtype, narrow.shape)},
                         .operands = {inner}});
    }
    const Type result = inst(id).type();
    const int computed = c_.add(std::move(made));
    replace(id, c_.add({.op = Op::Broadcast,
                        .types = {result},
                        .operands = {computed},
                        .dims = repeated.dims}));
  }

  bool is_constant(int id) {
    if (inst(id).op == Op::Broadcast) id = operand(id);
    return inst(id).op == Op::Constant;
  }

  // By a constant: a multiplication; by what is repeated: one by its inverse.
  void divide(int id) {
    const Type type = inst(id).type();
    if (type.dtype != DType::F32 && type.dtype != DType::F64 && type.dtype != DType::BF16 &&
        type.dtype != DType::F16)
      return;
    const int divisor = operand(id, 1);
    if (is_constant(divisor)) {
      inst(id).def = &def_of<op::Multiply>();
      inst(id).detail += "inverse";
      is_changed_ = true;
      return;
    }
    if (inst(divisor).op != Op::Broadcast) return;
    const int narrow = operand(divisor);
    const Type small = inst(narrow).type();
    if (elements_of(small) >= elements_of(type) || inst(narrow).users.size() != 1) return;
    int one =
        c_.add({.op = Op::Constant, .detail = "one", .types = {Type::tensor(small.dtype, {})}});
    if (!small.shape.empty())
      one = c_.add({.op = Op::Broadcast, .types = {small}, .operands = {one}});
    const int inverse = c_.add({.op = Op::Elementwise,
                                .def = &def_of<op::Divide>(),
                                .types = {small},
                                .operands = {one, narrow}});
    Inst wide = inst(divisor);
    wide.operands = {inverse};
    const int repeated = c_.add(std::move(wide));
    Inst product = inst(id);
    product.def = &def_of<op::Multiply>();
    product.operands = {operand(id), repeated};
    replace(id, c_.add(std::move(product)));
  }

  using Key = std::tuple<Op, const OpDef*, std::string, std::vector<int>, std::vector<int64_t>,
                         std::string, bool, bool, int>;

  void merge_same() {
    std::map<Key, int> known;
    for (int id : c_.post_order()) {
      const Inst& now = inst(id);
      if (now.op == Op::Parameter || now.op == Op::Tuple || !now.called.empty() ||
          now.op == Op::Barrier || now.op == Op::Other || now.op == Op::Collective)
        continue;
      std::string types;
      for (const Type& type : now.types) types += cleave::to_string(type);
      const auto [it, is_new] =
          known.try_emplace(Key(now.op, now.def, now.detail, now.operands, now.dims, types,
                                now.is_lhs_turned, now.is_rhs_turned, now.number),
                            id);
      if (!is_new) replace(id, it->second);
    }
  }

  Computation& c_;
  bool is_changed_ = false;
};

// In which type an op computes what is given in `dtype`: bf16 in f32, floats of 8 bits in f16, and
// f16 in products and convolutions in f32.
DType computed_in(const Inst& inst, DType dtype) {
  if (dtype == DType::BF16) return DType::F32;
  if (is_float(dtype) && bit_width(dtype) <= 8) return DType::F16;
  const bool is_product = inst.op == Op::Dot || inst.op == Op::Convolution;
  return is_product && dtype == DType::F16 ? DType::F32 : dtype;
}

// Operands are converted before, and results after.
class FloatNormalizer {
 public:
  FloatNormalizer(Computation& computation, bool has_library)
      : c_(computation), has_library_(has_library) {}

  void run() {
    for (int id : c_.post_order())
      if (!is_exempt(inst(id)) && !is_library_maximum(inst(id))) widen(id);
  }

 private:
  Inst& inst(int id) { return c_.insts[static_cast<size_t>(id)]; }

  bool is_library_maximum(const Inst& now) {
    return has_library_ && now.op == Op::Reduce && now.is_taken && !now.adds &&
           now.operands.size() == 2 && elements_of(inst(now.operands[0]).type()) >= kFewElements;
  }

  static bool is_exempt(const Inst& now) {
    switch (now.op) {
      case Op::Parameter:
      case Op::Constant:
      case Op::Tuple:
      case Op::Element:
      case Op::Loop:
      case Op::Branches:
      case Op::Barrier:
      case Op::Other:
        return true;
      default:
        return now.def == &def_of<op::Convert>() || now.def == &def_of<op::BitcastConvert>();
    }
  }

  int convert(int source, DType dtype) {
    return c_.add({.op = Op::Elementwise,
                   .def = &def_of<op::Convert>(),
                   .types = {Type::tensor(dtype, inst(source).shape())},
                   .operands = {source}});
  }

  bool is_narrow(int id, const Inst& user) {
    const DType dtype = inst(id).type().dtype;
    return computed_in(user, dtype) != dtype;
  }

  void widen(int id) {
    // Its operator then converts too, and is none that a library knows.
    if (inst(id).type().dtype == DType::BF16) inst(id).is_taken = false;
    for (size_t i = 0; i < inst(id).operands.size(); ++i) {
      const int source = inst(id).operands[i];
      if (inst(source).is_array() && is_narrow(source, inst(id)))
        c_.set_operand(id, i, convert(source, computed_in(inst(id), inst(source).type().dtype)));
    }
    if (!inst(id).is_array()) {
      for (Type& type : inst(id).types) type.dtype = computed_in(inst(id), type.dtype);
      const std::vector<int> parts = inst(id).users;
      for (int part : parts)
        if (inst(part).op == Op::Element && is_narrow(part, inst(id))) narrow(part, inst(id));
      return;
    }
    if (is_narrow(id, inst(id))) narrow(id, inst(id));
  }

  // The result of an op, which `by` computes in a wider type.
  void narrow(int id, const Inst& by) {
    const DType dtype = inst(id).type().dtype;
    inst(id).types[0].dtype = computed_in(by, dtype);
    const std::vector<int> users = inst(id).users;
    const int back = convert(id, dtype);
    for (int user : users)
      for (size_t i = 0; i < inst(user).operands.size(); ++i)
        if (inst(user).operands[i] == id) c_.set_operand(user, i, back);
  }

  Computation& c_;
  const bool has_library_;
};

// Sums that no library takes are made in two steps if they are long: over windows, then over what
// that gives.
void split_reductions(Computation& c, bool has_library) {
  constexpr int64_t kWindow = 32;
  for (int id : c.post_order()) {
    const Inst reduce = c.insts[static_cast<size_t>(id)];
    if (reduce.op != Op::Reduce || reduce.operands.size() != 2) continue;
    const Type from = c.insts[static_cast<size_t>(reduce.operands[0])].type();
    const bool is_library = has_library && reduce.is_taken && elements_of(from) >= kFewElements &&
                            (from.dtype == DType::F32 || from.dtype == DType::F64 || !reduce.adds);
    Shape windows = from.shape;
    bool is_long = false;
    for (int64_t dim : reduce.dims) {
      int64_t& size = windows[static_cast<size_t>(dim)];
      is_long = is_long || size > kWindow;
      size = (size + kWindow - 1) / kWindow;
    }
    if (is_library || !is_long) continue;
    Inst window{.op = Op::Window,
                .def = reduce.def,
                .detail = reduce.detail + "windows",
                .types = {Type::tensor(from.dtype, windows)},
                .operands = reduce.operands};
    c.set_operand(id, 0, c.add(std::move(window)));
  }
}

// Barriers keep what is computed again from being computed once. They are gone before anything is
// fused or ordered.
void remove_barriers(Computation& c) {
  for (size_t i = 0; i < c.insts.size(); ++i) {
    const int barrier = c.insts[i].op == Op::Element ? c.insts[i].operands[0] : -1;
    if (c.insts[i].is_dead || barrier < 0) continue;
    const Inst& from = c.insts[static_cast<size_t>(barrier)];
    if (from.op != Op::Barrier) continue;
    c.replace_uses(static_cast<int>(i), from.operands[static_cast<size_t>(c.insts[i].number)]);
    c.remove(static_cast<int>(i));
  }
}

}  // namespace

void simplify(Module& module) {
  prune_loops(module);
  for (Computation& computation : module.computations) {
    FloatNormalizer(computation, module.has_library).run();
    Simplifier(computation).run();
    split_reductions(computation, module.has_library);
    remove_barriers(computation);
  }
  hoist_invariants(module);
  prune_loops(module);
}

}  // namespace cleave::analyze::hlo
