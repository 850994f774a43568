package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// Configurations of declared slots.
const (
	oneSlot  = "devices: 1"
	twoSlots = "devices: 2"
)

// slots has two jobs run at once on declared slots.
func (b *bench) slots(ctx context.Context) (string, error) {
	return b.with(ctx, "slots", twoSlots, func(n *norn) (string, error) {
		var jobs [2]*jobOf
		var told [2]note
		for i := range jobs {
			var err error
			if jobs[i], err = n.submit(ctx, task{Name: fmt.Sprint("slot", i)}, api.JobSpec{GPUs: api.Fixed(1)}); err != nil {
				return "", err
			}
			if told[i], err = jobs[i].works(ctx, 1, 1); err != nil {
				return "", err
			}
		}
		if told[0].Visible == told[1].Visible || told[0].Visible == "" || told[1].Visible == "" {
			return "", fmt.Errorf("the jobs find CUDA_VISIBLE_DEVICES %q and %q", told[0].Visible, told[1].Visible)
		}
		return fmt.Sprintf("two jobs at once are told slots %s and %s", told[0].Visible, told[1].Visible), finishBoth(ctx, jobs)
	})
}

func (b *bench) freeze(ctx context.Context) (string, error) {
	return b.with(ctx, "freeze", oneSlot, func(n *norn) (string, error) { return n.frozen(ctx, false, 32<<20) })
}

func (b *bench) preempt(ctx context.Context) (string, error) {
	return b.with(ctx, "preempt", oneSlot, func(n *norn) (string, error) { return n.preempted(ctx, false) })
}

// saves is how most jobs of checks make way.
var saves = api.Stop{Mode: "checkpoint", Grace: 20}

// Estimates of a job that makes way, and of the one for which it does.
const (
	long  = api.Seconds(3600)
	short = api.Seconds(30)
)

// frozen has a job be stopped in memory for a shorter one, and go on.
func (n *norn) frozen(ctx context.Context, gpu bool, bytes int64) (string, error) {
	spec := api.JobSpec{GPUs: api.Fixed(1), Estimate: long, Stop: api.Stop{Mode: "freeze"}}
	if gpu {
		spec.GPUMem = api.Bytes(bytes + bytes/2)
	}
	j, err := n.submit(ctx, task{Name: "long", GPU: gpu, Bytes: bytes}, spec)
	if err != nil {
		return "", err
	}
	before, err := j.works(ctx, 1, 20)
	if err != nil {
		return "", err
	}
	s, err := n.overtakes(ctx, gpu, bytes)
	if err != nil {
		return "", err
	}
	still, _, err := noteOf(n.notes(), j.Name, 1)
	if err != nil {
		return "", err
	}
	time.Sleep(5 * often)
	if later, _, err := noteOf(n.notes(), j.Name, 1); err != nil || later.Steps != still.Steps {
		return "", errors.Join(err, fmt.Errorf("the frozen job goes on: %d steps, then %d", still.Steps, later.Steps))
	}
	if _, err := s.finish(ctx, 1); err != nil {
		return "", err
	}
	after, err := j.works(ctx, 1, still.Steps+20)
	if err != nil {
		return "", err
	}
	if after.PID != before.PID {
		return "", fmt.Errorf("the frozen job went on as process %d; it was %d", after.PID, before.PID)
	}
	end, err := j.finish(ctx, 1)
	return fmt.Sprintf("stood still at step %d while another job ran, went on as the same process; its result after %d steps is right, its %v of memory kept",
		still.Steps, end.Steps, unit.Bytes(end.Held)), err
}

// overtakes hands in a shorter job, and waits until it works.
func (n *norn) overtakes(ctx context.Context, gpu bool, bytes int64) (*jobOf, error) {
	spec := api.JobSpec{GPUs: api.Fixed(1), Estimate: short, Stop: saves}
	if gpu {
		spec.GPUMem = api.Bytes(bytes + bytes/2)
	}
	s, err := n.submit(ctx, task{Name: "short", GPU: gpu, Bytes: bytes}, spec)
	if err != nil {
		return nil, err
	}
	_, err = s.works(ctx, 1, 10)
	return s, err
}

// preempted has a job save its state for a shorter one, and go on from it.
func (n *norn) preempted(ctx context.Context, gpu bool) (string, error) {
	j, err := n.submit(ctx, task{Name: "long", GPU: gpu, Bytes: 1 << 20}, api.JobSpec{GPUs: api.Fixed(1), Estimate: long, Stop: saves})
	if err != nil {
		return "", err
	}
	if _, err := j.works(ctx, 1, 20); err != nil {
		return "", err
	}
	s, err := n.overtakes(ctx, gpu, 1<<20)
	if err != nil {
		return "", err
	}
	left, _, err := noteOf(n.notes(), j.Name, 1)
	if err != nil {
		return "", err
	}
	if _, err := s.finish(ctx, 1); err != nil {
		return "", err
	}
	if _, err := j.works(ctx, 2, 20); err != nil {
		return "", err
	}
	end, err := j.finish(ctx, 2)
	if err == nil && (end.From != left.Steps || !left.Over) {
		err = fmt.Errorf("it left after step %d, and went on from step %d", left.Steps, end.From)
	}
	return fmt.Sprintf("saved at step %d, made way, went on from there; its result after %d steps is right", end.From, end.Steps), err
}

