# Two commands do everything: `make run` and `make test`. Both make .venv first if it is not there.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RESULT := $(or $(TMPDIR),/tmp)/falsifier-example.txt

.PHONY: run test lint types examples pages site clean

run: .venv/run.stamp
	vnncomp_scripts/prepare_instance.sh v1 example examples/digits.onnx examples/digits_violated.vnnlib
	vnncomp_scripts/run_instance.sh v1 example examples/digits.onnx examples/digits_violated.vnnlib $(RESULT) 20
	@cat $(RESULT)

test: lint types
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test.stamp
	$(BIN)/mypy

# the bundled network and queries, made again from the digits images that scikit-learn ships
examples: .venv/test.stamp
	$(BIN)/python examples/make_examples.py

# the pages that are made from the code: the reference of commands, the list of decisions
pages: .venv/docs.stamp
	$(BIN)/python docs/reference.py

# docs/ as a site in build/site
site: .venv/docs.stamp
	$(BIN)/python -m mkdocs build --strict --config-file .ci/mkdocs.yml

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[cpu]'
	@touch $@

.venv/test.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[cpu,torch,test]'
	$(PIP) --no-deps neuralsat # carries auto_LiRPA, which tests/adapters run; what it asks for beside that is not needed
	@touch $@

.venv/docs.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
