#include "cleave/pjrt/hlo_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <unordered_map>

#include "cleave/pjrt/hlo_message.h"

namespace cleave::pjrt {
namespace {

// By XLA's number of the type.
std::string_view element_name(int64_t type) {
  static constexpr std::string_view kNames[] = {
      "invalid",    "pred",       "s8",   "s16",    "s32",      "s64",    "u8",     "u16",
      "u32",        "u64",        "f16",  "f32",    "f64",      "tuple",  "opaque", "c64",
      "bf16",       "token",      "c128", "f8e5m2", "f8e4m3fn", "s4",     "u4",     "f8e4m3b11fnuz",
      "f8e5m2fnuz", "f8e4m3fnuz", "s2",   "u2",     "f8e4m3",   "f8e3m4", "s1",     "u1",
      "f4e2m1fn",   "f8e8m0fnu"};
  if (type < 0 || type >= static_cast<int64_t>(std::size(kNames))) return "invalid";
  return kNames[type];
}
constexpr int64_t kTuple = 13;

// "f32[4,8]{1,0}", "(s32[], f32[2])".
std::string shape_text(std::string_view bytes) {
  const HloMessage shape(bytes);
  const int64_t type = shape.integer(2);
  if (type == kTuple) {
    std::string text;
    for (std::string_view part : shape.each(4))
      text += (text.empty() ? "" : ", ") + shape_text(part);
    return "(" + text + ")";
  }
  std::string text = fmt::format("{}[{}]", element_name(type), fmt::join(shape.integers(3), ","));
  if (!shape.has(5)) return text;
  const std::vector<int64_t> order = HloMessage(shape.bytes(5)).integers(1);
  if (!order.empty()) text += fmt::format("{{{}}}", fmt::join(order, ","));
  return text;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// The one value of a literal; "{...}" if there are more.
std::string literal_text(std::string_view bytes) {
  const HloMessage literal(bytes);
  const HloMessage shape(literal.bytes(1));
  int64_t elements = 1;
  for (int64_t n : shape.integers(3)) elements *= n;
  if (elements != 1 || !shape.integers(3).empty()) return "{...}";
  switch (shape.integer(2)) {
    case 1:
      return literal.integers(2).empty() || literal.integers(2)[0] == 0 ? "false" : "true";
    case 4:
    case 5:
    case 8:
    case 9: {
      static const std::unordered_map<int64_t, int> kFields = {{4, 4}, {5, 5}, {8, 6}, {9, 7}};
      const std::vector<int64_t> values = literal.integers(kFields.at(shape.integer(2)));
      if (values.empty()) return "0";
      return shape.integer(2) == 4 ? fmt::format("{}", static_cast<int32_t>(values[0]))
                                   : fmt::format("{}", values[0]);
    }
    case 11:
      if (const std::string_view f = literal.bytes(8); f.size() >= 4) {
        float value;
        std::memcpy(&value, f.data(), 4);
        return fmt::format("{}", value);
      }
      return "0";
    default:
      return "{...}";
  }
}

std::string groups_text(const std::vector<std::string_view>& groups) {
  std::string text;
  for (std::string_view group : groups)
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ",",
                        fmt::join(HloMessage(group).integers(1), ","));
  return "{" + text + "}";
}

// "[2,4]<=[8]", "[2,4]<=[4,2]T(1,0)".
std::string iota_text(std::string_view bytes) {
  const HloMessage iota(bytes);
  const std::vector<int64_t> permutation = iota.integers(4);
  bool moved = false;
  for (size_t i = 0; i < permutation.size(); ++i)
    moved |= permutation[i] != static_cast<int64_t>(i);
  return fmt::format("[{},{}]<=[{}]{}", iota.integer(1), iota.integer(2),
                     fmt::join(iota.integers(3), ","),
                     moved ? fmt::format("T({})", fmt::join(permutation, ",")) : std::string());
}

// "mesh['x'=2,'y'=4], device_ids=(...) {'y'}": the axes of a mesh along which groups go.
std::string mesh_text(std::string_view bytes) {
  const HloMessage list(bytes);
  const HloMessage mesh(list.bytes(1));
  std::vector<std::string> names, axes;
  for (std::string_view axis : mesh.each(1)) {
    names.emplace_back(HloMessage(axis).bytes(1));
    axes.push_back(fmt::format("'{}'={}", names.back(), HloMessage(axis).integer(2)));
  }
  std::vector<std::string> along;
  for (std::string_view bytes_of_axis : list.each(2)) {
    const HloMessage axis(bytes_of_axis);
    const auto index = static_cast<size_t>(axis.integer(1));
    std::string text = fmt::format("'{}'", index < names.size() ? names[index] : "?");
    if (axis.has(2)) {
      const HloMessage part(axis.bytes(2));
      text += fmt::format(":({}){}", part.integer(1), part.integer(2));
    }
    along.push_back(text);
  }
  const std::vector<int64_t> ids = mesh.integers(2);
  return fmt::format(
      "mesh[{}]{} {{{}}}", fmt::join(axes, ","),
      ids.empty() ? std::string() : fmt::format(", device_ids=({})", fmt::join(ids, ",")),
      fmt::join(along, ","));
}

class TextWriter {
 public:
  explicit TextWriter(std::string_view bytes) : module_(bytes) {
    for (std::string_view computation : module_.each(3)) {
      computations_.emplace_back(computation);
      names_[computations_.back().integer(5)] = computations_.back().bytes(1);
    }
  }

