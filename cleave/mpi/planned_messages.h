#pragma once

#include <mpi.h>

#include <span>
#include <utility>
#include <vector>

#include "cleave/runtime/wire.h"

namespace cleave::mpi {

// Throws std::runtime_error with MPI's own words.
void check(int code, const char* call);

// The planned messages of a wire. `post`, `forget`, `has_news` and `take_news` are called under the
// wire's lock, the rest by the wire's thread alone. A message that arrives is found by probing, and
// is received when this side has said where it goes; until then MPI keeps it. Vectors keep their
// memory, so that nothing is allocated once as many messages have been under way as ever are.
class PlannedMessages {
 public:
  explicit PlannedMessages(int first_tag);

  void post(std::span<const Planned> sends, std::span<const Planned> receives);
  void forget(int begin, int end);
  bool has_news() const { return !fresh_.empty() || !forgotten_.empty(); }
  void take_news();

  void set_done(Wire::Done done) { done_ = std::move(done); }
  void arrived(MPI_Message message, const MPI_Status& status);
  bool advance();  // true: something has moved
  bool is_sending() const { return num_sending_ > 0; }
  bool is_receiving() const { return requests_.size() > static_cast<size_t>(num_sending_); }
  // Nothing moves, and nothing is expected.
  bool is_idle() const { return requests_.empty() && expected_.empty(); }

 private:
  struct Order {
    Planned message;
    bool is_send = false;
  };
  struct Early {
    int rank, tag;
    size_t size;
    MPI_Message message;
  };
  using Range = std::pair<int, int>;

  void add(const Planned& message, bool is_send);
  void send(const Planned& message);
  void expect(const Planned& message);
  void receive(const Planned& message, size_t size, MPI_Message& handle);
  void drop(Early& early);
  void count(Countdown& countdown);

  const int first_tag_;
  Wire::Done done_;
  std::vector<Order> fresh_, orders_;       // posted; being started
  std::vector<Range> forgotten_, dropped_;  // said; known
  std::vector<Planned> expected_;
  std::vector<Early> early_;  // came before they were expected
  std::vector<MPI_Request> requests_;
  std::vector<Order> under_way_;  // by request; a countdown of null: dropped
  std::vector<std::shared_ptr<std::byte[]>> trash_;
  std::vector<int> finished_;
  int num_sending_ = 0;
};

}  // namespace cleave::mpi
