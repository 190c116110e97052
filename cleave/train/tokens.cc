#include "cleave/train/tokens.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"

namespace cleave::train {

// The bytes of a file. It stays the same file if another is renamed over it.
class TokenFile::Mapping {
 public:
  explicit Mapping(const std::string& path) {
    check_regular_file(path);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (file < 0 || fstat(file, &status) != 0) {
      const int error = errno;
      if (file >= 0) close(file);
      throw_user("cannot read '{}': {}", path, std::strerror(error));
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    close(file);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw_user("cannot read '{}': {}", path, std::strerror(error));
    }
    if (size_ == 0) throw_user("'{}' is empty; tokens were expected", path);
  }
  ~Mapping() {
    if (data_) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

namespace {

int64_t token_bytes(TokenKind kind) {
  switch (kind) {
    case TokenKind::U8:
      return 1;
    case TokenKind::U16:
      return 2;
    case TokenKind::U32:
    case TokenKind::I32:
      return 4;
    case TokenKind::I64:
      return 8;
  }
  throw_internal("a kind of tokens that is none");
}

struct NamedKind {
  const char* name;
  TokenKind kind;
};
constexpr NamedKind kTokenKinds[] = {{"bytes", TokenKind::U8}, {"u8", TokenKind::U8},
                                     {"u16", TokenKind::U16},  {"u32", TokenKind::U32},
                                     {"i32", TokenKind::I32},  {"i64", TokenKind::I64}};

std::optional<TokenKind> kind_called(std::string_view name) {
  for (const NamedKind& each : kTokenKinds)
    if (name == each.name) return each.kind;
  return std::nullopt;
}

// Where the tokens of an array file begin, and how many there are.
struct TokenPart {
  TokenKind kind;
  int64_t offset, count;
};

template <typename T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The text between `key` and `end` in a header of NumPy's.
std::string_view field_of(std::string_view header, std::string_view key, char begin, char end) {
  const size_t at = header.find(key);
  const size_t first = at == std::string_view::npos ? at : header.find(begin, at + key.size());
  const size_t last = first == std::string_view::npos ? first : header.find(end, first + 1);
  return last == std::string_view::npos ? "" : header.substr(first + 1, last - first - 1);
}

// The numbers of "(3, 4)"; they stop growing before they overflow.
std::vector<int64_t> sizes_in(std::string_view text) {
  std::vector<int64_t> sizes;
  bool inside = false;
  for (char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !inside) sizes.push_back(0);
    if (is_digit) sizes.back() = std::min<int64_t>(sizes.back() * 10 + (c - '0'), 1LL << 58);
    inside = is_digit;
  }
  return sizes;
}

TokenPart npy_part(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 12 || !bytes.starts_with("\x93NUMPY"))
    throw_user("'{}' is no .npy file: it does not begin with NumPy's mark", path);
  const bool is_long = bytes[6] >= 2;
  const size_t length = is_long ? number_at<uint32_t>(bytes, 8) : number_at<uint16_t>(bytes, 8);
  const size_t begin = is_long ? 12 : 10;
  if (length > bytes.size() - begin) throw_user("'{}' is cut off in its header", path);
  const std::string_view header = bytes.substr(begin, length);
  const std::string_view type = field_of(header, "'descr':", '\'', '\'');
  constexpr NamedKind kinds[] = {{"|u1", TokenKind::U8},
                                 {"<u2", TokenKind::U16},
                                 {"<u4", TokenKind::U32},
                                 {"<i4", TokenKind::I32},
                                 {"<i8", TokenKind::I64}};
  const auto found = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const NamedKind& each) { return type == each.name; });
  if (found == std::end(kinds))
    throw_user("'{}' has elements of type '{}'; tokens are u1, u2, u4, i4 or i8", path, type);
  const std::vector<int64_t> sizes = sizes_in(field_of(header, "'shape':", '(', ')'));
  if (header.find("'fortran_order': True") != std::string_view::npos && sizes.size() > 1)
    throw_user("'{}' is laid out by columns; save it with np.ascontiguousarray", path);
  int64_t count = 1;
  for (int64_t each : sizes)
    if (__builtin_mul_overflow(count, each, &count) || count > static_cast<int64_t>(bytes.size()))
      throw_user("'{}' is cut off: its array does not fit into its {} bytes", path, bytes.size());
  return {found->kind, static_cast<int64_t>(begin + length), count};
}

