package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

// steps of the training that is disturbed. It must be long enough for all that
// happens to it.
const steps = 700

// box is norn up as a user runs it, on some slots.
type box struct {
	t      *testing.T
	norn   string
	dir    string
	slots  int
	policy string
	cmd    *exec.Cmd
	client *client.Client
}

func newBox(t *testing.T, slots int, policy string) *box {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("norn up needs Linux")
	}
	b := &box{t: t, dir: t.TempDir(), slots: slots, policy: policy}
	b.norn = filepath.Join(b.dir, "norn")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", b.norn, "../cmd/norn").CombinedOutput(); err != nil {
		t.Fatalf("building norn: %v\n%s", err, out)
	}
	var err error
	if b.client, err = client.New(filepath.Join(b.dir, "sock"), "", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd == nil {
			return
		}
		jobs, _ := b.client.Jobs(context.Background(), api.Query{})
		for _, j := range jobs {
			b.client.Do(context.Background(), "cancel", j.ID)
		}
		b.kill()
	})
	b.up()
	return b
}

func (b *box) up() {
	b.t.Helper()
	b.cmd = exec.Command(b.norn, "up", "--state", filepath.Join(b.dir, "state"), "--socket", filepath.Join(b.dir, "sock"), "--devices", strconv.Itoa(b.slots), "--policy", b.policy)
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.until("norn answers", func() bool {
		_, err := b.client.Status(context.Background())
		return err == nil
	})
}

func (b *box) kill() {
	b.cmd.Process.Signal(syscall.SIGKILL)
	b.cmd.Wait()
	b.cmd = nil
}

func (b *box) until(what string, ok func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("it did not come about that %s", what)
		}
	}
}

func (b *box) job(id string) api.Job {
	b.t.Helper()
	j, err := b.client.Job(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

// train is the job: the example, on two workers, writing down what it trains.
func (b *box) train(name string) (spec api.JobSpec, result string) {
	b.t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "examples", "train"))
	if err != nil {
		b.t.Fatal(err)
	}
	out := filepath.Join(b.dir, name)
	if err := os.MkdirAll(out, 0o755); err != nil {
		b.t.Fatal(err)
	}
	env := environment()
	result = filepath.Join(out, "result.json")
	return api.JobSpec{
		Name: name, Dir: folder, Env: env, GPUs: api.Range{Least: 1, Most: 2, Ask: 2}, Tasks: api.Tasks{PerGPU: true}, Estimate: 3600,
		Command: []string{python(b.t), "train.py", "--steps", strconv.Itoa(steps), "--checkpoint", filepath.Join(out, "ckpt.pt"), "--log", filepath.Join(out, "log"), "--result", result},
		Stop:    api.Stop{Mode: "checkpoint", Grace: 120},
	}, result
}

// environment is that of this test, for jobs.
func environment() map[string]string {
	env := map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}
	for _, v := range os.Environ() {
		key, value, _ := strings.Cut(v, "=")
		env[key] = value
	}
	return env
}

