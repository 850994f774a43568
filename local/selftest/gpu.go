package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/hardware"
	"github.com/norn-scheduler/norn/local/hardware/smi"
	mpsserver "github.com/norn-scheduler/norn/local/mps"
	"github.com/norn-scheduler/norn/local/rundir"
)

// asked says why nvidia-smi cannot be compared with; nil: it can.
func (b *bench) asked() error {
	if errors.Is(b.unasked, smi.ErrNotHere) {
		return notHere(b.unasked.Error())
	}
	return b.unasked
}

// unlike is the error of differences.
func unlike(off []string) error {
	if len(off) == 0 {
		return nil
	}
	return errors.New(strings.Join(off, "; "))
}

func (b *bench) types(context.Context) (string, error) {
	if err := b.asked(); err != nil {
		return "", err
	}
	var names []string
	for _, d := range b.gpus {
		names = append(names, fmt.Sprintf("%s is %s (%s)", d.Name, d.Product, d.Type))
	}
	off := b.report.Types(b.machine)
	if len(off) > 0 {
		off = append(off, b.machine.Notes...)
	}
	return strings.Join(names, ", "), unlike(off)
}

func (b *bench) memory(context.Context) (string, error) {
	if err := b.asked(); err != nil {
		return "", err
	}
	var all []string
	for _, d := range b.gpus {
		all = append(all, fmt.Sprintf("%s %v", d.Name, d.Memory))
	}
	return strings.Join(all, ", "), unlike(b.report.Memory(b.machine))
}

func (b *bench) topology(ctx context.Context) (string, error) {
	t, err := smi.AskTopology(ctx)
	if errors.Is(err, smi.ErrNotHere) {
		return "", notHere(err.Error())
	}
	if err != nil {
		return "", err
	}
	words := map[string]int{}
	for i := range t.Links {
		for j := range i {
			words[t.Links[i][j].Word]++
		}
	}
	text := fmt.Sprintf("NUMA node %d", b.gpus[0].NUMA)
	if len(t.Links) == 1 {
		text = "one GPU, linked with no other; " + text
	}
	for word, n := range words {
		text = fmt.Sprintf("%d pairs %s; ", n, word) + text
	}
	return text, unlike(t.Differences(b.machine))
}

func (b *bench) mig(context.Context) (string, error) {
	if err := b.asked(); err != nil {
		return "", err
	}
	able, on := 0, 0
	for _, g := range b.report.GPUs {
		if g.MIG != "" {
			able++
		}
		if g.MIG == "Enabled" {
			on++
		}
	}
	if able == 0 {
		return "", notHere("no GPU has MIG")
	}
	return fmt.Sprintf("%d of %d GPUs are in MIG mode", on, len(b.report.GPUs)), unlike(b.report.MIG(b.machine))
}

// all is the configuration for every GPU, one that for the first alone.
const all = "devices: auto\nsharing: {mps: off}"

func (b *bench) one(mps string) string {
	return fmt.Sprintf("devices: [%d]\nsharing: {mps: %s, memory-for: 3s}", b.gpus[0].Index, mps)
}

// uuids are those of devices by their names.
func (b *bench) uuids(names []string) (out []string) {
	for _, d := range b.gpus {
		if slices.Contains(names, d.Name) {
			out = append(out, d.UUID)
		}
	}
	return out
}

