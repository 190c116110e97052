#include "cleave/discover/command_operator.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cleave/core/error.h"

namespace cleave {
namespace {

using Json = nlohmann::json;

std::string to_hex(const Array& array) {
  constexpr char kDigits[] = "0123456789abcdef";
  const Array packed = array.contiguous();
  std::string text;
  text.reserve(2 * packed.num_bytes());
  for (size_t i = 0; i < packed.num_bytes(); ++i) {
    const auto byte = static_cast<unsigned>(packed.raw()[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  throw_user("'{}' is no hexadecimal digit", c);
}

Array array_of(const Json& json) {
  const auto dtype_name = json.at("dtype").get<std::string>();
  const std::optional<DType> dtype = dtype_from_name(dtype_name);
  if (!dtype) throw_user("'{}' is no dtype", dtype_name);
  if (!has_kernels(*dtype)) throw_user("there are no arrays of '{}'", dtype_name);
  const Shape shape = json.at("shape").get<Shape>();
  for (int64_t size : shape)
    if (size < 0) throw_user("a shape with the size {}", size);
  Array array(*dtype, shape);
  const auto& text = json.at("data").get_ref<const std::string&>();
  if (text.size() != 2 * array.num_bytes())
    throw_user("{} digits for {} bytes", text.size(), array.num_bytes());
  for (size_t i = 0; i < array.num_bytes(); ++i)
    array.raw()[i] =
        static_cast<std::byte>(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
  return array;
}

std::string request_of(const AttrMap& attrs, std::span<const Array> operands) {
  Json json = {{"attrs", Json::object()}, {"operands", Json::array()}};
  for (const auto& [name, value] : attrs)
    std::visit([&, &key = name](const auto& v) { json["attrs"][key] = v; }, value);
  for (const Array& operand : operands)
    json["operands"].push_back({{"dtype", std::string(name(operand.dtype()))},
                                {"shape", operand.shape()},
                                {"data", to_hex(operand)}});
  return json.dump() + "\n";
}

// A running command; its input and output are one socket.
class Process {
 public:
  explicit Process(const std::string& command) : command_(command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw_user("cannot start '{}': no socket", command);
    id_ = fork();
    if (id_ == 0) {
      std::signal(SIGPIPE, SIG_DFL);
      std::signal(SIGXFSZ, SIG_DFL);
      setpgid(0, 0);  // so that all that the shell starts can be ended
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
    if (id_ < 0) {
      close(socket_);
      throw_user("cannot start '{}'", command);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    close(socket_);
    wait_or_kill();
  }

  // The line that answers a line; nothing where the command has ended. Throws UserError where it
  // does not answer in time.
  std::optional<std::string> ask(const std::string& request, double seconds) {
    const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                          std::chrono::duration<double>(seconds));
    for (size_t sent = 0; sent < request.size();) {
      wait_for(POLLOUT, deadline, seconds);
      const ssize_t n =
          send(socket_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return std::nullopt;
      sent += static_cast<size_t>(n);
    }
    for (size_t looked = 0;;) {
      const size_t end = received_.find('\n', looked);
      if (end != std::string::npos) {
        std::string line = received_.substr(0, end);
        received_.erase(0, end + 1);
        return line;
      }
      looked = received_.size();
      if (looked > kMostAnswer)
        throw_user("'{}' answered with more than {} bytes on one line", command_, kMostAnswer);
      wait_for(POLLIN, deadline, seconds);
      char block[1 << 16];
      const ssize_t n = read(socket_, block, sizeof block);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return std::nullopt;
      received_.append(block, static_cast<size_t>(n));
    }
  }

  // How the command ended, in words.
  std::string end() {
    shutdown(socket_, SHUT_RDWR);
    const std::optional<int> found = wait_or_kill();
    if (!found) return "its output closed";
    const int status = *found;
    return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit status {}", WEXITSTATUS(status));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostAnswer = size_t{1} << 28;

  void wait_for(short what, Clock::time_point deadline, double seconds) {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd one{socket_, what, 0};
      const int ready = poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
      if (ready > 0) return;
      if (left <= 0)
        throw CommandTimeout(fmt::format(
            "'{}' did not answer within {:g} s; --timeout gives it more", command_, seconds));
    }
  }

  // Its status, if it ended by itself: a command that has read the end of its input has a second.
  std::optional<int> wait_or_kill() {
    if (ended_) return std::nullopt;
    ended_ = true;
    int status = 0;
    for (int tries = 0; tries < 100; ++tries) {
      if (waitpid(id_, &status, WNOHANG) == id_) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(-id_, SIGKILL);
    kill(id_, SIGKILL);
    waitpid(id_, &status, 0);
    return std::nullopt;
  }

  std::string command_;
  pid_t id_ = -1;
  int socket_ = -1;
  bool ended_ = false;
  std::string received_;
};

// As many processes as threads call at the same time.
class Command {
 public:
  Command(std::string command, double timeout) : command_(std::move(command)), timeout_(timeout) {}

  std::vector<Array> run(const AttrMap& attrs, std::span<const Array> operands) {
    std::unique_ptr<Process> process = take();
    if (silent_) throw CommandTimeout(fmt::format("'{}' did not answer", command_));
    std::optional<std::string> line;
    try {
      line = process->ask(request_of(attrs, operands), timeout_);
    } catch (const CommandTimeout&) {
      silent_ = true;  // nobody waits for it again
      throw;
    }
    if (!line) throw_user("'{}' ended with {} instead of an answer", command_, process->end());
    {
      std::lock_guard lock(mutex_);
      idle_.push_back(std::move(process));
    }
    return results_of(*line);
  }

 private:
  std::unique_ptr<Process> take() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Process> process = std::move(idle_.back());
        idle_.pop_back();
        return process;
      }
    }
    return std::make_unique<Process>(command_);
  }

  std::vector<Array> results_of(const std::string& line) const {
    std::vector<Array> results;
    try {
      const Json answer = Json::parse(line);
      if (answer.contains("error")) throw UserError(answer["error"].get<std::string>());
      for (const Json& result : answer.at("results")) results.push_back(array_of(result));
    } catch (const Json::exception& error) {
      throw_user("'{}' answered '{}', which is no line such as {{\"results\": [...]}}: {}",
                 command_, line.substr(0, 200), error.what());
    }
    return results;
  }

  std::string command_;
  double timeout_;
  std::atomic<bool> silent_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Process>> idle_;
};

bool names_a_dim(const std::string& name) {
  return name == "dim" || name == "dims" || name == "axis" || name == "axes" ||
         name == "dimension" || name == "dimensions";
}

}  // namespace

Operator operator_of_command(std::string name, std::string command, std::vector<Sample> samples,
                             double timeout) {
  Operator op;
  op.name = std::move(name);
  op.samples = std::move(samples);
  auto shared = std::make_shared<Command>(std::move(command), timeout);
  op.run = [shared](const AttrMap& attrs, std::span<const Array> operands) {
    return shared->run(attrs, operands);
  };
  if (!op.samples.empty())
    for (const auto& [attr, value] : op.samples.front().attrs)
      if (names_a_dim(attr)) op.dim_attrs.push_back(attr);
  return op;
}

}  // namespace cleave
