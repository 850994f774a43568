package sdk_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// elastic is a training whose speed depends on its size: sdk/python/tests/elastic.py.
type elastic struct {
	name    string
	after   time.Duration // of the first one's submission
	steps   int           // of stepTime each on one slot
	speedup [slots]float64
}

// slots is how many there are, and what a job can have at most.
const slots = 4

// stepTime is how long a step takes on one slot.
const stepTime = 250 * time.Millisecond

// epoch and batch are the samples of an epoch and of a step of sdk/python/tests/elastic.py.
const (
	epoch = 5000
	batch = 48
)

// four are trainings of which the first has the machine for itself at first. All of them last longer times as long, so that
// restarts, which take the seconds that they take, weigh less.
func four(longer float64) []elastic {
	all := []elastic{
		{"long", 0, 400, [slots]float64{1, 1.3, 1.5, 1.6}},
		{"wide", 17 * time.Second, 220, [slots]float64{1, 1.7, 2.2, 2.6}},
		{"short", 30 * time.Second, 72, [slots]float64{1, 1.9, 2.7, 3.4}},
		{"late", 42 * time.Second, 72, [slots]float64{1, 1.1, 1.15, 1.2}},
	}
	for i := range all {
		e := &all[i]
		e.after, e.steps = time.Duration(float64(e.after)*longer), int(float64(e.steps)*longer)
	}
	return all
}

// time is how long a job trains on a number of slots.
func (e *elastic) time(size int) time.Duration {
	return time.Duration(float64(e.steps) * float64(stepTime) / e.speedup[size-1])
}

// spec is what is submitted.
func (e *elastic) spec(t *testing.T, folder string) api.JobSpec {
	script, err := filepath.Abs(filepath.Join("python", "tests", "elastic.py"))
	if err != nil {
		t.Fatal(err)
	}
	env := environment()
	env["PYTHONPATH"] = filepath.Dir(filepath.Dir(script))
	command := []string{python(t), script, folder, strconv.Itoa(e.steps), fmt.Sprint(stepTime.Seconds())}
	for _, s := range e.speedup {
		command = append(command, fmt.Sprint(s))
	}
	return api.JobSpec{
		Name: e.name, Dir: folder, Env: env, GPUs: api.Range{Least: 1, Most: slots, Ask: 1}, Tasks: api.Tasks{PerGPU: true},
		Command: command, Stop: api.Stop{Mode: "checkpoint", Grace: 120},
	}
}

// TestElasticEndToEnd has Pollux and Sia, each on a machine of its own, grow and shrink four trainings of different scaling on
// four slots, of which one is taken back in the middle, without warning. Gradients are real; how fast a step is on how many
// slots is declared, since all share the cores of one machine. Every job is done with each sample of an epoch used once.
// Nothing is trained twice but what the job that was killed had not saved.
func TestElasticEndToEnd(t *testing.T) {
	text := os.Getenv("NORN_ELASTIC")
	if text == "" {
		t.Skip("goes by the clock for three minutes: make elastic")
	}
	longer, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	needsTorch(t)
	four := four(longer)
	runs := []*elasticRun{{box: newBox(t, slots, "pollux(interval=4s,delay=3s)")}, {box: newBox(t, slots, "sia(interval=4s,delay=3s,lambda=2)")}}
	began := time.Now()
	for i := range four {
		time.Sleep(time.Until(began.Add(four[i].after)))
		for _, r := range runs {
			r.ids = append(r.ids, r.submit(four[i].spec(t, r.folder(four[i].name))))
		}
	}
	for _, r := range runs {
		r.takesBack()
	}
	best, sizes := bestFixed(four)
	same := inLine(four, []int{1, 1, 1, 1})
	for _, r := range runs {
		changes, mean := 0, time.Duration(0)
		for i, id := range r.ids {
			r.until("job "+id+" ends", func() bool { return r.job(id).State.Over() })
			j := r.job(id)
			if j.State != api.Done || j.Failures != 0 {
				t.Fatalf("under %s job %s is %s, failed %d times: %s\n%s", r.policy, four[i].name, j.State, j.Failures, j.Reason, r.output(id))
			}
			mean += j.Ended.Sub(j.Submitted) / time.Duration(len(four))
			changes += r.usedOnce(&four[i], id)
		}
		if changes < 6 {
			t.Errorf("under %s sizes changed %d times, want six at least", r.policy, changes)
		}
		t.Logf("under %s %d changes of size; mean time %.1f s, with restarts; on four slots all the time it is %.1f s with one slot each, and %.1f s at the best fixed sizes, %v", r.policy, changes, mean.Seconds(), same.Seconds(), best.Seconds(), sizes)
	}
}

// elasticRun is the four trainings under a policy.
type elasticRun struct {
	*box
	ids    []string
	victim string // the job from which a slot is taken
}

