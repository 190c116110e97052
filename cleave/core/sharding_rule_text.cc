#include "cleave/core/sharding_rule_text.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "cleave/core/text_cursor.h"

namespace cleave {
namespace {

constexpr FactorIndex kLetterZ = 'z' - 'i';

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes one symbol off the front of `text`.
FactorIndex take_symbol(std::string_view& text, TextCursor& cursor) {
  if (text.size() > 2 && text.substr(0, 2) == "z_" && is_digit(text[2])) {
    int64_t number = 0;
    size_t end = 2;
    for (; end < text.size() && is_digit(text[end]) && number < (1 << 20); ++end)
      number = number * 10 + (text[end] - '0');
    if (number == 0 || text[2] == '0' || number >= (1 << 20))
      cursor.fail("expected a positive number without leading zeros after 'z_'");
    text.remove_prefix(end);
    return static_cast<FactorIndex>(kLetterZ + number);
  }
  if (text[0] < 'i' || text[0] > 'z')
    cursor.fail(fmt::format("expected a factor from 'i' to 'z', not '{}'", text[0]));
  const FactorIndex factor = text[0] - 'i';
  text.remove_prefix(1);
  return factor;
}

TensorFactors parse_mapping(TextCursor& cursor) {
  TensorFactors dims;
  cursor.expect("[");
  if (cursor.accept("]")) return dims;
  do {
    DimFactors& dim = dims.emplace_back();
    std::string_view word = cursor.identifier();
    while (!word.empty()) dim.push_back(take_symbol(word, cursor));
  } while (cursor.accept(","));
  cursor.expect("]");
  return dims;
}

std::vector<TensorFactors> parse_mappings(TextCursor& cursor) {
  std::vector<TensorFactors> tensors;
  cursor.expect("(");
  if (cursor.accept(")")) return tensors;
  do tensors.push_back(parse_mapping(cursor));
  while (cursor.accept(","));
  cursor.expect(")");
  return tensors;
}

FactorIndex parse_factor(TextCursor& cursor) {
  std::string_view word = cursor.identifier();
  const FactorIndex factor = take_symbol(word, cursor);
  if (!word.empty()) cursor.fail("expected one factor");
  return factor;
}

void parse_sizes(TextCursor& cursor, OpShardingRule& rule) {
  if (!cursor.accept("{") || cursor.accept("}")) return;
  do {
    const FactorIndex factor = parse_factor(cursor);
    if (factor != static_cast<FactorIndex>(rule.factors.size()))
      cursor.fail(fmt::format("expected the size of factor '{}', not of '{}'",
                              factor_symbol(static_cast<FactorIndex>(rule.factors.size())),
                              factor_symbol(factor)));
    cursor.expect("=");
    rule.factors.push_back({cursor.integer()});
  } while (cursor.accept(","));
  cursor.expect("}");
}

void parse_group(TextCursor& cursor, OpShardingRule& rule, std::string_view word,
                 const std::function<void(Factor&)>& mark) {
  if (!cursor.accept(word)) return;
  cursor.expect("=");
  cursor.expect("{");
  if (cursor.accept("}")) return;
  FactorIndex last = -1;
  do {
    const FactorIndex factor = parse_factor(cursor);
    if (factor <= last) cursor.fail("factors must be in order");
    last = factor;
    if (factor >= static_cast<FactorIndex>(rule.factors.size()))
      cursor.fail(fmt::format("factor '{}' has no size", factor_symbol(factor)));
    mark(rule.factors[static_cast<size_t>(factor)]);
  } while (cursor.accept(","));
  cursor.expect("}");
}

void append_mappings(std::string& text, const std::vector<TensorFactors>& tensors) {
  text += '(';
  for (size_t t = 0; t < tensors.size(); ++t) {
    text += t ? ", [" : "[";
    for (size_t d = 0; d < tensors[t].size(); ++d) {
      if (d) text += ", ";
      for (FactorIndex factor : tensors[t][d]) text += factor_symbol(factor);
    }
    text += ']';
  }
  text += ')';
}

void append_group(std::string& text, const OpShardingRule& rule, std::string_view word,
                  const std::function<bool(const Factor&)>& in_group) {
  bool any = false;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!in_group(rule.factors[f])) continue;
    text += any ? ", " : fmt::format(" {}={{", word);
    any = true;
    text += factor_symbol(static_cast<FactorIndex>(f));
  }
  if (any) text += '}';
}

}  // namespace

