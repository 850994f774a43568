package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// work is what a test's job does: so many ticks of a few milliseconds. It notes
// in a ledger what it does, so that a test can tell what really happened.
type work struct {
	Ledger string
	Ticks  int
	Code   int
	Saves  bool // it writes how far it came when it is told to stop, and goes on from there
}

const tick = 4 * time.Millisecond

// jobMain is a job.
func jobMain(arg string) int {
	var w work
	if err := json.Unmarshal([]byte(arg), &w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	job, run := os.Getenv("NORN_JOB"), os.Getenv("NORN_RUN")
	note := func(what string, n int) {
		f, err := os.OpenFile(w.Ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(f, "%s %s %s %d\n", what, job, run, n) // one write: lines of jobs do not mix
		f.Close()
	}
	// Held as long as this process lives: who does not get it is a second one.
	if only, err := os.OpenFile(w.Ledger+".lock."+job, os.O_CREATE|os.O_RDWR, 0o600); err != nil || syscall.Flock(int(only.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		note("twice", 0)
	} else {
		defer only.Close()
	}
	stop := make(chan os.Signal, 1)
	if w.Saves {
		signal.Notify(stop, syscall.SIGTERM)
	}
	done := 0
	saved := w.Ledger + "." + job
	if b, err := os.ReadFile(saved); err == nil {
		done, _ = strconv.Atoi(string(b))
	}
	note("start", done)
	began := done
	for ; done < w.Ticks; done++ {
		select {
		case <-stop:
			os.WriteFile(saved+".tmp", []byte(strconv.Itoa(done)), 0o600)
			os.Rename(saved+".tmp", saved)
			note("save", done-began)
			return 75
		case <-time.After(tick):
		}
	}
	note("end", done-began)
	return w.Code
}

// box is a daemon that a test may kill, and what it knows of the jobs.
type box struct {
	t      *testing.T
	setup  setup
	cmd    *exec.Cmd
	client *client.Client
	ledger string
	exe    string
}

func newBox(t *testing.T, policy string, slots int) *box {
	t.Helper()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, setup: setup{State: filepath.Join(dir, "s"), Slots: slots, Policy: policy}, ledger: filepath.Join(dir, "ledger"), exe: exe}
	if b.client, err = client.New(filepath.Join(b.setup.State, "norn.sock"), "", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd != nil {
			b.kill()
		}
		endRuns(t, b.setup.State) // what a failed test leaves behind
	})
	return b
}

// up starts the daemon. Unless ready is wanted it may not have come far.
func (b *box) up(ready bool) {
	b.t.Helper()
	arg, err := json.Marshal(b.setup)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cmd = exec.Command(b.exe, "daemon", string(arg))
	b.cmd.Stderr = os.Stderr
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	if ready {
		b.ready()
	}
}

// ready waits until the daemon answers.
func (b *box) ready() {
	b.t.Helper()
	until(b.t, "the daemon answers", func() bool {
		_, err := b.client.Status(context.Background())
		return err == nil
	})
}

// kill ends the daemon as a crash does.
func (b *box) kill() {
	b.cmd.Process.Signal(syscall.SIGKILL)
	b.cmd.Wait()
	b.cmd = nil
}

// until waits for something that must come.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(time.Minute, ok) {
		t.Fatalf("it did not come about that %s", what)
	}
}

// within waits for something for so long at most, and tells whether it came.
func within(most time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(most); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// spec is a job; one that saves its state can be resized.
func (b *box) spec(name string, w work, gpus float64, mode string, est time.Duration) api.JobSpec {
	w.Ledger = b.ledger
	arg, err := json.Marshal(w)
	if err != nil {
		b.t.Fatal(err)
	}
	s := api.JobSpec{
		Name: name, Command: []string{b.exe, "job", string(arg)}, Dir: "/", GPUs: api.Fixed(gpus), Estimate: api.Of(est),
		Stop: api.Stop{Mode: mode, Grace: 20}, Env: map[string]string{"PATH": os.Getenv("PATH")},
	}
	if w.Saves {
		s.GPUs.Least, s.GPUs.Most = 1, 2
	}
	return s
}

// resizeAny gives each running job that can have another size that size.
func (b *box) resizeAny(ctx context.Context) {
	running, _ := b.client.Jobs(ctx, api.Query{States: []api.State{api.Running}})
	for _, j := range running {
		if j.GPUs.Elastic() {
			b.client.Resize(ctx, j.ID, api.Resize{GPUs: 3 - j.Allocated})
		}
	}
}

// lines are the lines of the ledger about a job, as what, run and number.
type line struct {
	what string
	run  int
	n    int
}

func (b *box) lines() map[string][]line {
	b.t.Helper()
	f, err := os.Open(b.ledger)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]line{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		var l line
		var job string
		if _, err := fmt.Sscanf(in.Text(), "%s %s %d %d", &l.what, &job, &l.run, &l.n); err != nil {
			b.t.Fatalf("ledger: %q", in.Text())
		}
		out[job] = append(out[job], l)
	}
	return out
}

