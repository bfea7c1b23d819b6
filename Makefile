# `make bench` and `make test` do all their own set-up: they need Python 3.11 or later and a C++
# compiler (for PyTorch's compile mode), nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: bench test lint docs overhead clean

## Measure MXNet, TensorFlow, PyTorch and JAX on two networks and print the table.
bench: .venv/netdyno
	$(BIN)/netdyno setup
	$(BIN)/netdyno run --networks alexnet_owt,googlenet --batch-size 4 --rounds 4 --budget 5m

## Unit tests, then the real frameworks on small networks. Caffe needs a Python before 3.10, which
## uv fetches where there is none and the network allows it.
test: .venv/dev
	$(BIN)/netdyno setup
	$(BIN)/netdyno setup caffe || echo "Caffe's integration tests will be skipped"
	$(BIN)/netdyno setup tinygrad || echo "tinygrad's integration tests will be skipped"
	$(BIN)/python -m pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/mkdocs build --strict

## netdyno's loop against loops written by hand, side by side.
overhead: .venv/netdyno
	$(BIN)/netdyno setup
	$(BIN)/python benchmarks/overhead.py

clean:
	rm -rf .venv site

# The stamps are written last: an interrupted installation is made again.
.venv/netdyno: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "netdyno needs Python 3.11 or later; set PYTHON=…")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/dev: .venv/netdyno
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
