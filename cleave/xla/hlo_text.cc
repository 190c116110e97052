#include "cleave/xla/hlo_text.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "cleave/core/error.h"

namespace cleave::xla {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Walks over text, and knows how deep in brackets it is; strings and comments count as nothing.
class Nesting {
 public:
  explicit Nesting(std::string_view text, size_t pos = 0) : text_(text), pos_(pos) {}

  bool at_end() const { return pos_ >= text_.size(); }
  size_t pos() const { return pos_; }
  int depth() const { return depth_; }

  // The character here, after which the walk stands behind it; '\0' for a string or a comment,
  // which are passed as a whole.
  char next() {
    const char c = text_[pos_++];
    if (c == '"') return pass_string();
    if (c == '/' && pos_ < text_.size() && text_[pos_] == '*') return pass_comment();
    if (c == '/' && pos_ < text_.size() && text_[pos_] == '/') return pass_line();
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
    return c;
  }

 private:
  char pass_string() {
    while (pos_ < text_.size() && text_[pos_] != '"') pos_ += text_[pos_] == '\\' ? 2 : 1;
    pos_ = std::min(pos_ + 1, text_.size());
    return '\0';
  }
  char pass_comment() {
    const size_t end = text_.find("*/", pos_);
    pos_ = end == std::string_view::npos ? text_.size() : end + 2;
    return '\0';
  }

  char pass_line() {
    pos_ = std::min(text_.find('\n', pos_), text_.size());
    return '\0';
  }

  std::string_view text_;
  size_t pos_;
  int depth_ = 0;
};

class HloReader {
 public:
  explicit HloReader(std::string_view text) : text_(text) {}

  HloModule read() {
    read_header();
    bool has_entry = false;
    for (std::string_view line; next_line(line);) {
      const std::string_view head = trimmed(line);
      if (head.empty() || head.starts_with("//") || is_stack_frame(head)) continue;
      if (head.starts_with("HloModule"))
        throw_user("line {}: a second HloModule; one module was expected", line_);
      if (!head.ends_with("{"))
        throw_user("line {}: a computation was expected: {}", line_, shown(head));
      has_entry |= read_computation(head);
    }
    if (module_.computations.empty())
      throw_user("the HLO module has no computations: its text ends after line {}", line_);
    if (!has_entry) throw_user("the HLO module has no ENTRY computation: its text is not whole");
    return std::move(module_);
  }

 private:
  bool next_line(std::string_view& line) {
    if (pos_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', pos_), text_.size());
    line = text_.substr(pos_, end - pos_);
    pos_ = end + 1;
    ++line_;
    return true;
  }

  static std::string shown(std::string_view text) {
    return std::string(text.substr(0, 60)) + (text.size() > 60 ? "..." : "");
  }

  void read_header() {
    std::string_view line;
    do {
      if (!next_line(line)) throw_user("an HLO module was expected, and there is no text");
    } while (trimmed(line).empty() || trimmed(line).starts_with("//"));
    line = trimmed(line);
    if (!line.starts_with("HloModule ")) {
      const bool is_mlir = text_.find("func.func") != std::string_view::npos;
      throw_user("line {}: this is not HLO text, which begins with HloModule{}: {}", line_,
                 is_mlir ? "; it is MLIR, as lowered.as_text() gives: take compiled.as_text()" : "",
                 shown(line));
    }
    line = whole_header(line);
    line.remove_prefix(10);
    module_.header = line;
    module_.name = std::string(trimmed(line.substr(0, line.find(','))));
    module_.states_devices =
        !attribute(line, "num_partitions").empty() || !attribute(line, "replica_count").empty();
    module_.partitions = count("num_partitions");
    module_.replicas = count("replica_count");
  }

  // A header goes on in the next line inside brackets and after a comma: some of its tables have a
  // line for each entry.
  std::string_view whole_header(std::string_view line) {
    const size_t begin = static_cast<size_t>(line.data() - text_.data());
    Nesting walk(text_, begin);
    char last = '\0';
    while (!walk.at_end() && walk.depth() >= 0) {
      const char c = walk.next();
      if (c == '\n' && walk.depth() == 0 && last != ',') {
        const std::string_view header = text_.substr(begin, walk.pos() - 1 - begin);
        line_ += static_cast<size_t>(std::count(header.begin(), header.end(), '\n'));
        pos_ = walk.pos();
        return trimmed(header);
      }
      if (!is_space(c)) last = c;
    }
    return line;
  }

  int64_t count(std::string_view name) const {
    const std::string_view value = attribute(module_.header, name);
    if (value.empty()) return 1;
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 1 ||
        number > (int64_t{1} << 20))
      throw_user("HloModule {}: {}={} is not a number of devices", module_.name, name, value);
    return number;
  }

