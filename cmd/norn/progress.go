package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/state"
)

// progress shows on a terminal how far the runs have come and how long they
// will still take.
type progress struct {
	total atomic.Int64 // jobs of the trace; 0: not known
	runs  []runProgress
	shown *statusLine
}

type runProgress struct {
	name      string
	begun     atomic.Int64 // time of day, ns
	submitted atomic.Int64
	over      atomic.Int64
}

func newProgress(out *os.File, runs []string, total int) *progress {
	p := &progress{runs: make([]runProgress, len(runs))}
	p.total.Store(int64(total))
	for i, name := range runs {
		p.runs[i].name = name
	}
	p.shown = newStatusLine(out, p.line)
	return p
}

// jobs is told how many jobs there are.
func (p *progress) jobs(n int) { p.total.Store(int64(n)) }

// Sink is the sink that follows one run.
func (p *progress) Sink(run string) engine.Sink {
	for i := range p.runs {
		if p.runs[i].name == run && p.runs[i].begun.Load() == 0 {
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
		w.run.over.Store(int64(len(s.Ended())))
	}
}

// statusLine is the last line of a terminal, which tells how far something has come.
type statusLine struct {
	out  *os.File
	line func(now time.Time) string
	stop chan struct{}
	done sync.WaitGroup
	wide int
}

// newStatusLine shows a line until End.
func newStatusLine(out *os.File, line func(time.Time) string) *statusLine {
	p := &statusLine{out: out, line: line, stop: make(chan struct{})}
	p.done.Go(p.show)
	return p
}

func (p *statusLine) show() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			fmt.Fprint(p.out, "\r"+strings.Repeat(" ", p.wide)+"\r")
			return
		case now := <-tick.C:
			line := p.line(now)
			if width, _, err := term.GetSize(int(p.out.Fd())); err == nil && width > 0 && len(line) >= width {
				line = line[:width-1] // a line that wraps cannot be taken back
			}
			pad := max(0, p.wide-len(line))
			p.wide = len(line)
			fmt.Fprint(p.out, "\r"+line+strings.Repeat(" ", pad))
		}
	}
}

// End takes the line away.
func (p *statusLine) End() {
	close(p.stop)
	p.done.Wait()
}

// line is one line for all runs that go on.
func (p *progress) line(now time.Time) string {
	var parts []string
	total := p.total.Load()
	begun, ended := 0, 0
	for i := range p.runs {
		r := &p.runs[i]
		at := r.begun.Load()
		if at == 0 {
			continue
		}
		begun++
		over := r.over.Load()
		if total > 0 && over >= total {
			ended++
			continue
		}
		text := fmt.Sprintf("%s: %d jobs", r.name, over)
		if total > 0 {
			share := float64(over) / float64(total)
			text = fmt.Sprintf("%s %.0f%%", r.name, 100*share)
			if spent := now.Sub(time.Unix(0, at)); share > 0.02 {
				text += ", " + unit.Human(time.Duration(float64(spent)*(1-share)/share).Round(time.Second)) + " left"
			}
		}
		parts = append(parts, text)
	}
	switch {
	case begun == 0:
		return "reading the trace"
	case len(p.runs) > 1:
		parts = append([]string{fmt.Sprintf("%d of %d policies done", ended, len(p.runs))}, parts...)
	}
	return strings.Join(parts, "   ")
}

// End takes the line away.
func (p *progress) End() {
	if p != nil {
		p.shown.End()
	}
}
