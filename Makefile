# Weft. `make help` lists the targets. On a new machine, start with `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

export WEFT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weft
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFLAGS_BUILD := -trimpath -ldflags "-s -w -X github.com/weft-network/weft/pkg/process/version.version=$(VERSION)"
LAB := go run -trimpath ./test/lab/cmd/weft-lab
RELEASE := cd test/release && go run -trimpath ./cmd/weft-release
NODES ?= 2
# ZONE_TESTS are the tests that e2e-zones runs: packets of all kinds across the zones and within them.
ZONE_TESTS := BGP|CheckConnectivity|DNS|EgressFirewall|EgressIP|ExternalRoute|EndedPodsReleaseTheirAddresses|Gateway|HostEndpoints|HostPorts|Kills|LocalServiceFollowsItsEndpoints|NetworkPolicy|PathMTU|PodOfTheSameName|RequestedAddresses|ServiceAffinity|Services|ServiceWithoutEndpoints|SpoofedFramesAreDropped|Traffic|UnusedPortsAreRefused
NODE ?= 1
# A failed test is repeated once, and reported at the end in either case, because OVN's daemons can abort on their own, as ovn-controller
# 25.03 does when a port and its interface disappear at once. No test of Weft is known to need it. More than three failures are not repeated,
# because they are no coincidence. A package that fails outside of its tests fails the run.
GOTEST := go run ./test/repeat --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test

MODULE := github.com/weft-network/weft
# The packages whose tests last longest start first. Tests wait more than they compute, so one package more than there are processors
# is tested at once.
LONGEST := ./pkg/agent ./pkg/agent/uplink
# UNRACED packages compute for minutes, and many times as long with the race detector. make test-race runs RACED, which are among them,
# with the race detector.
UNRACED := pkg/topology|test/histories|test/operator|test/serviceoracle
RACED := ./test/operator ./test/histories
TESTED_AT_ONCE := $(shell expr $$(nproc) + 1)

##@ Try it
.PHONY: demo
demo: ## Start a two-node cluster with real Kubernetes, install Weft with its OVN, start pods, and show that they reach each other (DEMO_FLAGS=--down removes it afterwards)
	go run -trimpath ./test/demo/cmd/weft-demo $(DEMO_FLAGS)

.PHONY: lab-up
lab-up: ## Start only the cluster (NODES=2; LAB_FLAGS=--bare for a cluster as in the demo, where Weft installs OVN)
	$(LAB) up --nodes $(NODES) $(LAB_FLAGS)

.PHONY: lab-down
lab-down: ## Remove the cluster, whatever its state
	$(LAB) down

.PHONY: lab-shell
lab-shell: ## Open a shell in a node (NODE=1), the control plane (NODE=cp) or the host of OVN's databases (NODE=central)
	@$(LAB) shell $(if $(filter cp central,$(NODE)),$(NODE),n$(NODE))

.PHONY: lab-load
lab-load: ## Rebuild Weft and replace it in the running cluster
	$(LAB) load-image

##@ Check it
.PHONY: test
test: tools ## Run the unit, golden, real-OVN and reconciler tests, all but four packages with the race detector
	$(GOTEST) --format pkgname-and-test-fails --packages "$(LONGEST) $$(go list ./... | grep -vE '/($(UNRACED))$$')" -- -race -p $(TESTED_AT_ONCE) -timeout 30m
	$(GOTEST) --format pkgname-and-test-fails --packages "$$(go list ./... | grep -E '/($(UNRACED))$$')" -- -p $(TESTED_AT_ONCE) -timeout 30m
	@$(MAKE) --no-print-directory test-modules

.PHONY: test-race
test-race: tools ## Run the tests of the whole operator, and histories, with the race detector: half an hour
	$(GOTEST) --format pkgname-and-test-fails --packages "$(RACED)" -- -race -timeout 60m

.PHONY: test-modules
test-modules: ## Run the tests in separate modules: network policies against reference implementations, the alerts and dashboards with Prometheus' engine, the OLM bundle with OLM's validators, and the page of kubectl weft ui if there is a Chromium
	cd test/policyoracle && go test -count=1 -timeout 30m ./...
	cd test/alertrules && go test -count=1 ./...
	cd test/bundle && go test -count=1 ./...
	cd test/release && go test -count=1 ./...
	cd test/ui && go test -count=1 ./...

