// Package policy is the table of all policies, and what they have in common
// for a user: a name, a source, settings. There is no registry: a policy exists
// because it stands in Table.
package policy

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/policy/afs"
	"github.com/norn-scheduler/norn/policy/allox"
	"github.com/norn-scheduler/norn/policy/antman"
	"github.com/norn-scheduler/norn/policy/asrpt"
	"github.com/norn-scheduler/norn/policy/astraea"
	"github.com/norn-scheduler/norn/policy/bsbf"
	"github.com/norn-scheduler/norn/policy/bytegnn"
	"github.com/norn-scheduler/norn/policy/cassini"
	"github.com/norn-scheduler/norn/policy/chronus"
	"github.com/norn-scheduler/norn/policy/crius"
	"github.com/norn-scheduler/norn/policy/drf"
	"github.com/norn-scheduler/norn/policy/easyscale"
	"github.com/norn-scheduler/norn/policy/elasticflow"
	"github.com/norn-scheduler/norn/policy/fairshare"
	"github.com/norn-scheduler/norn/policy/fgd"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/freetrain"
	"github.com/norn-scheduler/norn/policy/gandiva"
	"github.com/norn-scheduler/norn/policy/gandivafair"
	"github.com/norn-scheduler/norn/policy/gas"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/gimbal"
	"github.com/norn-scheduler/norn/policy/helios"
	"github.com/norn-scheduler/norn/policy/hived"
	"github.com/norn-scheduler/norn/policy/iadeep"
	"github.com/norn-scheduler/norn/policy/kit/lease"
	"github.com/norn-scheduler/norn/policy/kit/rounds"
	"github.com/norn-scheduler/norn/policy/las"
	"github.com/norn-scheduler/norn/policy/lucid"
	"github.com/norn-scheduler/norn/policy/lyra"
	"github.com/norn-scheduler/norn/policy/mapa"
	"github.com/norn-scheduler/norn/policy/mast"
	"github.com/norn-scheduler/norn/policy/maxmin"
	"github.com/norn-scheduler/norn/policy/muri"
	"github.com/norn-scheduler/norn/policy/muxflow"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/policy/ones"
	"github.com/norn-scheduler/norn/policy/optimus"
	"github.com/norn-scheduler/norn/policy/pai"
	"github.com/norn-scheduler/norn/policy/pal"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/philly"
	"github.com/norn-scheduler/norn/policy/pollux"
	"github.com/norn-scheduler/norn/policy/pop"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/policy/shockwave"
	"github.com/norn-scheduler/norn/policy/shortest"
	"github.com/norn-scheduler/norn/policy/sia"
	"github.com/norn-scheduler/norn/policy/singularity"
	"github.com/norn-scheduler/norn/policy/slaq"
	"github.com/norn-scheduler/norn/policy/slurm"
	"github.com/norn-scheduler/norn/policy/synergy"
	"github.com/norn-scheduler/norn/policy/themis"
	"github.com/norn-scheduler/norn/policy/tiresias"
	"github.com/norn-scheduler/norn/policy/topoaware"
	"github.com/norn-scheduler/norn/policy/ymir"
	"github.com/norn-scheduler/norn/sched"
)

// Config is the settings of a policy, which can make it. Needs says what the policy, as it
// is set, lives on; it is empty for one that goes by submissions and ends alone.
type Config interface {
	Params() param.Set
	Needs() need.List
	Policy() (sched.Policy, error)
}

// Acts are what a policy does besides starting jobs.
type Acts uint8

// The acts, as bits of a set.
const (
	Preempts Acts = 1 << iota // it takes running jobs off their devices; they wait again
	Shares                    // it puts several jobs on a device, so that a world must say how they disturb each other
	Resizes                   // it changes the number of tasks of running jobs
	Merges                    // it has two jobs trained as one
)

// Has tells whether all acts of b are in the set.
func (a Acts) Has(b Acts) bool { return a&b == b }

// Names lists the acts of the set, each in a word.
func (a Acts) Names() []string {
	var out []string
	for i, name := range [...]string{"preempts", "shares", "resizes", "merges"} {
		if a.Has(1 << i) {
			out = append(out, name)
		}
	}
	return out
}

// Entry is one line of the table.
type Entry struct {
	Name   string // as a user writes it
	Title  string // one line
	Source string // paper or system
	New    func() Config

	Acts Acts // what it does besides starting jobs, with its settings at their defaults

	Note func() sched.Note // makes an empty note of what it remembers about a job; nil: it remembers nothing
}

