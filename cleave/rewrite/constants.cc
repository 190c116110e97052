#include <cstring>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/literal_array.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

constexpr int64_t kLargestFolded = 256;  // elements of a result that is not one value everywhere

// For ops without regions that need nothing but their operands.
class Alone : public EvalContext {
 public:
  using EvalContext::EvalContext;
  std::vector<Array> run_region(RegionId, std::span<const Array>) override {
    throw UserError("a region in a constant");
  }
  std::vector<Array> call(std::string_view, std::span<const Array>) override {
    throw UserError("a call in a constant");
  }
};

Literal literal_of(const Array& array, Type type) {
  const Array packed = array.contiguous();
  Literal literal;
  literal.type = std::move(type);
  literal.bytes = std::make_shared<const std::vector<std::byte>>(packed.raw(),
                                                                 packed.raw() + packed.num_bytes());
  literal.splat = packed.num_elements() == 1 && num_elements(literal.type.shape) != 1;
  return literal;
}

class Folding {
 public:
  Folding(Rewriter& rewriter, NodeId id) : r_(rewriter), node_(rewriter.graph().node(id)) {}

  void run() {
    const Type type = r_.type(node_.results[0]);
    if (!type.is_tensor() || !type.has_static_shape() || !has_kernels(type.dtype) ||
        !node_.def->has(kPure) || !node_.def->eval || !node_.regions.empty() ||
        node_.def->has(kConstantLike))
      return;
    std::vector<const Literal*> literals;
    for (ValueId operand : node_.operands) {
      literals.push_back(r_.constant(operand));
      if (!literals.back()) return;
    }
    const int64_t count = num_elements(type.shape);
    if (count == 0) return;
    if (splats(literals, type)) return;
    if (count > kLargestFolded) return;
    std::vector<Array> arrays;
    for (const Literal* literal : literals) {
      if (num_elements(literal->type.shape) > kLargestFolded) return;
      arrays.push_back(array_of(*literal));
    }
    Alone context(r_.graph());
    r_.replace(node_.results[0],
               r_.emit_constant(literal_of(node_.def->eval(context, node_, arrays)[0], type)));
  }

 private:
  // Of one value everywhere: computed once, whatever the size.
  bool splats(const std::vector<const Literal*>& literals, const Type& type) {
    const bool moves = node_.def->has(kViewLike) && node_.operands.size() == 1;
    if (!node_.def->has(kElementwise) && !moves) return false;
    std::vector<Array> scalars;
    for (const Literal* literal : literals) {
      const std::optional<Literal> scalar = splat_of(*literal);
      if (!scalar) return false;
      scalars.push_back(array_of(*scalar));
    }
    if (moves) {
      if (r_.type(node_.operands[0]).dtype != type.dtype) return false;
      r_.replace(node_.results[0], r_.emit_constant(literal_of(scalars[0], type)));
      return true;
    }
    Alone context(r_.graph());
    const Array value = node_.def->eval(context, node_, scalars)[0];
    r_.replace(node_.results[0], r_.emit_constant(literal_of(value, type)));
    return true;
  }

  Rewriter& r_;
  const Node node_;
};

}  // namespace

bool fold_constants(Graph& graph) {
  return Rewriter(graph).run([](Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph().node(id);
    if (node.results.size() == 1 && !node.operands.empty() && !is_pinned(node))
      Folding(rewriter, id).run();
  });
}

}  // namespace cleave
