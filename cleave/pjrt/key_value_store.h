#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/pjrt/c_interface.h"

namespace cleave::pjrt {

// Where the processes of one client leave each other notes: a plugin whose devices are spread over
// processes asks for it when the client is made (addresses, topologies, ids of communicators). Its
// functions are called by threads of the plugin, at the same time.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> try_get(std::string_view key) = 0;
  // Waits for the key; nothing if it does not come in time.
  virtual std::optional<std::string> get(std::string_view key, int timeout_ms) = 0;
};

// For the threads of one process.
class LocalStore : public KeyValueStore {
 public:
  void put(std::string_view key, std::string_view value) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::optional<std::string> get(std::string_view key, int timeout_ms) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

// Lets a client that is being made call the store, which must live as long as the client.
void connect(KeyValueStore& store, c::ClientCreate& args);

}  // namespace cleave::pjrt
