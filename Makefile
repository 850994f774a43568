# The usual errands. None is needed to use Norn: go build and go test do it all.

.PHONY: build test race soak kube-kills device-check elastic bench bench-live bench-kube bench-fidelity micro fuzz check reproduced properties nightly release release-check

build: ## the programs, as ./norn and ./norn-kube
	go build -o norn ./cmd/norn
	go build -o norn-kube ./cmd/norn-kube

test: ## everything, as in README.md
	go test ./...

race: ## what runs side by side, under the race detector; needs gcc, a few minutes
	NORN_LONG=1 go test -race -short ./engine ./sim ./eventlog/... ./api/... ./live ./local

soak: ## ten minutes of kills, full disks, flipped bits and hostile clients under three policies
	go run ./internal/soak -for 10m

kube-kills: ## a leader of a Kubernetes cluster that is killed 10,000 times at its writes; hours
	NORN_KUBE=required NORN_KUBE_KILLS=10000 go test ./kube -run TestKilled -count 1 -timeout 12h -v

check: ## what continuous integration checks besides the tests
	test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	.ci/lint
	go mod tidy -diff

device-check: ## norn selftest: what is promised of a live machine, tried out on this one; best with a GPU
	go run ./cmd/norn selftest

elastic: ## four PyTorch trainings that grow and shrink under Pollux and under Sia on four slots; three minutes, with nothing beside it
	NORN_ELASTIC=$${NORN_ELASTIC:-1.3} go test ./sdk -run TestElasticEndToEnd -count 1 -v

reproduced: ## the policies against their papers, in the quick form; records it for continuous integration
	go run ./cmd/norn reproduce --all --quick --json > docs/reproduced.json.new
	mv docs/reproduced.json.new docs/reproduced.json
	go test ./experiment/reproduce -run TestRecorded -update

properties: ## every policy on 300 random worlds of each shape, where the tests try 25; some 40 minutes of CPU
	RAPID_CHECKS=300 go test -timeout 2h -count=1 ./policy -run TestProperties
	RAPID_CHECKS=300 go test -timeout 2h -count=1 ./engine ./eventlog/replay -run 'TestRenumbered|TestFoldIsTheRun|TestSameAgain'

nightly: properties ## the policies against their papers in the full form, with commit and machine
	@{ printf '{"commit": "%s", "machine": "%s, %s cores", "rows":\n' "$$(git describe --always --dirty --abbrev=40)" "$$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$$(nproc)" && \
		go run ./cmd/norn reproduce --all --json && echo '}'; } > docs/nightly.json.new
	mv docs/nightly.json.new docs/nightly.json

bench: ## whole processes against their bounds; rewrites the tables of docs/performance.md
	go run ./internal/bench -write docs/performance.md

bench-live: ## a running daemon against its bounds, beside the peers that are installed; half an hour
	go run ./internal/bench -live -peers -write docs/performance.md

bench-kube: ## norn in Kubernetes clusters that exist in appearance, beside the least scheduler that could be and kube-scheduler; half an hour
	go run ./kube/internal/testenv/build etcd kube-apiserver kube-controller-manager kube-scheduler
	go run ./kube/internal/bench -rounds 3 -write docs/performance.md -json docs/kube.json

bench-fidelity: ## the simulator against real processes, by norn fidelity
	go run ./internal/bench -fidelity docs/fidelity.md -write docs/performance.md

micro: ## benchmarks of single packages
	go test -run '^$$' -bench . -benchmem ./...

fuzz: ## every reader of input for half a minute each
	@for pkg in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
			echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s -fuzzminimizetime 50x $$pkg || exit 1; \
		done; \
	done

release: ## archives, packages, an OCI image, bills of materials and checksums of the last commit, in dist
	go run -C internal/release . -repo $(CURDIR) $(RELEASE_FLAGS)

release-check: ## makes a release for amd64 twice, looks into it, and compares the bytes
	go test -C internal/release -count=1 -timeout 30m -v .
