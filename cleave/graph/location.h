#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace cleave {

// Where an op comes from: the text of its loc(...), as Node::location keeps it.

// The innermost line of the user's source, or the name of the op if no line is known:
//   "jit(step)/dot_general"("/home/me/model.py":41:8 to :20)   ->   model.py:41
//   "params['w']"                                               ->   params['w']
//   unknown                                                     ->   (empty)
std::string source_line(std::string_view location);

// Aliases of locations (#loc5 = loc(...)), which stand at the end of a module, and locations made
// short with them: the first name, and the line of the innermost call; of calls inside installed
// packages (.../site-packages/...), the line that called them, if it is the user's own.
//
//   #loc1 = loc("model.py":3:17 to :27)     #loc2 = loc("model"(#loc1))
//   #loc3 = loc(callsite(#loc2 at #loc9))   #loc4 = loc("jit(step)/dot_general"(#loc3))
//   shortened("#loc4")   ->   "jit(step)/dot_general"("model.py":3:17 to :27)
class LocationAliases {
 public:
  void define(std::string name, std::string text) { texts_[std::move(name)] = std::move(text); }
  const std::string& shortened(const std::string& location);

 private:
  struct Place {
    std::string name, line;  // quoted name; "file":line:column
  };
  Place place_of(std::string_view text, int depth) const;

  std::unordered_map<std::string, std::string> texts_;  // by alias, without '#'
  std::unordered_map<std::string, std::string> short_;
};

}  // namespace cleave
