#include "cleave/cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace cleave::cli {
namespace {

constexpr std::string_view kBold = "\033[1m", kFaint = "\033[90m", kYellow = "\033[33m",
                           kPlain = "\033[0m";
// Of axes: legible on light and on dark ground.
constexpr std::array<std::string_view, 6> kAxisColours = {"\033[94m", "\033[33m", "\033[32m",
                                                          "\033[35m", "\033[36m", "\033[31m"};
constexpr int kBarWidth = 12;
constexpr std::string_view kBlock = "\xE2\x96";  // what the characters of bars begin with
constexpr int kLeastWidth = 70;  // of a terminal, below which there is no room for bars

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = variable(name);
    if (value.empty()) continue;  // the first that is set decides
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

bool goes_on(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t columns(std::string_view line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return !goes_on(c); }));
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// The share in percent that ends the figures of a row, and where it ends.
struct Share {
  double percent = 0;
  size_t end = 0;
};
std::optional<Share> share_in(std::string_view line) {
  if (indent_of(line) < 2) return std::nullopt;
  const size_t sign = line.find('%');
  if (sign == std::string_view::npos) return std::nullopt;
  const std::string_view after = line.substr(sign + 1);
  if (!after.empty() && !after.starts_with("  ")) return std::nullopt;
  const size_t start = line.find_last_not_of("0123456789.", sign - 1) + 1;
  if (start == sign || start < 3 || line[start - 1] != ' ') return std::nullopt;
  Share share{0, sign + 1};
  std::from_chars(line.data() + start, line.data() + sign, share.percent);
  return share;
}

// Eighths of a column, so that small shares differ.
std::string bar(double percent) {
  static constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<int>(std::lround(std::clamp(percent, 0.0, 100.0) / 100 * 8 * kBarWidth));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kParts[static_cast<size_t>(eighths % 8)];
  return text + std::string(kBarWidth - columns(text), ' ');
}

// Rows with a share get a bar; what is below their last columns moves with them.
void add_bars(std::vector<std::string>& lines) {
  std::optional<Share> above;
  for (std::string& line : lines) {
    const auto share = share_in(line);
    if (share) {
      const std::string rest = line.substr(share->end);
      line = line.substr(0, share->end) + " " + bar(share->percent) + rest;
      line.erase(line.find_last_not_of(' ') + 1);
    } else if (above && !line.empty() && indent_of(line) > above->end) {
      line.insert(0, kBarWidth + 1, ' ');
      continue;
    }
    above = share;
  }
}

// The line in parts that fit: broken at spaces, the parts after the first further in. A line that
// begins far to the right moves to the left; a word that is longer than the rest has a part alone.
std::vector<std::string> broken(const std::string& line, size_t width) {
  std::vector<std::string> parts;
  std::string rest = line;
  if (columns(line) > width && indent_of(line) > width / 3)
    rest.erase(0, indent_of(line) - width / 3);
  const size_t indent = std::min(indent_of(rest) + 4, width / 2);
  while (columns(rest) > width) {
    size_t end = 0;
    for (size_t seen = 0; end < rest.size() && (seen < width || goes_on(rest[end])); ++end)
      seen += goes_on(rest[end]) ? 0 : 1;
    size_t space = rest.find_last_of(' ', end);
    if (space == std::string::npos || space <= std::max(indent, indent_of(rest)))
      space = rest.find(' ', end);
    const size_t next = rest.find_first_not_of(' ', space);
    if (space == std::string::npos || next == std::string::npos) break;
    parts.push_back(rest.substr(0, space));
    parts.back().erase(parts.back().find_last_not_of(' ') + 1);
    rest = std::string(indent, ' ') + rest.substr(next);
  }
  parts.push_back(std::move(rest));
  return parts;
}

std::string_view colour_of_axis(std::string_view name, const std::vector<std::string>& axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == name) return kAxisColours[i % kAxisColours.size()];
  return {};
}

// Names of axes in quotes; `base` is what the text around them has.
std::string with_axes(std::string_view line, const std::vector<std::string>& axes,
                      std::string_view base) {
  std::string text;
  for (size_t at = 0; at < line.size();) {
    const size_t end = line[at] == '"' ? line.find('"', at + 1) : std::string_view::npos;
    const std::string_view colour = end == std::string_view::npos
                                        ? std::string_view()
                                        : colour_of_axis(line.substr(at + 1, end - at - 1), axes);
    if (colour.empty()) {
      text += line[at++];
      continue;
    }
    text += fmt::format("{}{}{}{}", colour, line.substr(at, end + 1 - at), kPlain, base);
    at = end + 1;
  }
  return text;
}

