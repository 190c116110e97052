#include <algorithm>
#include <map>
#include <optional>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/core/text_cursor.h"

// The short notation of rules: "b m k, b k n -> b m n".

namespace cleave {
namespace {

struct KindName {
  FactorKind kind;
  std::string_view name;
};
constexpr KindName kKinds[] = {
    {FactorKind::PassThrough, "pass_through"},
    {FactorKind::Reduction, "reduction"},
    {FactorKind::NeedReplication, "need_replication"},
    {FactorKind::Permutation, "permutation"},
};

class ShortRuleParser {
 public:
  ShortRuleParser(std::string_view text, const std::vector<Shape>& shapes)
      : cursor_(text), shapes_(shapes) {}

  OpShardingRule parse() {
    rule_.operands = tensors();
    cursor_.expect("->");
    rule_.results = tensors();
    sizes_.resize(names_.size());
    default_kinds();
    notes();
    if (!cursor_.at_end()) cursor_.fail("unexpected text after the rule");
    if (shapes_.size() != rule_.num_tensors())
      cursor_.fail(
          fmt::format("the rule has {} tensors, the op {}", rule_.num_tensors(), shapes_.size()));
    solve_sizes();
    for (size_t f = 0; f < names_.size(); ++f) rule_.factors[f].size = *sizes_[f];
    return std::move(rule_);
  }

 private:
  bool at_name() {
    const char c = cursor_.peek();
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  FactorIndex factor() {
    const std::string name(cursor_.identifier());
    const auto [it, fresh] = names_.emplace(name, static_cast<FactorIndex>(names_.size()));
    return it->second;
  }

  TensorFactors tensor() {
    TensorFactors dims;
    while (true) {
      if (cursor_.accept("(")) {
        DimFactors dim;
        while (!cursor_.accept(")")) dim.push_back(factor());
        if (dim.empty()) cursor_.fail("a compound dimension without factors");
        dims.push_back(std::move(dim));
      } else if (at_name()) {
        dims.push_back({factor()});
      } else if (cursor_.peek() == '1') {
        cursor_.integer();
        const auto index = static_cast<FactorIndex>(names_.size());
        names_.emplace(fmt::format("1#{}", index), index);
        dims.push_back({index});
      } else {
        return dims;
      }
    }
  }

  // "a b, c": tensors separated by commas. Nothing at all is no tensor; `[]` is a scalar too.
  std::vector<TensorFactors> tensors() {
    std::vector<TensorFactors> result;
    const auto at_stop = [&] {
      const char c = cursor_.peek();
      return c == '-' || c == '{' || c == '\0';
    };
    if (at_stop()) return result;
    do {
      if (cursor_.accept("[")) {
        cursor_.expect("]");
        result.emplace_back();
      } else {
        result.push_back(tensor());
      }
    } while (cursor_.accept(","));
    if (!at_stop()) cursor_.fail("expected a factor, ',', '->' or '{'");
    return result;
  }

  void default_kinds() {
    rule_.factors.resize(names_.size());
    std::vector<bool> in_results(names_.size());
    for (const TensorFactors& tensor : rule_.results)
      for (const DimFactors& dim : tensor)
        for (FactorIndex factor : dim) in_results[static_cast<size_t>(factor)] = true;
    for (const auto& [name, index] : names_)
      if (!in_results[static_cast<size_t>(index)] && name[0] != '1')
        rule_.factors[static_cast<size_t>(index)].kind = FactorKind::Reduction;
  }

  // {k: max; i: permutation blocked; j=3}
  void notes() {
    if (!cursor_.accept("{")) return;
    while (!cursor_.accept("}")) {
      const std::string name(cursor_.identifier());
      if (name == "custom") {
        rule_.is_custom = true;
      } else {
        const auto it = names_.find(name);
        if (it == names_.end()) cursor_.fail(fmt::format("factor '{}' is in no tensor", name));
        note(static_cast<size_t>(it->second));
      }
      if (!cursor_.accept(";") && !cursor_.accept(",") && cursor_.peek() != '}')
        cursor_.fail("expected ';' or '}'");
    }
  }

  void note(size_t index) {
    Factor& factor = rule_.factors[index];
    if (cursor_.accept("=")) {
      sizes_[index] = cursor_.integer();
      if (*sizes_[index] < 0) cursor_.fail("a negative size");
    }
    if (!cursor_.accept(":")) return;
    while (at_name()) {
      const std::string_view word = cursor_.identifier();
      if (word == "blocked") {
        factor.blocked = true;
      } else if (const auto reduce = reduce_op_from_name(word)) {
        factor.kind = FactorKind::Reduction;
        factor.reduce = *reduce;
      } else {
        const auto* known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](const KindName& kind) { return kind.name == word; });
        if (known == std::end(kKinds))
          cursor_.fail(fmt::format("'{}' is no kind of factor and no reduction", word));
        factor.kind = known->kind;
      }
    }
  }

