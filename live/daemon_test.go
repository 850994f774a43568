package live

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/tenant"
)

// paper is a world without processes: a run is there from its start until it was told to
// leave, or a test ends it. It outlives its daemon, as real ones do.
type paper struct {
	*Daemon
	t    *testing.T
	dir  string
	runs map[string]bool    // that are there, by key
	jobs map[string]api.Job // that were ever submitted: what a world has to remember
	site site
	gone string // a node that is only left in the ledger

	stop  context.CancelFunc
	ended chan error
}

var me = server.Caller{User: "ann", Operator: true}

func newPaper(t *testing.T) *paper {
	return newPaperOn(t, site{nodes: []cluster.NodeSpec{{Name: "n0", CPU: 8 * unit.One, Memory: 8 << 30, GPUs: []cluster.GPUs{{Type: 0, Count: 2}}}}})
}

// newPaperOn makes a world of some nodes.
func newPaperOn(t *testing.T, s site) *paper {
	w := &paper{t: t, dir: t.TempDir(), runs: map[string]bool{}, jobs: map[string]api.Job{}, site: s}
	w.up()
	t.Cleanup(w.down)
	return w
}

// up starts a daemon on what the last one left.
func (w *paper) up() {
	w.t.Helper()
	journal, err := OpenJournal(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Daemon = New(Config{
		World: w, Journal: journal, Log: slog.New(slog.DiscardHandler), Kind: "local", Name: "paper",
		Cluster: w.site.cluster,
		Tenants: func() (*tenant.Tree, error) { return tenant.NewTree(0), nil },
		Names:   w.device,
		Policy:  experiment.Choice{Policy: "fifo"}, Estimator: predict.User{}, Estimates: "user", Speeds: perf.Analytic{Scaling: 1, Spread: 1},
		Recent: 10, Compact: 10_000,
		Folded: func() {}, Refit: func() (bool, error) { return false, nil }, Exclude: func(*cluster.Cluster) {},
		Ordered: func([]eventlog.Event) (func() error, error) { return nil, nil }, Orders: w.site.orders,
		Recall: func(r *job.Record) (*Job, error) { return w.job(r.Job.Key), nil },
		Find: func(j *Job) {
			r := w.State().Record(j.ID)
			if j.Purpose == Cancelled { // it was told to leave, and the daemon died
				w.Leave(j, Cancelled, j.Why)
			}
			if r.Phase != job.Running {
				w.Rest(j)
			}
		},
		Ended: func(j *Job) { delete(w.runs, j.Key) }, Stray: func(j *Job) { delete(w.runs, j.Key) },
		Node:   func(_ cluster.NodeID, n *api.Node) bool { return n.Name != w.gone },
		Closed: func() (why, frees string) { return "", "" }, Trouble: func() []string { return nil },
	})
	if err := w.Recover(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.ended = cancel, make(chan error, 1)
	d := w.Daemon
	go func() { w.ended <- d.Run(ctx, func() {}) }()
}

func (w *paper) down() {
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Error(err)
	}
	w.Close()
}

// job is a job as it was submitted.
func (w *paper) job(key string) *Job {
	was := w.jobs[key]
	return &Job{Key: key, User: was.User, Spec: &api.JobSpec{Name: was.Name, GPUs: was.GPUs, After: was.After}, After: slices.Clone(was.After)}
}

// submit takes in a job.
func (w *paper) submit(gpus float64, after ...api.After) string {
	w.t.Helper()
	return w.submitAs(fmt.Sprint(w.NewNumber()), gpus, after...)
}

// submitAs takes in a job with that key.
func (w *paper) submitAs(key string, gpus float64, after ...api.After) string {
	w.t.Helper()
	return w.submitWith(key, gpus, func(*job.Job, *job.Demand) {}, after...)
}

// submitWith takes in a job of which more is said.
func (w *paper) submitWith(key string, gpus float64, more func(*job.Job, *job.Demand), after ...api.After) string {
	w.t.Helper()
	err := w.Change(context.Background(), func() error {
		w.jobs[key] = api.Job{User: me.User, Name: "job" + key, GPUs: api.Fixed(gpus), After: after}
		var demand job.Demand
		demand.Roles[0] = job.Role{Tasks: int32(gpus), GPU: unit.One}
		j := w.job(key)
		spec := job.Job{Key: key, Name: j.Spec.Name, User: j.User, Submit: w.Loop.Now(), Stop: job.Pinned}
		more(&spec, &demand)
		spec.Demand = w.Shape(demand)
		w.Admit(j, spec)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// end ends the run of a job by itself.
func (w *paper) end(key string) {
	w.t.Helper()
	err := w.Change(context.Background(), func() error {
		l := w.By(key)
		if !w.runs[key] {
			return fmt.Errorf("job %s does not run", key)
		}
		w.Loop.Emit(eventlog.Event{Kind: eventlog.End, Job: l.ID, Outcome: job.Done})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// states are how jobs stand, such as "1 done, 2 running".
func (w *paper) states() string {
	w.t.Helper()
	all, err := w.Jobs(context.Background(), me, api.Query{All: true})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, j := range all {
		out = append(out, j.ID+" "+string(j.State))
	}
	return strings.Join(out, ", ")
}

// until waits until jobs stand so.
func (w *paper) until(want string) {
	w.t.Helper()
	have := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if have = w.states(); have == want {
			return
		}
	}
	w.t.Fatalf("jobs are %s, want %s", have, want)
}

// Next implements engine.World.
func (w *paper) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	return w.Loop.Next(wake, out)
}

// Start implements engine.World.
func (w *paper) Start(id job.ID, _ *cluster.Alloc) (time.Duration, float64) {
	l := w.Of(id)
	l.Run++
	w.runs[l.Key] = true
	return 0, 1
}

// Stop implements engine.World. Jobs here are never preempted.
func (w *paper) Stop(id job.ID) (time.Duration, bool) {
	w.t.Errorf("job %s is preempted", w.Of(id).Key)
	return 0, true
}

// Reshape implements engine.World.
func (w *paper) Reshape(id job.ID, _ *cluster.Alloc, _ bool) (time.Duration, float64) {
	w.t.Errorf("job %s is reshaped", w.Of(id).Key)
	return 0, 1
}

// Leave implements World: the run leaves in the next instant.
func (w *paper) Leave(j *Job, p Purpose, why string) {
	j.Purpose, j.Why = p, why
	w.Loop.Act(&j.Lane, func() {
		w.Loop.Post(func() error {
			w.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: j.ID})
			return nil
		})
	})
}

// There implements World.
func (w *paper) There(j *Job) bool { return w.runs[j.Key] }

// Describe implements World.
func (w *paper) Describe(_ *Job, out *api.Job) { out.Dir = "/paper" }

// Explain implements World.
func (w *paper) Explain(_ *Job, out *api.Why) { out.Stop = "never" }

// TestPolicyLacks: a policy that lives on what this machine cannot give is told, whoever
// asks, and is not for what jobs may yet tell.
func TestPolicyLacks(t *testing.T) {
	w := newPaper(t)
	for _, c := range []struct {
		policy string
		want   []string
	}{
		{"gavel", []string{"no job is faster on one GPU type than on another; it shares GPUs as if all were alike"}},
		{"srtf", nil}, {"lucid", nil}, {"drf", []string{"no tenant has a quota; it acts as drf(reclaim=none)"}}, {"drf(reclaim=none)", nil},
	} {
		if err := w.SetPolicy(context.Background(), me, c.policy); err != nil {
			t.Fatal(err)
		}
		s, err := w.Status(context.Background())
		for err == nil && s.Policy != c.policy {
			s, err = w.Status(context.Background())
		}
		if err != nil || !slices.Equal(s.Lacks, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.policy, s.Lacks, err, c.want)
		}
	}
}

// A world of eight methods is all that a daemon needs: jobs wait, run and end, depend on
// each other, are explained, cancelled, and outlive it.
func TestWorldOfPaper(t *testing.T) {
	w := newPaper(t)
	a, b := w.submit(2), w.submit(1)
	c := w.submit(1, api.After{Job: a})
	w.until("1 running, 2 waiting, 3 held")
	y, err := w.Why(context.Background(), me, b)
	if err != nil || y.Reason != "needs 1 GPU; 0 free" || !slices.Equal(y.Holders, []string{"job 1 holds gpu0, gpu1, and nobody knows until when"}) || y.Stop != "never" || y.Job.Dir != "/paper" {
		t.Errorf("%+v, %v", y, err)
	}
	w.down()
	w.up()
	w.until("1 running, 2 waiting, 3 held")
	if n := w.Epoch(); n != 2 {
		t.Errorf("it is log %d", n)
	}
	w.end(a)
	w.until("1 done, 2 running, 3 running")
	if err := w.Do(context.Background(), me, server.Cancel, b); err != nil {
		t.Fatal(err)
	}
	w.until("1 done, 2 cancelled, 3 running")
	w.end(c)
	w.until("1 done, 2 cancelled, 3 done")
	var log strings.Builder
	if err := w.Log(context.Background(), me, &log); err != nil || strings.Count(log.String(), `"norn":"eventlog"`) != 2 || !strings.Contains(log.String(), `"why":"cancelling","text":"ann cancelled it"`) {
		t.Errorf("%s, %v", log.String(), err)
	}
	if s, err := w.Status(context.Background()); err != nil || s.Ended != 3 || s.Running+s.Waiting+s.Held > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	w.down()
	w.up()
	w.until("1 done, 2 cancelled, 3 done")
	if d := w.submit(1); d != "4" {
		t.Errorf("the next job is %s", d)
	}
	w.until("1 done, 2 cancelled, 3 done, 4 running")
}