// guard has a job use more main memory than its slot has booked for it, beside one that
// keeps to what it has.
func (b *bench) guard(ctx context.Context) (string, error) {
	const config = "devices: 1\nslot-memory: 512MiB\nsharing: {memory-for: 2s}"
	return b.with(ctx, "guard", config, func(n *norn) (string, error) {
		spec := api.JobSpec{GPUs: api.Fixed(0.5), GPUMem: 160 << 20, Stop: saves}
		return n.guarded(ctx, spec, task{Name: "good", Bytes: 64 << 20}, task{Name: "greedy", Bytes: 64 << 20, More: 192 << 20})
	})
}

// Limits of the job that takes more than it may.
const (
	someCores  = 0.5
	someMemory = 128 << 20
)

// cgroup has a job try to use more cores and memory than it asked for.
func (b *bench) cgroup(ctx context.Context) (string, error) {
	return b.with(ctx, "cgroup", oneSlot, func(n *norn) (string, error) {
		node, err := n.Node(ctx)
		if err != nil {
			return "", err
		}
		says := strings.Join(node.Isolation, "; ")
		cores, memory := strings.Contains(says, "CPU limits of jobs are enforced"), strings.Contains(says, "memory limits of jobs are enforced")
		if !cores && !memory {
			return "", notHere(says)
		}
		j, err := n.submit(ctx, task{Name: "greedy", Limit: true}, api.JobSpec{GPUs: api.Fixed(1), CPUs: someCores, Memory: someMemory})
		if err != nil {
			return "", err
		}
		if err := until(ctx, "the job has ended", func() (bool, error) {
			now, err := j.look(ctx)
			return now.State.Over() || now.State == api.Held, err
		}); err != nil {
			return "", err
		}
		told, _, err := noteOf(n.notes(), j.Name, 1)
		text := fmt.Sprintf("asked for %.1f cores and had %.2f, asked for %d MiB and had at most %d", someCores, told.Cores, someMemory>>20, told.Held>>20)
		if err != nil || cores && told.Cores > 1.2*someCores || memory && (told.Over || told.Held > someMemory) {
			return "", errors.Join(err, errors.New(text))
		}
		if !cores || !memory {
			text += "; " + says
		}
		return text, nil
	})
}

// daemon kills the daemon while a job runs, and starts it again.
func (b *bench) daemon(ctx context.Context) (string, error) {
	return b.with(ctx, "daemon", oneSlot, func(n *norn) (string, error) {
		j, err := n.submit(ctx, task{Name: "survivor"}, api.JobSpec{GPUs: api.Fixed(1)})
		if err != nil {
			return "", err
		}
		before, err := j.works(ctx, 1, 10)
		if err != nil {
			return "", err
		}
		if err := n.kill(); err != nil {
			return "", err
		}
		time.Sleep(5 * often)
		away, _, err := noteOf(n.notes(), j.Name, 1)
		if err != nil || away.Steps <= before.Steps {
			return "", errors.Join(err, errors.New("the job stood still while the daemon was gone"))
		}
		if err := n.start(ctx); err != nil {
			return "", err
		}
		now, err := j.becomes(ctx, api.Running)
		if err != nil {
			return "", err
		}
		end, err := j.finish(ctx, 1)
		if err == nil && (now.Run != 1 || end.PID != before.PID) {
			err = fmt.Errorf("after the restart it was run %d, process %d; it had been process %d", now.Run, end.PID, before.PID)
		}
		return "the job went on while the daemon was dead, and the next one found it", err
	})
}

func (b *bench) runner(ctx context.Context) (string, error) {
	return b.with(ctx, "runner", oneSlot, func(n *norn) (string, error) { return n.orphaned(ctx, false) })
}

// orphaned kills the process that watches over a job. Nothing of its run may be left, and
// the job must go on from what it has saved by itself.
func (n *norn) orphaned(ctx context.Context, gpu bool) (string, error) {
	j, err := n.submit(ctx, task{Name: "orphan", GPU: gpu}, api.JobSpec{GPUs: api.Fixed(1), Stop: saves})
	if err != nil {
		return "", err
	}
	before, err := j.works(ctx, 1, 10)
	if err != nil {
		return "", err
	}
	started, err := runner.StartTime(before.PID)
	if err != nil {
		return "", err
	}
	saved := filepath.Join(n.notes(), j.Name+".state")
	if err := until(ctx, "the job has saved its state", func() (bool, error) { _, err := os.Stat(saved); return err == nil, nil }); err != nil {
		return "", err
	}
	if err := kill(before.Parent); err != nil {
		return "", fmt.Errorf("the runner, process %d: %w", before.Parent, err)
	}
	if _, err := j.works(ctx, 2, 10); err != nil {
		return "", err
	}
	if runner.Alive(rundir.Proc{PID: before.PID, Start: started}) {
		return "", fmt.Errorf("process %d of the run that had lost its runner is still there", before.PID)
	}
	end, err := j.finish(ctx, 2)
	if err == nil && end.From == 0 {
		err = errors.New("it began anew")
	}
	return fmt.Sprintf("nothing of its run was left; it went on from step %d", end.From), err
}
