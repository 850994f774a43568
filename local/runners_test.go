package local_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// TestRunnersKilledAtAnyMoment kills runners at random moments, be they starting,
// running, freezing or leaving, or waiting for a run, and now and then the daemon
// with them. Their jobs start again: none is lost, none runs twice at one time,
// and one that saves its state loses at most what it did since.
func TestRunnersKilledAtAnyMoment(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	kills := killsOf(40, 10)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	b := newBox(t, "srtf", 3)
	b.up(true)
	specs := map[string]work{}
	var ids []string
	killed := 0
	for n := 0; killed < kills; n++ {
		if len(ids) < 3*kills && r.IntN(2) == 0 {
			mode := []string{"checkpoint", "checkpoint", "freeze", "restart", "never"}[r.IntN(5)]
			w := work{Ticks: 1 + r.IntN(40), Code: r.IntN(4) / 3 * 7, Saves: mode == "checkpoint"}
			name := fmt.Sprintf("%s-%d", mode, n)
			got, err := b.client.Submit(context.Background(), b.spec(name, w, float64(1+r.IntN(2)), mode, time.Duration(w.Ticks)*tick))
			if err != nil {
				t.Fatal(err)
			}
			specs[name], ids = w, append(ids, got...)
		}
		if len(ids) > 0 && r.IntN(4) == 0 {
			b.client.Do(context.Background(), "requeue", ids[len(ids)-1-r.IntN(min(len(ids), 8))])
		}
		if r.IntN(8) == 0 {
			b.resizeAny(context.Background())
		}
		if all := b.runners(); len(all) > 0 && r.IntN(2) == 0 {
			if syscall.Kill(all[r.IntN(len(all))], syscall.SIGKILL) == nil {
				killed++
			}
		}
		if r.IntN(30) == 0 {
			b.kill()
			b.up(true)
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
	all := b.finish()
	b.verifyRestarted(all, specs, ids)
	if t.Failed() {
		b.keep()
	}
	t.Logf("killed %d runners of %d jobs", killed, len(all))
}

// runners are the processes that are runners now: the children of the daemon, and
// those that one before it has left.
func (b *box) runners() []int {
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(b.cmd.Process.Pid) {
			out = append(out, pid)
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(b.setup.State, "runs", "*", "*"))
	for _, dir := range dirs {
		var s rundir.Status
		if ok, _ := rundir.Read(dir, rundir.StatusFile, &s); ok && runner.Alive(rundir.Proc{PID: s.PID, Start: s.Start}) {
			out = append(out, s.PID)
		}
	}
	return out
}

// verifyRestarted holds what the daemon says of jobs whose runners were killed
// against what they noted.
func (b *box) verifyRestarted(all []api.Job, specs map[string]work, ids []string) {
	b.t.Helper()
	ledger := b.lines()
	told := map[string]bool{}
	for _, j := range all {
		told[j.ID] = true
		w := specs[j.Name]
		want := api.Done
		if w.Code != 0 {
			want = api.Failed
		}
		if j.State != want || j.Exit == nil || j.Exit.Code != w.Code {
			b.t.Errorf("job %s (%s) is %s with %+v (%s), its code is %d", j.ID, j.Name, j.State, j.Exit, j.Reason, w.Code)
		}
		b.verifyRuns(j, w, ledger[j.ID])
	}
	for _, id := range ids {
		if !told[id] {
			b.t.Errorf("job %s was submitted and is lost", id)
		}
	}
	b.verifyLog(len(all))
}

// verifyRuns checks the runs of a job, one behind the other.
func (b *box) verifyRuns(j api.Job, w work, lines []line) {
	b.t.Helper()
	last, began, saved, ends := 0, 0, 0, 0
	for _, l := range lines {
		bad := ""
		switch l.what {
		case "twice":
			bad = "was started while another one ran"
		case "start":
			if l.run <= last || l.run > j.Run {
				bad = fmt.Sprintf("was started behind run %d of %d", last, j.Run)
			}
			if l.n < saved || l.n > w.Ticks { // it may have been killed between saving and noting it
				bad = fmt.Sprintf("goes on from %d, %d had been saved", l.n, saved)
			}
			last, began = l.run, l.n
		case "save":
			saved = began + l.n
		case "end":
			if ends++; began+l.n != w.Ticks {
				bad = fmt.Sprintf("ended behind %d ticks of %d", began+l.n, w.Ticks)
			}
		}
		if bad != "" || l.run != last {
			b.t.Errorf("job %s (%s): run %d %s: %v", j.ID, j.Name, l.run, bad, lines)
		}
	}
	if ends == 0 {
		b.t.Errorf("job %s (%s) never came to its end: %v", j.ID, j.Name, lines)
	}
}