// pinned has two jobs run at once, or one where there is one GPU. Each must see the GPU
// that it holds, and nothing else.
func (b *bench) pinned(ctx context.Context) (string, error) {
	return b.with(ctx, "pinned", all, func(n *norn) (string, error) {
		var text []string
		var jobs []*jobOf
		files := b.files()
		for i := range min(2, len(b.gpus)) {
			j, err := n.submit(ctx, task{Name: fmt.Sprint("pinned", i), GPU: true, Open: files}, api.JobSpec{GPUs: api.Fixed(1)})
			if err != nil {
				return "", err
			}
			jobs = append(jobs, j)
		}
		held := map[string]bool{}
		for _, j := range jobs {
			told, err := j.works(ctx, 1, 1)
			if err != nil {
				return "", err
			}
			now, err := j.becomes(ctx, api.Running)
			if err != nil {
				return "", err
			}
			if want := b.uuids(now.Devices); !slices.Equal(told.GPUs, want) || len(want) != 1 || held[want[0]] {
				return "", fmt.Errorf("job %s holds %v (%v) and sees %v", j.Name, now.Devices, want, told.GPUs)
			}
			held[told.GPUs[0]] = true
			text = append(text, fmt.Sprintf("the job on %s sees it alone%s", now.Devices[0], opened(told.Opened, files, b.files(now.Devices...))))
		}
		for _, j := range jobs {
			if _, err := j.finish(ctx, 1); err != nil {
				return "", err
			}
		}
		if len(jobs) < 2 {
			text = append(text, "a second GPU is not here")
		}
		return strings.Join(text, "; "), nil
	})
}

// files are the device files of the GPUs of these names, as far as they exist; of all
// GPUs without a name.
func (b *bench) files(names ...string) (out []string) {
	for _, d := range b.gpus {
		for _, f := range d.Files {
			if _, err := os.Stat(f); err == nil && (len(names) == 0 || slices.Contains(names, d.Name)) {
				out = append(out, f)
			}
		}
	}
	return out
}

// opened says whether a job could open device files that are not its own.
func opened(could, all, own []string) string {
	others := 0
	for _, f := range could {
		if !slices.Contains(own, f) {
			others++
		}
	}
	switch {
	case len(all) == len(own):
		return ""
	case others == 0:
		return ", and can open no other's device file"
	}
	return fmt.Sprintf(", and can open %d of %d device files that are not its own", others, len(all)-len(own))
}

// none has a job run that asked for no GPU.
func (b *bench) none(ctx context.Context) (string, error) {
	return b.with(ctx, "none", all, func(n *norn) (string, error) {
		files := b.files()
		j, err := n.submit(ctx, task{Name: "none", Look: true, Open: files}, api.JobSpec{GPUs: api.Fixed(0)})
		if err != nil {
			return "", err
		}
		told, err := j.works(ctx, 1, 1)
		if err != nil {
			return "", err
		}
		if len(told.GPUs) > 0 {
			return "", fmt.Errorf("a job that asked for no GPU sees %v", told.GPUs)
		}
		_, err = j.finish(ctx, 1)
		return "a job that asked for no GPU sees none" + opened(told.Opened, files, nil), err
	})
}

// margin is how far a measured figure may be off.
const margin = 0.05

// near tells whether two figures are nearly the same; apart is what they may be apart
// even when they are small.
func near(a, b, apart float64) bool { return max(a-b, b-a) <= max(margin*max(a, b), apart) }

// settles is how long a GPU must have been busy before it counts as that.
const settles = 3 * time.Second

// within is how soon what is measured must be right.
const within = 10 * time.Second

// sampling has a job fill a quarter of a GPU and keep it busy, and compares what Norn
// says of the GPU and of the process with what nvidia-smi and CUDA say.
func (b *bench) sampling(ctx context.Context) (string, error) {
	if err := b.asked(); err != nil {
		return "", err
	}
	return b.with(ctx, "sampling", b.one("off"), func(n *norn) (string, error) {
		j, err := n.submit(ctx, task{Name: "load", GPU: true, Load: true, Bytes: int64(min(b.gpus[0].Memory/4, 8*unit.GiB))}, api.JobSpec{GPUs: api.Fixed(1)})
		if err != nil {
			return "", err
		}
		began := time.Now()
		told, err := j.works(ctx, 1, 10)
		if err != nil {
			return "", err
		}
		text := ""
		err = until(ctx, "measured use is equal to that of nvidia-smi", func() (bool, error) {
			var off error
			if text, off, err = b.sampled(ctx, n, told); err != nil {
				return false, err
			}
			if off != nil && time.Since(began) > within {
				return false, off
			}
			return off == nil && time.Since(began) > settles, nil
		})
		if err != nil {
			return "", err
		}
		_, err = j.finish(ctx, 1)
		return text, err
	})
}

