#include "cleave/report/page.h"

#include <zlib.h>

#include <array>

#include "cleave/core/error.h"
#include "cleave/report/page_assets.h"

namespace cleave::report {
namespace {

// Puts a text in place of a mark; marks in what was put in do not count.
std::string filled(std::string_view page,
                   const std::array<std::pair<std::string_view, std::string_view>, 4>& parts) {
  std::string text;
  size_t done = 0;
  for (const auto& [mark, part] : parts) {
    const size_t at = page.find(mark, done);
    internal_check(at != std::string_view::npos, "the page lacks one of its marks");
    text += page.substr(done, at - done);
    text += part;
    done = at + mark.size();
  }
  return text += page.substr(done);
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t b = 0; b < 3; ++b)
      group = group << 8 | (b < count ? static_cast<unsigned char>(bytes[i + b]) : 0);
    for (size_t letter = 0; letter < 4; ++letter)
      text += letter <= count ? kLetters[group >> (18 - 6 * letter) & 63] : '=';
  }
  return text;
}

std::string deflated(std::string_view bytes) {
  constexpr int kRawWindow = -15, kMemory = 9;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kRawWindow, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw_internal("zlib does not begin");
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const int state = deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  internal_check(state == Z_STREAM_END, "zlib does not end");
  return result;
}

std::string page_of(std::string_view report, std::string_view title) {
  return filled(kPageHtml, {{{"@TITLE@", escaped_html(title)},
                             {"@STYLE@", kPageStyles},
                             {"@REPORT@", base64(deflated(report))},
                             {"@SCRIPT@", kPageScripts}}});
}

}  // namespace cleave::report
