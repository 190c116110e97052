#include "cleave/core/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "cleave/core/error.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, int error) {
  throw_user("{}: cannot be written: {}", path.string(),
             error == EISDIR ? "it is a folder" : std::strerror(error));
}

// An open file of this process; closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  bool open() const { return number_ >= 0; }
  int number() const { return number_; }

  int sync() const { return ::fsync(number_) == 0 || errno == EINVAL ? 0 : errno; }
  // 0, or the error: a file system may report a full disk only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

  // 0, or the error.
  int write(std::span<const std::string_view> parts) const {
    for (std::string_view rest : parts)
      while (!rest.empty()) {
        const ssize_t n = ::write(number_, rest.data(), std::min<size_t>(rest.size(), 1 << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        rest.remove_prefix(static_cast<size_t>(n));
      }
    return 0;
  }

 private:
  int number_;
};

// What a path leads to once links are followed.
struct Target {
  fs::path path;
  std::optional<int> descriptor;  // of this process: /dev/stdout, /dev/fd/3
  bool exists = false;
  struct stat status = {};

  bool is_file() const { return !exists || S_ISREG(status.st_mode); }
};

// "/proc/4711/fd/1" -> 1, if 4711 is this process.
std::optional<int> descriptor_of(const fs::path& folder, const fs::path& name) {
  const std::string own = fmt::format("/proc/{}/", getpid());
  const std::string place = folder.string(), text = name.string();
  if (!place.starts_with(own) || !place.ends_with("/fd")) return std::nullopt;
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Target follow(const fs::path& path) {
  Target target{path, {}, false, {}};
  if (path.empty()) throw_user("a file to write has an empty name");
  for (int links = 0;; ++links) {
    if (links == 40) fail(path, ELOOP);
    std::error_code error;
    fs::path folder = target.path.parent_path();
    folder = fs::canonical(folder.empty() ? "." : folder, error);
    if (error) fail(path, error.value());
    target.descriptor = descriptor_of(folder, target.path.filename());
    if (target.descriptor) {
      if (fstat(*target.descriptor, &target.status) != 0) fail(path, errno);
      target.exists = true;
      return target;
    }
    struct stat own = {};
    if (lstat(target.path.c_str(), &own) != 0) {
      if (errno != ENOENT) fail(path, errno);
      if (target.path.filename().empty()) fail(path, ENOENT);  // "folder/"
      return target;
    }
    target.exists = true;
    target.status = own;
    if (S_ISDIR(own.st_mode)) fail(path, EISDIR);
    if (!S_ISLNK(own.st_mode)) return target;
    const fs::path next = fs::read_symlink(target.path, error);
    if (error) fail(path, error.value());
    // The files that other processes have open look like links to nowhere.
    if (folder.string().starts_with("/proc/")) {
      if (stat(target.path.c_str(), &target.status) != 0) fail(path, errno);
      target.status.st_mode = (target.status.st_mode & ~S_IFMT) | S_IFCHR;
      return target;
    }
    target.path = next.is_absolute() ? next : folder / next;
    target.exists = false;
  }
}

int open_existing(const Target& target, int flags) {
  if (target.descriptor) {
    std::fflush(stdout);  // what was printed before comes before
    return fcntl(*target.descriptor, F_DUPFD_CLOEXEC, 0);
  }
  // Without O_NONBLOCK, opening a pipe without a reader would wait for ever.
  const int pipe = S_ISFIFO(target.status.st_mode) ? O_NONBLOCK : 0;
  const int number = open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | pipe | flags);
  if (number >= 0 && pipe) fcntl(number, F_SETFL, O_WRONLY);
  return number;
}

[[noreturn]] void fail_to_open(const fs::path& path, const Target& target) {
  if (errno == ENXIO && S_ISFIFO(target.status.st_mode))
    throw_user("{}: cannot be written: nobody reads this pipe", path.string());
  fail(path, errno);
}

void write_in_place(const fs::path& path, const Target& target, int flags,
                    std::span<const std::string_view> parts) {
  Descriptor file(open_existing(target, flags));
  if (!file.open()) fail_to_open(path, target);
  if (const int error = file.write(parts)) fail(path, error);
  if (const int error = file.close()) fail(path, error);
}

// A new file beside the target; it is removed at the end of the scope unless it was renamed.
class Beside {
 public:
  explicit Beside(const Target& target) {
    static std::atomic<int> count = 0;
    const std::string name = target.path.filename().string().substr(0, 200);
    do {
      path_ = target.path.parent_path() / fmt::format(".{}.{}-{}.tmp", name, getpid(), count++);
      number_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (number_ < 0 && errno == EEXIST);
    error_ = number_ < 0 ? errno : 0;
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() {
    if (error_ == 0 && !renamed_) unlink(path_.c_str());
  }
  int error() const { return error_; }
  int number() const { return number_; }

  // 0, or the error.
  int rename_to(const fs::path& target) {
    renamed_ = std::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_ ? 0 : errno;
  }

 private:
  fs::path path_;
  int number_ = -1, error_ = 0;
  bool renamed_ = false;
};

// The permissions and the owner of what is replaced; false if the system does not allow that.
bool inherit(int file, const struct stat& old) {
  struct stat now = {};
  if (fstat(file, &now) != 0) return false;
  if ((now.st_uid != old.st_uid || now.st_gid != old.st_gid) &&
      fchown(file, old.st_uid, old.st_gid) != 0)
    return false;
  return fchmod(file, old.st_mode & 07777) == 0;
}

// Folders in which nothing can be made, and files that are mounts, may still be written in place.
bool is_refusal(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

void write_whole(const fs::path& path, std::span<const std::string_view> parts, bool to_disk) {
  const Target target = follow(path);
  if (!target.is_file() || target.descriptor) return write_in_place(path, target, 0, parts);
  if (target.exists && access(target.path.c_str(), W_OK) != 0) fail(path, errno);
  int error = 0;
  {
    Beside beside(target);
    error = beside.error();
    if (error == 0) {
      Descriptor file(beside.number());
      error = target.exists && !inherit(file.number(), target.status) ? EPERM : 0;
      if (error == 0) {
        if (const int full = file.write(parts)) fail(path, full);
        if (const int full = to_disk ? file.sync() : 0) fail(path, full);
        if (const int full = file.close()) fail(path, full);
        error = beside.rename_to(target.path);
      }
    }
  }
  if (error == 0) return;
  if (!target.exists || !is_refusal(error)) fail(path, error);
  write_in_place(path, target, O_TRUNC, parts);
}

}  // namespace

void write_file(const fs::path& path, std::span<const std::string_view> parts) {
  write_whole(path, parts, false);
}

void write_file_to_disk(const fs::path& path, std::span<const std::string_view> parts) {
  write_whole(path, parts, true);
  const fs::path folder = path.parent_path();
  sync_folder(folder.empty() ? "." : folder);
}

void sync_folder(const fs::path& folder) {
  Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.open()) fail(folder, errno);
  if (const int error = opened.sync()) fail(folder, error);
}

void write_file(const fs::path& path, std::string_view text) { write_file(path, {&text, 1}); }

void append_file(const fs::path& path, std::string_view text) {
  const Target target = follow(path);
  if (target.exists) return write_in_place(path, target, O_APPEND, {&text, 1});
  write_file(path, text);
}

void check_writable(const fs::path& path) {
  const Target target = follow(path);
  if (target.descriptor) return;
  if (target.exists && access(target.path.c_str(), W_OK) != 0) fail(path, errno);
  if (target.exists) return;
  const Beside beside(target);
  if (beside.error()) fail(path, beside.error());
  close(beside.number());
}

}  // namespace cleave
