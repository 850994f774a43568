package selftest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/norn-scheduler/norn/api"
)

//go:embed train.py
var training []byte

// trainingSteps are those of the PyTorch job; it is stopped after some of them.
const trainingSteps = 300

// torch has a PyTorch job run twice: once alone, once stopped for another job in
// between. Both must end with the same loss, to the last digit.
func (b *bench) torch(ctx context.Context) (string, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", notHere("python3 is not in PATH")
	}
	if err := exec.CommandContext(ctx, python, "-c", "import torch").Run(); err != nil {
		return "", errors.Join(ctx.Err(), notHere("python3 has no PyTorch"))
	}
	config, gpu := oneSlot, len(b.gpus) > 0
	if gpu {
		config = b.one("off")
	}
	return b.with(ctx, "torch", config, func(n *norn) (string, error) {
		script := filepath.Join(n.notes(), "train.py")
		if err := os.WriteFile(script, training, 0o600); err != nil {
			return "", err
		}
		alone, err := n.trained(ctx, python, script, "alone", false)
		if err != nil {
			return "", err
		}
		again, err := n.trained(ctx, python, script, "stopped", true)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("PyTorch %s on %s: stopped at step %d of %d, loss %s; never stopped, loss %s", again.Torch, again.Device, again.From, trainingSteps, again.Loss, alone.Loss)
		if again.From == 0 || alone.From != 0 || again.Loss != alone.Loss || again.Loss == "" {
			return "", errors.New(text)
		}
		return text, nil
	})
}

// trained has the PyTorch job run to its end, and returns what it told last.
func (n *norn) trained(ctx context.Context, python, script, name string, stopped bool) (note, error) {
	spec := api.JobSpec{GPUs: api.Fixed(1), Estimate: long, Stop: saves}
	spec.Command = []string{python, script, n.notes(), name, strconv.Itoa(trainingSteps)}
	j, err := n.submitAs(ctx, task{Name: name}, spec)
	if err != nil {
		return note{}, err
	}
	run := 1
	if stopped {
		if _, err := j.works(ctx, 1, trainingSteps/3); err != nil {
			return note{}, err
		}
		s, err := n.overtakes(ctx, false, 1<<20)
		if err != nil {
			return note{}, err
		}
		if _, err := s.finish(ctx, 1); err != nil {
			return note{}, err
		}
		run = 2
	}
	if _, err := j.becomes(ctx, api.Done); err != nil {
		return note{}, err
	}
	end, _, err := noteOf(n.notes(), name, run)
	return end, err
}
