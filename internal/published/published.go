// Package published runs Norn under the conditions of published simulators, so
// that their per-job results are reproduced, and holds it against them.
//
// Nouns:
//   - A Simulator is one of them, with its policies and clusters under its own
//     names.
//   - A Request is one run.
//   - A Line is a line of a manifest. It names a run, the result that the
//     simulator itself gave, and how near it is to be met.
//   - An Outcome is the result of a line.
//
// The quirks of published code live in the packages below this one, apart from
// package policy, whose policies read like the papers. The runs go through the
// engine, the simulator and the ledger that every other run goes through, so
// that a reproduced result says something about these, too. docs/validate.md
// describes each quirk.
package published

import (
	"context"
	"fmt"

	"github.com/norn-scheduler/norn/internal/published/alloxsim"
	"github.com/norn-scheduler/norn/internal/published/gavel"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/lucid"
	"github.com/norn-scheduler/norn/internal/published/mapa"
	"github.com/norn-scheduler/norn/internal/published/muri"
	"github.com/norn-scheduler/norn/internal/published/pai"
	"github.com/norn-scheduler/norn/internal/published/shockwave"
	"github.com/norn-scheduler/norn/internal/published/sia"
	"github.com/norn-scheduler/norn/internal/published/synergy"
	"github.com/norn-scheduler/norn/internal/published/tiresias"
	"github.com/norn-scheduler/norn/internal/published/topoaware"
)

// Simulator is a published simulator.
type Simulator struct {
	Name     string
	Title    string
	Source   string // paper and repository
	Clusters string // how its clusters are named
	Policies []Policy

	run func(context.Context, Request) (*harness.Result, error)
}

// Policy is a policy of a simulator, under its name there.
type Policy struct {
	Name string
	Note string // what is odd about it; empty where nothing is
}

// Request is one run.
type Request struct {
	Simulator string
	Trace     string // path of the trace, in the simulator's own layout
	Cluster   string // by the simulator's names, or the path of its description
	Policy    string

	Priorities string // lucid, qssf alone: path of the predicted run times; empty: looked for near the trace
	Speeds     string // gavel, shockwave: path of the measured throughputs; sia: folder of the profiles; gpu-topo-aware: path of the run times; empty: looked for near the trace
	Rate       int    // pai alone: jobs arriving each minute; 0: as the trace says
}

