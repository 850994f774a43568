package gen

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace"
)

// Diurnal is the load of a lender that serves requests: low at night, high in the evening.
//
// Source: Li et al., "Lyra", EuroSys 2023: an inference cluster of which 42 to 95 % is used.
type Diurnal struct {
	Lender    string
	Low, High float64       // part of its nodes in use, 0 to 1: at the quietest hour and at the busiest
	Noise     float64       // standard deviation of what comes on top, which fades within an hour
	Span      time.Duration // of the trace, which begins at midnight
	Every     time.Duration // from a value to the next, above 0
	Seed      uint64
}

// NewDiurnal returns the defaults: fifteen days, a value every five minutes.
func NewDiurnal() *Diurnal {
	return &Diurnal{Lender: "inference", Low: 0.42, High: 0.95, Noise: 0.02, Span: 15 * 24 * time.Hour, Every: 5 * time.Minute}
}

// quietest is the hour of the day at which the fewest requests come.
const quietest = 5

// Write writes the load as CSV, as trace.ReadLoans reads it.
func (d *Diurnal) Write(to io.Writer) error {
	if !(d.Low >= 0 && d.Low <= d.High && d.High <= 1 && d.Noise >= 0) || d.Every <= 0 || d.Span <= 0 || d.Lender == "" {
		return errors.New("a lender has a name, a span, and a load from 0 to 1 that is lowest at its lowest")
	}
	if _, err := fmt.Fprintln(to, "lender,time,load"); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(d.Seed, 0x6c6f616e))
	keep := math.Exp(-d.Every.Hours()) // of the noise, to the next value
	noise := r.NormFloat64() * d.Noise
	for at := time.Duration(0); at < d.Span; at += d.Every {
		day := (1 - math.Cos(2*math.Pi*(at.Hours()-quietest)/24)) / 2
		load := max(d.Low, min(d.High, d.Low+(d.High-d.Low)*day+noise))
		if _, err := fmt.Fprintf(to, "%s,%.0f,%.4f\n", d.Lender, at.Seconds(), load); err != nil {
			return err
		}
		noise = keep*noise + math.Sqrt(1-keep*keep)*d.Noise*r.NormFloat64()
	}
	return nil
}

// Idle is the nodes of a machine that its own batch scheduler left idle, as the log of its jobs
// tells, since the first of them started. Each job takes the nodes with the lowest numbers that are idle when it starts.
type Idle struct {
	Nodes int           // of the machine, called n0 and so on
	GPUs  int           // of a node; a job takes whole nodes
	Least time.Duration // nodes that are idle for less are not lent
}

// stretch is when a node is idle.
type stretch struct {
	node     int
	from, to time.Duration
}

// Write writes when each node is idle as CSV, as trace.ReadLoans reads it. It fails on a job of
// which the log does not tell when it started.
func (m *Idle) Write(to io.Writer, src trace.Source) error {
	all, err := m.stretches(src)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(to, "node,from,to"); err != nil {
		return err
	}
	for _, s := range all {
		if _, err := fmt.Fprintf(to, "n%d,%s,%s\n", s.node, unit.AppendSeconds(nil, s.from), unit.AppendSeconds(nil, s.to)); err != nil {
			return err
		}
	}
	return nil
}

// run is a job of the log.
type run struct {
	start, end time.Duration
	nodes      int
}

func (m *Idle) stretches(src trace.Source) (out []stretch, err error) {
	if m.Nodes < 1 || m.GPUs < 1 {
		return nil, errors.New("a machine has at least one node, and a node at least one GPU")
	}
	var runs []run
	for {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if !e.Truth.HasWait {
			return nil, fmt.Errorf("job %s: the log does not tell when it started", e.Job.Key)
		}
		start := e.Job.Submit + e.Truth.Wait
		runs = append(runs, run{start, start + e.Truth.Total(), (e.Job.Demand.GPUs() + m.GPUs - 1) / m.GPUs})
	}
	slices.SortStableFunc(runs, func(a, b run) int { return int(max(-1, min(1, a.start-b.start))) })
	if len(runs) > 0 {
		for i, first := 0, runs[0].start; i < len(runs); i++ {
			runs[i].start, runs[i].end = runs[i].start-first, runs[i].end-first
		}
	}
	free := make([]time.Duration, m.Nodes) // since when each node is idle, or when it will be
	last := time.Duration(0)
	for _, r := range runs {
		last = max(last, r.end)
		for n := 0; n < m.Nodes && r.nodes > 0; n++ {
			if free[n] > r.start {
				continue
			}
			if free[n]+max(1, m.Least) <= r.start {
				out = append(out, stretch{n, free[n], r.start})
			}
			free[n] = r.end
			r.nodes--
		} // what a busier machine had beside these nodes is not ours
	}
	for n := range free {
		if free[n]+max(1, m.Least) <= last {
			out = append(out, stretch{n, free[n], last})
		}
	}
	slices.SortStableFunc(out, func(a, b stretch) int { return int(max(-1, min(1, a.from-b.from))) })
	return out, nil
}
