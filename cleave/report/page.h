#pragma once

#include <string>
#include <string_view>

namespace cleave::report {

// A page that shows a report: one file of HTML with everything inside, deterministic. The report is
// its JSON; the page has it deflated. `title` is escaped.
std::string page_of(std::string_view report, std::string_view title);

// "a<b" -> "a&lt;b"
std::string escaped_html(std::string_view text);
// As RFC 4648 has it.
std::string base64(std::string_view bytes);
// Raw deflate (RFC 1951), as DecompressionStream("deflate-raw") reads it.
std::string deflated(std::string_view bytes);

}  // namespace cleave::report