std::string factor_symbol(FactorIndex factor) {
  if (factor <= kLetterZ) return std::string(1, static_cast<char>('i' + factor));
  return fmt::format("z_{}", factor - kLetterZ);
}

std::string to_string(const OpShardingRule& rule) {
  std::string text;
  append_mappings(text, rule.operands);
  text += "->";
  append_mappings(text, rule.results);
  if (!rule.factors.empty()) {
    text += " {";
    for (size_t f = 0; f < rule.factors.size(); ++f)
      text += fmt::format("{}{}={}", f ? ", " : "", factor_symbol(static_cast<FactorIndex>(f)),
                          rule.factors[f].size);
    text += '}';
  }
  const auto of_kind = [](FactorKind kind) {
    return [kind](const Factor& factor) { return factor.kind == kind; };
  };
  append_group(text, rule, "reduction", of_kind(FactorKind::Reduction));
  append_group(text, rule, "need_replication", of_kind(FactorKind::NeedReplication));
  append_group(text, rule, "permutation", of_kind(FactorKind::Permutation));
  append_group(text, rule, "blocked_propagation",
               [](const Factor& factor) { return factor.blocked; });
  if (rule.is_custom) text += ", custom";
  return text;
}

OpShardingRule parse_sharding_rule_body(TextCursor& cursor) {
  OpShardingRule rule;
  cursor.expect("<");
  const size_t begin = cursor.pos();
  rule.operands = parse_mappings(cursor);
  cursor.expect("->");
  rule.results = parse_mappings(cursor);
  parse_sizes(cursor, rule);
  const auto set_kind = [&](FactorKind kind) {
    return [&cursor, kind](Factor& factor) {
      if (factor.kind != FactorKind::PassThrough) cursor.fail("a factor is of two kinds");
      factor.kind = kind;
    };
  };
  parse_group(cursor, rule, "reduction", set_kind(FactorKind::Reduction));
  parse_group(cursor, rule, "need_replication", set_kind(FactorKind::NeedReplication));
  parse_group(cursor, rule, "permutation", set_kind(FactorKind::Permutation));
  parse_group(cursor, rule, "blocked_propagation", [](Factor& factor) { factor.blocked = true; });
  if (cursor.accept(",")) {
    cursor.expect("custom");
    rule.is_custom = true;
  }
  cursor.expect(">");
  for (size_t t = 0; t < rule.num_tensors(); ++t)
    for (const DimFactors& dim : rule.tensor(t))
      for (FactorIndex factor : dim)
        if (factor >= static_cast<FactorIndex>(rule.factors.size()))
          throw ParseError(begin, fmt::format("factor '{}' has no size", factor_symbol(factor)));
  return rule;
}

OpShardingRule parse_sharding_rule(std::string_view text) {
  std::string bracketed(text);
  if (bracketed.find('<') == std::string::npos) bracketed = "<" + bracketed + ">";
  TextCursor cursor(bracketed);
  try {
    cursor.accept("#sdy.op_sharding_rule");
    OpShardingRule rule = parse_sharding_rule_body(cursor);
    if (!cursor.at_end()) cursor.fail("unexpected text after the rule");
    return rule;
  } catch (const ParseError& error) {
    throw_user("sharding rule '{}': {}; write it as ([i, k], [k, j])->([i, j]) {{i=2, j=4, k=8}}",
               text, error.what());
  }
}

}  // namespace cleave