// sampled compares once; off is what differs.
func (b *bench) sampled(ctx context.Context, n *norn, told note) (text string, off, err error) {
	node, err := n.Node(ctx)
	if err != nil {
		return "", nil, err
	}
	r, err := smi.Ask(ctx)
	if err != nil {
		return "", nil, err
	}
	d := b.gpus[0]
	at := slices.IndexFunc(r.GPUs, func(g smi.GPU) bool { return g.PCI == d.PCI })
	if at < 0 || len(node.Devices) != 1 {
		return "", nil, fmt.Errorf("nvidia-smi has no GPU at %s any more, or Norn has %d GPUs", d.PCI, len(node.Devices))
	}
	g, dev := &r.GPUs[at], &node.Devices[0]
	cuda := unit.Bytes(told.Total - told.Free)
	text = fmt.Sprintf("%s: %v used, %.0f %% busy, %.0f W, %.0f °C; nvidia-smi: %v, %.0f %%; CUDA: %v",
		d.Name, unit.Bytes(dev.Used), 100*dev.Util, dev.Watts, dev.Celsius, g.Used, 100*g.Util, cuda)
	switch {
	case !dev.Measured:
		return text, errors.New("the GPU is not measured"), nil
	case !near(float64(dev.Used), float64(g.Used), 16<<20), g.Util >= 0 && !near(dev.Util, g.Util, margin), float64(dev.Used) < float64(told.Held):
		return text, errors.New(text), nil
	}
	return b.sampledProcess(g, told, text)
}

// sampledProcess compares what the driver is read to say of the job's process.
func (b *bench) sampledProcess(g *smi.GPU, told note, text string) (string, error, error) {
	d := b.gpus[0]
	alone := hardware.Machine{Devices: []hardware.Device{*d}}
	sampler := alone.Sampler()
	mine := sampler.Sample()[0].Processes
	i := slices.IndexFunc(mine, func(p hardware.Process) bool { return p.PID == told.PID })
	k := slices.IndexFunc(g.Processes, func(p smi.Process) bool { return p.PID == told.PID })
	switch {
	case i < 0:
		return text, fmt.Errorf("%s; the driver lists processes %v on %s, and the job is %d", text, mine, d.Name, told.PID), nil
	case k < 0 || g.Processes[k].Used == 0:
		return text + fmt.Sprintf("; process %d: %v, of which nvidia-smi says nothing", told.PID, mine[i].Used), nil, nil
	case !near(float64(mine[i].Used), float64(g.Processes[k].Used), 2<<20):
		return text, fmt.Errorf("%s; process %d: %v, in nvidia-smi %v", text, told.PID, mine[i].Used, g.Processes[k].Used), nil
	}
	return text + fmt.Sprintf("; its process: %v, nvidia-smi: %v", mine[i].Used, g.Processes[k].Used), nil, nil
}

// half is what a job does that holds half of the first GPU; more is what it takes in its
// first run beyond what it should.
func (b *bench) half(name string, more int64) task {
	return task{Name: name, GPU: true, Load: true, Bytes: int64(b.booked() / 2), More: more}
}

func (b *bench) halfSpec() api.JobSpec {
	return api.JobSpec{GPUs: api.Fixed(0.5), GPUMem: api.Bytes(b.booked()), Stop: saves}
}

