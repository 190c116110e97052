#include "random_program.h"

#include "writer.h"

namespace cleave::soak {

std::string RandomProgram::text() const {
  std::string text = functions, list;
  for (const Value& arg : args)
    list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", arg.name, type_text(arg));
  std::vector<std::string> names, types;
  for (const Value& result : results) {
    names.push_back(result.name);
    types.push_back(type_text(result));
  }
  text += fmt::format("func.func @main({}) -> ({}) {{\n", list, fmt::join(types, ", "));
  for (const Step& step : steps) text += step.text;
  return text +
         fmt::format("  return {} : {}\n}}\n", fmt::join(names, ", "), fmt::join(types, ", "));
}

RandomProgram random_program(uint64_t seed) { return Writer(seed).write(); }

}  // namespace cleave::soak
