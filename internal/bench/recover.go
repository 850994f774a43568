package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// recovery is a daemon that finds a log of a million events, with all the folders
// that such a life leaves behind.
func (l *live) recovery(w io.Writer, dir string) error {
	const events, bound = 1_000_000, 3 * time.Second
	b, err := newBox(l.bin, dir, "", "history: {compact: 100000000}\n") // one log, however long
	if err != nil {
		return err
	}
	b.down()
	p := &past{box: b, want: events}
	if err := p.write(); err != nil {
		return err
	}
	var took spread
	for range 3 {
		if err := p.restore(); err != nil {
			return err
		}
		up, err := b.up()
		if err != nil {
			return err
		}
		took.add(up)
		s, err := b.Status(context.Background())
		if err != nil {
			return err
		}
		if s.Ended != p.ended || s.Waiting+s.Running+s.Held != p.jobs-p.ended {
			return fmt.Errorf("of %d jobs, %d of which had ended, it knows %+v", p.jobs, p.ended, s)
		}
		b.discard()
	}
	fmt.Fprintf(w, "### Recovery\n\nA log of %d events (%s) of %d jobs, %d of which have ended, with the history (%s) and a folder for each job; from the start of\n"+
		"`norn up` until it takes jobs, three times.\n\n| | least | median | most | bound | |\n|---|--:|--:|--:|---|---|\n| until it is ready | %s | 3 s | %s |\n\n",
		p.events, mib(p.logBytes), p.jobs, p.ended, mib(p.historyBytes), took.cells(), verdict(took.median() < bound))
	return nil
}

// past writes the life of a daemon, by simulation.
type past struct {
	box  *box
	want int

	out                    *eventlog.Writer
	history                *json.Encoder
	origin                 time.Time
	events, jobs, ended    int
	logBytes, historyBytes int64
	err                    error
}

func (p *past) log() string    { return filepath.Join(p.box.dir, "events", "000001.log") }
func (p *past) told() string   { return filepath.Join(p.box.dir, "history.jsonl") }
func (p *past) keep() string   { return filepath.Join(filepath.Dir(p.box.dir), "kept") }
func (p *past) failed(e error) { p.err = errors.Join(p.err, e) }

// write goes on with the log of a daemon that has not done anything yet.
func (p *past) write() error {
	in, err := os.Open(p.log())
	if err != nil {
		return err
	}
	r, err := eventlog.NewReader(in, p.log())
	if err != nil {
		return err
	}
	s, err := replay.Fold(r)
	in.Close()
	if err != nil {
		return err
	}
	file, err := os.Create(p.log())
	if err != nil {
		return err
	}
	defer file.Close()
	told, err := os.Create(p.told())
	if err != nil {
		return err
	}
	defer told.Close()
	p.history, p.origin = json.NewEncoder(told), time.Now().Add(-1000*24*time.Hour)
	r.Header.Origin = p.origin
	if p.out, err = eventlog.NewWriter(file, &r.Header, eventlog.Plain); err != nil {
		return err
	}
	if err := p.live(s); err != nil {
		return err
	}
	if err := p.out.Close(); err != nil {
		return err
	}
	for path, size := range map[string]*int64{p.log(): &p.logBytes, p.told(): &p.historyBytes} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		*size = info.Size()
	}
	if err := os.Mkdir(p.keep(), 0o700); err != nil {
		return err
	}
	return execute("cp", p.log(), p.told(), p.keep())
}

// live lets jobs come and go until there are as many events as wanted.
func (p *past) live(s *state.State) error {
	g, err := gen.New(gen.Options{Like: gen.Philly, Jobs: p.want, Seed: 1, GPUs: slots, MaxGPUs: slots, Load: 0.85, MaxRun: time.Hour})
	if err != nil {
		return err
	}
	choice, err := experiment.ParseChoice("fifo(mode=easy)")
	if err != nil {
		return err
	}
	policy, err := choice.Make()
	if err != nil {
		return err
	}
	world := sim.New(sim.Config{Source: &renamed{trace.ByKey(g)}})
	e := engine.New(engine.Config{
		Cluster: s.Cluster, Tenants: s.Tenants, Policy: policy, PolicyName: choice.Policy, Estimator: predict.User{}, Seed: 1, Sinks: []engine.Sink{p},
	}, world)
	e.Announce()
	if err := world.Attach(e.State()); err != nil {
		return err
	}
	for p.events < p.want && p.err == nil {
		if err := e.Step(); err != nil {
			return err
		}
	}
	return p.err
}

// renamed gives jobs the numbers that a daemon would.
type renamed struct{ of trace.Source }

// Next implements trace.Source.
func (r *renamed) Next(e *trace.Entry) error {
	err := r.of.Next(e)
	e.Job.Key, e.Job.User, e.Job.Tenant, e.Job.Stop = strconv.Itoa(int(e.Job.ID)+1), "root", "", job.Pinned
	e.Truth.Work, e.Truth.Attempts, e.Truth.Outcome = e.Truth.Total(), nil, trace.Passed
	e.Job.Estimate, e.Job.Hints = e.Truth.Work, nil
	return err
}

// Event implements engine.Sink: it writes what the daemon would have written.
func (p *past) Event(ev *eventlog.Event, s *state.State) {
	p.events++
	if err := p.out.Write(ev); err != nil {
		p.failed(err)
	}
	switch ev.Kind {
	case eventlog.Submit:
		p.jobs++
		p.failed(p.spec(ev))
	case eventlog.End:
		p.failed(p.end(s.Record(ev.Job)))
	}
}

// spec is the file of a job as it was submitted.
func (p *past) spec(ev *eventlog.Event) error {
	dir := filepath.Join(p.box.dir, "jobs", ev.Spec.Key)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"id": ev.Spec.Key, "user": "root", "submitted": p.origin.Add(ev.Time), "spec": p.jobSpec(ev.Spec),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "spec.json"), text, 0o600)
}

func (p *past) jobSpec(j *job.Job) api.JobSpec {
	s := spec("sleep", "1000")
	s.Name, s.GPUs, s.Estimate = j.Name, api.Fixed(float64(j.Demand.GPUs())), api.Of(j.Estimate)
	s.Stop = api.Stop{Mode: "never", Signal: "TERM", Grace: 60}
	return s
}

// end is a line of the history.
func (p *past) end(r *job.Record) error {
	s := p.jobSpec(r.Job)
	wall := func(d time.Duration) time.Time { return p.origin.Add(d).UTC() }
	j := api.Job{
		ID: r.Job.Key, Name: s.Name, User: "root", State: api.Done, GPUs: s.GPUs, StopMode: s.Stop.Mode, Submitted: wall(r.Job.Submit),
		Started: wall(r.FirstStart), Since: wall(r.Since), Ended: wall(r.End), Wait: api.Of(r.FirstStart - r.Job.Submit),
		Ran: api.Of(r.AllocatedTime), GPUTime: api.Seconds(r.Service), Estimate: s.Estimate, Run: 1, Exit: &api.Exit{}, Command: s.Command, Dir: s.Dir,
	}
	p.ended++
	return p.history.Encode(map[string]any{"log": 1, "n": p.ended - 1, "job": j})
}

// restore puts the log back as it was.
func (p *past) restore() error {
	old, err := filepath.Glob(filepath.Join(p.box.dir, "events", "*"))
	if err != nil {
		return err
	}
	for _, path := range append(old, filepath.Join(p.box.dir, "runs")) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := execute("cp", filepath.Join(p.keep(), "000001.log"), p.log()); err != nil {
		return err
	}
	return execute("cp", filepath.Join(p.keep(), "history.jsonl"), p.told())
}
