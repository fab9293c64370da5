# Everything a person, a hook or CI runs. `make` alone lists the targets; each does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What is imported again and again, by thousands of processes in `make test` alone, is compiled once.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
GROUP ?= serving
SECONDS ?= 60
BIN := .venv/bin
NATIVE := serving/native
RUST := $(shell find $(NATIVE) \( -name target -o -name fuzz \) -prune -o \( -name '*.rs' -o -name 'Cargo.*' -o -name '*.pyi' -o -name '*.json' -o -name pyproject.toml \) -print 2>/dev/null)
PACKAGES := operators/tidegate_operators pipelines/tidegate pipelines/tidegate_flights pipelines/tidegate_pipelines serving/tidegate_serving validation/tidegate_validation
# rustup's and Debian's cargo both live on these; tools/toolchain.sh prints the one that is new enough.
CARGO = $$($(CURDIR)/tools/toolchain.sh cargo)
PER_REQUEST := serving router embedded attack
GUIDING = $$(tools/toolchain.sh profdata):$$(dirname "$(CARGO)")
COMPILE = $$(cat .tools/uv) pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q
LOCK = $(COMPILE) build/lock/pyproject.toml --group build/lock/pyproject.toml:dev
IMAGE_LOCK = $(COMPILE) build/lock/pyproject.toml -c requirements-whole.lock
ENGINE := --extra mlflow --extra objects --extra onnx --extra sklearn
DOCS := .tools/docs

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

.PHONY: setup
setup: .venv/.ready ## install what the demo needs into .venv; tests add every platform

.PHONY: demo
demo: setup ## three trips on the flights of 2013, for real; writes build/demo/
	$(BIN)/tidegate demo

.PHONY: test
test: .venv/.whole ## the whole test suite; writes build/test.json
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/run.py

