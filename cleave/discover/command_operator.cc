#include "cleave/discover/command_operator.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
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
  const auto shape = json.at("shape").get<Shape>();
  const auto& text = json.at("data").get_ref<const std::string&>();
  // As many digits as the shape asks for, before there is an array of them.
  uint64_t bytes = static_cast<uint64_t>(byte_size(*dtype));
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      throw_user("<{}> is no shape", to_string(shape));
  if (bytes != text.size() / 2 || text.size() % 2 != 0)
    throw_user("{} digits for {} bytes", text.size(), bytes);
  Array array(*dtype, shape);
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

using Clock = std::chrono::steady_clock;

// A running command, the leader of a process group; its input and output are one socket.
class Process {
 public:
  explicit Process(const std::string& command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw BrokenOperator(fmt::format("cannot start '{}': no socket", command));
    id_ = fork();
    if (id_ == 0) {
      setpgid(0, 0);
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
    if (id_ < 0) {
      close(socket_);
      throw BrokenOperator(fmt::format("cannot start '{}'", command));
    }
    setpgid(id_, id_);  // whichever of the two comes first
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    close(socket_);
    if (!ended_) wait_or_kill();
  }

  enum class Answer { Line, Ended, Late, TooMuch };
  // The line that answers a line, or why there is none.
  Answer ask(const std::string& request, double timeout, std::string& line) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(
                                             static_cast<int64_t>(std::min(timeout, 1e6) * 1e3));
    // What it said without being asked would be taken for the next answer.
    if (!received_.empty()) return Answer::TooMuch;
    for (size_t sent = 0; sent < request.size();) {
      if (!wait_for(POLLOUT, deadline)) return Answer::Late;
      const ssize_t n =
          send(socket_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return Answer::Ended;
      sent += static_cast<size_t>(n);
    }
    for (size_t searched = 0;;) {
      const size_t end = received_.find('\n', searched);
      if (end != std::string::npos) {
        line = received_.substr(0, end);
        received_.erase(0, end + 1);
        return received_.empty() ? Answer::Line : Answer::TooMuch;
      }
      searched = received_.size();
      if (received_.size() > kLongestLine) return Answer::TooMuch;
      if (!wait_for(POLLIN, deadline)) return Answer::Late;
      char block[65536];
      const ssize_t n = recv(socket_, block, sizeof block, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return Answer::Ended;
      received_.append(block, static_cast<size_t>(n));
    }
  }

  // How the command ended, in words; nothing if it did not, although it closed its output.
  std::optional<std::string> end() {
    shutdown(socket_, SHUT_RDWR);
    const int status = wait_or_kill();
    if (killed_) return {};
    return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit status {}", WEXITSTATUS(status));
  }

  void kill_now() {
    kill(-id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    ended_ = true;
  }

 private:
  static constexpr size_t kLongestLine = size_t{256} << 20;

  bool wait_for(short what, Clock::time_point deadline) const {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      pollfd one{socket_, what, 0};
      const int n = poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 20)));
      if (n > 0) return true;
      if (n < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
    }
  }

  // A command whose input has ended has a second to end as well.
  int wait_or_kill() {
    int status = 0;
    ended_ = true;
    for (int step = 0; step < 100; ++step) {
      const pid_t done = waitpid(id_, &status, WNOHANG);
      if (done == id_ || (done < 0 && errno != EINTR)) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(step < 20 ? 1 : 12));
    }
    kill(-id_, SIGKILL);
    waitpid(id_, &status, 0);
    killed_ = true;
    return status;
  }

  pid_t id_ = -1;
  int socket_ = -1;
  bool ended_ = false, killed_ = false;
  std::string received_;
};

// As many processes as threads call at the same time.
class Command {
 public:
  Command(std::string command, const CommandOptions& options)
      : command_(std::move(command)), options_(options) {}

  std::vector<Array> run(const AttrMap& attrs, std::span<const Array> operands) {
    std::unique_ptr<Process> process = take();
    std::string line;
    switch (process->ask(request_of(attrs, operands), options_.timeout, line)) {
      case Process::Answer::Line:
        break;
      case Process::Answer::Ended:
        ended(*process);
      case Process::Answer::Late:
        process->kill_now();
        throw BrokenOperator(
            fmt::format("'{}' did not answer within {} s; --timeout SECONDS gives it more",
                        command_, options_.timeout));
      case Process::Answer::TooMuch:
        process->kill_now();
        throw BrokenOperator(fmt::format(
            "'{}' answered '{}' and more than that: one line for each line that it reads", command_,
            line.substr(0, 200)));
    }
    std::vector<Array> results = results_of(line);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(process));
    return results;
  }

  void restart() {
    std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  [[noreturn]] void ended(Process& process) {
    const std::optional<std::string> how = process.end();
    if (!how)
      throw BrokenOperator(fmt::format("'{}' closed its output instead of answering", command_));
    if (++ends_ > kMostEnds)
      throw BrokenOperator(
          fmt::format("'{}' has ended {} times (the last with {}) instead of answering; operands "
                      "that it does not accept are answered with {{\"error\": \"...\"}}",
                      command_, kMostEnds, *how));
    throw_user("'{}' ended with {} instead of an answer", command_, *how);
  }

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

  // Only {"error": ...} says that the operands are not accepted.
  std::vector<Array> results_of(const std::string& line) const {
    std::vector<Array> results;
    std::optional<std::string> refusal;
    auto nonsense = [&](const char* why) {
      throw BrokenOperator(
          fmt::format("'{}' answered '{}', which is no line such as {{\"results\": [...]}}: {}",
                      command_, line.substr(0, 200), why));
    };
    try {
      const Json answer = Json::parse(line);
      if (answer.contains("error")) {
        refusal = answer["error"].get<std::string>();
      } else {
        for (const Json& result : answer.at("results")) results.push_back(array_of(result));
      }
    } catch (const Json::exception& error) {
      nonsense(error.what());
    } catch (const UserError& error) {
      nonsense(error.what());
    }
    if (refusal) throw UserError(*refusal);
    return results;
  }

  std::string command_;
  CommandOptions options_;
  std::atomic<int> ends_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Process>> idle_;
};

bool names_a_dim(const std::string& name) {
  return name.starts_with("dim") || name == "axis" || name == "axes";
}

}  // namespace

Operator operator_of_command(std::string name, std::string command, std::vector<Sample> samples,
                             const CommandOptions& options) {
  Operator op;
  op.name = std::move(name);
  op.samples = std::move(samples);
  auto shared = std::make_shared<Command>(std::move(command), options);
  op.run = [shared](const AttrMap& attrs, std::span<const Array> operands) {
    return shared->run(attrs, operands);
  };
  op.restart = [shared] { shared->restart(); };
  if (!op.samples.empty())
    for (const auto& [attr, value] : op.samples.front().attrs)
      if (names_a_dim(attr)) op.dim_attrs.push_back(attr);
  return op;
}

}  // namespace cleave