  std::string factor_name(FactorIndex index) const {
    for (const auto& [name, other] : names_)
      if (other == index) return name;
    return {};
  }

  // Dimensions give sizes until nothing new is known.
  void solve_sizes() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t t = 0; t < shapes_.size(); ++t) {
        const TensorFactors& dims = rule_.tensor(t);
        if (dims.size() != shapes_[t].size())
          cursor_.fail(fmt::format("tensor {} has {} dimensions in the rule, and the shape <{}>", t,
                                   dims.size(), to_string(shapes_[t])));
        for (size_t d = 0; d < dims.size(); ++d) changed |= solve_dim(t, d, dims[d]);
      }
    }
    for (size_t f = 0; f < sizes_.size(); ++f)
      if (!sizes_[f])
        cursor_.fail(
            fmt::format("the size of factor '{0}' does not follow from the shapes; give it "
                        "as {{{0}=4}}",
                        factor_name(static_cast<FactorIndex>(f))));
  }

  bool solve_dim(size_t t, size_t d, const DimFactors& factors) {
    const int64_t size = shapes_[t][d];
    int64_t known = 1;
    std::optional<FactorIndex> unknown;
    for (FactorIndex factor : factors) {
      const auto& value = sizes_[static_cast<size_t>(factor)];
      if (value) {
        if (__builtin_mul_overflow(known, *value, &known)) cursor_.fail("sizes are too large");
      } else if (unknown) {
        return false;
      } else {
        unknown = factor;
      }
    }
    const bool fits = unknown ? known > 0 && size % known == 0 : known == size;
    if (!fits)
      cursor_.fail(fmt::format("dimension {} of tensor {} is {}, but its factors give {}", d, t,
                               size, known));
    if (unknown) sizes_[static_cast<size_t>(*unknown)] = size / known;
    return unknown.has_value();
  }

  TextCursor cursor_;
  const std::vector<Shape>& shapes_;
  OpShardingRule rule_;
  std::map<std::string, FactorIndex> names_;
  std::vector<std::optional<int64_t>> sizes_;
};

}  // namespace

OpShardingRule parse_short_rule(std::string_view text, const std::vector<Shape>& shapes) {
  try {
    return ShortRuleParser(text, shapes).parse();
  } catch (const ParseError& error) {
    throw_user("sharding rule '{}': {} (at character {})", text, error.what(), error.offset + 1);
  }
}

std::string to_short_string(const OpShardingRule& rule) {
  const auto append = [](std::string& text, const std::vector<TensorFactors>& tensors) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (t) text += ", ";
      if (tensors[t].empty()) text += "[]";
      for (size_t d = 0; d < tensors[t].size(); ++d) {
        if (d) text += ' ';
        const DimFactors& dim = tensors[t][d];
        if (dim.size() != 1) text += '(';
        for (size_t f = 0; f < dim.size(); ++f) {
          if (f) text += ' ';
          text += factor_symbol(dim[f]);
        }
        if (dim.size() != 1) text += ')';
      }
    }
  };
  std::string text;
  append(text, rule.operands);
  text += text.empty() ? "-> " : " -> ";
  append(text, rule.results);

  std::vector<bool> in_results(rule.factors.size());
  for (const TensorFactors& tensor : rule.results)
    for (const DimFactors& dim : tensor)
      for (FactorIndex factor : dim) in_results[static_cast<size_t>(factor)] = true;
  std::string notes;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    std::string words;
    const FactorKind usual = in_results[f] ? FactorKind::PassThrough : FactorKind::Reduction;
    if (factor.kind == FactorKind::Reduction && factor.reduce != ReduceOp::Sum) {
      words += " " + std::string(name(factor.reduce));
    } else if (factor.kind != usual) {
      for (const KindName& kind : kKinds)
        if (kind.kind == factor.kind) words += " " + std::string(kind.name);
    }
    if (factor.blocked) words += " blocked";
    if (words.empty()) continue;
    notes += (notes.empty() ? "" : "; ") + factor_symbol(static_cast<FactorIndex>(f)) + ":" + words;
  }
  if (rule.is_custom) notes += notes.empty() ? "custom" : "; custom";
  if (!notes.empty()) text += " {" + notes + "}";
  return text;
}

}  // namespace cleave