func (b *box) submit(spec api.JobSpec) string {
	b.t.Helper()
	ids, err := b.client.Submit(context.Background(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return ids[0]
}

// trained waits until a run of a job has trained some steps more.
func (b *box) trained(id string, run int, more int64) {
	b.t.Helper()
	first := int64(-1)
	b.until(fmt.Sprintf("run %d of job %s makes progress", run, id), func() bool {
		j := b.job(id)
		if j.State.Over() {
			b.t.Fatalf("job %s is %s in run %d: %s\n%s", id, j.State, j.Run, j.Reason, b.output(id))
		}
		if j.Run < run || j.Progress == nil || j.State != api.Running {
			return false
		}
		if first < 0 {
			first = j.Progress.Step
		}
		return j.Progress.Step >= first+more
	})
}

func (b *box) output(id string) string {
	text, _ := exec.Command(b.norn, "logs", "--server", filepath.Join(b.dir, "sock"), id).CombinedOutput()
	return string(text)
}

// loss is the result of a training.
func (b *box) loss(path string) float64 {
	b.t.Helper()
	var r struct{ Loss float64 }
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Loss
}

// samples is what each step trained, over all workers of a run, by step. A step
// that two runs trained is an error.
func (b *box) samples(name string) map[int][]int {
	b.t.Helper()
	out := map[int][]int{}
	for step, runs := range b.trainedBy(filepath.Join(b.dir, name, "log")) {
		if len(runs) > 1 {
			b.t.Errorf("%s: step %d was trained by runs %v", name, step, slices.Sorted(maps.Keys(runs)))
		}
		for _, all := range runs {
			out[step] = all
		}
	}
	return out
}

// trainedBy is what each step trained, in order, by step and by run, as the files samples.RUN.RANK of a
// folder tell it.
func (b *box) trainedBy(folder string) map[int]map[int][]int {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "samples.*"))
	if err != nil || len(files) == 0 {
		b.t.Fatalf("%s: no samples were written down: %v", folder, err)
	}
	out := map[int]map[int][]int{}
	for _, file := range files {
		run, err := strconv.Atoi(strings.Split(filepath.Base(file), ".")[1])
		if err != nil {
			b.t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		in := bufio.NewScanner(f)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			words := strings.Fields(in.Text())
			numbers := make([]int, len(words))
			for i, w := range words {
				if numbers[i], err = strconv.Atoi(w); err != nil {
					b.t.Fatalf("%s: %q", file, in.Text())
				}
			}
			step := numbers[0]
			if out[step] == nil {
				out[step] = map[int][]int{}
			}
			out[step][run] = append(out[step][run], numbers[1:]...)
		}
	}
	for _, runs := range out {
		for _, all := range runs {
			slices.Sort(all)
		}
	}
	return out
}

// needsTorch skips a test where there is no PyTorch, or no time.
func needsTorch(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("trains for a minute")
	}
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", "import torch").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("PyTorch is missing: continuous integration needs it\n%s", out)
		}
		t.Skip("PyTorch is missing")
	}
}

// TestTorchEndToEnd trains a real model with PyTorch on two workers, and
// exposes it to what may happen on a shared machine. A more urgent job takes
// its devices, and it comes back. norn is killed and started again while it
// runs. It is resized to one worker and back to two. The result is that of an
// undisturbed run: every step is trained once, on the same samples, and the
// final loss is the same within what the order of floating-point sums leaves
// open.
func TestTorchEndToEnd(t *testing.T) {
	needsTorch(t)
	t.Parallel()
	b := newBox(t, 2, "srtf")
	ctx := context.Background()

	spec, calm := b.train("calm")
	undisturbed := b.submit(spec)
	b.until("the undisturbed training ends", func() bool { return b.job(undisturbed).State.Over() })
	if j := b.job(undisturbed); j.State != api.Done || j.Run != 1 {
		t.Fatalf("the undisturbed training is %s in run %d: %s\n%s", j.State, j.Run, j.Reason, b.output(undisturbed))
	}

	spec, stormy := b.train("stormy")
	id := b.submit(spec)
	b.trained(id, 1, 20)

	urgent := b.submit(api.JobSpec{Name: "urgent", Command: []string{"sleep", "0.5"}, Dir: "/", GPUs: api.Fixed(2), Estimate: 1, Env: map[string]string{"PATH": os.Getenv("PATH")}})
	b.until("the urgent job ends", func() bool { return b.job(urgent).State == api.Done })
	b.trained(id, 2, 20)
	if j := b.job(id); j.Preemptions != 1 || j.Run != 2 {
		t.Errorf("the training was preempted %d times and is in its run %d; it should have made room once", j.Preemptions, j.Run)
	}

	b.kill()
	b.up()
	b.trained(id, 2, 20) // the same run: it has not noticed

	for i, gpus := range []float64{1, 2} {
		if err := b.client.Resize(ctx, id, api.Resize{GPUs: gpus}); err != nil {
			t.Fatal(err)
		}
		b.trained(id, 3+i, 20)
		if j := b.job(id); j.Allocated != gpus {
			t.Errorf("it was resized to %v GPUs and holds %v", gpus, j.Allocated)
		}
	}
	b.until("the training ends", func() bool { return b.job(id).State.Over() })
	j := b.job(id)
	if j.State != api.Done || j.Run != 4 || j.Resizes != 2 || j.Preemptions != 1 || j.Failures != 0 {
		t.Errorf("it is %s in run %d, resized %d times, preempted %d times, failed %d times: %s\n%s", j.State, j.Run, j.Resizes, j.Preemptions, j.Failures, j.Reason, b.output(id))
	}

	want, got := b.samples("calm"), b.samples("stormy")
	if len(want) != steps || len(got) != steps {
		t.Errorf("%d steps were trained undisturbed and %d disturbed, of %d", len(want), len(got), steps)
	}
	for step := range steps {
		if !slices.Equal(want[step], got[step]) {
			t.Fatalf("step %d was trained on %d samples %v undisturbed, and on %d samples %v disturbed", step, len(want[step]), want[step], len(got[step]), got[step])
		}
	}
	a, z := b.loss(calm), b.loss(stormy)
	t.Logf("final loss %.9f undisturbed, %.9f disturbed: difference %.2g", a, z, math.Abs(a-z))
	if math.Abs(a-z) > 1e-3*math.Max(1, math.Abs(a)) {
		t.Errorf("final loss %v undisturbed, %v disturbed", a, z)
	}
}