// pair has two jobs run at once on the first GPU, each with half of it.
func (b *bench) pair(ctx context.Context, n *norn) (jobs [2]*jobOf, told [2]note, err error) {
	for i, name := range []string{"one", "other"} {
		if jobs[i], err = n.submit(ctx, b.half(name, 0), b.halfSpec()); err != nil {
			return jobs, told, err
		}
		if told[i], err = jobs[i].works(ctx, 1, 10); err != nil {
			return jobs, told, err
		}
	}
	if told[0], err = jobs[0].works(ctx, 1, told[0].Steps-told[0].From+10); err != nil { // it goes on beside the other
		return jobs, told, err
	}
	for i, j := range jobs {
		now, err := j.look(ctx)
		if err != nil {
			return jobs, told, err
		}
		if now.State != api.Running || len(told[i].GPUs) != 1 || told[i].GPUs[0] != b.gpus[0].UUID {
			return jobs, told, fmt.Errorf("job %s is %s and sees %v, not %s alone", j.Name, now.State, told[i].GPUs, b.gpus[0].UUID)
		}
	}
	return jobs, told, nil
}

// booked is what jobs that share a GPU have booked of its memory in a check: enough for
// what CUDA needs for itself, and no more than is soon looked through.
func (b *bench) booked() unit.Bytes { return min(b.gpus[0].Memory/5, 4*unit.GiB) }

// finishBoth lets two jobs end, which must have had one run each.
func finishBoth(ctx context.Context, jobs [2]*jobOf) error {
	for _, j := range jobs {
		if _, err := j.finish(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) turns(ctx context.Context) (string, error) {
	return b.with(ctx, "turns", b.one("off"), func(n *norn) (string, error) {
		jobs, told, err := b.pair(ctx, n)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("two jobs on %s work at once, %v of memory each", b.gpus[0].Name, unit.Bytes(told[0].Held))
		return text, finishBoth(ctx, jobs)
	})
}

// mps has two jobs compute on a GPU at once. That they do so through the server is told
// by the multiprocessors that each may use, and by nvidia-smi.
func (b *bench) mps(ctx context.Context) (string, error) {
	if mpsserver.Find() == "" {
		return "", notHere(mpsserver.Program + " is not in PATH")
	}
	return b.with(ctx, "mps", b.one("auto"), func(n *norn) (string, error) {
		jobs, told, err := b.pair(ctx, n)
		if err != nil {
			return "", err
		}
		r, err := smi.Ask(ctx)
		if errors.Is(err, smi.ErrNotHere) {
			r, err = &smi.Report{}, nil
		}
		if err != nil {
			return "", err
		}
		through := 0
		for _, g := range r.GPUs {
			for _, p := range g.Processes {
				if p.MPS && (p.PID == told[0].PID || p.PID == told[1].PID) {
					through++
				}
			}
		}
		whole, err := b.multiprocessors(ctx, n.notes())
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("two jobs on %s work at once, with %d and %d of %d multiprocessors; nvidia-smi lists %d of the two as clients",
			b.gpus[0].Name, told[0].Multiprocessors, told[1].Multiprocessors, whole, through)
		for i := range told {
			if half := float64(whole) / 2; float64(told[i].Multiprocessors) > half+1 || float64(told[i].Multiprocessors) < half/2 {
				return "", errors.New(text)
			}
		}
		return text, finishBoth(ctx, jobs)
	})
}

// mpsLimit has a job through CUDA MPS take more memory than it has booked, which the
// driver must refuse, beside one that keeps to what it has.
func (b *bench) mpsLimit(ctx context.Context) (string, error) {
	if mpsserver.Find() == "" {
		return "", notHere(mpsserver.Program + " is not in PATH")
	}
	return b.with(ctx, "mps-limit", b.one("auto"), func(n *norn) (string, error) {
		good, err := n.submit(ctx, b.half("good", 0), b.halfSpec())
		if err != nil {
			return "", err
		}
		before, err := good.works(ctx, 1, 10)
		if err != nil {
			return "", err
		}
		greedy, err := n.submit(ctx, b.half("greedy", int64(b.booked())), b.halfSpec())
		if err != nil {
			return "", err
		}
		told, err := greedy.noted(ctx, 1, "the greedy job works or is refused memory", func(n note) bool { return n.Error != "" || n.Steps > 0 })
		if err != nil {
			return "", err
		}
		if !strings.Contains(told.Error, "OUT_OF_MEMORY") {
			return "", fmt.Errorf("a job that had booked %v took %v (%s)", b.booked(), unit.Bytes(told.Held), told.Error)
		}
		if _, err := good.works(ctx, 1, before.Steps+10); err != nil {
			return "", err
		}
		_, err = good.finish(ctx, 1)
		return fmt.Sprintf("%v were refused to a job that had booked %v; the one beside it went on", unit.Bytes(told.Held), b.booked()), err
	})
}

// multiprocessors are how many a process has that does not compute through the server:
// one that no daemon has started.
func (b *bench) multiprocessors(ctx context.Context, dir string) (int, error) {
	t := task{Name: "whole", Notes: dir, GPU: true}
	arg, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, t.Name+".end"), nil, 0o600); err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, b.Exe, Verb, string(arg))
	c.Env = append(os.Environ(), rundir.EnvRun+"=1", rundir.EnvVisible+"="+b.gpus[0].Visible)
	if out, err := c.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("a process outside of Norn: %w: %s", err, out)
	}
	told, _, err := noteOf(dir, t.Name, 1)
	return told.Multiprocessors, err
}

