#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/runtime/packet.h"

namespace cleave {

// What has arrived at this rank for one run of a program, and waits to be fetched. Ranks begin runs
// in the same order, so that the number of a run is the same everywhere; what comes for a run that
// this rank has not begun is kept. Guarded by its World.
struct Session {
  struct Channel {  // kept by the rank `channel % ranks`
    std::deque<std::vector<Array>> offers;
    std::deque<std::pair<int64_t, int64_t>> requests;  // device and its rank
  };

  int64_t id = 0;
  int64_t num_devices = 0;  // known when this rank has begun the run
  bool over = false;        // for this rank; it may still keep a channel for others
  std::map<std::pair<int64_t, int64_t>, std::deque<Packet>> parts;  // by sender and receiver
  std::map<int64_t, std::deque<Packet>> lots;                       // by rank
  std::map<std::pair<int64_t, uint64_t>, std::deque<std::vector<Array>>> grants;
  std::map<uint64_t, Channel> channels;
  std::set<int64_t> left;  // devices
  std::string failure;

  // Whether no message can come for it any more.
  bool complete() const {
    return over && (!failure.empty() || static_cast<int64_t>(left.size()) == num_devices);
  }

  struct Answer {
    int rank;
    Packet packet;
  };
  // Sorts a packet in. Gives what is to be sent in answer.
  std::vector<Answer> accept(Packet packet);
};

}  // namespace cleave
