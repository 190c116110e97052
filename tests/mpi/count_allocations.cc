#include "tests/compile/count_allocations.cc"
