package local_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/history"
	"github.com/norn-scheduler/norn/internal/history/historytest"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// leastPlayed is how many histories one machine must at least be able to play, so
// that this test cannot come to nothing unnoticed.
const leastPlayed = 27

// TestHistories plays the histories that the simulator plays with real
// processes on this machine, in which a second is some hundredths of one, and
// compares what the event log tells. Differences that come only from an inexact
// clock are left out (see plain). A machine that is too loaded to keep up is
// given more time.
func TestHistories(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	stories := historytest.Stories(t, "../internal/history/testdata")
	seconds := []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}
	historytest.Play(t, stories, leastPlayed, len(stories), seconds, notHere, playLive)
}

// notHere is why a history cannot be played on one machine; empty: it can.
func notHere(h *history.History) string {
	site, err := h.Spec.Build()
	switch {
	case err != nil:
		return err.Error()
	case h.Exact:
		return "it needs an exact clock"
	case site.Cluster.Nodes() != 1:
		return fmt.Sprintf("it needs %d nodes", site.Cluster.Nodes())
	case site.Cluster.Node(0).Pooled:
		return "it counts its GPUs, which a machine tells apart"
	case !none(site.Cluster.Foreign(0)):
		return "others use the machine as well"
	case h.Snapshot != 0 || h.Spread != 0 || h.Costs.Base.Migrate != 0 || h.Costs.Base.Resize != 0:
		return "jobs save their state when they are told to, and their speed is what it is"
	}
	for _, w := range h.Happens {
		if slices.Contains([]string{"down", "add", "speed", "foreign", "change"}, w.What) {
			return "nobody can do that to a machine: " + w.What
		}
	}
	for _, j := range h.Jobs {
		if r := &j.Demand.Roles; r[1].Tasks > 0 || r[0].Tasks > 1 && r[0].GPU%unit.One != 0 {
			return "job " + j.Key + " has tasks of several sorts, or several tasks with parts of GPUs"
		}
	}
	return ""
}

// actor is what the process of a job in a history does.
type actor struct {
	Folder               string          // in which it keeps how far it has come
	Attempts             []time.Duration // how long each attempt takes; all but the last one fail
	Start, Restore, Save time.Duration   // what transitions take
	Freezes              bool            // it is stopped while it works: only time in which it runs counts
	Checkpoints          bool
	Speeds               []float64 // of the devices, by number
}

// speed is that of the slowest device that it sees.
func (a *actor) speed() float64 {
	slowest := math.Inf(1)
	for seen := range strings.SplitSeq(os.Getenv(rundir.EnvVisible), ",") {
		if i, err := strconv.Atoi(seen); err == nil && i < len(a.Speeds) {
			slowest = min(slowest, a.Speeds[i])
		}
	}
	if math.IsInf(slowest, 1) {
		return 1
	}
	return slowest
}

// progress is how far an actor has come.
type progress struct {
	Failed int
	Done   time.Duration
}