  std::string text() {
    std::string out = fmt::format("HloModule {}{}{}\n", module_.bytes(1),
                                  module_.has(7) ? ", is_scheduled=true" : "", aliases());
    for (const HloMessage& computation : computations_) out += "\n" + write(computation);
    return out;
  }

 private:
  // "input_output_alias={ {0}: (1, {}, may-alias) }"
  std::string aliases() const {
    std::string all;
    for (std::string_view bytes : HloMessage(module_.bytes(8)).each(1)) {
      const HloMessage entry(bytes);
      all += fmt::format("{} {{{}}}: ({}, {{{}}}, {})", all.empty() ? "" : ",",
                         fmt::join(entry.integers(1), ","), entry.integer(2),
                         fmt::join(entry.integers(3), ","),
                         entry.integer(4) == 2 ? "must-alias" : "may-alias");
    }
    return all.empty() ? all : ", input_output_alias={" + all + " }";
  }

  std::string write(const HloMessage& computation) {
    std::vector<HloMessage> instructions;
    values_.clear();
    std::string parameters;
    for (std::string_view bytes : computation.each(2)) {
      const HloMessage& instruction = instructions.emplace_back(bytes);
      values_[instruction.integer(35)] = instruction.bytes(1);
    }
    const HloMessage signature(computation.bytes(4));
    const std::vector<std::string_view> names = signature.each(3), types = signature.each(1);
    for (size_t i = 0; i < types.size(); ++i)
      parameters +=
          fmt::format("{}{}: {}", i ? ", " : "",
                      i < names.size() ? names[i] : std::string_view("p"), shape_text(types[i]));
    std::string out = fmt::format("{}%{} ({}) -> {} {{\n",
                                  computation.integer(5) == module_.integer(6) ? "ENTRY " : "",
                                  computation.bytes(1), parameters, shape_text(signature.bytes(2)));
    for (const HloMessage& instruction : instructions)
      out += "  " + write_instruction(instruction, computation.integer(6)) + "\n";
    return out + "}\n";
  }

  std::string write_instruction(const HloMessage& m, int64_t root) const {
    const std::string_view opcode = m.bytes(2);
    std::string inside;
    if (opcode == "parameter") {
      inside = fmt::format("{}", m.integer(9));
    } else if (opcode == "constant") {
      inside = literal_text(m.bytes(8));
    } else {
      for (int64_t id : m.integers(36)) {
        const auto name = values_.find(id);
        inside += fmt::format("{}%{}", inside.empty() ? "" : ", ",
                              name == values_.end() ? "?" : name->second);
      }
    }
    std::string out = fmt::format("{}%{} = {} {}({})", m.integer(35) == root ? "ROOT " : "",
                                  m.bytes(1), shape_text(m.bytes(3)), opcode, inside);
    add_collective(m, out);
    add_dimensions(m, opcode, out);
    add_calls(m, opcode, out);
    add_notes(m, out);
    return out;
  }

