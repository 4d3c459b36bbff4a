# Weft. `make help` lists the targets; `make demo` and `make test` are all that a new machine needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help

export WEFT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weft
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFLAGS_BUILD := -trimpath -ldflags "-s -w -X github.com/weft-network/weft/pkg/version.version=$(VERSION)"
LAB := go run -trimpath ./test/lab/cmd/weft-lab
NODES ?= 2
NODE ?= 1
FUZZTIME ?= 30s
# What fails is repeated once, whole, and told at the end either way: servers, clusters and packets share one machine. More than three are no bad luck.
GOTEST := go tool -modfile=$(CURDIR)/test/tools/sum/go.mod gotestsum --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test

##@ Try it
.PHONY: demo
demo: ## Bring up a two-node cluster with real Kubernetes, install the product with its OVN, start pods, and show that they reach each other
	go run -trimpath ./test/demo/cmd/weft-demo $(DEMO_FLAGS)

.PHONY: lab-up
lab-up: ## The cluster alone (NODES=2; LAB_FLAGS=--bare for one as the demo's, where the product brings OVN)
	$(LAB) up --nodes $(NODES) $(LAB_FLAGS)

.PHONY: lab-down
lab-down: ## Remove the cluster, in whatever state it is
	$(LAB) down

.PHONY: lab-shell
lab-shell: ## A shell in a node (NODE=1), the control plane (NODE=cp) or where OVN's databases are (NODE=central)
	@$(LAB) shell $(if $(filter cp central,$(NODE)),$(NODE),n$(NODE))

.PHONY: lab-load
lab-load: ## Build the product again and replace it in the running cluster
	$(LAB) load-image

##@ Check it
.PHONY: test
test: tools ## Unit, golden, real-OVN and reconciler tests, with the race detector
	$(GOTEST) --format pkgname --packages ./... -- -race -timeout 20m
	@$(MAKE) --no-print-directory test-modules

.PHONY: test-modules
test-modules: ## What has tests in a module of its own: the alerts, by Prometheus' rules; the OLM bundle, by OLM's validators
	cd test/alerts && go test -count=1 ./...
	cd test/bundle && go test -count=1 ./...

.PHONY: check-raft
check-raft: tools ## Lose the leader of a three-member cluster under churn, N times by a transfer and N times by kill -9 (N=50)
	WEFT_RAFT_FAULTS=$(or $(N),50) go test -count=1 -timeout 30m -v -run 'TestLeadersAreLostUnderChurn|TestSouthboundFollowsALostLeader' ./pkg/ovndb

.PHONY: e2e
e2e: ## The cluster with packets: what the README promises, where dist/install.yaml brings OVN; then what is done to daemons of the lab's own
	$(GOTEST) --format standard-verbose --packages ./test/e2e/... -- -tags e2e -count=1 -timeout 50m

.PHONY: e2e-faults
e2e-faults: ## Break one part after the other, those as well that are told or healed only after a minute: each must be named by the status, and forgotten
	WEFT_E2E_FAULTS=all $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 40m -run '^TestStatusNamesInjectedFaults$$'

.PHONY: e2e-install
e2e-install: ## dist/install.yaml on nodes with kubelet and containerd alone, timed; then what carries the network is disturbed
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 15m -run '^TestInstall$$'

.PHONY: e2e-upgrade
e2e-upgrade: ## Another version, and back, under 100 datagrams a second and a long connection each way: what is lost is counted
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 20m -run '^TestUpgrade$$'

.PHONY: e2e-members
e2e-members: ## One member of OVN's databases becomes three, and then one loses its pod, its disk, its node
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 20m -run '^TestMembers$$'

.PHONY: e2e-alerts
e2e-alerts: ## Bring about the fault of each alert in the lab: it fires, by Prometheus' own packages, and ends with the cure; some 20 minutes
	go test -tags e2e -count=1 -timeout 45m -v ./test/alarm

.PHONY: e2e-upstream
e2e-upstream: ## Kubernetes' own tests of networks (SUITES="conformance netpol others policyapi policyapi-v1alpha1", PROCS=4 at once); reports in _out/e2e
	go run -trimpath ./test/upstream/cmd/weft-upstream $(SUITES) --procs=$(or $(PROCS),4) --down

.PHONY: bench
bench: tools ## The operator under the load of clusters of some sizes (SIZES="100/2000 250/5000 500/10000", nodes/pods), beside a floor; figures in _out/bench.json
	go test -tags e2e -count=1 -timeout 120m -v -run '^TestBench$$' ./test/bench/load -args -sizes "$(or $(SIZES),100/2000)" -policies $(or $(POLICIES),0) $(BENCH_FLAGS)

.PHONY: bench-compare
bench-compare: ## Judge two results of make bench (A=before.json B=after.json): fails when B is worse
	go run ./test/bench/cmd/weft-bench-compare $(A) $(B)

