#pragma once

#include <memory>
#include <string>
#include <thread>

#include "cleave/pjrt/key_value_store.h"

namespace cleave::pjrt {

// A key-value store of several processes: one of them serves it at an address, and all reach it
// there.
//
//   TcpStore::Server server("10.0.0.1:8476");                    // process 0
//   auto store = std::make_shared<TcpStore>("10.0.0.1:8476");    // every process
//   Client::create(plugin, {.options = {{"node_id", rank}, {"num_nodes", ranks}}, .store = store});
//
// Every call is a connection of its own, so that calls of several threads do not wait for each
// other. A server that is not there yet is waited for, `patience` seconds; what goes wrong is a
// UserError.
class TcpStore : public KeyValueStore {
 public:
  // Serves until it is destroyed. Port 0 takes one that is free, which `address` then names.
  class Server {
   public:
    explicit Server(const std::string& address);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    const std::string& address() const { return address_; }

   private:
    struct State;
    std::string address_;
    std::shared_ptr<State> state_;
    std::thread thread_;
  };

  explicit TcpStore(std::string address, double patience = 60)
      : address_(std::move(address)), patience_(patience) {}

  void put(std::string_view key, std::string_view value) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::optional<std::string> get(std::string_view key, int timeout_ms) override;

 private:
  std::optional<std::string> ask(char what, std::string_view key, std::string_view value,
                                 int timeout_ms) const;
  std::string address_;
  double patience_;
};

}  // namespace cleave::pjrt