// folder is a new folder of a job.
func (b *box) folder(name string) string {
	b.t.Helper()
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// takesBack has an owner take a slot back without warning from a job that has saved its state, and lend it again when that
// job trains on others.
func (b *elasticRun) takesBack() {
	b.t.Helper()
	var victim, slot string
	b.until("a job that has saved its state has trained a while", func() bool {
		for _, id := range b.ids {
			j := b.job(id)
			w, err := b.client.Why(context.Background(), id)
			if err != nil {
				b.t.Fatal(err)
			}
			last := ""
			if len(w.Life) > 1 {
				last = w.Life[len(w.Life)-1]
			}
			if j.State == api.Running && len(j.Devices) > 0 && strings.Contains(last, "has saved its state") {
				victim, slot = id, j.Devices[0]
				return true
			}
		}
		return false
	})
	run := b.job(victim).Run
	if _, err := b.client.Reclaim(context.Background(), api.Reclaim{Devices: []string{slot}, Notice: new(api.Seconds), Why: "it is wanted"}); err != nil {
		b.t.Fatal(err)
	}
	b.until("the job goes on elsewhere", func() bool {
		j := b.job(victim)
		if slices.Contains(j.Devices, slot) && j.Run > run {
			b.t.Fatalf("job %s is on %s again, which was taken back", victim, slot)
		}
		return j.Run > run && j.State == api.Running && j.Progress != nil || j.State.Over()
	})
	w, err := b.client.Why(context.Background(), victim)
	if err != nil || !strings.Contains(strings.Join(w.Life, "\n"), "it is wanted") {
		b.t.Errorf("%v: its life is %q", err, w.Life)
	}
	if _, err := b.client.Reclaim(context.Background(), api.Reclaim{Devices: []string{slot}, Lend: true}); err != nil {
		b.t.Fatal(err)
	}
	b.victim = victim
}

// usedOnce checks that each step of a job was trained by one run on a whole batch, and that the batches of an epoch are all
// of its samples. Steps that a killed job had not saved are trained again, on the same samples. It returns how often the job
// had another size than before.
func (b *elasticRun) usedOnce(e *elastic, id string) (changes int) {
	b.t.Helper()
	all, again := b.trainedBy(filepath.Join(b.dir, e.name)), 0
	var used []int
	for step := range e.steps {
		runs := all[step]
		var of []int
		for run, samples := range runs {
			if whole := len(samples) == min(batch, epoch-len(used)); whole && of != nil && !slices.Equal(of, samples) {
				b.t.Fatalf("%s: step %d was trained on %v, and by run %d on %v", e.name, step, of, run, samples)
			} else if whole {
				of = samples
			}
		}
		if again += max(0, len(runs)-1); of == nil {
			b.t.Fatalf("%s: of step %d there are %v", e.name, step, runs)
		}
		if used = append(used, of...); len(used) == epoch || step == e.steps-1 {
			slices.Sort(used)
			if n := len(slices.Compact(used)); n != len(used) {
				b.t.Errorf("%s: %d samples of an epoch were used more than once", e.name, len(used)-n)
			}
			used = nil
		}
	}
	if again > 0 && id != b.victim {
		b.t.Errorf("%s: %d steps were trained twice, though it was not killed", e.name, again)
	}
	sizes := b.sizes(e.name, b.job(id).Run)
	for i := range sizes[1:] {
		if sizes[i] != sizes[i+1] {
			changes++
		}
	}
	b.t.Logf("%s: on %v slots; %d of %d steps were trained again", e.name, sizes, again, e.steps)
	return changes
}

// sizes are the numbers of workers of the runs of a job that trained, in order.
func (b *box) sizes(name string, runs int) (out []int) {
	for run := 1; run <= runs; run++ {
		files, err := filepath.Glob(filepath.Join(b.dir, name, fmt.Sprintf("samples.%d.*", run)))
		if err != nil {
			b.t.Fatal(err)
		}
		if len(files) > 0 {
			out = append(out, len(files))
		}
	}
	return out
}

// bestFixed is the least mean time of the four where each has one size, with which it waits in line until so many slots are
// free, and of which sizes that is.
func bestFixed(four []elastic) (best time.Duration, sizes []int) {
	best = math.MaxInt64
	for n := range slots * slots * slots * slots {
		var of []int
		for i := range four {
			of = append(of, 1+n/int(math.Pow(slots, float64(i)))%slots)
		}
		if mean := inLine(four, of); mean < best {
			best, sizes = mean, of
		}
	}
	return best, sizes
}

// inLine is the mean time of the four at sizes.
func inLine(four []elastic, sizes []int) (mean time.Duration) {
	var free [slots]time.Duration // when each slot is
	head := time.Duration(0)
	for i := range four {
		e := &four[i]
		slices.Sort(free[:])
		head = max(head, e.after, free[sizes[i]-1]) // as soon as enough are free, and not before those ahead
		for s := range sizes[i] {
			free[s] = head + e.time(sizes[i])
		}
		mean += (head + e.time(sizes[i]) - e.after) / time.Duration(len(four))
	}
	return mean
}
