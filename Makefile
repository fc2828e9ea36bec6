# Each target sets up everything it needs in .venv; a machine with python3 (pip, venv) and make is enough.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements/constraints.txt
WORKERS ?= 2

.PHONY: demo test lint bench proof docs constraints clean

demo: .venv/.demo                          ## kill an agent, resume it, ask what it remembers
	$(BIN)/python examples/00_demo.py

test: .venv/.dev                           ## run all tests; fails below 90 % line coverage
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not proof" --cov --cov-report=term
	$(BIN)/python tests/coverage_floor.py 90

lint: .venv/.dev                           ## style, types, floors, dependencies, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/codespell

bench: .venv/.dev                          ## measure beside the peers, writes benchmarks/results.md
	$(BIN)/python benchmarks/run_all.py

proof: .venv/.dev                          ## the long versions of the proofs, prints their counts
	$(BIN)/python -m pytest -m proof -s -q

docs: .venv/.dev                           ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet

constraints: .venv/.uv                     ## pin the newest versions that fit, names and versions only
	$(BIN)/uv pip compile --quiet --universal --upgrade --no-header --no-annotate --python-version 3.11 \
		--all-extras --group dev pyproject.toml --output-file requirements/constraints.txt

clean:                                     ## remove what the other targets made
	rm -rf .venv .outputs .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage* site dist

.venv/.uv:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	touch $@

.venv/.demo: .venv/.uv pyproject.toml requirements/constraints.txt
	$(UV) --group demo --editable '.[openai]'
	touch $@

.venv/.dev: .venv/.uv pyproject.toml requirements/constraints.txt
	$(UV) --group dev --editable '.[all,testing]'
	touch $@ .venv/.demo