.PHONY: quick
quick: verify ## Check before a commit what fails often: generated code, vet, style, words, imports, docs, and the packages with Go files that differ from BASE=main, but those whose tests take minutes
	go vet ./... && go vet -tags e2e ./test/...
	go test ./test/style ./test/imports ./test/docs ./test/timers ./test/record ./test/poll \
	  $$(comm -12 <(go list ./... | grep -vE '/($(UNRACED))$$' | grep -vxF "$$(go list $(LONGEST))" | sort) \
	    <({ git diff --name-only $(or $(BASE),main) -- '*.go'; git ls-files -o --exclude-standard -- '*.go'; } | sed 's|^|$(MODULE)/|; s|/[^/]*$$||' | sort -u))

.PHONY: check-chart
check-chart: ## Render the Helm chart with Helm's code, and compare each object with dist/install.yaml; building Helm takes minutes
	cd test/helm && go test -count=1 ./...

.PHONY: check-ui
check-ui: ## Open the page of kubectl weft ui with 5,000 pods in a real Chromium (apt-get install chromium), and report how long it renders (PICTURES=folder writes pictures of every view)
	$(if $(PICTURES),mkdir -p $(PICTURES))
	cd test/ui && WEFT_UI_BROWSER=required go test -count=1 -timeout 20m -v . $(if $(PICTURES),-args -pictures $(abspath $(PICTURES)))

.PHONY: check-raft
check-raft: tools ## Replace the leader of a three-member database cluster under churn, N times by a transfer and N times by kill -9 (N=50)
	WEFT_RAFT_FAULTS=$(or $(N),50) go test -count=1 -timeout 30m -v -run 'TestLeadersAreLostUnderChurn|TestSouthboundFollowsALostLeader' ./pkg/ovndb

.PHONY: e2e
e2e: lab-tools ## Run the end-to-end tests with packets (SKIP=pattern): first with the OVN of dist/install.yaml, then with the lab's own daemons
	$(GOTEST) --format standard-verbose --packages ./test/e2e/... -- -tags e2e -count=1 -timeout 70m $(if $(SKIP),-skip '$(SKIP)')

.PHONY: e2e-zones
e2e-zones: lab-tools ## Divide a cluster of four nodes under traffic and undo it, lose a member of a zone's databases and a relay, then run end-to-end tests with packets in a divided cluster: node n2 is in a zone of its own
	WEFT_E2E_NODES=4 $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 20m -run '^Test(Zones|MembersOfAZone|RelaysOfAZone)$$'
	WEFT_E2E_DIVIDED=1 $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^Test($(ZONE_TESTS))$$'

.PHONY: e2e-slow
e2e-slow: lab-tools ## Test what takes minutes: a sandbox that the runtime lost, many pods, senders while a Service changes, kubectl weft check connectivity with faults, path MTU, egress firewalls, forged tunnels, rebuilt databases, multicast, open connections under policies, session affinity
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 70m -run '^Test(ASandboxThatTheRuntimeLost|CheckConnectivity|EgressFirewall|LocalServiceFollowsItsEndpoints|Multicast|OpenConnectionsEnd|PathMTU|Rebuild|Scale|ServiceAffinity|SteadySenders|TunnelsAreForNodesAlone)$$'

.PHONY: e2e-faults
e2e-faults: lab-tools ## Break each part of the cluster, including slow faults: the status must name each fault, and clear it after the repair
	WEFT_E2E_FAULTS=all $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 40m -run '^TestStatusNamesInjectedFaults$$'

.PHONY: e2e-networks
e2e-networks: lab-tools ## Test secondary networks: the matrix (_out/networks.json), and N=200 changes of running pods while the agent, the operator and containerd are killed; and Weft as a delegate of Multus
	WEFT_E2E_MULTUS=1 WEFT_E2E_PLUGS=$(or $(N),200) $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^Test(Networks|HotPlug|UnderMultus)$$'

.PHONY: e2e-trace
e2e-trace: lab-tools ## Run kubectl weft trace with N=400 random questions (SEED=) and questions about what nodes drop, and send packets for each; inject faults of single flows, whose cause trace or why must name
	WEFT_E2E_QUESTIONS=$(or $(N),400) WEFT_E2E_SEED=$(or $(SEED),1) $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^Test(TraceIsRight|TraceNamesFaults|TraceSaysWhatNodesDrop|WhyAPodWaits)$$'

