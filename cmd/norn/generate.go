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
	f.StringVar(&d.gap, "gap", "0s", "like dlrm: mean time between submissions (0: all at once)")
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
