package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// likeDLRM is what a user writes for a batch of recommendation jobs, which is no log
// but made from a list of models.
const likeDLRM = "dlrm"

// likeSynergy is what a user writes for jobs that need cores and memory beside their
// GPUs, no log either.
const likeSynergy = "synergy"

// likeGavel is what a user writes for jobs whose speeds were measured on several GPU types.
const likeGavel = "gavel"

// likeSearch is what a user writes for searches for hyper-parameters, no log either.
const likeSearch = "search"

// likeLyra and likeIdeal are what a user writes for training beside an inference cluster that lends
// its servers, no log either; ideal: every job is elastic and may run there.
const (
	likeLyra  = "lyra"
	likeIdeal = "lyra-ideal"
)

// likeDatacenter is what a user writes for a cluster that trains, tunes, serves and computes graphs.
const likeDatacenter = "datacenter"

// datacenter makes the jobs of --like datacenter.
func datacenter(o gen.Options, span string, serving float64) (trace.Source, error) {
	if o.Jobs > 0 {
		return nil, misused("--like datacenter: tell --span and --offered-load instead of --jobs")
	}
	of := gen.Datacenter{GPUs: o.GPUs, Load: o.Load, Seed: o.Seed, Serving: serving}
	var err error
	if of.Span, err = spanFlag("span", span); err != nil {
		return nil, err
	}
	jobs, err := gen.NewDatacenter(of)
	if err != nil {
		return nil, misused("--like datacenter: %w", err)
	}
	return trace.FromMemory(jobs), nil
}

// loaned makes the jobs of --like lyra and lyra-ideal.
func loaned(o gen.Options, ideal bool) (trace.Source, error) {
	jobs, err := gen.NewLoaned(gen.Loaned{Jobs: o.Jobs, GPUs: o.GPUs, Load: o.Load, Seed: o.Seed, Ideal: ideal})
	if err != nil {
		return nil, misused("--like lyra: %w", err)
	}
	return trace.FromMemory(jobs), nil
}

// dlrmFlags are the flags of generate that are of such a batch alone.
type dlrmFlags struct {
	list, gap string
	outliers  int
}

func (d *dlrmFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.list, "list", "memory", "like dlrm: the task list: memory, balance, bandwidth or computing")
	f.StringVar(&d.gap, "gap", "0s", "like dlrm: mean time between submissions (0: all at once; like tpch: 25s)")
	f.IntVar(&d.outliers, "outliers", 0, "like dlrm: number of jobs that take 1.4 times their estimated memory")
}

// source makes the batch; jobs 0 is 24 of them.
func (d *dlrmFlags) source(jobs int, seed uint64) (trace.Source, error) {
	o := gen.DLRM{Jobs: jobs, Seed: seed, Outliers: d.outliers}
	var err error
	if o.List, err = gen.ParseTaskList(d.list); err != nil {
		return nil, misused("--list: %w", err)
	}
	if o.Gap, err = unit.ParseSeconds(d.gap); err != nil {
		return nil, misused("--gap: %w", err)
	}
	entries, err := gen.NewDLRM(o)
	if err != nil {
		return nil, err
	}
	return trace.FromMemory(entries), nil
}

// rationFlags are the flags of generate that are of such jobs alone.
type rationFlags struct {
	perHour float64
	mix     string
	gangs   bool
}

func (r *rationFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&r.perHour, "per-hour", 9, "like synergy or gavel: number of jobs submitted in an hour (like gavel 0: all at once)")
	f.StringVar(&r.mix, "mix", "20,70,10", "like synergy: per cent of the jobs that train image, language and speech models")
	f.BoolVar(&r.gangs, "gangs", false, "like synergy or gavel: jobs of 1, 2, 4 and 8 GPUs, otherwise of one each")
}

// source makes the jobs.
func (r *rationFlags) source(jobs int, seed uint64) (trace.Source, error) {
	o := gen.Rations{Jobs: jobs, PerHour: r.perHour, Gangs: r.gangs, Seed: seed}
	var rest string
	if n, err := fmt.Sscanf(r.mix, "%d,%d,%d%s", &o.Mix.Image, &o.Mix.Language, &o.Mix.Speech, &rest); n != 3 || err == nil {
		return nil, misused("--mix %s: write three numbers, as in 20,70,10", r.mix)
	}
	if jobs == 0 {
		return nil, misused("name the number of jobs: --jobs N")
	}
	entries, err := gen.NewRations(o)
	if err != nil {
		return nil, misused("--like synergy: %w", err)
	}
	return trace.FromMemory(entries), nil
}

// searches makes apps that search, whose jobs use up to so many GPUs.
func searches(o gen.Options, most int) (trace.Source, error) {
	jobs, err := gen.NewSearch(gen.Search{Jobs: o.Jobs, GPUs: o.GPUs, Load: o.Load, Most: most, Seed: o.Seed})
	if err != nil {
		return nil, misused("--like search: %w", err)
	}
	return trace.FromMemory(jobs), nil
}

// sorts makes the jobs of --like gavel.
func (r *rationFlags) sorts(jobs int, seed uint64) (trace.Source, error) {
	if jobs == 0 {
		return nil, misused("name the number of jobs: --jobs N")
	}
	entries, err := gen.NewSorts(gen.Sorts{Jobs: jobs, PerHour: r.perHour, Gangs: r.gangs, Seed: seed})
	if err != nil {
		return nil, misused("--like gavel: %w", err)
	}
	return trace.FromMemory(entries), nil
}

// spanFlag reads a time that a flag may tell; 0 where it does not.
func spanFlag(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := unit.ParseSeconds(text)
	if err != nil {
		return 0, misused("--%s: %w", name, err)
	}
	return d, nil
}

