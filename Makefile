# One verb each for people and CI. `make` alone lists them. What builds says so on stderr: the output is the verb's own.
.DEFAULT_GOAL := help
SHELL := /bin/sh

CARGO ?= cargo
# dev serves tests and demo; release is for figures to be published.
PROFILE ?= dev
OUT := target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
TIDEGATE := $(OUT)/tidegate
WITH_SERVICES := $(OUT)/with-services
REQUIRE := tests/services/require.sh
# Folders of plugins/; each becomes target/plugins/NAME.wasm, with _ for -. RUST_PLUGINS are what demo and chaos run; the
# others are the settlement in other languages, the slowest to build first.
RUST_PLUGINS := settlement order-summary
PLUGINS := settlement-python settlement-go settlement-c settlement-js settlement-ts $(RUST_PLUGINS)
# What other languages are built with is installed there, once.
export TIDEGATE_TOOLCHAINS ?= $(CURDIR)/target/toolchains
# Passed on: make demo ARGS="--events 10000", make test ARGS="--test it crash", make bench ARGS="--messages 200000".
ARGS ?=
# Tools of single verbs, as they were tried: `cargo install --locked NAME@VERSION`.
DENY_VERSION := 0.20.2
CYCLONEDX_VERSION := 0.5.9
FUZZ_VERSION := 0.13.2
# How long each target of `make fuzz` is tried, in seconds.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := configuration verdicts headers ids values
# Services that run already are used as they are.
SERVICES_GIVEN := $(and $(KAFKA_BOOTSTRAP),$(DATABASE_URL))

.PHONY: help
help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
	@echo
	@echo '  ARGS="…" is passed on to demo, test, bench, bench-plugins, chaos, mutations, fuzz and deny. KAFKA_BOOTSTRAP=host:port and DATABASE_URL=postgres://…'
	@echo '  make test, bench and services use servers that run already instead of starting their own.'

.PHONY: demo
demo: rust-plugins ## set everything up and watch messages travel from Kafka through a plugin into a database
	@$(TIDEGATE) demo $(ARGS)

.PHONY: test
test: require-services build plugins ## start Kafka and PostgreSQL, run every test, stop them
	$(CARGO) test --workspace --no-run
	$(WITH_SERVICES) $(CARGO) test --workspace --no-fail-fast $(ARGS)

.PHONY: lint
lint: require-build ## formatting, clippy; licences and sources where cargo-deny is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --offline check licenses bans sources; fi

.PHONY: fmt
fmt: ## format the sources
	$(CARGO) fmt --all

.PHONY: bench
bench: require-services build plugins ## what each plugin costs; then compare with the same SQL alone and with a hand-written consumer
	@$(OUT)/bench-plugins
	$(WITH_SERVICES) $(OUT)/bench $(ARGS)

.PHONY: bench-plugins
bench-plugins: build plugins ## what each plugin in target/plugins costs: size, start, time per event, memory
	@$(OUT)/bench-plugins $(ARGS)

.PHONY: chaos
chaos: require-services build rust-plugins ## random walks over faults, on servers of their own; ARGS="--seed 1 --minutes 5"
	@$(OUT)/chaos $(ARGS)

.PHONY: reloads
reloads: require-services build plugins ## replace a plugin 200 times under load; RELOADS=20 for fewer
	$(CARGO) test --workspace --no-run
	RELOADS=$(or $(RELOADS),200) $(WITH_SERVICES) $(CARGO) test --workspace --test it -- --nocapture reloads_under_load

.PHONY: mutations
mutations: require-services build rust-plugins ## break a copy in one way after the other: do the tests notice?
	@$(WITH_SERVICES) $(OUT)/mutations $(ARGS)

.PHONY: fuzz
fuzz: require-build ## look for inputs that break a promise (fuzz/README.md); ARGS="values", FUZZ_SECONDS=3600
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { echo "fuzzing needs a nightly compiler and cargo-fuzz:" \
	  "rustup toolchain install nightly, cargo install --locked cargo-fuzz@$(FUZZ_VERSION)" >&2; exit 3; }
	@# The versions that the program is built with.
	@cp Cargo.lock fuzz/Cargo.lock
	@for target in $(or $(ARGS),$(FUZZ_TARGETS)); do \
	  echo "== $$target"; mkdir -p target/fuzz/$$target; \
	  $(CARGO) +nightly fuzz run $(FUZZ_FLAGS) $$target target/fuzz/$$target fuzz/corpus/$$target \
	    $$(test $$target = configuration && echo config) -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit; \
	done

.PHONY: deny
deny: ## licences, sources and known weaknesses of all dependencies (downloads the list of advisories)
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "cargo-deny is missing:" \
	  "cargo install --locked cargo-deny@$(DENY_VERSION)" >&2; exit 3; }
	$(CARGO) deny check $(ARGS)

.PHONY: sbom
sbom: ## list all that the program is made of, as CycloneDX (target/sbom)
	@$(CARGO) cyclonedx --version >/dev/null 2>&1 || { echo "cargo-cyclonedx is missing:" \
	  "cargo install --locked cargo-cyclonedx@$(CYCLONEDX_VERSION)" >&2; exit 3; }
	@# It writes beside each Cargo.toml of the workspace, with paths of this machine in it.
	@$(CARGO) cyclonedx --quiet --manifest-path host/Cargo.toml --format json --spec-version 1.5 --target all \
	  --no-build-deps --override-filename tidegate-sbom
	@mkdir -p target/sbom
	@sed 's|file://$(CURDIR)/|file:///tidegate/|g' host/tidegate-sbom.json > target/sbom/tidegate.cdx.json
	@find . -name tidegate-sbom.json -not -path './target/*' -delete
	@echo target/sbom/tidegate.cdx.json

.PHONY: services
services: require-services build ## run Kafka and PostgreSQL until Ctrl-C and print where they are
	@trap 'exit 0' INT TERM; $(WITH_SERVICES)

.PHONY: build
build: require-build ## compile the workspace
	@$(CARGO) build --workspace --profile $(PROFILE)

.PHONY: plugins
plugins: build require-plugins ## build the example plugins of every language into components
	@$(MAKE) --no-print-directory -j2 $(PLUGINS:%=plugin-%)

.PHONY: rust-plugins
rust-plugins: build
	@$(MAKE) --no-print-directory $(RUST_PLUGINS:%=plugin-%)

plugin-%:
	@MAKEFLAGS= $(TIDEGATE) plugin build plugins/$* -o target/plugins/$(subst -,_,$*).wasm >&2

.PHONY: require-build
require-build:
	@$(REQUIRE) build

.PHONY: require-services
require-services: require-build
	@$(if $(SERVICES_GIVEN),true,$(REQUIRE) services)

.PHONY: require-plugins
require-plugins: require-build
	@$(REQUIRE) plugins