// Table are all policies, in the order in which they are shown.
func Table() []Entry {
	return []Entry{
		{"fifo", "first in, first out: strict, skipping, or EASY backfill", "YARN, Slurm; Lifka, JSSPP 1995", func() Config { return fifo.NewConfig() }, 0, nil},
		{"sjf", "shortest job first, no preemption", "classic; Helios (SC 2021), PAI (NSDI 2022)", func() Config { return shortest.NewSJF() }, 0, nil},
		{"srtf", "shortest remaining time first", "classic", func() Config { return shortest.NewSRTF() }, Preempts, nil},
		{"srsf", "shortest remaining service (time x GPUs) first", "Tiresias (NSDI 2019), section 2.2", func() Config { return shortest.NewSRSF() }, Preempts, nil},
		{"las", "least attained service first, in rounds", "Tiresias (NSDI 2019), section 3", func() Config { return las.NewConfig() }, Preempts, nil},
		{"tiresias", "discretised 2D-LAS or 2D-Gittins with promotion and profile-based placement", "Gu et al., NSDI 2019", func() Config { return tiresias.NewConfig() }, Preempts, tiresias.NewNote},
		{"philly", "fair share between virtual clusters with borrowing and reclaim, locality relaxed with waiting", "Jeon et al., ATC 2019", func() Config { return philly.NewConfig() }, Preempts, philly.NewNote},
		{"pai", "shortest first by the means of groups, skipping, fractional GPUs, high-end GPUs kept for heavy jobs", "Weng et al., NSDI 2022", func() Config { return pai.NewConfig() }, 0, pai.NewNote},
		{"qssf", "quasi-shortest service first: run times predicted from history, no preemption", "Helios: Hu et al., SC 2021", func() Config { return helios.NewConfig() }, 0, helios.NewNote},
		{"a-srpt", "gangs in the order in which they would be done on one machine as fast as all GPUs, the shortest first; no preemption; those that mind it wait a little for few nodes", "Wang et al., INFOCOM 2025; in part a reasoned design", func() Config { return asrpt.NewConfig() }, 0, asrpt.NewNote},
		{"hived", "guarantees as cells of GPUs that are close together, bound when they are needed; the rest lent to opportunistic jobs; first in, first out", "Zhao et al., OSDI 2020", func() Config { return hived.NewConfig() }, Preempts, hived.NewNote},
		{"drf", "dominant resource fairness between tenants, down the tenant tree, with guarantees and limits", "Ghodsi et al., NSDI 2011", func() Config { return drf.NewConfig() }, 0, nil},
		{"maxmin", "weighted max-min share of GPUs between tenants with guarantee, borrowing and reclaim", "water-filling; YARN fair scheduler, Kueue, KAI", func() Config { return maxmin.NewConfig() }, Preempts, nil},
		{"fairshare", "decayed usage for one's share first, with age, size and priority; no preemption", "Slurm multifactor and Fair Tree", func() Config { return fairshare.NewConfig() }, 0, fairshare.NewNote},
		{"slurm", "multifactor priority of owners, age, size, partition and QOS, with backfill and preemption by QOS or partition", "Slurm multifactor, backfill, preempt/qos, preempt/partition_prio", func() Config { return slurm.NewConfig() }, 0, fairshare.NewNote},
		{"gavel", "shares of unlike GPUs by optimisation, in rounds: max-min, finish times, makespan, cost and others, aware of speeds or not", "Narayanan et al., OSDI 2020", func() Config { return gavel.NewConfig() }, Preempts, rounds.NewNote},
		{"pop", "gavel's shares, found in parts: jobs and GPUs are divided, each part shared out as the whole would be", "Narayanan et al., SOSP 2021", func() Config { return pop.NewConfig() }, Preempts, rounds.NewNote},
		{"allox", "jobs for a GPU of any type, or none, matched to all machines for the least mean completion time, poorest users first", "Le et al., EuroSys 2020", func() Config { return allox.NewConfig() }, 0, nil},
		{"themis", "finish-time fairness: leases, and auctions among the worst off", "Mahajan et al., NSDI 2020", func() Config { return themis.NewConfig() }, Preempts | Resizes, lease.NewNote},
		{"astraea", "GPU-time fair in the long run between tenants and between jobs, in leases", "Ye et al., TPDS 2022", func() Config { return astraea.NewConfig() }, Preempts, lease.NewNote},
		{"gandiva", "gangs take turns on servers; packing, migration and growth, tried while jobs run and judged by measured rates", "Xiao et al., OSDI 2018", func() Config { return gandiva.NewConfig() }, Preempts | Shares | Resizes, gandiva.NewNote},
		{"gandiva_fair", "user-fair stride scheduling of gangs, with trading between GPU generations", "Chaudhary et al., EuroSys 2020", func() Config { return gandivafair.NewConfig() }, Preempts, gandivafair.NewNote},
		{"shockwave", "rounds planned ahead: fair over time, finish times that are due, early makespan", "Zheng et al., NSDI 2023", func() Config { return shockwave.NewConfig() }, Preempts, shockwave.NewNote},
		{"afs", "elastic sharing for the least mean completion time, run times known (AFS-L)", "Hwang et al., NSDI 2021", func() Config { return afs.NewConfig() }, Preempts | Resizes, afs.NewNote},
		{"afs-p", "elastic sharing for the least mean completion time, run times unknown (AFS-P)", "Hwang et al., NSDI 2021", func() Config { return afs.NewBlind() }, Preempts | Resizes, afs.NewNote},
		{"optimus", "one GPU after the other to the elastic job whose remaining time it shortens most, at fixed intervals", "Peng et al., EuroSys 2018; workers alone, as in Sia", func() Config { return optimus.NewConfig() }, Preempts | Resizes, nil},
		{"pollux", "elastic jobs that choose their batch sizes, for the best goodput, by a genetic algorithm in rounds", "Qiao et al., OSDI 2021", func() Config { return pollux.NewConfig() }, Preempts | Resizes, pollux.NewNote},
		{"crius", "large models on the number and type of GPUs, with their best parallel plan, by which all jobs together do most", "Xue et al., Arena, EuroSys 2026", func() Config { return crius.NewConfig() }, Preempts | Resizes, nil},
		{"sia", "a GPU type, a number of GPUs and a batch for each job, for the best goodput, by an exact integer program in rounds", "Jayaram Subramanya et al., SOSP 2023", func() Config { return sia.NewConfig() }, Preempts | Resizes, sia.NewNote},
		{"easyscale", "jobs whose workers take turns on fewer GPUs, of any types, grow into idle ones by the largest gain in speed for each GPU", "Li et al., SC 2023", func() Config { return easyscale.NewConfig() }, Resizes, easyscale.NewNote},
		{"gas", "how many GPUs a job starts with, by predicted time and energy: many while GPUs are idle, few while jobs queue", "Chen et al., SmartWorld 2022; a reasoned design by its abstract", func() Config { return gas.NewConfig() }, 0, nil},
		{"elasticflow", "deadlines of elastic jobs: admission by schedules that keep all promises, spare GPUs where they save most of GPU time", "Gu et al., ASPLOS 2023", func() Config { return elasticflow.NewConfig() }, Preempts | Resizes, elasticflow.NewNote},
		{"chronus", "deadlines of gangs: admission by leases that keep all promises, the rest to the shortest remaining service", "Gao et al., SoCC 2021", func() Config { return chronus.NewConfig() }, Preempts, chronus.NewNote},
		{"edf", "earliest deadline first, elastic jobs on as many GPUs as make them faster", "classic; as in ElasticFlow (ASPLOS 2023)", func() Config { return elasticflow.NewEDF() }, Preempts | Resizes, nil},
		{"singularity", "tiers with a promised GPU fraction, kept by splicing the workers of lower tiers onto fewer GPUs, then by preempting them", "Shukla et al., arXiv 2202.07848, 2022; the policy in outline", func() Config { return singularity.NewConfig() }, Preempts | Resizes, nil},
		{"slaq", "one GPU after the other to the elastic job whose loss it is foretold to lower most, in short rounds", "Zhang et al., SoCC 2017", func() Config { return slaq.NewConfig() }, Preempts | Resizes, nil},
		{"ones", "divisions of all GPUs, found by an evolutionary search over the sizes of elastic jobs that grow and shrink in place", "Bian et al., SC 2021", func() Config { return ones.NewConfig() }, Preempts | Resizes, ones.NewNote},
		{"lyra", "borrowed nodes, vacated with the fewest preemptions, and elastic jobs that grow into what is idle; base workers shortest job first", "Li et al., EuroSys 2023", func() Config { return lyra.NewConfig() }, Preempts | Resizes, nil},
		{"freetrain", "nodes that their owner leaves idle, divided among elastic jobs for the most work less what changes of size cost, exactly, whenever nodes come or go", "BFTrainer, arXiv 2106.12091; FreeTrain, CCGrid 2023", func() Config { return freetrain.NewConfig() }, Preempts | Resizes, nil},
		{"titan", "fine-tuning: GPUs divided for the least sum of remaining times over fair ones, two jobs of one backbone trained as one", "Titan, SoCC 2022", func() Config { return ymir.NewTitan() }, Preempts | Shares | Resizes | Merges, ymir.NewNote},
		{"ymir", "fine-tuning: jobs of one backbone that learn from each other are merged, GPUs divided for the least sum of slowdowns, warm runtimes", "Ymir, ICS 2024", func() Config { return ymir.NewConfig() }, Preempts | Shares | Resizes | Merges, ymir.NewNote},
		{"rmixer", "several recommendation models on a GPU, chosen to need different things of it, and some on processors", "Tian et al., TPDS 2024", func() Config { return rmixer.NewConfig() }, Shares, rmixer.NewNote},
		{"muri-s", "groups of up to four jobs take turns at storage, CPU, GPU and network; shortest remaining service first", "Zhao et al., SIGCOMM 2022", func() Config { return muri.NewShort() }, Preempts | Shares, nil},
		{"muri-l", "the same, run times unknown: least attained service first", "Zhao et al., SIGCOMM 2022", func() Config { return muri.NewLong() }, Preempts | Shares, nil},
		{"antman", "jobs within their tenant's quota run as if alone; the others run in the gaps of their GPUs, slowed down as soon as these feel it", "Xiao et al., OSDI 2020", func() Config { return antman.NewConfig() }, Shares, antman.NewNote},
		{"muxflow", "offline jobs beside online services that use their GPUs little, matched so that they run fastest, and taken off as soon as a service needs its GPU", "arXiv 2303.13803, 2023", func() Config { return muxflow.NewConfig() }, Preempts | Shares, muxflow.NewNote},
		{"bsbf", "shortest first, nobody preempted; jobs share GPUs in pairs where both then end sooner", "SJF-BSBF, arXiv 2407.13088, 2024", func() Config { return bsbf.NewConfig() }, Shares, bsbf.NewNote},
		{"lucid", "new jobs are measured for a short time, the others go by GPU time predicted from history, and pairs that hardly disturb each other share", "Hu et al., ASPLOS 2023", func() Config { return lucid.NewConfig() }, Shares, lucid.NewNote},
		{"synergy", "cores and memory divided by what they do for each job, none below its proportional speed, under any order of jobs, in rounds", "Mohan et al., OSDI 2022", func() Config { return synergy.NewConfig() }, Preempts, synergy.NewNote},
		{"bytegnn", "first in, first out; the cores of each node to the jobs whose GPUs they keep busiest, changed in place: for training on graphs, whose batches processors sample", "ByteGNN, VLDB 2022, carried over to clusters", func() Config { return bytegnn.NewConfig() }, 0, nil},
		{"iadeep", "jobs of one GPU share GPUs where they are predicted to disturb each other least, learnt as they run, and their batches are tuned to disturb less", "Geng et al., SC 2023", func() Config { return iadeep.NewConfig() }, Shares, iadeep.NewNote},
		{"gimbal", "gangs of any sizes packed two on a GPU, how much of it each worker may use calibrated for completion times, fairness, makespan or deadlines", "Gimbal, TACO 2025; from its abstract", func() Config { return gimbal.NewConfig() }, Preempts | Shares, gimbal.NewNote},
		{"pal", "gangs on GPUs of one type of which some are slower: by how slow their slowest GPU is and what it costs to be on several nodes, in rounds", "PAL, SC 2024", func() Config { return pal.NewConfig() }, 0, nil},
		{"mapa", "the GPUs of a node that are linked best for the way in which a job's tasks talk to each other, or that leave the best links to others; first in, first out", "Ranganath et al., SC 2021", func() Config { return mapa.NewConfig() }, 0, nil},
		{"topology-aware", "GPUs of a node that are near to each other, where few disturb each other; a job may wait for better ones", "Amaral et al., SC 2017", func() Config { return topoaware.NewConfig() }, 0, nil},
		{"cassini", "places and starts of iterations so that jobs which share a link of the network send in turns; who runs on how many GPUs another policy says", "Rajasekaran et al., NSDI 2024", func() Config { return cassini.NewConfig() }, Preempts | Resizes, nil},
		{"mast", "one queue over all regions by band and credit; a job goes to the best bid of the regions that have its data, where lower bands may be stopped", "Choudhury et al., OSDI 2024; in part our reading", func() Config { return mast.NewConfig() }, Preempts, nil},
		{"fgd", "each task where it fragments the idle GPUs least; parts of GPUs; also best fit, dot product, packing, clustering", "Weng et al., ATC 2023", func() Config { return fgd.NewConfig() }, 0, nil},
	}
}

// Needs says what the policy lives on with its settings at their defaults.
func (e Entry) Needs() need.List { return e.New().Needs() }

// ByName finds a policy; an unknown name is an error that lists the known ones.
func ByName(name string) (Entry, error) {
	var names []string
	for _, e := range Table() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Entry{}, fmt.Errorf("unknown policy %q; known are: %s%s", name, strings.Join(names, ", "), param.Near(name, names))
}