// killsOf is how often a test kills.
func killsOf(usually, short int) int {
	if n, err := strconv.Atoi(os.Getenv("NORN_KILLS")); err == nil {
		return n
	}
	if testing.Short() {
		return short
	}
	return usually
}

// TestKilledAtAnyMoment kills the daemon at random moments of a busy run, with
// jobs of all ways to stop under a preemptive policy, while users submit, cancel,
// hold, release, requeue and resize. No job may be lost, be run twice, or be reported
// otherwise than its own ledger tells.
func TestKilledAtAnyMoment(t *testing.T) {
	longtest.Skip(t)
	kills := killsOf(200, 30)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBox(t, "srtf", 3)
	modes := []string{"checkpoint", "checkpoint", "freeze", "restart", "never"}
	specs := map[string]work{}
	var ids []string
	taken := map[string]int{} // those that were taken back, and their last runs
	for n := range kills {
		b.up(r.IntN(4) > 0)
		end := time.Now().Add(time.Duration(5+r.IntN(90)) * time.Millisecond)
		for time.Now().Before(end) {
			ctx, cancel := context.WithDeadline(context.Background(), end)
			if len(ids) < kills*2 && r.IntN(3) > 0 {
				w := work{Ticks: 1 + r.IntN(40), Code: r.IntN(4) / 3 * 7}
				mode := modes[r.IntN(len(modes))]
				w.Saves = mode == "checkpoint"
				name := fmt.Sprintf("%s-%d-%d", mode, n, len(ids))
				got, err := b.client.Submit(ctx, b.spec(name, w, float64(1+r.IntN(2)), mode, time.Duration(w.Ticks)*tick))
				specs[name] = w
				if err == nil {
					ids = append(ids, got...)
				}
			} else if len(ids) > 0 {
				verb := []string{"cancel", "hold", "release", "release", "requeue", "resize", "resize", "reclaim"}[r.IntN(8)]
				id := ids[len(ids)-1-r.IntN(min(len(ids), 12))]
				if verb == "resize" {
					b.resizeAny(ctx)
				} else if verb == "reclaim" {
					b.reclaimAny(ctx, r)
				} else if err := b.client.Do(ctx, verb, id); err == nil && verb == "cancel" {
					if j, err := b.client.Job(ctx, id); err == nil {
						taken[id] = j.Run
					}
				}
			}
			cancel()
			time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
		}
		b.kill()
	}
	b.up(true)
	if _, err := b.client.Reclaim(context.Background(), api.Reclaim{Lend: true}); err != nil {
		t.Fatal(err)
	}
	all := b.finish()
	b.verify(all, specs, ids)
	resizes, preemptions := 0, 0
	for _, j := range all {
		resizes, preemptions = resizes+j.Resizes, preemptions+j.Preemptions
		if run, is := taken[j.ID]; is && (j.Run > run || j.State != api.Cancelled && j.State != api.Done) {
			t.Errorf("job %s (%s) was taken back in its run %d, and is %s behind run %d", j.ID, j.Name, run, j.State, j.Run)
		}
	}
	if t.Failed() {
		b.keep()
	}
	t.Logf("killed %d times; %d jobs, all of them done, failed or cancelled as their ledgers say; preempted %d times, resized %d times", kills, len(all), preemptions, resizes)
}

// reclaimAny has the owner of a slot take it back from the jobs there, which leave in their own time, or lend it again, if
// norn is there.
func (b *box) reclaimAny(ctx context.Context, r *rand.Rand) {
	b.client.Reclaim(ctx, api.Reclaim{Devices: []string{fmt.Sprintf("slot%d", r.IntN(3))}, Lend: r.IntN(2) == 0})
}

// keep copies what a failed test leaves behind to where NORN_KEEP says.
func (b *box) keep() {
	if dir := os.Getenv("NORN_KEEP"); dir != "" {
		os.RemoveAll(dir)
		exec.Command("cp", "-r", filepath.Dir(b.setup.State), dir).Run()
	}
}

// finish releases what is held and waits until every job has ended, for as long as jobs
// go on ending: a machine that is busy with other things takes its time.
func (b *box) finish() []api.Job {
	b.t.Helper()
	ctx := context.Background()
	var all []api.Job
	defer func() {
		if active, _ := b.client.Jobs(ctx, api.Query{}); len(active) > 0 {
			b.t.Logf("jobs that have not ended: %+v", active)
			b.keep()
		}
	}()
	left, since := -1, time.Now()
	for done := false; !done; time.Sleep(5 * time.Millisecond) {
		active, err := b.client.Jobs(ctx, api.Query{})
		if err != nil {
			b.t.Fatal(err)
		}
		if len(active) != left {
			left, since = len(active), time.Now()
		} else if time.Since(since) > time.Minute {
			b.t.Fatalf("no job of %d has ended for a minute", left)
		}
		for _, j := range active {
			if j.State == api.Held {
				b.client.Do(ctx, "release", j.ID)
			}
		}
		all, err = b.client.Jobs(ctx, api.Query{All: true})
		if err != nil {
			b.t.Fatal(err)
		}
		done = len(active) == 0
	}
	return all
}