// Simulators are all simulators, in the order in which they are shown.
func Simulators() []Simulator {
	return []Simulator{
		{
			Name: "tiresias", Title: "Tiresias", Source: "Gu et al., NSDI 2019; SymbioticLab/Tiresias",
			Clusters: "nNgG for N nodes of G GPUs, or the path of a cluster spec (.csv)",
			Policies: policies(tiresias.Policies(), func(p tiresias.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      plain(tiresias.Run),
		},
		{
			Name: "muri", Title: "Muri", Source: "Zhao et al., SIGCOMM 2022; Rivendile/Muri",
			Clusters: "nNgG for N nodes of G GPUs, or the path of a cluster spec (.csv)",
			Policies: policies(muri.Policies(), func(p muri.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      plain(muri.Run),
		},
		{
			Name: "lucid", Title: "Lucid", Source: "Hu et al., ASPLOS 2023; S-Lab-System-Group/Lucid",
			Clusters: "venus-15vc, or the path of a file of virtual clusters (.csv)",
			Policies: policies(lucid.Policies(), func(p lucid.Policy) Policy { return Policy{p.Name, p.Note} }),
			run: func(ctx context.Context, r Request) (*harness.Result, error) {
				return runLucid(ctx, r)
			},
		},
		{
			Name: "pai", Title: "Alibaba PAI", Source: "Weng et al., NSDI 2022; alibaba/clusterdata, cluster-trace-gpu-v2020",
			Clusters: "gN for one node of N GPUs, or hetero",
			Policies: policies(pai.Policies(), func(p pai.Policy) Policy { return Policy{p.Name, p.Note} }),
			run: func(ctx context.Context, r Request) (*harness.Result, error) {
				return pai.Run(ctx, r.Trace, r.Cluster, r.Policy, pai.Options{Rate: r.Rate})
			},
		},
		{
			Name: "gavel", Title: "Gavel", Source: "Narayanan et al., OSDI 2020; stanford-futuredata/gavel",
			Clusters: "types=GPUs, as in V100:P100:K80=12:12:12, one GPU a server",
			Policies: policies(gavel.Policies(), func(p gavel.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      runGavel,
		},
		{
			Name: "shockwave", Title: "Shockwave", Source: "Zheng et al., NSDI 2023; uw-mad-dash/shockwave",
			Clusters: "V100=GPUs, one GPU a server",
			Policies: append(policies(shockwave.Baselines(), func(b shockwave.Baseline) Policy { return Policy{b.Name, b.Note} }),
				Policy{shockwave.Planned, "another optimum of its programs"}),
			run: runShockwave,
		},
		{
			Name: "synergy", Title: "Synergy", Source: "Mohan et al., OSDI 2022; msr-fiddle/synergy",
			Clusters: `servers, GPUs, CPUs and memory of each, as in "4x8 GPU, 24 CPU, 500 GB"`,
			Policies: policies(synergy.Policies(), func(p synergy.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      plain(synergy.Run),
		},
		{
			Name: "alloxsim", Title: "AlloX", Source: "Le et al., EuroSys 2020; lenhattan86/allox_sim",
			Clusters: "GPU=20;CPU=640;mem=2560GiB, CPUs in multiples of 32",
			Policies: policies(alloxsim.Policies(), func(p alloxsim.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      plain(alloxsim.Run),
		},
		{
			Name: "sia", Title: "Sia, Pollux", Source: "Jayaram Subramanya et al., SOSP 2023; siasosp23/artifacts; Qiao et al., OSDI 2021; petuum/adaptdl",
			Clusters: "type=NODESxGPUS joined by ;, as in aws=6x4;dgx-ext=2x8;rtx=3x8",
			Policies: policies(sia.Policies(), func(p sia.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      runSia,
		},
		{
			Name: "mapa", Title: "MAPA", Source: "Ranganath et al., SC 2021; socal-ucr/MAPA",
			Clusters: "dgx-v, dgx-p, summit or torus-2d: one machine",
			Policies: policies(mapa.Policies(), func(p mapa.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      plain(mapa.Run),
		},
		{
			Name: "gpu-topo-aware", Title: "Topology-aware", Source: "Amaral et al., SC 2017; HiEST/gpu-topo-aware",
			Clusters: "mN for N machines of four GPUs at two sockets",
			Policies: policies(topoaware.Policies(), func(p topoaware.Policy) Policy { return Policy{p.Name, p.Note} }),
			run:      runTopologyAware,
		},
	}
}

// plain is the run of a simulator that needs trace, cluster and policy alone.
func plain(run func(ctx context.Context, trace, cluster, policy string) (*harness.Result, error)) func(context.Context, Request) (*harness.Result, error) {
	return func(ctx context.Context, r Request) (*harness.Result, error) {
		return run(ctx, r.Trace, r.Cluster, r.Policy)
	}
}

func runLucid(ctx context.Context, r Request) (*harness.Result, error) {
	o := lucid.Options{Priorities: r.Priorities}
	var err error
	switch {
	case r.Policy == "qssf" && o.Priorities == "":
		o.Priorities, err = findPredictions(r.Trace)
	case r.Policy == "lucid":
		err = findLucid(r.Trace, &o)
	}
	if err != nil {
		return nil, err
	}
	return lucid.Run(ctx, r.Trace, r.Cluster, r.Policy, o)
}

func runTopologyAware(ctx context.Context, r Request) (*harness.Result, error) {
	if err := topoaware.Check(r.Cluster, r.Policy); err != nil {
		return nil, err
	}
	if r.Speeds == "" {
		if r.Speeds = near(r.Trace, "gpu_topo_aware", []string{"profiles/prof_from_experiments.json"}); r.Speeds == "" {
			return nil, fmt.Errorf("gpu-topo-aware needs run times alone and beside others: name the file with --speeds; there is no profiles/prof_from_experiments.json beside %s or in data/gpu_topo_aware above it", r.Trace)
		}
	}
	return topoaware.Run(ctx, r.Trace, r.Cluster, r.Policy, r.Speeds)
}

func runSia(ctx context.Context, r Request) (*harness.Result, error) {
	if err := sia.Check(r.Cluster, r.Policy); err != nil {
		return nil, err
	}
	if r.Speeds == "" {
		if r.Speeds = near(r.Trace, "pollux_sia", []string{"profiles"}); r.Speeds == "" {
			return nil, fmt.Errorf("sia needs what was measured of each application: name the folder with --speeds; there is no folder profiles beside %s or in data/pollux_sia above it", r.Trace)
		}
	}
	return sia.Run(ctx, r.Trace, r.Cluster, r.Policy, sia.Options{Profiles: r.Speeds})
}

func runGavel(ctx context.Context, r Request) (*harness.Result, error) {
	if err := gavel.Check(r.Cluster, r.Policy); err != nil {
		return nil, err
	}
	if r.Speeds == "" {
		path, err := findThroughputs("gavel", r.Trace)
		if err != nil {
			return nil, err
		}
		r.Speeds = path
	}
	return gavel.Run(ctx, r.Trace, r.Cluster, r.Policy, gavel.Options{Speeds: r.Speeds})
}

func runShockwave(ctx context.Context, r Request) (*harness.Result, error) {
	var b shockwave.Baseline
	var err error
	if r.Policy != shockwave.Planned {
		if b, err = shockwave.FindBaseline(r.Policy); err != nil {
			return nil, err
		}
	}
	gpus, err := shockwave.Machine(r.Cluster)
	if err != nil {
		return nil, err
	}
	if r.Speeds == "" {
		if r.Speeds, err = findThroughputs("shockwave", r.Trace); err != nil {
			return nil, err
		}
	}
	var o *shockwave.Outcome
	if r.Policy == shockwave.Planned {
		o, err = shockwave.Run(ctx, r.Trace, r.Speeds, gpus, shockwave.Authors(gpus))
	} else {
		o, err = shockwave.RunBaseline(ctx, r.Trace, r.Speeds, gpus, b)
	}
	if err != nil {
		return nil, err
	}
	return o.Result, nil
}

func policies[T any](all []T, of func(T) Policy) []Policy {
	out := make([]Policy, len(all))
	for i := range all {
		out[i] = of(all[i])
	}
	return out
}

// ByName finds a simulator; an unknown name is an error that lists the known
// ones.
func ByName(name string) (Simulator, error) {
	return harness.Find("simulator", name, Simulators(), func(s *Simulator) string { return s.Name })
}

// Has tells whether the simulator has a policy.
func (s *Simulator) Has(policy string) bool {
	for _, p := range s.Policies {
		if p.Name == policy {
			return true
		}
	}
	return false
}

// Run carries out a run. Errors name the file, line, policy or cluster that is
// at fault.
func Run(ctx context.Context, r Request) (*harness.Result, error) {
	s, err := ByName(r.Simulator)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, r)
}

// Against carries out a run and holds its result against the one in a file.
func Against(ctx context.Context, r Request, path string) (*harness.Result, harness.Comparison, error) {
	got, err := Run(ctx, r)
	if err != nil {
		return nil, harness.Comparison{}, err
	}
	want, err := harness.ReadResult(path)
	if err != nil {
		return nil, harness.Comparison{}, err
	}
	return got, harness.Compare(got, want), nil
}
