#pragma once

#include <string_view>

namespace cleave::report {

// cleave/report/page: the page with marks for its parts, its style sheets and its scripts in their
// order, one text each (cmake/page_assets.cmake).
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyles;
extern const std::string_view kPageScripts;

}  // namespace cleave::report