// verify holds what the daemon says of its jobs against what they noted.
func (b *box) verify(all []api.Job, specs map[string]work, ids []string) {
	b.t.Helper()
	ledger := b.lines()
	told := map[string]bool{}
	for _, j := range all {
		if told[j.ID] {
			b.t.Errorf("job %s is told twice", j.ID)
		}
		told[j.ID] = true
		w, known := specs[j.Name]
		if !known {
			b.t.Errorf("job %s (%s) was never submitted", j.ID, j.Name)
		}
		b.verifyJob(j, w, ledger[j.ID])
		delete(ledger, j.ID)
	}
	for _, id := range ids {
		if !told[id] {
			b.t.Errorf("job %s was submitted and is lost", id)
		}
	}
	for id := range ledger {
		b.t.Errorf("job %s ran and is not known", id)
	}
	b.verifyLog(len(all))
}

func (b *box) verifyJob(j api.Job, w work, lines []line) {
	b.t.Helper()
	starts, ends, ticks := map[int]int{}, 0, 0
	for _, l := range lines {
		switch l.what {
		case "start":
			starts[l.run]++
		case "save":
			ticks += l.n
		case "end":
			ends++
			ticks += l.n
		case "twice":
			b.t.Errorf("job %s (%s): run %d was started while another one ran", j.ID, j.Name, l.run)
		}
	}
	for run, n := range starts {
		if n > 1 || run > j.Run {
			b.t.Errorf("job %s (%s): run %d of %d was started %d times", j.ID, j.Name, run, j.Run, n)
		}
	}
	mode, _, _ := strings.Cut(j.Name, "-")
	// A run that is killed to leave its devices when it has written down its end and has
	// still to exit counts as killed: its job is done once more (docs/limits.md).
	atOnce := mode != "checkpoint" && ends > 1 && ends-1 <= j.Preemptions+j.Resizes && len(starts) >= ends
	switch j.State {
	case api.Done, api.Failed:
		failed := j.State == api.Failed
		// One that failed by itself just when it was told to leave has failed to save
		// its state, and is tried again.
		once := ends == 1 || atOnce || w.Code != 0 && ends > 1 && len(starts) > 1
		if !once || failed != (w.Code != 0) || j.Exit == nil || j.Exit.Code != w.Code {
			b.t.Errorf("job %s (%s) is %s with %+v (%s), it ended %d times with code %d: %v", j.ID, j.Name, j.State, j.Exit, j.Reason, ends, w.Code, lines)
		}
		if mode == "checkpoint" && ticks != w.Ticks && ends == 1 {
			b.t.Errorf("job %s did %d ticks of %d: %v", j.ID, ticks, w.Ticks, lines)
		}
	case api.Cancelled:
		// One that failed by itself just when it was told to leave is tried again, see above.
		if ends > 1 && !atOnce && (w.Code == 0 || len(starts) < ends) {
			b.t.Errorf("job %s (%s) is cancelled and ended %d times with code %d: %v", j.ID, j.Name, ends, w.Code, lines)
		}
	default:
		b.t.Errorf("job %s is %s", j.ID, j.State)
	}
}

// verifyLog folds the logs of all epochs: each can be read to its end, and
// together they tell of every job's end once.
func (b *box) verifyLog(jobs int) {
	b.t.Helper()
	var all strings.Builder
	if err := b.client.EventLog(context.Background(), &all); err != nil {
		b.t.Fatal(err)
	}
	const opening = `{"norn":"eventlog"`
	ended := map[string]int{}
	parts := strings.Split(all.String(), opening)[1:]
	for i, part := range parts {
		r, err := eventlog.NewReader(strings.NewReader(opening+part), fmt.Sprint("log ", i+1))
		if err != nil {
			b.t.Fatal(err)
		}
		s, err := replay.Fold(r)
		if err != nil && err != io.EOF {
			b.t.Fatal(err)
		}
		for _, id := range s.Ended()[s.Past():] {
			ended[s.Record(id).Job.Key]++
		}
	}
	if len(ended) != jobs {
		b.t.Errorf("the logs tell of the ends of %d jobs, there were %d", len(ended), jobs)
	}
	for key, n := range ended {
		if n != 1 {
			b.t.Errorf("job %s ended %d times in the logs", key, n)
		}
	}
}