// A bar has the colour of the first axis of its row, and is grey beside computation.
std::string with_bar(const std::string& line, const std::vector<std::string>& axes) {
  const size_t begin = line.find(kBlock);
  if (begin == std::string::npos) return with_axes(line, axes, "");
  size_t end = begin;
  while (end < line.size() && static_cast<unsigned char>(line[end]) >= 0x80) ++end;
  std::string_view colour = kFaint;
  const size_t quote = line.find('"');
  if (quote < begin) {
    const std::string_view name = std::string_view(line).substr(quote + 1);
    const std::string_view of_axis = colour_of_axis(name.substr(0, name.find('"')), axes);
    if (!of_axis.empty()) colour = of_axis;
  }
  return with_axes(line.substr(0, begin), axes, "") +
         fmt::format("{}{}{}", colour, line.substr(begin, end - begin), kPlain) +
         with_axes(line.substr(end), axes, "");
}

bool is_title(std::string_view line) {
  return !line.empty() && line[0] != ' ' &&
         (line.ends_with(':') || line.find_first_of("0123456789") == std::string_view::npos);
}

std::string coloured(const std::string& line, bool first, const std::vector<std::string>& axes) {
  if (line.starts_with("note: "))
    return fmt::format("{}note:{}", kYellow, kPlain) + with_axes(line.substr(5), axes, "");
  if (first || is_title(line))
    return fmt::format("{}{}{}", kBold, with_axes(line, axes, kBold), kPlain);
  if (line.starts_with("step ")) {
    const size_t end = std::min(line.find(','), line.size());
    return fmt::format("{}{}{}", kBold, line.substr(0, end), kPlain) +
           with_axes(line.substr(end), axes, "");
  }
  return with_bar(line, axes);
}

// "[0,4)" in the colour of the axis that splits the dimension first.
std::string ranges_in(std::string_view line, const DimSpec& dim) {
  if (dim.axes.empty()) return std::string(line);
  const size_t axis = static_cast<size_t>(dim.axes[0].axis);
  std::string text;
  for (const char c : line) {
    if (c == '[') text += kAxisColours[axis % kAxisColours.size()];
    text += c;
    if (c == ')') text += kPlain;
  }
  return text;
}

}  // namespace

Terminal terminal_of_output() {
  Terminal terminal;
  const bool looks = isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb";
  const std::string force = variable("CLICOLOR_FORCE");
  const bool is_forced = !force.empty() && force != "0";
  terminal.colours = variable("NO_COLOR").empty() && (looks || is_forced);
  if (!looks) return terminal;
  terminal.bars = is_utf8();
  winsize size{};
  terminal.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return terminal;
}

bool fits(std::string_view text, const Terminal& terminal) {
  if (terminal.width <= 0) return true;
  const std::vector<std::string> lines = lines_of(text);
  return std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return columns(line) <= static_cast<size_t>(terminal.width);
  });
}

std::string painted(std::string_view text, const Terminal& terminal,
                    const std::vector<std::string>& axes) {
  std::vector<std::string> lines = lines_of(text);
  if (terminal.bars && terminal.width >= kLeastWidth) add_bars(lines);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> parts =
        terminal.width > 0 ? broken(lines[i], static_cast<size_t>(terminal.width))
                           : std::vector<std::string>{lines[i]};
    for (const std::string& part : parts)
      out += (terminal.colours ? coloured(part, i == 0, axes) : part) + "\n";
  }
  return out;
}

std::string painted_picture(const std::string& picture, const Terminal& terminal,
                            const ShardingSpec& spec, const Shape& shape) {
  if (!terminal.colours || !spec.mesh) return picture;
  const size_t rank = shape.size();
  std::string out;
  for (const std::string& line : lines_of(picture)) {
    const size_t bar = line.find('|');
    if (line.find("+-") != std::string::npos)
      out += fmt::format("{}{}{}", kFaint, line, kPlain);
    else if (bar != std::string::npos && rank >= 2)
      out += ranges_in(line.substr(0, bar), spec.dims[rank - 2]) + line.substr(bar);
    else if (rank >= 1 && line.starts_with("  ") && line.find('[') != std::string::npos)
      out += ranges_in(line, spec.dims[rank - 1]);
    else
      out += line;
    out += "\n";
  }
  return out;
}

std::vector<std::string> axis_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const auto& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

void print_painted(std::string_view text, const std::vector<std::string>& axes) {
  const Terminal terminal = terminal_of_output();
  const bool is_plain = !terminal.colours && !terminal.bars && terminal.width == 0;
  fmt::print("{}", is_plain ? std::string(text) : painted(text, terminal, axes));
}

}  // namespace cleave::cli