  void add_collective(const HloMessage& m, std::string& out) const {
    if (m.integer(26) > 0) out += fmt::format(", channel_id={}", m.integer(26));
    if (m.has(87)) {
      const HloMessage list(m.bytes(87));
      if (list.has(3))
        out += ", replica_groups=" + mesh_text(list.bytes(3));
      else if (list.has(2))
        out += ", replica_groups=" + iota_text(list.bytes(2));
      else
        out += ", replica_groups=" + groups_text(list.each(1));
    } else if (m.has(49)) {
      out += ", replica_groups=" + groups_text(m.each(49));
    }
    if (m.integer(71)) out += ", use_global_device_ids=true";
    if (m.has(52)) {
      std::string pairs;
      for (std::string_view bytes : m.each(52)) {
        const HloMessage pair(bytes);
        pairs +=
            fmt::format("{}{{{},{}}}", pairs.empty() ? "" : ",", pair.integer(1), pair.integer(2));
      }
      out += ", source_target_pairs={" + pairs + "}";
    }
  }

  static void add_list(std::string_view name, const std::vector<int64_t>& numbers,
                       std::string& out) {
    if (!numbers.empty()) out += fmt::format(", {}={{{}}}", name, fmt::join(numbers, ","));
  }

  void add_dimensions(const HloMessage& m, std::string_view opcode, std::string& out) const {
    if (opcode == "iota")
      out += fmt::format(", iota_dimension={}", m.integers(14).empty() ? 0 : m.integers(14)[0]);
    else
      add_list("dimensions", m.integers(14), out);
    if (opcode == "get-tuple-element") out += fmt::format(", index={}", m.integer(13));
    if (m.has(17)) {
      std::string parts;
      for (std::string_view bytes : m.each(17)) {
        const HloMessage part(bytes);
        const int64_t stride = part.integer(3, 1);
        parts += fmt::format("{}[{}:{}{}]", parts.empty() ? "" : ", ", part.integer(1),
                             part.integer(2), stride == 1 ? "" : fmt::format(":{}", stride));
      }
      out += ", slice={" + parts + "}";
    }
    add_list("dynamic_slice_sizes", m.integers(20), out);
    if (m.has(30)) {
      const HloMessage dot(m.bytes(30));
      add_list("lhs_batch_dims", dot.integers(3), out);
      add_list("lhs_contracting_dims", dot.integers(1), out);
      add_list("rhs_batch_dims", dot.integers(4), out);
      add_list("rhs_contracting_dims", dot.integers(2), out);
    }
    if (m.has(63)) out += fmt::format(", direction={}", m.bytes(63));
    if (m.has(28)) out += ", custom_call_target=" + quoted(m.bytes(28));
    if (m.has(11)) out += fmt::format(", kind={}", m.bytes(11));
  }

  void add_calls(const HloMessage& m, std::string_view opcode, std::string& out) const {
    const std::vector<int64_t> ids = m.integers(38);
    if (ids.empty()) return;
    const auto name = [&](size_t i) {
      const auto it = names_.find(ids[i]);
      return fmt::format("%{}", it == names_.end() ? std::string_view("?") : it->second);
    };
    if (opcode == "while" && ids.size() == 2) {
      out += fmt::format(", condition={}, body={}", name(1), name(0));
    } else if (opcode == "conditional" || ids.size() > 1) {
      std::string all;
      for (size_t i = 0; i < ids.size(); ++i) all += (i ? ", " : "") + name(i);
      out +=
          fmt::format(", {}={{{}}}",
                      opcode == "conditional" ? "branch_computations" : "called_computations", all);
    } else if (opcode == "fusion" || opcode.ends_with("-start")) {
      out += ", calls=" + name(0);
    } else {
      out += ", to_apply=" + name(0);
    }
  }

  void add_notes(const HloMessage& m, std::string& out) const {
    const HloMessage metadata(m.bytes(7));
    std::string notes;
    if (metadata.has(1)) notes += " op_type=" + quoted(metadata.bytes(1));
    if (metadata.has(2)) notes += " op_name=" + quoted(metadata.bytes(2));
    if (metadata.has(3)) notes += " source_file=" + quoted(metadata.bytes(3));
    if (metadata.has(4)) notes += fmt::format(" source_line={}", metadata.integer(4));
    if (!notes.empty()) out += ", metadata={" + notes.substr(1) + "}";
    if (const std::string_view config = m.bytes(43); !config.empty())
      out += ", backend_config=" + (config[0] == '{' ? std::string(config) : quoted(config));
  }

  HloMessage module_;
  std::vector<HloMessage> computations_;
  std::unordered_map<int64_t, std::string_view> names_;   // of computations
  std::unordered_map<int64_t, std::string_view> values_;  // of the computation that is written
};

}  // namespace

std::string hlo_text(std::string_view module) { return TextWriter(module).text(); }

}  // namespace cleave::pjrt