TokenPart safetensors_part(std::string_view bytes, const std::string& path,
                           const std::string& wanted) {
  using Json = nlohmann::json;
  if (bytes.size() < 8 || number_at<uint64_t>(bytes, 0) > bytes.size() - 8)
    throw_user("'{}' is no safetensors file: its header does not fit into it", path);
  const auto length = static_cast<size_t>(number_at<uint64_t>(bytes, 0));
  const Json header = Json::parse(bytes.substr(8, length), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) throw_user("'{}' is no safetensors file: no JSON in its header", path);
  constexpr NamedKind kinds[] = {{"U8", TokenKind::U8},
                                 {"U16", TokenKind::U16},
                                 {"U32", TokenKind::U32},
                                 {"I32", TokenKind::I32},
                                 {"I64", TokenKind::I64}};
  std::optional<TokenPart> part;
  std::string names;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || !entry.is_object()) continue;
    const std::string type = entry.value("dtype", "");
    for (const NamedKind& each : kinds) {
      if (type != each.name) continue;
      names += (names.empty() ? "" : ", ") + name;
      if (!wanted.empty() && wanted != name) continue;
      if (part)
        throw_user("'{}' has several tensors; say which: {}#NAME with {}", path, path, names);
      const Json& at = entry.value("data_offsets", Json::array());
      if (at.size() != 2 || !at[0].is_number_unsigned() || !at[1].is_number_unsigned() ||
          at[0] > at[1] || at[1] > bytes.size() - 8 - length)
        throw_user("'{}': the offsets of '{}' are not inside of the file", path, name);
      const auto first = at[0].get<int64_t>(), last = at[1].get<int64_t>();
      part = {each.kind, static_cast<int64_t>(8 + length) + first,
              (last - first) / token_bytes(each.kind)};
    }
  }
  if (part) return *part;
  if (wanted.empty()) throw_user("'{}' has no tensor of integers", path);
  throw_user("'{}' has no tensor of integers called '{}'; there are {}", path, wanted,
             names.empty() ? "none" : names);
}

TokenKind kind_by_extension(std::string_view path) {
  if (path.ends_with(".bin") || path.ends_with(".u16")) return TokenKind::U16;
  if (path.ends_with(".u32")) return TokenKind::U32;
  return TokenKind::U8;
}

}  // namespace

TokenFile::TokenFile(const std::string& text) : name_(text) {
  std::string path = text, wanted;
  std::optional<TokenKind> given;
  if (const size_t colon = text.find(':'); colon != std::string::npos)
    if ((given = kind_called(text.substr(0, colon)))) path = text.substr(colon + 1);
  if (const size_t hash = path.rfind(".safetensors#"); !given && hash != std::string::npos) {
    wanted = path.substr(hash + 13);
    path.resize(hash + 12);
  }
  mapping_ = std::make_shared<Mapping>(path);
  const std::string_view bytes = mapping_->bytes();
  TokenPart part{};
  if (!given && path.ends_with(".npy")) {
    part = npy_part(bytes, path);
  } else if (!given && path.ends_with(".safetensors")) {
    part = safetensors_part(bytes, path, wanted);
  } else {
    part.kind = given ? *given : kind_by_extension(path);
    if (bytes.size() % static_cast<size_t>(token_bytes(part.kind)) != 0)
      throw_user("'{}' has {} bytes, no whole number of tokens of {} bytes each", path,
                 bytes.size(), token_bytes(part.kind));
    part.count = static_cast<int64_t>(bytes.size()) / token_bytes(part.kind);
  }
  if (part.count == 0) throw_user("'{}' is empty; tokens were expected", path);
  if (part.offset + part.count * token_bytes(part.kind) > static_cast<int64_t>(bytes.size()))
    throw_user("'{}' is cut off: {} tokens do not fit into its {} bytes", path, part.count,
               bytes.size());
  kind_ = part.kind;
  offset_ = part.offset;
  size_ = part.count;
}

namespace {

template <typename T>
void copy_tokens(std::string_view bytes, size_t at, std::span<int32_t> out, int64_t begin,
                 int64_t vocab, const std::string& name) {
  for (size_t i = 0; i < out.size(); ++i) {
    const T token = number_at<T>(bytes, at + i * sizeof(T));
    if (static_cast<int64_t>(token) < 0 || static_cast<int64_t>(token) >= vocab)
      throw_user("'{}': token {} at {} is not one of the model's vocabulary of {}", name, token,
                 begin + static_cast<int64_t>(i), vocab);
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

void TokenFile::read(int64_t begin, std::span<int32_t> out, int64_t vocab) const {
  if (begin < 0 || begin + static_cast<int64_t>(out.size()) > size_)
    throw_user("'{}' has {} tokens, and {} from {} on were asked for", name_, size_, out.size(),
               begin);
  const std::string_view bytes = mapping_->bytes();
  const auto at = static_cast<size_t>(offset_ + begin * token_bytes(kind_));
  switch (kind_) {
    case TokenKind::U8:
      return copy_tokens<uint8_t>(bytes, at, out, begin, vocab, name_);
    case TokenKind::U16:
      return copy_tokens<uint16_t>(bytes, at, out, begin, vocab, name_);
    case TokenKind::U32:
      return copy_tokens<uint32_t>(bytes, at, out, begin, vocab, name_);
    case TokenKind::I32:
      return copy_tokens<int32_t>(bytes, at, out, begin, vocab, name_);
    case TokenKind::I64:
      return copy_tokens<int64_t>(bytes, at, out, begin, vocab, name_);
  }
}

}  // namespace cleave::train
