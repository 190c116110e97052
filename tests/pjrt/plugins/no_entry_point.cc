// A shared library that is no PJRT plugin.
extern "C" int something_else() { return 1; }