// likeLog makes a trace that resembles a published log.
func likeLog(opt gen.Options, like, limit string) (src trace.Source, err error) {
	if opt.Like, err = gen.ParseLike(like); err != nil {
		return nil, misused("--like: %w", err)
	}
	if opt.MaxRun, err = spanFlag("max-run", limit); err != nil {
		return nil, err
	}
	if opt.Jobs == 0 && opt.Span == 0 {
		return nil, misused("name the size of the trace: --jobs N or --span DURATION")
	}
	return gen.New(opt)
}

func generateCommand() *cobra.Command {
	var f generateFlags
	out := ""
	cmd := &cobra.Command{
		Use:   "generate --like LOG",
		Short: "Make a synthetic trace that resembles a published log",
		Long: `Generate makes a trace of any size with the arrivals, sizes, run times and failures of a
published log. Equal seeds give equal traces. docs/generators.md compares the quantiles
with those of the logs. --like dlrm makes a batch of jobs that train recommendation
models, with their use, their memory, and their time without GPUs. --like synergy makes
jobs that need cores and memory beside their GPUs, --like gavel those whose speeds were
measured on several GPU types (for norn sim --speeds). --like search makes searches for
hyper-parameters by successive halving, each an app of several jobs. --like lyra makes
jobs for a cluster beside one that lends it nodes, some of them elastic (lyra-ideal: all). --like datacenter
makes jobs of four kinds for one cluster (norn sim --assume datacenter): training, fine-tuning,
services with latency targets, and training on graphs. --like requests
makes requests to a server of a language model, by the clients of --client. --like tpch
makes graphs of stages that resemble queries of TPC-H on Spark.`,
		Example: `  norn trace generate --like philly --jobs 10000 -o jobs.csv
  norn trace generate --like venus --span 7d --gpus 512 --offered-load 0.9 --seed 3 -o week.jsonl.zst
  norn trace generate --like dlrm --list memory --jobs 72 -o batch.jsonl
  norn trace generate --like requests --client a:rate=90 --client b:rate=180 --span 6m -o requests.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.like == likeRequests {
				span, err := spanFlag("span", f.span)
				if err != nil {
					return err
				}
				return generateRequests(cmd, out, f.clients, span, f.opt.Seed)
			}
			if f.like == likeTPCH {
				return f.generateGraphs(cmd, out)
			}
			src, err := f.source()
			if err != nil {
				return err
			}
			return write(cmd, out, src)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write: .csv or .jsonl, optionally followed by .gz or .zst (default: CSV to standard output)")
	complete(cmd, map[string]completer{"like": words(append(likeNames(), likeDLRM, likeSynergy, likeGavel, likeSearch, likeLyra, likeIdeal, likeDatacenter, likeRequests, likeTPCH)...), "list": words("memory", "balance", "bandwidth", "computing")})
	return cmd
}

// generateFlags is what trace norn trace generate was asked for.
type generateFlags struct {
	opt         gen.Options
	like        string
	span, limit string
	dlrm        dlrmFlags
	rations     rationFlags
	most        int
	serving     float64
	clients     []string
	graphs      graphLoad
}

// add adds the flags to a command.
func (g *generateFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&g.like, "like", "philly", "the log to imitate: "+likes+"; or dlrm, synergy, gavel, search, lyra, lyra-ideal, datacenter, requests or tpch")
	f.IntVar(&g.opt.Jobs, "jobs", 0, "number of jobs")
	f.StringVar(&g.span, "span", "", "time from the first to the last submission")
	f.Uint64Var(&g.opt.Seed, "seed", 0, "equal seeds give equal traces")
	f.IntVar(&g.opt.GPUs, "gpus", 0, "size of the cluster that the trace is meant for (0: that of the log)")
	f.Float64Var(&g.opt.Load, "offered-load", 0, "mean of the GPUs demanded, divided by the GPUs of the cluster (0: as in the log)")
	f.IntVar(&g.opt.MaxGPUs, "max-gpus", 0, "leave out jobs of more GPUs (0: those larger than the cluster)")
	f.StringVar(&g.limit, "max-run", "", "leave out jobs with a longer run time")
	f.IntVar(&g.opt.Tenants, "tenants", 0, "number of tenants (0: as in the log)")
	g.dlrm.add(cmd)
	g.rations.add(cmd)
	g.graphs.add(f)
	f.StringArrayVar(&g.clients, "client", nil, "like requests: a client, name:rate=90,input=256,output=64-512,arrive=poisson,on=1m,off=30s,from=2m; may be repeated (default: two who send 90 and 180 requests in a minute)")
	f.Float64Var(&g.serving, "serving", 0.25, "like datacenter: part of the GPUs, 0 to 1, that services have by day")
	f.IntVar(&g.most, "per-job", 1, "like search: GPUs that one job can use at most")
}

// source makes the trace, which is one of jobs.
func (g *generateFlags) source() (src trace.Source, err error) {
	switch g.like {
	case likeDLRM:
		return g.dlrm.source(g.opt.Jobs, g.opt.Seed)
	case likeSynergy:
		return g.rations.source(g.opt.Jobs, g.opt.Seed)
	case likeGavel:
		return g.rations.sorts(g.opt.Jobs, g.opt.Seed)
	case likeLyra, likeIdeal:
		return loaned(g.opt, g.like == likeIdeal)
	case likeSearch:
		return searches(g.opt, g.most)
	case likeDatacenter:
		return datacenter(g.opt, g.span, g.serving)
	case likeTPCH:
		return nil, misused("--like tpch: graphs of stages are no jobs")
	case likeRequests:
		return nil, misused("--like requests: requests are no jobs")
	}
	opt := g.opt
	if opt.Span, err = spanFlag("span", g.span); err != nil {
		return nil, err
	}
	return likeLog(opt, g.like, g.limit)
}
