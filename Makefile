# Two commands do everything, set-up included: make demo, make test.
.PHONY: all build demo test check tidy bench soak conformance format setup wheel

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

# The Python package as a manylinux wheel in dist/, tried on a machine without Debian's libraries.
wheel:
	@scripts/setup --no-venv
	@scripts/wheel

# Seconds: the order of the rooms, counts of op names, lengths of functions, public headers, the format.
check:
	@scripts/check

# clang-tidy on what differs from main; make tidy FILES="cleave/core/mesh.cc ..." on these.
tidy:
	@scripts/tidy $(FILES)

bench: build
	@scripts/bench

# 100,000 random programs in every way of running them: about ten minutes on two cores.
soak: setup
	@scripts/soak --programs 100000 --seed 1

# The public tests of StableHLO and Shardy, from checkouts of theirs; either may be left out.
#   make conformance STABLEHLO=CHECKOUT SHARDY=CHECKOUT
conformance:
	@[ -n "$(STABLEHLO)$(SHARDY)" ] || { echo "make conformance STABLEHLO=CHECKOUT SHARDY=CHECKOUT (or one of them)" >&2; exit 2; }
	@scripts/setup --no-python
	@scripts/build release cleave_command
	@[ -z "$(STABLEHLO)" ] || scripts/conformance stablehlo "$(STABLEHLO)"
	@[ -z "$(SHARDY)" ] || scripts/conformance shardy "$(SHARDY)"

format:
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format -i
