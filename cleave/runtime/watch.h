#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

// Which of the ranks are alive. MPI does not say when a process is gone: a message to it just never
// completes. So every rank holds a TCP connection to rank 0, which the kernel closes when a process
// ends in whatever way; rank 0 tells the others. A thread of its own looks after this, also while
// devices compute. A rank that is stopped or cut off says nothing for `timeout` seconds, and counts
// as dead as well.
class Watch {
 public:
  using OnDeath = std::function<void(int rank, const std::string& why)>;

  // What a rank does: whether all that runs there waits for other ranks, in which ops, and a number
  // that changes with everything that happens there.
  struct Standing {
    bool waits = false;
    uint64_t activity = 0;
    std::string where;  // device 0 in stablehlo.recv
  };
  // If all ranks have waited for `patience` seconds and nothing has happened anywhere, nothing ever
  // will: `on_circle` is told on every rank which device waits in which op. This is not checked if
  // `standing` is empty.
  struct Circle {
    double patience = 10;
    std::function<Standing()> standing;
    // `activity` is that of this rank at the time of the check: if it has changed, the rank has
    // gone on meanwhile.
    std::function<void(uint64_t activity, const std::string& where)> on_circle;
  };

  // Rank 0 opens the door; the others come in with the address that it gives.
  Watch(int size, bool one_host, double timeout, OnDeath on_death, Circle circle);
  Watch(int rank, int size, const std::string& address, double timeout, OnDeath on_death,
        Circle circle);
  ~Watch();

  const std::string& address() const;

  // The end of a rank's program. Rank 0 gets what every rank said at the end, by rank, and nothing
  // from those that died or that have said nothing `seconds` after the first death or farewell that
  // is not `well`. The other ranks get only their own.
  struct Farewells {
    std::vector<std::optional<std::string>> by_rank;
    bool complete = false;  // of rank 0: every rank has said farewell
  };
  Farewells part(const std::string& words, bool well, double seconds);
  // After `part`. Rank 0 lets all ranks go, and says whether all are there to end in good order;
  // the others wait for that word, `seconds` at most, and return it.
  bool release(bool orderly, double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave
