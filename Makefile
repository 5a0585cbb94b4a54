# The one door: `make help` lists every target. CI runs these targets and nothing else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

# Set to --locked by CI: the committed Cargo.lock is then the only truth.
LOCKED ?=
# Seconds for each fuzz target.
FUZZ_SECONDS ?= 60
# Seconds of chaos.
SOAK_SECONDS ?= 300
# Where `make install` puts programs.
PREFIX ?= $(HOME)/.local
# How `make static` builds; `dev` is quicker, and its program bigger and slower.
STATIC_PROFILE ?= release

# Every target that the help lists.
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*[\#][\#] .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## Show this list
	@printf 'make demo and make test are all it takes; the rest is for developers.\n\n'
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

preflight: ## Name what this machine lacks, with the command that installs it
	@tools/preflight.sh

build: preflight ## Build ronde, horovodrun and the Python extension
	tools/build.sh $(LOCKED)

# Only the last crate needs the flag; given to all it would reach programs of the build too, which load libraries.
static: preflight ## Build the ronde command so that it runs in any image, as target/static/ronde
	cargo rustc $(LOCKED) -p ronde --bin ronde --profile $(STATIC_PROFILE) -- -C target-feature=+crt-static
	target="$$(tools/target-dir.sh)"; mkdir -p "$$target/static"; \
	cp "$$target/$(patsubst dev,debug,$(STATIC_PROFILE))/ronde" "$$target/static/ronde"

krew: static ## Pack kubectl's plugin for krew, with its manifest, into target/krew; URL is the address of the folder where the archive will be
	@folder="$$(tools/target-dir.sh)"; tools/krew.py "$$folder/static/ronde" "$$folder/krew" "$(URL)"

image: static ## Build the operator's image without Docker, as target/image/ronde.tar, with its digest and a list of what is in it (CycloneDX)
	@folder="$$(tools/target-dir.sh)/image"; mkdir -p "$$folder"; \
	tools/image.py "$${folder%/image}/static/ronde" "$$folder/ronde.tar" >"$$folder/digest"; \
	tools/sbom.py >"$$folder/ronde.cdx.json"; \
	printf '%s is in %s\n' "$$(cat "$$folder/digest")" "$$folder/ronde.tar"

demo: build ## See an elastic training: workers come, go and are killed, the loss falls; a picture at the end
	@python="$$(tools/numpy-python.sh)" && package="$$(tools/python-tree.sh debug)" && \
	PYTHONPATH="$$package" "$$(tools/target-dir.sh)/debug/ronde" demo --python "$$python"

install: preflight ## Install an optimised ronde and horovodrun into PREFIX/bin, by default ~/.local/bin
	cargo build $(LOCKED) --profile quick -p ronde --bin ronde
	@tools/install.sh "$$(tools/target-dir.sh)/quick/ronde" "$(PREFIX)"

check: preflight ## The quick round: format, lints, unit tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings
	cargo test --workspace --lib --bins $(LOCKED)

lint: preflight ## Format, lints, dependencies, shell scripts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings
	tools/dependencies.sh
	tools/shell-lint.sh

test: preflight ## All tests; what cannot run here is listed and counted at the end
	@tools/test.sh $(LOCKED)

test-large: preflight ## A million updates of one object; sums and broadcasts of more than 2^31 elements; takes 9 GB of memory
	cargo test $(LOCKED) -p ronde-apiserver --lib -- --ignored --exact store::tests::the_file_does_not_grow_under_a_million_updates_of_one_object
	cargo test $(LOCKED) -p ronde-collective --test ring -- --ignored --exact large::more_than_two_to_the_31_elements

e2e-tools: ## Build kubectl and helm (3 and 4) for the tests, into a cache outside the checkout
	for name in kubectl helm helm4; do e2e/peers.sh path $$name; done

e2e: build ## Jobs, policies, queues and gangs on a real control plane with simulated nodes, run by ronde operator with the rights of its chart
	cargo test $(LOCKED) -p ronde --test pods --no-run
	PATH="$$(dirname "$$(e2e/peers.sh path kubectl)"):$$(dirname "$$(e2e/peers.sh path helm)"):$$PATH" e2e/scenarios.sh "$$(tools/target-dir.sh)/debug/ronde" \
	cargo test $(LOCKED) -p ronde --test pods scenarios -- --test-threads 1

e2e-operator: build ## Install, upgrade, roll back, uninstall and reinstall the operator's chart with Helm 3 and 4, and take over Volcano's and et-operator's jobs
	ronde="$$(tools/target-dir.sh)/debug/ronde"; \
	e2e/lifecycle.sh "$$ronde" helm; e2e/lifecycle.sh "$$ronde" helm4; e2e/migration.sh "$$ronde"

e2e-chart: build ## The Horovod chart on this machine, with our wheels, PyTorch, scikit-learn, sshd and Open MPI; as root
	e2e/chart.sh $(LOCKED)

e2e-image: wheel build ## Build the image of the Horovod chart and stand-ins for those that the seeds name, without Docker; type the seeds as they are printed; as root
	cargo test $(LOCKED) -p ronde --test pods --no-run
	dir="$$(mktemp -d)"; trap 'rm -rf "$$dir"' EXIT; \
	e2e/image.sh folder "$$dir/root"; e2e/image.sh build "$$dir/image.tar" "$$dir/root"; \
	e2e/image.sh import "$$dir/image.tar"; e2e/image.sh try "$$dir/root"; \
	PATH="$$(dirname "$$(e2e/peers.sh path kubectl)"):$$(dirname "$$(e2e/peers.sh path helm)"):$$PATH" ARCHIVE="$$dir/image.tar" \
	e2e/seeds.sh machine "$$(tools/target-dir.sh)/debug/ronde" cargo test $(LOCKED) -p ronde --test pods seeds -- --test-threads 1

e2e-kubelet: wheel image build ## Type the seeds as they are printed on a real Kubernetes (kubelet, containerd, CoreDNS, kube-proxy) with the operator of the chart; as root (WHEEL_PROFILE=dev STATIC_PROFILE=dev take less time)
	cargo test $(LOCKED) -p ronde --test pods --no-run
	PATH="$$(dirname "$$(e2e/peers.sh path kubectl)"):$$(dirname "$$(e2e/peers.sh path helm)"):$$PATH" \
	e2e/cluster.sh run e2e/seeds.sh cluster "$$(tools/target-dir.sh)/image/ronde.tar" \
	cargo test $(LOCKED) -p ronde --test pods seeds::seed_ -- --test-threads 1

e2e-static: static ## Try the static ronde in a root with busybox alone and in one with an old C library; as root
	e2e/static.sh "$$(tools/target-dir.sh)/static/ronde"

e2e-upgrade: build ## Upgrade from the program of another revision (FROM, by default the last tag), with pods running
	PATH="$$(dirname "$$(e2e/peers.sh path kubectl)"):$$PATH" e2e/upgrade.sh "$$(tools/target-dir.sh)/debug/ronde" $(FROM)

e2e-frameworks: preflight ## The frameworks with rings of processes, and the seeds' scripts as jobs; brings the frameworks into a cache outside the checkout
	@LOCKED=$(LOCKED) tools/test-frameworks.sh all

test-frameworks: preflight ## A short form of that, which CI runs
	@LOCKED=$(LOCKED) tools/test-frameworks.sh short

conformance: build ## Compare our answers with those of a real kube-apiserver
	@tools/conformance.sh

bench-apiserver: preflight ## Measure the API server beside kube-apiserver with etcd, as ratios
	cargo build $(LOCKED) --release -p ronde -p ronde-bench
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" apiserver --ronde "$$release/ronde" --kubernetes e2e/kubernetes.sh

bench-collective: preflight ## Measure collectives beside Open MPI, Gloo and Horovod, alone and as Python calls them (PYTHON has PyTorch, HOROVOD_PYTHON Horovod)
	cargo build $(LOCKED) --release -p ronde-bench -p ronde-python
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" collective
	@PYTHONPATH="$$(tools/python-tree.sh release)" "$${PYTHON:-python3}" bench/collective.py \
	--plot "$$(tools/target-dir.sh)/collective.svg"

bench-frameworks: preflight ## Measure training and sums through TensorFlow and JAX beside what each has for several processes; brings both into a cache
	cargo build $(LOCKED) --release -p ronde-python
	@for name in tensorflow jax; do \
	PYTHONPATH="$$(tools/python-tree.sh release)" "$$(e2e/environment.sh $$name)/bin/python" bench/frameworks.py; done

bench-cluster: preflight ## Measure jobs on a real API server with simulated nodes beside a bare loop, and beside a scheduler of yours (BENCH="--peer 'NAME=COMMAND'", BENCH="--help" lists more)
	cargo build $(LOCKED) --profile quick -p ronde -p ronde-bench
	@built="$$(tools/target-dir.sh)/quick"; "$$built/ronde-bench" cluster --ronde "$$built/ronde" \
	--kubernetes e2e/kubernetes.sh --kwok "$$(e2e/peers.sh path kwok)" e2e/kwok/stages.yaml $(BENCH)

bench-memory: preflight ## Measure what an operator keeps in memory for each pod and node
	cargo build $(LOCKED) --profile quick -p ronde -p ronde-bench
	@built="$$(tools/target-dir.sh)/quick"; "$$built/ronde-bench" memory --ronde "$$built/ronde" $(BENCH)

bench-elastic: preflight ## Measure how long a training stands still when ranks die, come and go (needs NumPy), beside Horovod if HOROVOD_PYTHON has it
	cargo build $(LOCKED) --release -p ronde-launch -p ronde-python -p ronde-bench
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" elastic --launcher "$$release/horovodrun" --package "$$(tools/python-tree.sh release)" \
	--python "$$(tools/find-python.sh numpy cloudpickle || tools/numpy-python.sh)" \
	$${HOROVOD_PYTHON:+--horovod-python "$$HOROVOD_PYTHON"}

bench-flows: preflight ## Measure flows of many jobs and many CronJobs: time, requests and memory per job as they grow
	cargo build $(LOCKED) --release -p ronde -p ronde-bench
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" flows --ronde "$$release/ronde"

bench-images: preflight ## Measure pull, unpack and start of images beside containerd with kubelet, from one registry (docker-registry, skopeo; that needs root)
	cargo build $(LOCKED) --release -p ronde -p ronde-bench
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" images --ronde "$$release/ronde" --kubelet e2e/kubelet.sh

bench-node: preflight ## Measure pods beside kubelet with containerd, as ratios (that needs root)
	cargo build $(LOCKED) --release -p ronde -p ronde-bench
	@release="$$(tools/target-dir.sh)/release"; \
	"$$release/ronde-bench" node --ronde "$$release/ronde" --kubelet e2e/kubelet.sh

bench-scheduler: preflight ## Measure the scheduler's decisions alone, for growing clusters
	cargo build $(LOCKED) --release -p ronde-bench
	@"$$(tools/target-dir.sh)/release/ronde-bench" scheduler

soak: preflight ## Kill everything again and again for SOAK_SECONDS, from a new seed
	RONDE_CHAOS_SECONDS=$(SOAK_SECONDS) RONDE_CHAOS_SEED=$${RONDE_CHAOS_SEED:-$$RANDOM} \
	cargo test $(LOCKED) -p ronde --test chaos -- --nocapture

soak-cluster: build ## Kill operators, API server, etcd and nodes of a real control plane and cut networks, under a stream of jobs, for SOAK_SECONDS, or ten minutes
	cargo test $(LOCKED) -p ronde --test soak --no-run
	RONDE_CHAOS_SECONDS=$(if $(filter file,$(origin SOAK_SECONDS)),600,$(SOAK_SECONDS)) RONDE_CHAOS_SEED=$${RONDE_CHAOS_SEED:-$$RANDOM} \
	e2e/soak.sh cargo test $(LOCKED) -p ronde --test soak -- --nocapture

# Each way to reach hosts, with NumPy and with PyTorch, and killed launchers: nine times SOAK_SECONDS.
soak-elastic: preflight ## Kill ranks, agents, sshd and launchers of elastic trainings on several hosts for SOAK_SECONDS each; as root
	tools/build.sh $(LOCKED)
	@python="$$(tools/find-python.sh numpy torch || tools/numpy-python.sh)" && package="$$(tools/python-tree.sh debug)" && \
	RONDE_TEST_PYTHON="$$python" RONDE_TEST_PYTHONPATH="$$package" \
	RONDE_CHAOS_SECONDS=$(SOAK_SECONDS) RONDE_CHAOS_SEED=$${RONDE_CHAOS_SEED:-$$RANDOM} \
	cargo test $(LOCKED) -p ronde --test survival -- --nocapture --test-threads 1

fuzz: preflight ## Fuzz the decoders for FUZZ_SECONDS each
	@tools/fuzz.sh "$(FUZZ_SECONDS)"

wheel: preflight ## Build the Python wheels, ronde and horovod, into python/dist
	@tools/python.sh wheel

e2e-horovod: ## Run Horovod's own tests of PyTorch and TensorFlow against our drop-in; HOROVOD is a checkout of theirs
	e2e/horovod.sh $(if $(UPDATE),--update) "$(HOROVOD)"

e2e-torch: ## Run PyTorch's own tests of backends of torch.distributed, from its wheel, against ours, and list what does not pass
	e2e/torch.sh

test-python: preflight ## Build the wheels, install them aside and test them with rings of processes
	@tools/python.sh test

generate: preflight ## Rewrite what is generated and committed
	cargo run $(LOCKED) -p ronde-e2e -- differences
	cargo run $(LOCKED) -p ronde-api --example crds
	RONDE_GENERATE=1 cargo test $(LOCKED) -p ronde --bin ronde -- --quiet documents::chart documents::commands documents::kinds documents::metrics documents::rights

docs: preflight ## Build the documentation site, with search, into target/docs
	@tools/docs.sh

clean: ## Delete what was built here
	cargo clean
