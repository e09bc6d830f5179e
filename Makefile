# `make` alone prints help. ARGS goes to the command: make train ARGS="--trainer.max_epochs 3"
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

ifeq ($(OS),Windows_NT)
  BIN := Scripts
  PYTHON ?= py -3
else
  BIN := bin
  PYTHON ?= python3
endif
VENV ?= .venv
CONFIG ?= configs/digits.yaml
CKPT ?= best
ARGS ?=
BOOTSTRAP = @command -v $(firstword $(PYTHON)) >/dev/null || \
	{ echo "No $(PYTHON) here. Name a Python of 3.11 or newer: make install PYTHON=python3.12"; exit 1; }; \
	$(PYTHON) tools/bootstrap.py $(VENV)

# PY=python runs everything in the current environment (conda, a container) and installs nothing.
ifdef PY
  READY :=
else
  PY := $(VENV)/$(BIN)/python
  READY := $(VENV)/.ready
endif

##@ Set up
help:  ## Show this help
	@awk 'BEGIN {FS = ":.*## "; c = (ENVIRON["NO_COLOR"] == "" && ENVIRON["MAKE_TERMOUT"] != ""); \
	    b = c ? "\033[1m" : ""; y = c ? "\033[36m" : ""; z = c ? "\033[0m" : ""} \
	  /^##@/ {printf "\n%s%s%s\n", b, substr($$0, 5), z} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %s%-12s%s %s\n", y, $$1, z, $$2}' $(firstword $(MAKEFILE_LIST))

install:  ## Make or refresh .venv; INSTALLER=pip, TORCH_INDEX=<CPU wheels>, PYTHON=python3.12
	$(BOOTSTRAP)

##@ Use (CONFIG=configs/digits.yaml, CKPT=best or a file, ARGS="more arguments")
train: $(READY)  ## Train the experiment CONFIG
	@$(PY) -m project fit --config $(CONFIG) $(ARGS)

check: $(READY)  ## Look for what is wrong with the data of CONFIG, before training
	@$(PY) -m project check --config $(CONFIG) $(ARGS)

tune: $(READY)  ## Measure which loader settings are fastest for CONFIG here
	@$(PY) -m project tune --config $(CONFIG) $(ARGS)

resume: $(READY)  ## Train on from the last checkpoint of CONFIG's newest run
	@$(PY) -m project fit --config $(CONFIG) --resume $(ARGS)

validate: $(READY)  ## Print the validation metrics of CKPT
	@$(PY) -m project validate --config $(CONFIG) --ckpt_path $(CKPT) $(ARGS)

score: $(READY)  ## Print the test metrics of CKPT, once you are done choosing
	@$(PY) -m project test --config $(CONFIG) --ckpt_path $(CKPT) $(ARGS)

predict: $(READY)  ## Predict with CKPT
	@$(PY) -m project predict --config $(CONFIG) --ckpt_path $(CKPT) $(ARGS)

export: $(READY)  ## Write CKPT as files that run without this repository
	@$(PY) -m project export --ckpt_path $(CKPT) $(ARGS)

serve: $(READY)  ## Try the newest exported model in the browser
	@$(PY) -m project serve $(ARGS)

runs: $(READY)  ## List the runs with their metrics
	@$(PY) -m project runs $(ARGS)

tensorboard: $(READY)  ## Look at the curves of all runs in the browser
	@$(PY) -m tensorboard.main --logdir runs $(ARGS)

##@ Begin, and keep up
# starter: template
new: $(READY)  ## Make a project of your own: DEST=../churn NAME=churn_model PROBLEMS=tabular
	@$(PY) -m project new $(if $(DEST),"$(DEST)") $(if $(NAME),--name "$(NAME)") \
	    $(if $(PROBLEMS),--problems "$(PROBLEMS)") $(ARGS)

# /starter
update: $(READY)  ## Merge what changed where this project was made from; TEMPLATE=path, TO=tag
	@$(PY) tools/update.py $(if $(TEMPLATE),--template "$(TEMPLATE)") $(if $(TO),--to "$(TO)")

##@ Develop
test: $(READY)  ## Run all tests on all CPUs (ARGS="-k name")
	@$(PY) -m pytest -n auto --dist loadfile $(ARGS)

test-fast: $(READY)  ## Run the tests that take seconds
	@$(PY) -m pytest -n auto --dist loadfile -m "not slow" $(ARGS)

lint: $(READY)  ## Check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: $(READY)  ## Mend what lint would find, where a tool can
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .

types: $(READY)  ## Check the types
	@$(PY) -m ty check --python "$$($(PY) -c 'import sys; print(sys.prefix)')"

lock:  ## Pin all dependencies anew in requirements.lock (ARGS=--upgrade for newer ones)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv"; exit 1; }
	@uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --constraint constraints.txt \
	    --output-file requirements.lock --quiet $(ARGS)

clean:  ## Remove what the tools wrote; runs and .venv stay
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -path './$(VENV)' -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

clean-all: clean  ## Remove .venv too
	rm -rf '$(VENV)' '$(VENV).lock'

$(VENV)/.ready: pyproject.toml requirements.lock tools/bootstrap.py
	$(BOOTSTRAP)

.PHONY: help install train check tune resume validate score predict export serve runs tensorboard \
	new update test test-fast lint format types lock clean clean-all