// actorMain is the process of a job in a history.
func actorMain(arg string) int {
	var a actor
	if err := json.Unmarshal([]byte(arg), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	job, run := os.Getenv(rundir.EnvJob), os.Getenv(rundir.EnvRun)
	stop := make(chan os.Signal, 2)
	if a.Checkpoints {
		signal.Notify(stop, syscall.SIGTERM)
	}
	var p progress
	name := filepath.Join(a.Folder, job+".json")
	if b, err := os.ReadFile(name); err == nil {
		json.Unmarshal(b, &p)
	}
	keep := func() {
		b, _ := json.Marshal(p)
		os.WriteFile(name+".tmp", b, 0o600)
		os.Rename(name+".tmp", name)
	}
	// Its time counts from when its run was decided on, not from when this process
	// has come so far.
	began := time.Now()
	if info, err := os.Stat(filepath.Join(filepath.Dir(os.Getenv(rundir.EnvSocket)), "runs", job, run, rundir.RunFile)); err == nil && !a.Freezes {
		began = info.ModTime()
	}
	began = began.Add(a.Restore)
	if run == "1" {
		began = began.Add(a.Start - a.Restore)
	}
	speed := a.speed()
	if !a.work(stop, began, time.Duration(float64(a.Attempts[p.Failed]-p.Done)/speed)) {
		p.Done += max(0, time.Duration(float64(time.Since(began))*speed))
		keep()
		select {
		case <-time.After(a.Save):
			return 75
		case <-stop: // it is to end, now
			return 1
		}
	}
	if p.Failed < len(a.Attempts)-1 {
		p = progress{Failed: p.Failed + 1}
		keep()
		return 1
	}
	return 0
}

// work waits until work is done that began at a moment, or tells that it was
// stopped.
func (a *actor) work(stop <-chan os.Signal, began time.Time, work time.Duration) bool {
	if !a.Freezes {
		select {
		case <-time.After(time.Until(began.Add(work))):
			return true
		case <-stop:
			return false
		}
	}
	const tick = 5 * time.Millisecond
	for ; work > 0; work -= tick {
		time.Sleep(tick)
	}
	return true
}

// playLive plays a history and returns what the event log tells, with the names of
// jobs that the history gives them.
func playLive(t *testing.T, story *historytest.Story, second time.Duration) []string {
	t.Helper()
	h, left := story.Play, story.Leave()
	site, err := h.Spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	choice, err := historytest.Scaled(h.Choice, second)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now() // so that rounds of a policy are those of the history
	d := newHere(t, "fifo", 0, func(o *local.Options) {
		stage(o, site.Cluster)
		o.Policy = choice
		o.Tenants = func() (*tenant.Tree, error) {
			site, err := h.Spec.Build()
			return site.Tenants, err
		}
	})
	defer func() { // nothing of it runs beside a play with longer seconds
		d.down()
		endRuns(t, d.setup.State)
	}()
	ids := d.conduct(h, began, second)
	ended := 0
	if !within(time.Minute+time.Duration(story.Ends()*float64(second)), func() bool {
		s, err := d.Status(background)
		if err != nil {
			t.Fatal(err)
		}
		ended = s.Ended
		return ended >= left
	}) { // on a loaded machine a round may be shorter than a start
		t.Logf("with seconds of %v, %d of %d have ended a minute after all should have", second, ended, left)
	}
	names := map[string]string{}
	for name, id := range ids {
		names[id] = name
	}
	var lines []string
	for _, e := range d.log() {
		line := e.line
		if what, rest, ok := strings.Cut(line, " "+e.key); ok && e.key != "" {
			line = what + " " + names[e.key] + jobIn.ReplaceAllStringFunc(rest, func(part string) string { return "job " + names[part[4:]] })
		}
		lines = append(lines, line)
	}
	return lines
}

// conduct submits the jobs of a history and has happen what befalls them, each at
// its time, and returns their numbers.
func (h *here) conduct(play *history.History, began time.Time, second time.Duration) map[string]string {
	h.t.Helper()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(second))) }
	ids := map[string]string{}
	jobs := play.Jobs
	submit := func(until float64) {
		for len(jobs) > 0 && jobs[0].At <= until {
			time.Sleep(time.Until(at(jobs[0].At)))
			ids[jobs[0].Key] = h.submit(h.act(play, &jobs[0], second))
			jobs = jobs[1:]
		}
	}
	for _, w := range play.Happens {
		submit(w.At)
		time.Sleep(time.Until(at(w.At)))
		if err := h.befall(&w, ids); err != nil {
			h.t.Logf("at %v %s %s: %v", w.At, w.What, w.Name, err) // it comes too late: the lines will tell
		}
	}
	submit(math.Inf(1))
	return ids
}

// jobIn is a job in a reason.
var jobIn = regexp.MustCompile(`job \d+`)

