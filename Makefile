# The targets of the original README. `just` has them all, and more.

.PHONY: deps build test test-coverage test-benchmark

deps:
	just setup

build:
	just build

test:
	just test

test-coverage:
	just coverage

test-benchmark:
	just bench