  // The tables of source locations before the computations.
  static bool is_stack_frame(std::string_view head) {
    for (const std::string_view title :
         {"FileNames", "FunctionNames", "FileLocations", "StackFrames"})
      if (head == title) return true;
    return head.front() >= '0' && head.front() <= '9';
  }

  // From its head, which was read, to the brace that closes it.
  bool read_computation(std::string_view head) {
    const bool is_entry = head.starts_with("ENTRY ");
    if (is_entry) head = trimmed(head.substr(6));
    if (head.starts_with("%")) head.remove_prefix(1);
    const auto end = std::find_if_not(head.begin(), head.end(), is_name);
    HloComputation computation;
    computation.name = head.substr(0, static_cast<size_t>(end - head.begin()));
    if (computation.name.empty())
      throw_user("line {}: a computation was expected: {}", line_, shown(head));
    const size_t first = line_;
    while (true) {
      skip_space();
      if (pos_ >= text_.size()) ends_early(computation.name, first);
      if (text_[pos_] == '}') break;
      computation.instructions.push_back(read_instruction(computation.name, first));
    }
    std::string_view rest;
    next_line(rest);  // }, execution_thread="..."
    const size_t index = module_.computations.size();
    if (!module_.by_name.emplace(computation.name, index).second)
      throw_user("line {}: there are two computations %{}", first, computation.name);
    if (is_entry) module_.entry = index;
    module_.computations.push_back(std::move(computation));
    return is_entry;
  }

  void skip_space() {
    if (pos_ >= text_.size()) return;
    const size_t end = after_space(pos_);
    line_ +=
        static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                       text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    pos_ = end;
  }

  // What comes after spaces, and comments to the end of a line.
  size_t after_space(size_t pos) const {
    while (true) {
      while (pos < text_.size() && is_space(text_[pos])) ++pos;
      if (pos >= text_.size() || !text_.substr(pos).starts_with("//")) return pos;
      pos = std::min(text_.find('\n', pos), text_.size());
    }
  }

  [[noreturn]] static void ends_early(std::string_view name, size_t line) {
    throw_user("the HLO text ends inside computation %{}, which begins at line {}", name, line);
  }

  // Whether an instruction or the end of the computation begins here, after spaces.
  bool begins_statement(size_t pos) const {
    pos = after_space(pos);
    if (pos >= text_.size() || text_[pos] == '}') return true;
    if (text_.substr(pos).starts_with("ROOT ")) return true;
    if (text_[pos] == '%') ++pos;
    const size_t begin = pos;
    while (pos < text_.size() && is_name(text_[pos])) ++pos;
    return pos > begin && text_.substr(pos).starts_with(" = ");
  }

  HloInstruction read_instruction(std::string_view computation, size_t first) {
    const size_t begin = pos_;
    Nesting walk(text_, pos_);
    while (true) {
      if (walk.at_end()) ends_early(computation, first);
      // The comments before the next instruction are no part of this one.
      if (walk.depth() == 0 && text_.substr(walk.pos()).starts_with("//") &&
          begins_statement(walk.pos()))
        break;
      const char c = walk.next();
      if (walk.depth() < 0) throw_user("line {}: a bracket closes that was not opened", line_ + 1);
      if (c == '\n' && walk.depth() == 0 && begins_statement(walk.pos())) break;
    }
    const std::string_view statement = text_.substr(begin, walk.pos() - begin);
    HloInstruction instruction = parts_of(trimmed(statement), line_ + 1);
    line_ += static_cast<size_t>(std::count(statement.begin(), statement.end(), '\n'));
    pos_ = walk.pos();
    return instruction;
  }

  static HloInstruction parts_of(std::string_view statement, size_t line) {
    HloInstruction result;
    result.line = line;
    std::string_view rest = statement;
    if (rest.starts_with("ROOT ")) {
      result.is_root = true;
      rest = trimmed(rest.substr(5));
    }
    const size_t equals = rest.find(" = ");
    if (equals == std::string_view::npos)
      throw_user("line {}: an instruction was expected: {}", line, shown(statement));
    result.name = name_of(rest.substr(0, equals));
    rest = trimmed(rest.substr(equals + 3));
    Nesting type(rest);
    size_t end = rest.size();
    while (!type.at_end())
      if (type.next() == ' ' && type.depth() == 0) {
        end = type.pos() - 1;
        break;
      }
    result.type = rest.substr(0, end);
    rest = trimmed(rest.substr(end));
    const size_t open = rest.find('(');
    if (open == std::string_view::npos)
      throw_user("line {}: an instruction was expected: {}", line, shown(statement));
    result.opcode = trimmed(rest.substr(0, open));
    Nesting call(rest, open);
    do call.next();
    while (!call.at_end() && call.depth() > 0);
    result.operands = trimmed(rest.substr(open + 1, call.pos() - open - 2));
    result.attributes = rest.substr(call.pos());
    return result;
  }