.PHONY: e2e-floating
e2e-floating: lab-tools ## Test addresses of IPPools with a real kube-scheduler: who has which address under each release policy, and the gaps of N=20 moves of each location (_out/floating.json)
	WEFT_E2E_MOVES=$(or $(N),20) $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^TestFloating$$'

.PHONY: e2e-loadbalancer
e2e-loadbalancer: lab-tools ## Test addresses of LoadBalancerPools with packets from outside: one node answers for each address, and another takes over when that node is lost
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^TestLoadBalancer$$'

.PHONY: e2e-dualstack
e2e-dualstack: lab-tools ## Remove IPv6 from a cluster, and add it again under IPv4 traffic, which must lose nothing; _out/dualstack.json
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 20m -run '^TestDualStack$$'

.PHONY: e2e-egressqos
e2e-egressqos: lab-tools ## Test EgressQoS with packets: the DSCP that arrives outside, in Shared and in Local mode (_out/egressqos.json), and a limit
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 30m -run '^TestEgressQoS$$'

.PHONY: e2e-externalroute
e2e-externalroute: lab-tools ## Test ExternalRoutes with packets: addresses outside, two routers, replies, node ports, and BFD with BIRD (_out/externalroute.json)
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 20m -run '^TestExternalRoute$$'

.PHONY: e2e-bgp
e2e-bgp: lab-tools ## Announce addresses of LoadBalancerPools by BGP to BIRD on the lab's router, with packets of clients behind it, and watch nodes and router by BFD
	$(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^TestBGP'

.PHONY: e2e-install
e2e-install: lab-tools ## Install dist/install.yaml on nodes with only kubelet and containerd, measure the time, disturb the network's components, and test a missing ConfigMap
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 15m -run '^TestInstall(WithoutConfigMap)?$$'

.PHONY: e2e-upgrade
e2e-upgrade: lab-tools ## Upgrade and roll back under 100 datagrams a second and a long connection in each direction, and count the losses
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 20m -run '^TestUpgrade$$'

.PHONY: e2e-components
e2e-components: lab-tools ## Set spec.components in a running cluster under traffic, and count the losses; set what fails on the first node, and undo it
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 20m -run '^TestComponents$$'

.PHONY: e2e-members
e2e-members: lab-tools ## Grow OVN's databases from one member to three; then a member loses its pod, its disk and its node; three become one, and three again; begin with three
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 40m -run '^TestMembers'

.PHONY: e2e-relays
e2e-relays: lab-tools ## Run a network behind relays of the southbound database: kill, stop and scale them, and the database's server, under traffic
	$(GOTEST) --format standard-verbose --packages ./test/install -- -tags e2e -count=1 -timeout 20m -run '^TestRelays$$'

.PHONY: e2e-reserved
e2e-reserved: lab-tools ## Create random pods and services with reserved addresses and ports (N=500 SEED=), kill every daemon, and probe the control plane meanwhile
	WEFT_E2E_RESERVED=all WEFT_FUZZ_N=$(or $(N),500) WEFT_FUZZ_SEED=$(SEED) $(GOTEST) --format standard-verbose --packages ./test/e2e -- -tags e2e -count=1 -timeout 60m -run '^TestReserved(Fuzz|Destinations)$$'

.PHONY: e2e-alerts
e2e-alerts: lab-tools ## Cause the fault of each alert in the lab: the alert must fire (in Prometheus' own code) and end after the repair; about 20 minutes
	go test -tags e2e -count=1 -timeout 45m -v ./test/alertfaults

.PHONY: e2e-upstream
e2e-upstream: lab-tools ## Run Kubernetes' own network tests (SUITES="conformance netpol others policyapi policyapi-v1alpha1", PROCS=4 in parallel); reports in _out/e2e
	go run -trimpath ./test/upstream/cmd/weft-upstream $(SUITES) --procs=$(or $(PROCS),4) --down

.PHONY: bench
bench: tools ## Benchmark the operator under the load of clusters (SIZES="100/2000 250/5000 500/10000", nodes/pods; POLICIES=1000; FLOATING=5000 pods with floating addresses; BENCH_FLAGS) against a lower bound; figures in _out/bench.json
	go test -tags e2e -count=1 -timeout 120m -v -run '^TestBench$$' ./test/bench/load -args -sizes "$(or $(SIZES),100/2000)" -policies $(or $(POLICIES),0) -floating $(or $(FLOATING),0) $(BENCH_FLAGS)

.PHONY: bench-compare
bench-compare: ## Compare two results of make bench (A=before.json B=after.json); fails if B is worse
	go run ./test/bench/cmd/weft-bench-compare $(A) $(B)

.PHONY: bench-engine
bench-engine: tools ## Benchmark only the engine on a real database: speed, CPU and memory, as figures and as ratios within the run
	go test -run '^$$' -bench . -benchtime 1x ./test/bench

.PHONY: bench-central
bench-central: tools ## Measure what ovn-northd and the southbound server need, in total and per change, at a size, its half and its quarter (NODES=250 PORTS=10000 LBS=2000 BENCH_FLAGS=-largest; BENCH_FLAGS="-zones 2" measures one of two parts); figures in _out/central.json
	go test -tags e2e -count=1 -timeout 120m -v -run '^TestCentral$$' ./test/bench/central -args -nodes $(if $(filter command environment,$(firstword $(origin NODES))),$(NODES),250) -ports $(or $(PORTS),10000) -lbs $(or $(LBS),2000) $(BENCH_FLAGS)

.PHONY: soak
soak: lab-tools ## Run ADD and DEL of all kinds (N=2000 SEED=) and pods through kubelet while the agent is killed, reboot with 250 pods, and count what is left over
	go test -tags e2e -count=1 -timeout 60m -v ./test/soak -args -n $(or $(N),2000) -seed $(or $(SEED),0)

.PHONY: bench-cni
bench-cni: lab-tools ## Measure ADD by stage, sequentially (N=200) and 50 in parallel, against the plugin bridge; the agent's memory with 100 pods; and hot plug
	go test -tags e2e -count=1 -timeout 20m -v ./test/bench/cni -args -n $(or $(N),200)

.PHONY: check-histories
check-histories: tools ## Run random histories with faults (N=1000 SEED=1); RARE=1 permits one failure that passes three repetitions; HISTORY=<seed or file> repeats a history; ZONES=1 divides the cluster; REAL=20 uses a real API server
	go test ./test/histories -count=1 -timeout 90m -v -run '$(if $(REAL),RealAPI,^TestHistories$$)' -args \
	  $(if $(HISTORY),-history $(if $(wildcard $(HISTORY)),$(abspath $(HISTORY)),$(HISTORY)),-n $(or $(N),1000) -seed $(or $(SEED),1) -rare $(or $(RARE),0)) $(if $(REAL),-real $(REAL)) $(if $(ZONES),-zones)

.PHONY: check-planted
check-planted: tools ## Plant each known bug into a copy of the tree, and count the histories until a failure (N=1000 SEED=1; BUG=no-fence for a single bug)
	go run ./test/histories/planted $(if $(BUG),-bug $(BUG)) -n $(or $(N),1000) -seed $(or $(SEED),1)

.PHONY: check-policy-start
check-policy-start: tools ## Start N pods (N=1000) under policies that deny packets, send immediately in both directions, and measure the operator's delay for a policy
	WEFT_POLICY_TRIES=$(or $(N),1000) go test -count=1 -timeout 30m -v -run TestPolicyHoldsFromTheFirstPacket ./pkg/agent
	WEFT_WINDOW_TRIES=$(or $(N),1000) go test -count=1 -timeout 10m -v ./test/window

.PHONY: check-policies
check-policies: tools ## Check random policies and connections (N=1000000 SEED=1): the rows must agree with the reference; TRACES=2000 of them also with ovn-northd and ovn-trace
	cd test/policyoracle && go test . -count=1 -timeout 60m -v -run '^(Test(|Cluster|Admin)NetworkPolicies|TestTraces)$$' -args -n $(or $(N),1000000) -seed $(or $(SEED),1) -traces $(or $(TRACES),2000)

.PHONY: check-services
check-services: tools ## Compare random sequences of Services with kube-proxy (N=10000 SEED=1); SEQUENCE=7 repeats one of the seed's sequences
	go test ./test/serviceoracle -count=1 -timeout 90m -v -args -n $(if $(SEQUENCE),50,$(or $(N),10000)) -seed $(or $(SEED),1) -sequence $(or $(SEQUENCE),0)

.PHONY: lint
lint: ## Run golangci-lint, including the import table
	go tool -modfile=test/tools/lint/go.mod golangci-lint run ./...

.PHONY: verify
verify: generate ## Fail if generated code is stale
	@git diff --exit-code -- apis config bundle bundle.Dockerfile charts dist docs/user/api.md pkg/ovn/nbdb pkg/ovn/sbdb pkg/ovn/vswitchdb || { echo "generated files are stale: run make generate and commit"; exit 1; }

.PHONY: check-kernel
check-kernel: tools linux ## Run the tests of a node on the datapath of the kernel's Open vSwitch, in a kernel of their own (PACKAGES="./pkg/agent/openflow"; RUN=pattern)
	go run ./test/kernel/cmd/weft-check-kernel $(if $(RUN),-run '$(RUN)') $(PACKAGES)

##@ Build it
.PHONY: build
build: ## Build the programs into bin/
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o bin/weft .
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o bin/ ./cmd/... github.com/containernetworking/plugins/plugins/main/loopback

.PHONY: release
release: ## Make a release in _out/release as root on Debian (VERSION=v1.2.3 IMAGE=registry.example/weft; KEY=file signs it); see docs/user/release.md
	$(RELEASE) make -source $(CURDIR) -out $(CURDIR)/_out/release -cache $(WEFT_CACHE)/release -version '$(VERSION)' -image '$(IMAGE)'
	$(if $(KEY),$(RELEASE) sign -out $(CURDIR)/_out/release -key $(abspath $(KEY)))

.PHONY: lab-release
lab-release: ## Make a release of the source in _out/lab-release, for this machine's architecture, whose image clusters can pull; see test/lab/README.md
	$(RELEASE) make -plugins=false -architectures $(shell go env GOARCH) -source $(CURDIR) -out $(CURDIR)/_out/lab-release -cache $(WEFT_CACHE)/release -version v0.0.0-lab -image registry.example/weft

.PHONY: push
push: ## Push the image of _out/release to the registry of its manifests, or TO=another.example/weft
	$(RELEASE) push -out $(CURDIR)/_out/release $(if $(TO),-to '$(TO)')

.PHONY: check-release
check-release: ## Make a release twice, which must be equal to the byte, and start the image's programs, those for another architecture in an emulator
	cd test/release && go test -count=1 -timeout 60m -tags release -v .

.PHONY: image
image: ## Build the container image with docker or a compatible builder (BUILDER=podman)
	$(or $(BUILDER),docker) build --build-arg VERSION=$(VERSION) -t weft:$(VERSION) .

.PHONY: generate
generate: tools ## Generate deepcopy functions, CRDs, database models, the manifests in dist, the OLM bundle, the Helm chart and the API reference
	go generate ./apis/... ./pkg/ovn/nbdb/... ./pkg/ovn/sbdb/... ./pkg/ovn/vswitchdb/...
	$(WEFT_CACHE)/bin/kubectl kustomize config/default > dist/weft.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/uninstall > dist/uninstall.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/install > dist/install.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/policy > dist/policies.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/scheduler > dist/scheduler.yaml
	$(WEFT_CACHE)/bin/kubectl kustomize config/api > dist/api.yaml
	cd test/bundle && go run ./cmd/weft-bundle ../..
	cd test/helm && go run ./cmd/weft-chart ../..
	go run -trimpath ./test/apidocs/cmd/weft-apidocs .

.PHONY: fmt
fmt: ## Run gofmt
	gofmt -w apis cmd config controllers pkg test main.go

##@ Tools
.PHONY: tools
tools: ## Fetch OVN, and build etcd, kube-apiserver, kube-proxy, kube-scheduler and kubectl for the tests, into $WEFT_CACHE
	$(LAB) tools ovn
	$(LAB) tools envtest
	@go mod download -modfile=test/tools/cni/go.mod # tests build these plugins in network namespaces without a way out

.PHONY: linux
linux: ## Build the kernel of make check-kernel, User-Mode Linux, into $WEFT_CACHE; about 10 minutes
	$(LAB) tools linux

.PHONY: lab-tools
lab-tools: ## Build what a cluster of the lab runs, too: Kubernetes' other programs, containerd and CoreDNS
	$(LAB) tools all

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*?##/ {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
