# Two commands do everything, set-up included: make demo, make test.
.PHONY: all build demo test bench format setup

BUILD := build/release

all: build

setup:
	@scripts/setup

build: setup
	@scripts/build release

# Debian packages and the command alone: no .venv, no test programs.
demo:
	@scripts/setup --no-python
	@scripts/build release cleave_command
	@scripts/demo

test: build
	@scripts/test

bench: build
	@scripts/bench

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i
