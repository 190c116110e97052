#include "cleave/graph/text/resources.h"

#include <cstring>

#include "cleave/graph/text/attribute_printer.h"
#include "cleave/graph/text/lexer.h"

namespace cleave::text {
namespace {

ResourceBlob blob_of(const Lexer& lexer, size_t begin, std::string_view digits) {
  std::vector<std::byte> bytes = hex_bytes(lexer, begin, digits);
  ResourceBlob blob;
  if (bytes.size() < sizeof(blob.alignment))
    lexer.fail_at(begin, "a blob begins with four bytes of alignment");
  std::memcpy(&blob.alignment, bytes.data(), sizeof(blob.alignment));
  bytes.erase(bytes.begin(), bytes.begin() + sizeof(blob.alignment));
  blob.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return blob;
}

// { key: "0x...", key: "0x..." }
void read_blobs(Lexer& lexer, ResourceBlobs& blobs) {
  lexer.expect("{");
  while (!lexer.accept("}")) {
    const std::string key = lexer.word_or_string();
    lexer.expect(":");
    const size_t begin = lexer.next_pos();
    const std::string digits = lexer.string_literal();
    blobs[key] = blob_of(lexer, begin, digits);
    if (!lexer.accept(",")) {
      lexer.expect("}");
      return;
    }
  }
}

void collect(const Attribute& attribute, std::map<std::string, Literal>& found) {
  if (const auto* elements = attribute.as<ElementsAttr>()) {
    const Literal& literal = elements->literal;
    if (!literal.resource.empty() && literal.bytes) found.emplace(literal.resource, literal);
  } else if (const auto* array = attribute.as<ArrayAttr>()) {
    for (const Attribute& element : array->elements) collect(element, found);
  } else if (const auto* dict = attribute.as<DictAttr>()) {
    for (const NamedAttribute& entry : dict->dict.entries()) collect(entry.value, found);
  }
}

void append_blobs(std::string& out, const std::map<std::string, Literal>& found) {
  if (found.empty()) return;
  out += "\n{-#\n  dialect_resources: {\n    builtin: {\n";
  bool first = true;
  for (const auto& [key, literal] : found) {
    if (!first) out += ",\n";
    first = false;
    out += "      ";
    append_keyword_or_string(out, key);
    out += ": \"0x";
    std::vector<std::byte> header(sizeof(literal.resource_alignment));
    std::memcpy(header.data(), &literal.resource_alignment, header.size());
    append_hex(out, header);
    append_hex(out, *literal.bytes);
    out += '"';
  }
  out += "\n    }\n  }\n#-}\n";
}

}  // namespace

ResourceBlobs read_resources(const Lexer& lexer) {
  ResourceBlobs blobs;
  const size_t begin = lexer.source().rfind("{-#");
  if (begin == std::string_view::npos) return blobs;
  if (lexer.source().find("#-}", begin) == std::string_view::npos) return blobs;
  Lexer section = lexer;
  section.seek(begin);
  section.expect("{-#");
  while (!section.accept("#-}")) {
    const bool ours = section.word_or_string() == "dialect_resources";
    section.expect(":");
    if (!ours) {
      section.skip_balanced();
    } else {
      section.expect("{");
      while (!section.accept("}")) {
        const bool builtin = section.word_or_string() == "builtin";
        section.expect(":");
        if (builtin)
          read_blobs(section, blobs);
        else
          section.skip_balanced();
        section.accept(",");
      }
    }
    section.accept(",");
  }
  return blobs;
}

void append_resources(std::string& out, const Graph& graph) {
  std::map<std::string, Literal> found;
  graph.walk([&](NodeId id) {
    for (const NamedAttribute& entry : graph.node(id).attrs.entries()) collect(entry.value, found);
  });
  append_blobs(out, found);
}

void append_resources(std::string& out, const Attribute& attribute) {
  std::map<std::string, Literal> found;
  collect(attribute, found);
  append_blobs(out, found);
}

std::vector<std::byte> hex_bytes(const Lexer& lexer, size_t begin, std::string_view digits) {
  if (digits.substr(0, 2) != "0x" || digits.size() % 2 != 0)
    lexer.fail_at(begin, "expected a hex string \"0x...\" with whole bytes");
  digits.remove_prefix(2);
  const auto nibble = [&](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    lexer.fail_at(begin, "a character that is no hex digit in a hex string");
  };
  std::vector<std::byte> bytes(digits.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]));
  return bytes;
}

void append_hex(std::string& out, const std::vector<std::byte>& bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out.reserve(out.size() + 2 * bytes.size() + 8);
  for (std::byte value : bytes) {
    out += kDigits[static_cast<unsigned>(value) >> 4];
    out += kDigits[static_cast<unsigned>(value) & 15];
  }
}

}  // namespace cleave::text
