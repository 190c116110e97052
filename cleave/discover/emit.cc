#include "cleave/discover/emit.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/synthesize.h"

namespace cleave {

std::string identifier(const std::string& op) {
  std::string text = op;
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return text;
}

std::string emit_shardy(const Discovery& discovery) {
  std::string text;
  for (const SampleDecisions& sample : discovery.samples) {
    const SynthesizedRule made = synthesize(sample);
    text += fmt::format("// {}({})\n#sdy.op_sharding_rule<{}, custom>\n", discovery.op,
                        to_string(sample.sample), to_string(made.rule));
    for (const Factor& factor : made.rule.factors)
      if (factor.kind == FactorKind::Reduction && factor.reduce != ReduceOp::Sum)
        text +=
            fmt::format("// the reduction is {}, which the text cannot say\n", name(factor.reduce));
    for (const std::string& line : made.not_expressible)
      text += "// valid, but not expressible: " + line + "\n";
  }
  return text;
}

}  // namespace cleave
