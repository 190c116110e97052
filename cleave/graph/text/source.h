#pragma once

#include <string>
#include <string_view>

namespace cleave::text {

// `file:line:column: message`, the line, and a caret under the column.
std::string render_error(std::string_view text, size_t offset, std::string_view file_name,
                         size_t first_line, std::string_view message);

}  // namespace cleave::text