.PHONY: bench-engine
bench-engine: tools ## Speed, CPU and memory of the engine alone on a real database, as figures and ratios within the run
	go test -run '^$$' -bench . -benchtime 1x ./test/bench

.PHONY: bench-central
bench-central: tools ## What ovn-northd and the southbound server take, and each change costs them, at a size, its half and its quarter (NODES=250 PORTS=10000 LBS=2000); figures in _out/central.json
	go test -tags e2e -count=1 -timeout 120m -v -run '^TestCentral$$' ./test/bench/central -args -nodes $(if $(filter command environment,$(firstword $(origin NODES))),$(NODES),250) -ports $(or $(PORTS),10000) -lbs $(or $(LBS),2000) $(BENCH_FLAGS)

.PHONY: soak
soak: ## ADD and DEL of all kinds (N=2000) and pods through kubelet while the agent is killed, a reboot of 250 pods; counts what is left (SEED=)
	go test -tags e2e -count=1 -timeout 60m -v ./test/soak -args -n $(or $(N),2000) -seed $(or $(SEED),0)

.PHONY: bench-cni
bench-cni: ## Time of ADD by stage, one at a time (N=200) and 50 at once, beside the plugin bridge; the agent's memory with 100 pods
	go test -tags e2e -count=1 -timeout 20m -v ./test/bench/cni -args -n $(or $(N),200)

.PHONY: check-histories
check-histories: tools ## Random histories with faults (N=1000 SEED=1); RARE=1 lets one fail that passes three times when repeated; HISTORY=<seed or file> repeats one, REAL=20 uses a real API server
	go test ./test/histories -count=1 -timeout 60m -v -run '$(if $(REAL),RealAPI,^TestHistories$$)' -args \
	  $(if $(HISTORY),-history $(if $(wildcard $(HISTORY)),$(abspath $(HISTORY)),$(HISTORY)),-n $(or $(N),1000) -seed $(or $(SEED),1) -rare $(or $(RARE),0)) $(if $(REAL),-real $(REAL))

.PHONY: check-planted
check-planted: tools ## Plant each known bug into a copy of the tree, and count the histories until one fails (BUG=no-fence for one)
	go run ./test/histories/planted $(if $(BUG),-bug $(BUG)) -n $(or $(N),1000) -seed $(or $(SEED),1)

.PHONY: check-policy-start
check-policy-start: tools ## Start N pods (N=1000) into groups that deny packets, send at once in both directions, and measure how late the operator hears of a policy
	WEFT_POLICY_TRIES=$(or $(N),1000) go test -count=1 -timeout 30m -v -run TestPolicyHoldsFromTheFirstPacket ./pkg/agent
	WEFT_WINDOW_TRIES=$(or $(N),1000) go test -count=1 -timeout 10m -v ./test/window

.PHONY: check-policies
check-policies: tools ## Random policies and connections (N=1000000 SEED=1): what the rows say must be what the reference says; TRACES=2000 of them are asked of ovn-northd and ovn-trace
	go test ./test/policyoracle -count=1 -timeout 60m -v -run '^(TestNetworkPolicies|TestTraces)$$' -args -n $(or $(N),1000000) -seed $(or $(SEED),1) -traces $(or $(TRACES),2000)

.PHONY: lint
lint: ## golangci-lint, the import table among others
	go tool -modfile=test/tools/lint/go.mod golangci-lint run ./...

.PHONY: verify
verify: generate ## Fail when generated code is stale
	@git diff --exit-code -- apis config bundle bundle.Dockerfile dist pkg/nbdb pkg/sbdb pkg/vswitchdb || { echo "generated files are stale: run make generate and commit"; exit 1; }

##@ Build it
.PHONY: build
build: ## The programs, in bin/
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o bin/weft .
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o bin/ ./cmd/... github.com/containernetworking/plugins/plugins/main/loopback

.PHONY: image
image: ## A container image, with docker or a compatible builder (BUILDER=podman)
	$(or $(BUILDER),docker) build --build-arg VERSION=$(VERSION) -t weft:$(VERSION) .

.PHONY: generate
generate: tools ## Everything that is generated: deepcopy, CRDs, database models, what is installed, by kubectl and by OLM
	go generate ./apis/... ./pkg/nbdb/... ./pkg/sbdb/... ./pkg/vswitchdb/...
	$(WEFT_CACHE)/bin/kubectl kustomize config/default > bundle/weft.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/uninstall > bundle/uninstall.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/install > dist/install.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/policy > dist/policies.yaml
	cd test/bundle && go run ./cmd/weft-bundle ../..

.PHONY: fmt
fmt: ## gofmt
	gofmt -w apis cmd controllers pkg test main.go

##@ Tools
.PHONY: tools
tools: ## Fetch OVN, build etcd, kube-apiserver and kubectl for the tests, in $WEFT_CACHE
	$(LAB) tools ovn
	$(LAB) tools envtest

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*?##/ {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