.PHONY: test-extras
test-extras: .venv/.whole images ## each extra alone in a fresh environment, with its tests, the images, both orchestrators, a demo that fails; EXTRAS="onnx torch" for some
	$(BIN)/python tools/extras.py --uv "$$(cat .tools/uv)" --wheel build/guided/*.whl $(EXTRAS)
	$(BIN)/python -m pytest -q tests/docker/engine_image.py tests/docker/composition.py tests/docker/hub_composition.py tests/flights/failing_demo.py tests/pipelines/release_fleet.py tests/pipelines/same_in_both.py

.PHONY: wheels
wheels: build/guided/.ready ## Tidegate as wheels, for `pip install --find-links build/dist` on other machines, guided by a profile
	rm -rf build/dist && $$(cat .tools/uv) build -q --wheel --out-dir build/dist .
	cp build/guided/*.whl build/dist

.PHONY: images
images: build/guided/.ready ## container images of docker/, by buildah; IMAGES="engine mlflow" for some
	tools/toolchain.sh debian buildah:buildah debootstrap:debootstrap
	rm -rf build/dist && $$(cat .tools/uv) build -q --wheel --out-dir build/dist .
	$(BIN)/python tools/images.py $(IMAGES) --wheel build/dist/*.whl --wheel build/guided/*.whl

.PHONY: check
check: .venv/.whole ## format, lint, types, imports, stub; part of `make test`
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES) tests
	$(BIN)/lint-imports --no-logo
	$(BIN)/python serving/tidegate_serving/contract/protos/generate.py --check
	MYPYPATH=$(NATIVE) $(BIN)/python -m mypy.stubtest tidegate_native
	$(BIN)/python tools/rust_modules.py $(NATIVE)
	cd $(NATIVE) && $(CARGO) fmt --all --check
	cd $(NATIVE) && $(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: format
format: setup ## format Python and Rust
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd $(NATIVE) && $(CARGO) fmt --all

.PHONY: bench
bench: .venv/.whole $(if $(filter $(PER_REQUEST),$(GROUP)),build/guided/programs/.ready) ## measure GROUP (serving, router, embedded, lifecycle, gate, skew, orchestrators, hub or attack), the per-request path with the guided wheel; writes into build/; FULL=1 for all of skew, ROUTED=1 attacks a router
	tools/toolchain.sh debian h2load:nghttp2-client wrk:wrk
	PYTHONPATH=$(CURDIR)/build/guided/site $(BIN)/python -m tests.bench.$(GROUP) $(if $(FULL),--full)

.PHONY: fuzz
fuzz: .venv/.whole ## look for bytes that break a decoder, SECONDS=60 for each; DECODERS="json http1" for some
	tools/toolchain.sh debian c++:g++
	$(BIN)/python tools/fuzz.py --seconds $(SECONDS) --uv "$$(cat .tools/uv)" $(if $(KEEP),--keep) $(DECODERS)

.PHONY: docs
docs: $(DOCS)/.ready ## build the site from docs/ and the docstrings into build/site
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

.PHONY: lock
lock: .tools/uv ## renew the locks from pyproject.toml
	mkdir -p build/lock
	sed '/"tidegate-native/d' pyproject.toml > build/lock/pyproject.toml
	$(LOCK) --extra whole --group build/lock/pyproject.toml:whole -o requirements-whole.lock
	$(LOCK) --extra demo -c requirements-whole.lock -o requirements.lock
	$(COMPILE) --group build/lock/pyproject.toml:docs -o requirements-docs.lock
	$(IMAGE_LOCK) $(ENGINE) -o docker/locks/engine.lock
	$(IMAGE_LOCK) $(ENGINE) --extra validate -o docker/locks/pipeline-steps.lock
	$(IMAGE_LOCK) $(ENGINE) --extra hub -o docker/locks/hub.lock
	$(IMAGE_LOCK) docker/airflow.in $(ENGINE) --extra airflow --extra validate -o docker/locks/airflow.lock
	$(IMAGE_LOCK) docker/mlflow.in --extra mlflow -o docker/locks/mlflow.lock

.PHONY: protos
protos: .venv/.packages ## make the descriptor set from the .proto files
	$(BIN)/python serving/tidegate_serving/contract/protos/generate.py

.PHONY: clean
clean: ## remove what was built, but not .venv
	rm -rf build dist $(NATIVE)/target

# --- set-up, each step a file that make can compare ---------------------------------------------------------------

.tools/uv:
	@mkdir -p .tools
	@tools/toolchain.sh uv $(PYTHON) > .tools/uv.new && mv .tools/uv.new .tools/uv

.venv/.packages: requirements.lock .tools/uv
	@echo "installing Python packages into .venv"
	@test -x $(BIN)/python || $$(cat .tools/uv) venv -q --python $(PYTHON) .venv
	@$$(cat .tools/uv) pip sync -q --compile-bytecode --python .venv requirements.lock
	@rm -f .venv/.ready
	@touch $@

.venv/.native: .venv/.packages $(RUST)
	@cargo="$(CARGO)" && echo "compiling the data plane with $$("$$cargo" --version): minutes, the first time" && \
	    rm -rf build/wheel && PATH="$$(dirname "$$cargo"):$$PATH" \
	    $(BIN)/python tools/compiling.py $(NATIVE)/Cargo.lock 20 $(BIN)/maturin build --release --locked -m $(NATIVE)/Cargo.toml -i $(BIN)/python --out build/wheel
	@$$(cat .tools/uv) pip install -q --python .venv --no-deps --reinstall build/wheel/*.whl
	@touch $@

# What others install is compiled twice: the second time as a load of the first (tests/bench/training.py) has shown what counts.
build/guided/.ready: .venv/.ready tests/bench/training.py
	tools/toolchain.sh debian h2load:nghttp2-client wrk:wrk
	rm -rf build/guided
	PATH="$(GUIDING):$$(dirname "$$(cat .tools/uv)"):$$PATH" $(BIN)/maturin build -q --pgo --release --locked --target-dir build/guided/target -m $(NATIVE)/Cargo.toml -i $(BIN)/python --out build/guided
	rm -r build/guided/target
	touch $@

# What is measured is what others install, and what is set beside it is compiled like it.
build/guided/programs/.ready: build/guided/.ready tests/bench/programs.py
	rm -rf build/guided/site build/guided/programs
	$$(cat .tools/uv) pip install -q --python .venv --no-deps --target build/guided/site build/guided/*.whl
	PATH="$(GUIDING):$$PATH" $(BIN)/python -m tests.bench.programs build/guided/target build/guided/programs
	rm -r build/guided/target
	touch $@

.venv/.ready: .venv/.packages .venv/.native pyproject.toml
	@$$(cat .tools/uv) pip install -q --python .venv --no-deps -e .
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

# The site is made from the sources alone, so its tools live apart from what the product needs.
$(DOCS)/.ready: requirements-docs.lock .tools/uv
	test -x $(DOCS)/bin/python || $$(cat .tools/uv) venv -q --python $(PYTHON) $(DOCS)
	$$(cat .tools/uv) pip sync -q --python $(DOCS) requirements-docs.lock
	touch $@

# Every platform, for tests and measures; the demo does without.
.venv/.whole: .venv/.ready requirements-whole.lock
	@echo "installing every platform's Python packages into .venv"
	@$$(cat .tools/uv) pip install -q --compile-bytecode --python .venv -r requirements-whole.lock
	@touch $@
