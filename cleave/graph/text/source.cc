#include "cleave/graph/text/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/graph/text/text.h"

namespace cleave {
namespace text {
namespace {

constexpr size_t kMaxShownColumns = 160;

}  // namespace

std::string render_error(std::string_view text, size_t offset, std::string_view file_name,
                         size_t first_line, std::string_view message) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_break = before.rfind('\n');
  const size_t line_begin = line_break == std::string_view::npos ? 0 : line_break + 1;
  const size_t line_end = std::min(text.find('\n', line_begin), text.size());
  const size_t column = offset - line_begin;

  // A very long line is shown around the column.
  const size_t shown_begin =
      column > kMaxShownColumns / 2 && line_end - line_begin > kMaxShownColumns
          ? line_begin + column - kMaxShownColumns / 2
          : line_begin;
  std::string shown(text.substr(shown_begin, std::min(line_end - shown_begin, kMaxShownColumns)));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return fmt::format("{}:{}:{}: {}\n{}\n{}^", file_name, first_line + line, column + 1, message,
                     shown, std::string(offset - shown_begin, ' '));
}

}  // namespace text

std::vector<SourceChunk> split_input(std::string_view text) {
  constexpr std::string_view kMarker = "// -----";
  std::vector<SourceChunk> chunks;
  size_t begin = 0, chunk_line = 1, line = 1;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    if (text.substr(pos, kMarker.size()) == kMarker) {
      chunks.push_back({text.substr(begin, pos - begin), chunk_line});
      begin = std::min(end + 1, text.size());
      chunk_line = line + 1;
    }
    pos = end + 1;
    ++line;
  }
  chunks.push_back({text.substr(begin), chunk_line});
  return chunks;
}

}  // namespace cleave