// stage makes the machine the one of a history.
func stage(o *local.Options, c *cluster.Cluster) {
	node := *c.Node(0)
	o.Machine = local.Machine{Name: node.Name, Node: node}
	amounts := map[string]int64{}
	for i, name := range c.SlotNames() {
		amounts[name] = node.Slots[i]
	}
	o.Machine.Counted, _ = job.SlotsOf(amounts)
	for i := range c.Types() {
		o.Machine.Types = append(o.Machine.Types, c.Type(cluster.TypeID(i)))
	}
	for i := range c.Devices() {
		name := c.Type(c.TypeOf(cluster.DeviceID(i))).Name
		o.Machine.Devices = append(o.Machine.Devices, local.Device{Name: "gpu" + strconv.Itoa(i), Type: name, NUMA: -1, Env: rundir.EnvVisible, Visible: strconv.Itoa(i)})
	}
	o.Defaults.CPUs = 0
	o.Defaults.CancelGrace = 60
}

// act is a job of a history as it is submitted here.
func (h *here) act(play *history.History, j *simtest.Job, second time.Duration) api.JobSpec {
	h.t.Helper()
	span := func(seconds float64) time.Duration { return time.Duration(seconds * float64(second)) }
	var spec job.Job
	j.Spec(&spec)
	a := actor{
		Folder: h.work, Start: span(play.Costs.Base.Start.Seconds()), Restore: span(play.Costs.Base.Restore.Seconds()),
		Save: span(play.Costs.Base.Checkpoint.Seconds()), Freezes: spec.Stop == job.Freeze, Checkpoints: spec.Stop == job.Checkpoint,
	}
	if site, err := play.Spec.Build(); err == nil {
		c := site.Cluster
		for i := range cluster.DeviceID(c.Devices()) {
			speed := c.Type(c.TypeOf(i)).Speed
			if speed == 0 {
				speed = 1
			}
			a.Speeds = append(a.Speeds, speed)
		}
	}
	for _, run := range append(slices.Clone(j.Fails), j.Run) {
		a.Attempts = append(a.Attempts, span(run))
	}
	arg, err := json.Marshal(a)
	if err != nil {
		h.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	r := &j.Demand.Roles[0]
	gpus := float64(r.Tasks) * float64(r.GPU) / 1000
	out := api.JobSpec{
		Name: j.Key, Command: []string{exe, "act", string(arg)}, Dir: h.work, Tenant: j.Tenant, Model: j.Model, Priority: spec.Priority,
		GPUs: api.Fixed(gpus), CPUs: float64(r.CPU) * float64(r.Tasks) / 1000, Memory: api.Bytes(r.Memory) * api.Bytes(r.Tasks),
		Stop: api.Stop{Mode: spec.Stop.String(), Grace: 60}, Retry: api.Retry{Limit: -1}, Env: map[string]string{"PATH": os.Getenv("PATH")},
	}
	if r.Max > 0 {
		out.GPUs = api.Range{Least: float64(r.Min), Most: float64(r.Max), Ask: gpus}
	}
	out.Slots = string(r.Slots)
	if j.Demand.Types != "" {
		out.Types = strings.Split(j.Demand.Types, "|")
	}
	switch play.Estimate {
	case experiment.Oracle:
		out.Estimate = api.Of(span(j.Run))
	case experiment.User:
		out.Estimate = api.Of(span(spec.Estimate.Seconds()))
	}
	return out
}

// befall does what happens in a history.
func (h *here) befall(w *history.Happening, ids map[string]string) error {
	device := []string{"gpu" + strconv.Itoa(w.GPU)}
	switch w.What {
	case "drain", "up":
		return h.Drain(background, h.me, api.Drain{Undo: w.What == "up"})
	case "break", "mend":
		return h.Drain(background, h.me, api.Drain{Devices: device, Undo: w.What == "mend"})
	case "cancel":
		return h.Do(background, h.me, server.Cancel, ids[w.Name])
	case "hold":
		return h.Do(background, h.me, server.Hold, ids[w.Name])
	case "free":
		return h.Do(background, h.me, server.Release, ids[w.Name])
	}
	return fmt.Errorf("%s is not known here", w.What)
}

func none(f cluster.Foreign) bool { return f.None() }