// gpuGuard has a job use twice the memory that it has booked beside one that keeps to
// what it has.
func (b *bench) gpuGuard(ctx context.Context) (string, error) {
	return b.with(ctx, "gpu-guard", b.one("off"), func(n *norn) (string, error) {
		return n.guarded(ctx, b.halfSpec(), b.half("good", 0), b.half("greedy", int64(b.booked())))
	})
}

// guarded has one job keep to the memory that it has booked, and one use more in its first
// run. The second must leave, and come back with its work; the first goes on meanwhile.
func (n *norn) guarded(ctx context.Context, spec api.JobSpec, keeps, exceeds task) (string, error) {
	good, err := n.submit(ctx, keeps, spec)
	if err != nil {
		return "", err
	}
	before, err := good.works(ctx, 1, 1)
	if err != nil {
		return "", err
	}
	greedy, err := n.submit(ctx, exceeds, spec)
	if err != nil {
		return "", err
	}
	why, err := greedy.thrownOff(ctx)
	if err != nil {
		return "", err
	}
	if _, err := greedy.works(ctx, 2, 10); err != nil {
		return "", err
	}
	end, err := greedy.finish(ctx, 2)
	if err == nil && end.From == 0 {
		err = errors.New("the job that was thrown off came back without its work")
	}
	if err != nil {
		return "", err
	}
	if end, err = good.finish(ctx, 1); err == nil && end.Steps <= before.Steps {
		err = errors.New("the job beside it did not go on")
	}
	return "the job that did was thrown off (" + why + ") and came back; the one beside it went on", err
}

// thrownOff waits until the job has left because it used too much memory, and returns what
// was said of that.
func (j *jobOf) thrownOff(ctx context.Context) (why string, err error) {
	err = until(ctx, "the job that uses too much is thrown off", func() (bool, error) {
		w, err := j.Why(ctx, j.id)
		if err != nil {
			return false, err
		}
		for _, line := range w.Life {
			if _, text, ok := strings.Cut(line, "used "); ok && strings.Contains(line, "booked") {
				why = "used " + text
			}
		}
		return why != "", j.failed(ctx)
	})
	return why, err
}

func (b *bench) gpuFreeze(ctx context.Context) (string, error) {
	return b.with(ctx, "gpu-freeze", b.one("off"), func(n *norn) (string, error) {
		return n.frozen(ctx, true, int64(b.booked()/2))
	})
}

func (b *bench) gpuPreempt(ctx context.Context) (string, error) {
	return b.with(ctx, "gpu-preempt", b.one("off"), func(n *norn) (string, error) { return n.preempted(ctx, true) })
}

func (b *bench) gpuRunner(ctx context.Context) (string, error) {
	return b.with(ctx, "gpu-runner", b.one("off"), func(n *norn) (string, error) { return n.orphaned(ctx, true) })
}
