# SPDX-License-Identifier: Apache-2.0
# Short names for everyday work; meson does the building.  `make help` lists the targets.
# serve, test, bench, lint, fuzz, conformance and the packages first install what is missing (see tools/setup).

PREFIX  ?= /usr/local
BUILD   := build
PROGRAM := $(BUILD)/constrictor
OPTIONS := --prefix=$(abspath $(PREFIX)) -Dwerror=$(if $(filter true 1,$(CI)),true,false)

QUIET    = $$(ninja --help 2>&1 | grep -om1 -e --quiet) # which Ubuntu 22.04 does not know

.DEFAULT_GOAL := all
.PHONY: all help serve dev serve-http test test-unit test-api test-user test-v2 test-cpython test-kubernetes bench fuzz conformance rows mcpb wheel npm tarball image deb build-sandbox test-sandbox install uninstall format lint clean FORCE

all: $(BUILD)/.options ## build build/constrictor and build/python
	@tools/progress build ninja -C $(BUILD)

# Configures once, and again when an option given to make changes.
$(BUILD)/.options: FORCE
	@command -v meson >/dev/null || { echo "meson is missing: run 'tools/setup build' first" >&2; exit 1; }
	@mkdir -p $(BUILD)
	@[ "$$(cat $@ 2>/dev/null)" = '$(OPTIONS)' ] || { \
	    echo "build: meson configures $(BUILD); a few seconds"; \
	    meson setup $$([ ! -e $(BUILD)/build.ninja ] || echo --reconfigure) $(BUILD) $(OPTIONS) \
	        >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }; \
	    echo '$(OPTIONS)' >$@; }

serve: ## set up, build and start the server on 127.0.0.1:8000 (DATA=1: with the data stack; SERVE_ARGS)
	@tools/setup build
	@$(MAKE) --no-print-directory all
	@exec $(PROGRAM) serve $(if $(DATA),--environment data) $(SERVE_ARGS)

dev: ## set up, build and serve the tool set 'restricted' over stdio
	@{ tools/setup build && $(MAKE) --no-print-directory all; } >&2
	@exec $(PROGRAM) stdio --tools restricted $(SERVE_ARGS)

serve-http: ## the same over HTTP, on 127.0.0.1:9000
	@$(MAKE) --no-print-directory serve SERVE_ARGS='--tools restricted $(SERVE_ARGS)'

test: ## lint, set up, build and run every test
	@tools/setup build test lint
	@$(MAKE) --no-print-directory all
	@tests/run

test-unit test-api test-user: test-%: ## one step of make test
	@tools/setup build test
	@$(MAKE) --no-print-directory all
	@tests/run $*

test-cpython: ## tests of CPython's standard library, in a box and outside; 5 minutes
	@tools/setup build test
	@$(MAKE) --no-print-directory all
	@tests/cpython/run

test-kubernetes: ## dist/kubernetes in a real cluster of one node, as root; the first time half an hour
	@tests/kubernetes/run

test-v2: ## the cgroup v2 driver, in a qemu guest
	@tools/setup build vm
	@$(MAKE) --no-print-directory all
	@tests/run v2

bench: ## latency, throughput and memory against a cold python3, ipykernel and the MCP reference server
	@tools/setup build data kernel npm
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) $(QUIET) constrictor-load
	@python3 bench/bench.py --python $(BUILD)/venv-data/bin/python $(BENCH_ARGS)

fuzz: ## fuzz each decoder for FUZZ_SECONDS (60)
	@tools/setup build fuzz
	@tools/fuzz

conformance: ## the official MCP conformance suite: no failure, no warning
	@tools/setup build npm
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) $(QUIET) constrictor-conformance
	@tools/conformance $(BUILD)

rows: ## write docs/reference-servers.md from the tests' names and what `make test` left in build/results
	@tools/rows

mcpb: ## the bundle for desktop clients, in build/mcpb
	@tools/setup build npm
	@tools/mcpb

wheel: ## the wheel for uvx, pipx and pip, in build/wheel
	@tools/setup build
	@tools/wheel

npm: ## the package for npx, in build/npm-package
	@tools/setup build
	@tools/npm

tarball: ## the program that runs where it is unpacked, in build/tarball
	@tools/setup build
	@tools/tarball

image: ## the container image, with docker, podman or buildah (DATA=1: with the data stack; BASE=IMAGE; TAG)
	@tools/image $(if $(BASE),--base $(BASE)) $(if $(DATA),--data) $(TAG)

deb: ## the Debian package, in build/deb (lintian looks at it)
	@tools/setup build
	@tools/deb

build-sandbox: ## build/runsc, gVisor's program for --isolation gvisor; needs Go, 2 to 5 minutes the first time
	@tools/setup build sandbox
	@$(MAKE) --no-print-directory all

test-sandbox: ## the tests of --isolation gvisor, with build/runsc
	@tools/setup build test sandbox
	@$(MAKE) --no-print-directory all
	@MUST_WORK=1 $(BUILD)/venv/bin/python -m pytest -q -p no:cacheprovider tests/sandbox $(PYTEST_ARGS)

install: all ## install below DESTDIR and PREFIX (/usr/local)
	@DESTDIR='$(DESTDIR)' meson install -C $(BUILD) --no-rebuild --quiet

uninstall: ## remove what install installed
	@ninja -C $(BUILD) $(QUIET) uninstall >/dev/null
	@for d in /children ''; do d='$(DESTDIR)$(PREFIX)/lib/constrictor'$$d; [ ! -d "$$d" ] || rmdir "$$d"; done

format: ## rewrite the C sources with clang-format 14
	@tools/setup lint
	@tools/lint --format

lint: ## what needs no build: format, includes, spelling, links, commands in documents, and more
	@tools/setup lint
	@tools/lint

clean: ## remove everything that was built
	rm -rf $(BUILD) build-asan build-fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z].*:.*## / { printf "  make %-32s %s\n", $$1, $$2 }' Makefile
