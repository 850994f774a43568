// Package selftest tries out whether a live Norn does on this machine what it promises:
// that it finds the GPUs that are there, measures them, keeps jobs apart, and stops and
// resumes them without a loss.
//
// Nouns: a Check is one promise, with its result. A bench is the machine on which checks
// are made. A norn is a daemon of a check. A task is the work of one of its jobs, and a
// note is what the job tells of itself.
//
// # Nothing is a copy
//
// A check starts norn up with a configuration and a state folder of its own,
// and talks to it as any user would. Its jobs are this program again (Verb): on
// GPUs they use CUDA's driver API, which every driver has, so that neither
// PyTorch nor a toolkit is needed. Their results are known without computing
// them, so a result is right or wrong by itself.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/local/hardware"
	"github.com/norn-scheduler/norn/local/hardware/smi"
)

// Options is what a self-test must be told.
type Options struct {
	Exe  string   // the norn program
	Dir  string   // an empty folder for all that is written; its path is short (sockets)
	Only []string // names of checks to make; none: all
	Keep bool     // what was written by checks that went well, too
}

// Result is what came of a check.
type Result string

// The results.
const (
	OK      Result = "ok"
	NotHere Result = "not here" // the machine lacks what the check is about
	Failed  Result = "failed"
)

// Check is a check that was made.
type Check struct {
	Name   string        `json:"check"`
	Result Result        `json:"result"`
	Text   string        `json:"text"` // what was seen, or why it failed
	Took   time.Duration `json:"-"`
}

// comparesAll is the check that is about GPUs which were not found, too.
const comparesAll = "types"

// check is a promise, and how it is tried.
type check struct {
	name     string
	about    string
	nvidia   bool          // it takes an NVIDIA GPU
	patience time.Duration // 0: patience
	try      func(*bench, context.Context) (string, error)
}

// checks are all of them, in the order in which they are made.
func checks() []check {
	return []check{
		{comparesAll, "GPUs are those of nvidia-smi", true, 0, (*bench).types},
		{"memory", "and have as much memory", true, 0, (*bench).memory},
		{"topology", "and are linked as nvidia-smi topo -m says", true, 0, (*bench).topology},
		{"mig", "GPUs in MIG mode are known as such", true, 0, (*bench).mig},
		{"pinned", "a job sees the GPUs that it holds, and no other", true, 0, (*bench).pinned},
		{"none", "a job without GPUs sees none", true, 0, (*bench).none},
		{"sampling", "use and memory of a GPU are measured right", true, 0, (*bench).sampling},
		{"turns", "two jobs share a GPU in turns", true, 0, (*bench).turns},
		{"mps", "two jobs compute on a GPU at once, through CUDA MPS", true, 0, (*bench).mps},
		{"mps-limit", "through CUDA MPS a job cannot take more memory than it has booked", true, 0, (*bench).mpsLimit},
		{"gpu-guard", "a job that uses too much of a GPU's memory leaves it", true, 0, (*bench).gpuGuard},
		{"gpu-freeze", "a job stopped on its GPU goes on with its memory", true, 0, (*bench).gpuFreeze},
		{"gpu-preempt", "a GPU job saves, makes way, and goes on", true, 0, (*bench).gpuPreempt},
		{"gpu-runner", "a GPU job whose runner is killed goes on from its state", true, 0, (*bench).gpuRunner},
		{"torch", "so does a PyTorch job, and its loss is the same", false, 4 * time.Minute, (*bench).torch},
		{"slots", "two jobs hold different declared slots", false, 0, (*bench).slots},
		{"freeze", "a job that is stopped goes on with its memory", false, 0, (*bench).freeze},
		{"preempt", "a job saves, makes way, and goes on", false, 0, (*bench).preempt},
		{"guard", "a job that uses too much of a slot's memory leaves it", false, 0, (*bench).guard},
		{"cgroup", "a job cannot have more than it asked for", false, 0, (*bench).cgroup},
		{"daemon", "jobs outlive a daemon that is killed", false, 0, (*bench).daemon},
		{"runner", "a job whose runner is killed goes on from its state", false, 0, (*bench).runner},
	}
}

// Names are the checks in their order, each with what it is about.
func Names() (all [][2]string) {
	for _, c := range checks() {
		all = append(all, [2]string{c.name, c.about})
	}
	return all
}

// Known tells whether there is a check of this name.
func Known(name string) bool {
	return slices.ContainsFunc(checks(), func(c check) bool { return c.name == name })
}

// notHere is why a check cannot be made on this machine.
type notHere string

func (e notHere) Error() string { return string(e) }

// Run makes the checks, and tells each as soon as it is made. It fails when the machine
// cannot be looked at, when a check of Only is not known, or with the context.
func Run(ctx context.Context, opt Options, tell func(Check)) error {
	for _, name := range opt.Only {
		if !Known(name) {
			return fmt.Errorf("there is no check %q", name)
		}
	}
	m, err := hardware.Find(hardware.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	b := &bench{Options: opt, machine: m}
	for i := range m.Devices {
		if m.Devices[i].Kind == hardware.NVIDIA {
			b.gpus = append(b.gpus, &m.Devices[i])
		}
	}
	if b.report, b.unasked = smi.Ask(ctx); b.report == nil {
		b.report = &smi.Report{}
	}
	for _, c := range checks() {
		if len(opt.Only) > 0 && !slices.Contains(opt.Only, c.name) {
			continue
		}
		made := b.make(ctx, &c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		tell(made)
	}
	return nil
}

// bench is the machine on which checks are made.
type bench struct {
	Options
	machine *hardware.Machine
	gpus    []*hardware.Device // of NVIDIA
	report  *smi.Report        // empty where nvidia-smi cannot be asked
	unasked error              // why it cannot
}

// make makes a check.
func (b *bench) make(ctx context.Context, c *check) Check {
	began := time.Now()
	limit := c.patience
	if limit == 0 {
		limit = patience
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("that is too long"))
	defer cancel()
	text, err := "", error(nil)
	switch {
	case c.nvidia && len(b.gpus)+len(b.report.GPUs) == 0:
		err = notHere("there is no NVIDIA GPU")
	case c.nvidia && len(b.gpus) == 0 && c.name != comparesAll:
		err = notHere("Norn has found no NVIDIA GPU")
	default:
		text, err = c.try(b, ctx)
	}
	out := Check{Name: c.name, Result: OK, Text: text, Took: time.Since(began)}
	var missing notHere
	if errors.As(err, &missing) {
		out.Result, out.Text = NotHere, missing.Error()
	} else if err != nil {
		out.Result, out.Text = Failed, err.Error()
	}
	return out
}

// with starts a daemon for a check, and ends it and its jobs afterwards.
func (b *bench) with(ctx context.Context, name, config string, try func(*norn) (string, error)) (string, error) {
	n, err := b.up(ctx, name, config)
	if err != nil {
		return "", err
	}
	text, err := try(n)
	if derr := n.down(); err == nil {
		err = derr
	}
	if err == nil && !b.Keep {
		os.RemoveAll(filepath.Join(b.Dir, name)) // what failed is kept
	}
	return text, err
}
