#include "cleave/runtime/session.h"

#include "cleave/core/error.h"

namespace cleave {

std::vector<Session::Answer> Session::accept(Packet packet) {
  switch (packet.kind) {
    case Packet::Kind::Part: {
      const std::vector<int64_t> to = std::move(packet.to);
      for (int64_t device : to) parts[{packet.from, device}].push_back(packet);
      break;
    }
    case Packet::Kind::Lot:
      lots[packet.from].push_back(std::move(packet));
      return {};
    case Packet::Kind::Grant:
      grants[{packet.to.at(0), packet.group}].push_back(std::move(packet.arrays));
      break;
    case Packet::Kind::Left:
      left.insert(packet.from);
      break;
    case Packet::Kind::Failed:
      left.insert(packet.from);
      if (failure.empty()) failure = std::move(packet.what);
      break;
    case Packet::Kind::Offer:
      channels[packet.group].offers.push_back(std::move(packet.arrays));
      break;
    case Packet::Kind::Request:
      channels[packet.group].requests.emplace_back(packet.from, packet.to.at(0));
      break;
    default:
      throw_internal("a message between ranks of unknown kind {}", static_cast<int>(packet.kind));
  }
  if (packet.kind != Packet::Kind::Offer && packet.kind != Packet::Kind::Request) return {};
  Channel& channel = channels[packet.group];
  std::vector<Answer> answers;
  while (!channel.offers.empty() && !channel.requests.empty()) {
    const auto [device, rank] = channel.requests.front();
    Packet grant{.kind = Packet::Kind::Grant,
                 .session = id,
                 .to = {device},
                 .group = packet.group,
                 .arrays = std::move(channel.offers.front())};
    channel.offers.pop_front();
    channel.requests.pop_front();
    answers.push_back({static_cast<int>(rank), std::move(grant)});
  }
  return answers;
}

}  // namespace cleave