  std::string_view text_;
  size_t pos_ = 0;
  size_t line_ = 0;  // that was read last
  HloModule module_;
};

// Bits of an element; of an array with an odd number of small ones the bytes are rounded up.
int bits_of(std::string_view element) {
  if (element == "token" || element == "opaque") return 0;
  if (element == "pred") return 8;
  if (element == "c64" || element == "c128") return element == "c64" ? 64 : 128;
  if (element.starts_with("bf")) element.remove_prefix(1);
  if (element.empty() || std::string_view("suf").find(element[0]) == std::string_view::npos)
    return -1;
  int bits = 0;
  const auto [end, error] =
      std::from_chars(element.data() + 1, element.data() + element.size(), bits);
  // f8e4m3fn and f4e2m1fn have their layout after the bits.
  const bool is_whole = end == element.data() + element.size();
  if (error != std::errc() || (!is_whole && (element[0] != 'f' || *end != 'e'))) return -1;
  for (const int known : {1, 2, 4, 8, 16, 32, 64})
    if (bits == known) return bits;
  return -1;
}

int64_t bytes_of(std::string_view element, std::string_view sizes) {
  const int bits = bits_of(element);
  if (bits < 0) throw_user("HLO: the element type {} is not known", element);
  int64_t count = 1;
  for (std::string_view size : split_list(sizes)) {
    if (size.starts_with("<=")) size.remove_prefix(2);  // bounded
    int64_t n = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), n);
    if (error != std::errc() || end != size.data() + size.size() || n < 0)
      throw_user("HLO: the size {} of {}[{}] is not known", size, element, sizes);
    if (__builtin_mul_overflow(count, n, &count) || count > (int64_t{1} << 52))
      throw_user("HLO: {}[{}] is beyond all memory", element, sizes);
  }
  return (count * bits + 7) / 8;
}

}  // namespace

HloModule parse_hlo(std::string_view text) { return HloReader(text).read(); }

std::string_view attribute(std::string_view attributes, std::string_view name) {
  for (const std::string_view part : split_list(attributes))
    if (part.starts_with(name) && part.substr(name.size()).starts_with("="))
      return part.substr(name.size() + 1);
  return {};
}

std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> parts;
  Nesting walk(list);
  size_t begin = 0;
  const auto add = [&](size_t end) {
    std::string_view part = trimmed(list.substr(begin, end - begin));
    while (part.starts_with("//") ||
           (part.starts_with("/*") && part.find("*/") != std::string_view::npos))
      part = part.starts_with("//") ? trimmed(part.substr(std::min(part.find('\n'), part.size())))
                                    : trimmed(part.substr(part.find("*/") + 2));
    if (!part.empty()) parts.push_back(part);
    begin = end + 1;
  };
  while (!walk.at_end())
    if (walk.next() == ',' && walk.depth() == 0) add(walk.pos() - 1);
  if (begin < list.size()) add(list.size());
  return parts;
}

std::string_view name_of(std::string_view operand) {
  operand = trimmed(operand);
  size_t begin = operand.size();
  while (begin > 0 && is_name(operand[begin - 1])) --begin;
  return operand.substr(begin);
}

std::vector<int64_t> array_bytes(std::string_view type) {
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < type.size();) {
    if (type.substr(i).starts_with("/*")) {
      i = std::min(type.find("*/", i), type.size() - 2) + 2;
      continue;
    }
    if (type[i] == '{') {  // a layout
      Nesting layout(type, i);
      do layout.next();
      while (!layout.at_end() && layout.depth() > 0);
      i = layout.pos();
      continue;
    }
    size_t end = i;
    while (end < type.size() && is_name(type[end])) ++end;
    const size_t close = type.find(']', end);
    if (end > i && end < type.size() && type[end] == '[' && close != std::string_view::npos) {
      bytes.push_back(bytes_of(type.substr(i, end - i), type.substr(end + 1, close - end - 1)));
      i = close + 1;
      continue;
    }
    if (end > i) throw_user("HLO: the type {} is not known", type.substr(0, 60));
    ++i;
  }
  return bytes;
}

}  // namespace cleave::xla
