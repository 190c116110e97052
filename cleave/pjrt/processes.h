#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/pjrt/key_value_store.h"
#include "cleave/pjrt/tcp_store.h"
#include "cleave/runtime/world.h"

namespace cleave::pjrt {

// The processes that make one client together, each with devices of its own. They are the ranks of
// `cleave launch`, or processes that were started by hand and told of each other:
//
//   CLEAVE_COORDINATOR=10.0.0.1:8476 CLEAVE_PROCESSES=2 CLEAVE_PROCESS=0 ./train    # on 10.0.0.1
//   CLEAVE_COORDINATOR=10.0.0.1:8476 CLEAVE_PROCESSES=2 CLEAVE_PROCESS=1 ./train
//
// Process 0 serves the key-value store. All processes run the same program, and make the same calls
// in the same order.
class Processes {
 public:
  // Null if this process runs alone. The first call of ranks finds the store, on all of them.
  static Processes* of_process();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int process() const { return process_; }
  int size() const { return size_; }
  // Whether ranks were launched, so that Tensors have the shards of this process alone.
  bool are_ranks() const { return world_ != nullptr; }
  // For the next client: what earlier clients left in the store is not seen.
  std::shared_ptr<KeyValueStore> new_store();
  // Every process's arrays, on every process; an array that is not valid arrives as such. `what` is
  // for messages.
  std::vector<std::vector<Array>> gather(std::vector<Array> arrays, std::string_view what);

 private:
  Processes(World* world, const std::string& coordinator, int process, int size);
  void beat(const std::stop_token& stop);
  std::string wait_for(int process, const std::string& key, std::string_view what);

  World* world_;  // null: the store carries arrays as well
  int process_, size_;
  std::unique_ptr<TcpStore::Server> server_;  // of process 0
  std::shared_ptr<TcpStore> store_;
  int clients_ = 0, gatherings_ = 0;
  std::jthread heart_;  // of processes without MPI: shows the others that this one is there
};

}  // namespace cleave::pjrt
