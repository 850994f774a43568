package experiment

import (
	"errors"
	"io"
	"time"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Preparation says what becomes of a trace before it is simulated. The stages stand in
// the order in which each job goes through them:
//
//  1. Read: the source gives the jobs in order of submission, numbered. A trace.Reader
//     decodes, checks, simplifies, sorts, selects and shifts them, as trace.Options say.
//  2. Assume: a job that does not tell what it does is given it, drawn from Seed. With
//     services, these come ahead of the jobs of the source. A job without a deadline may be
//     given one.
//  3. Models: a job that tells no model is given one of those of Pairs, drawn from Seed.
//  4. Types: GPU types are called as the cluster of Spec calls them.
//  5. Partitions: where nodes tell their partitions by labels (clusterspec.PartitionLabel),
//     jobs keep to the nodes of theirs.
//  6. Data: jobs ask for nodes that have what they read, as far as Data tells it.
//  7. Order: jobs of one submission come in order of their keys, and are numbered anew.
//
// Draws go by the numbers that jobs have before stage 7, so the order of rows in a file
// counts for them. Spec must be set; without anything else, stages 2 and 3 are left out.
type Preparation struct {
	Spec   *clusterspec.Spec
	Assume Assumption
	Due    Due          // deadlines of jobs that have none
	Pairs  *trace.Pairs // nil: no job is given a model
	Seed   uint64
	Whole  bool // partitions are ignored

	Data  *replica.Catalogue // nil: data is everywhere
	Plans *perf.Plans        // of large models, for AssumeHybrid; nil: as they were measured on other clusters
}

// Preparation is what the experiment makes of a trace.
func (x *Experiment) Preparation() Preparation {
	plans, _ := x.Model.(*perf.Plans)
	return Preparation{Plans: plans, Spec: x.Spec, Assume: x.Assume, Due: x.Due, Pairs: x.Slowdown.Pairs, Seed: x.Seed, Whole: x.Whole, Data: x.Data}
}

// Prepared is a trace as the simulator takes it. It implements trace.Source.
type Prepared struct {
	jobs    trace.Source // through all stages
	input   *input
	types   *typed
	remarks []func() string        // of stages 2, 3, 5 and 6
	told    dense.Rows[report.Job] // the jobs that were given out, as reports compare them
}

// Prepare has a trace go through all stages of a preparation. A trace that is prepared
// already is returned as it is. Prepare reads the first job, to learn when the trace
// begins; an error of that is given out by Next. It fails on an assumption that is not
// known and on a cluster that cannot be built.
func Prepare(src trace.Source, o Preparation) (*Prepared, error) {
	if p, ok := src.(*Prepared); ok {
		return p, nil
	}
	site, err := o.Spec.Build()
	if err != nil {
		return nil, err
	}
	p := &Prepared{input: newInput(src)} // stage 1
	jobs, remark, err := o.assume(p.input)
	if err != nil {
		return nil, err
	}
	jobs, due := o.Due.jobs(jobs, o.Seed)
	named, told := o.name(jobs)
	p.types = newTyped(named, site.Cluster)
	within, astray := newPlaced(p.types, o.Spec, o.Whole)
	local, unknown := newReading(within, o.Data)
	p.jobs = trace.ByKey(local)
	p.remarks = []func() string{remark, due, told, astray, unknown}
	return p, nil
}

// Next implements trace.Source.
func (p *Prepared) Next(e *trace.Entry) error {
	err := p.jobs.Next(e)
	if err == nil {
		*p.told.Add() = report.JobOf(e)
	}
	return err
}

// Begins is the time of day at the start of the trace. It is zero where the trace does
// not tell it.
func (p *Prepared) Begins() time.Time { return p.input.begins }

// Remarks says what was assumed of how many jobs, of those that have been read so far.
func (p *Prepared) Remarks() []string {
	var out []string
	for _, remark := range p.remarks {
		if text := remark(); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// err is what is wrong with the trace itself; nil: nothing that has been met.
func (p *Prepared) err() error { return p.input.broken }

// assume is stage 2; the remark is to be told at the end.
func (o *Preparation) assume(src trace.Source) (trace.Source, func() string, error) {
	if o.Assume == "" {
		return src, nothingToTell, nil
	}
	a, err := o.Assume.find()
	if err != nil {
		return nil, nil, err
	}
	return a.jobs(src, o)
}

// name is stage 3.
func (o *Preparation) name(src trace.Source) (trace.Source, func() string) {
	if o.Pairs == nil || len(o.Pairs.Models) == 0 {
		return src, nothingToTell
	}
	a := &gen.AssumedModels{Source: src, Seed: o.Seed, Models: o.Pairs.Models}
	return a, func() string { return o.namedText(a.Jobs) }
}

func nothingToTell() string { return "" }

// input is stage 1. It holds the first job, which is read ahead, and notes what is wrong
// with the trace, so that it is not taken for a fault of a policy.
type input struct {
	src    trace.Source
	first  trace.Entry
	err    error // of reading the first job
	given  bool  // the first job has been given out
	begins time.Time
	broken error
}

func newInput(src trace.Source) *input {
	in := &input{src: src}
	in.err = src.Next(&in.first)
	if r, ok := src.(*trace.Reader); ok {
		in.begins = r.Begins()
	}
	return in
}

// Next implements trace.Source.
func (in *input) Next(e *trace.Entry) error {
	err := in.err
	if in.given {
		err = in.src.Next(e)
	} else {
		*e, in.first, in.given = in.first, trace.Entry{}, true
	}
	if err != nil && !errors.Is(err, io.EOF) {
		in.broken = err
	}
	return err
}
