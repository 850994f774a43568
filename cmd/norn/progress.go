package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/unit"
)

// progress shows on a terminal how far the runs have come and how long they
// will still take.
type progress struct {
	out   io.Writer
	total int // jobs of the trace; 0: not known
	runs  []runProgress
	stop  chan struct{}
	done  sync.WaitGroup
	wide  int
}

type runProgress struct {
	name      string
	begun     atomic.Int64 // time of day, ns
	submitted atomic.Int64
	over      atomic.Int64
}

func newProgress(out io.Writer, choices []run.Choice, total int) *progress {
	p := &progress{out: out, total: total, runs: make([]runProgress, len(choices)), stop: make(chan struct{})}
	for i, c := range choices {
		p.runs[i].name = c.String()
	}
	p.done.Go(p.show)
	return p
}

// watch is the sink that follows one run.
func (p *progress) watch(c run.Choice) engine.Sink {
	for i := range p.runs {
		if p.runs[i].name == c.String() && p.runs[i].begun.Load() == 0 {
			p.runs[i].begun.Store(time.Now().UnixNano())
			return &watcher{run: &p.runs[i]}
		}
	}
	return &watcher{run: &runProgress{}}
}

// watcher counts what its run has done, and tells now and then.
type watcher struct {
	run    *runProgress
	events int
}

// Event implements engine.Sink.
func (w *watcher) Event(_ *eventlog.Event, s *state.State) {
	if w.events++; w.events%1024 == 0 {
		w.run.submitted.Store(int64(s.Jobs()))
		w.run.over.Store(int64(s.Over()))
	}
}

func (p *progress) show() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			fmt.Fprint(p.out, "\r"+strings.Repeat(" ", p.wide)+"\r")
			return
		case now := <-tick.C:
			line := p.line(now)
			pad := max(0, p.wide-len(line))
			p.wide = max(p.wide, len(line))
			fmt.Fprint(p.out, "\r"+line+strings.Repeat(" ", pad))
		}
	}
}

// line is one line for all runs that have begun.
func (p *progress) line(now time.Time) string {
	var parts []string
	for i := range p.runs {
		r := &p.runs[i]
		begun := r.begun.Load()
		if begun == 0 {
			continue
		}
		over := r.over.Load()
		text := fmt.Sprintf("%s %d jobs", r.name, over)
		if p.total > 0 {
			share := float64(over) / float64(p.total)
			text = fmt.Sprintf("%s %.0f%%", r.name, 100*share)
			if spent := now.Sub(time.Unix(0, begun)); share > 0.02 && share < 1 {
				text += " (" + unit.Human(time.Duration(float64(spent)*(1-share)/share).Round(time.Second)) + " left)"
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "   ")
}

// end takes the line away.
func (p *progress) end() {
	if p != nil {
		close(p.stop)
		p.done.Wait()
	}
}