// TestTurnsEndToEnd has two workers take turns on a slot, under easyscale. The job starts on one slot, grows to two when
// the policy grants one, and is taken down to one and up to two again by hand. It ends with the parameters of a training by itself in one
// process, to the bit.
func TestTurnsEndToEnd(t *testing.T) {
	needsTorch(t)
	b := newBox(t, 2, "easyscale(interval=1s)")
	spec, result := b.train("turns")
	spec.Resize = "time-sliced"
	delete(spec.Env, "OMP_NUM_THREADS")

	id := b.submit(spec)
	for run, gpus := range []float64{1, 2, 1, 2} {
		if run == 2 { // from here on sizes are changed by hand, which the policy could take back
			if err := b.client.SetPolicy(t.Context(), "fifo"); err != nil {
				t.Fatal(err)
			}
		}
		if run >= 2 {
			b.until(fmt.Sprintf("job %s is resized to %v slots by hand", id, gpus), func() bool {
				return b.client.Resize(t.Context(), id, api.Resize{GPUs: gpus}) == nil
			})
		}
		b.until(fmt.Sprintf("job %s runs on %v slots in run %d", id, gpus, run+1), func() bool {
			j := b.job(id)
			return j.Run > run && j.Allocated == gpus || j.State.Over()
		})
		b.trained(id, run+1, 5)
	}
	b.until("the training ends", func() bool { return b.job(id).State.Over() })
	if j := b.job(id); j.State != api.Done || j.Run < 4 || j.Failures != 0 {
		t.Errorf("it is %s in run %d, failed %d times: %s\n%s", j.State, j.Run, j.Failures, j.Reason, b.output(id))
	}

	alone, calm := b.train("alone")
	cmd := exec.CommandContext(t.Context(), python(t), alone.Command[1:]...)
	cmd.Dir, cmd.Env = alone.Dir, append(os.Environ(), "NORN_WORKERS=2", "OMP_NUM_THREADS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want, got := b.loss(calm), b.loss(result); want != got {
		t.Errorf("final loss %v in one process, %v with turns on one and two slots", want, got)
	}
	const same = `import sys, torch; a, b = (torch.load(p)["model"] for p in sys.argv[1:]); sys.exit(not (a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)))`
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", same, filepath.Join(b.dir, "alone", "ckpt.pt"), filepath.Join(b.dir, "turns", "ckpt.pt")).CombinedOutput(); err != nil {
		t.Errorf("the parameters are not the same to the bit: %v\n%s", err, out)
	}
}
