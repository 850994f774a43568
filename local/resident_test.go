package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// tunes is a job of a backbone with a resident that writes down its number and where
// it listens, and then waits to be ended.
func (h *here) tunes(backbone, script string) api.JobSpec {
	spec := h.sh(1, script)
	spec.Kind, spec.Backbone, spec.Stop.Mode = "fine-tuning", backbone, "checkpoint"
	spec.Resident.Command = []string{"/bin/sh", "-c", `echo $$ $NORN_RESIDENT ` + backbone + ` "$CUDA_VISIBLE_DEVICES" >> residents; exec sleep 600`}
	return spec
}

// residents are the lines that residents have written: number, socket, backbone.
func (h *here) residents() [][]string {
	b, _ := os.ReadFile(filepath.Join(h.work, "residents"))
	var out [][]string
	for line := range strings.Lines(string(b)) {
		out = append(out, strings.Fields(line))
	}
	return out
}

// lives tells whether a process is there.
func lives(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

func idle(after time.Duration) func(*local.Options) {
	return func(o *local.Options) { o.Defaults.ResidentIdle = after }
}

// Jobs of one backbone find the same resident one after the other, also over a
// restart of the daemon; one without it ends it before it starts.
func TestResident(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, idle(time.Hour))
	tells := awaits("residents") + "; echo $NORN_RESIDENT >> told"
	h.until(h.submit(h.tunes("llama", tells)), api.Done)
	h.until(h.submit(h.tunes("llama", tells)), api.Done)
	first := h.residents()
	if len(first) != 1 || first[0][2] != "llama" || first[0][3] != "0" || h.text("told") != first[0][1]+"\n"+first[0][1]+"\n" {
		t.Fatalf("residents %q, jobs were told %q", first, h.text("told"))
	}
	if n, err := h.Node(background); err != nil || fmt.Sprint(n.Devices[0].Resident) != "[llama]" {
		t.Errorf("%+v, %v", n.Devices, err)
	}
	h.down()
	h.up()
	h.until(h.submit(h.tunes("llama", tells)), api.Done)
	if now := h.residents(); len(now) != 1 || !lives(first[0][0]) {
		t.Fatalf("after a restart: %q", now)
	}
	h.until(h.submit(h.tunes("bert", tells)), api.Done)
	until(t, "another one is there", func() bool { return len(h.residents()) == 2 })
	if second := h.residents()[1]; lives(first[0][0]) || second[2] != "bert" || !lives(second[0]) {
		t.Errorf("%q, and the first lives: %v", second, lives(first[0][0]))
	}
	plain := h.sh(1, `if kill -0 $(tail -1 residents | cut -d" " -f1); then echo there; else echo gone; fi > found; echo "$NORN_RESIDENT" >> found`)
	h.until(h.submit(plain), api.Done)
	if have := h.text("found"); have != "gone\n\n" {
		t.Errorf("a job without a backbone found %q", have)
	}
	if _, err := os.Stat(first[0][1]); err == nil {
		t.Error("a socket is left")
	}
}

// A resident that nobody uses ends by and by, one that has died is replaced, and one
// on a device that is drained ends when it is free.
func TestResidentEnds(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, idle(time.Hour))
	await := func(n int) []string {
		t.Helper()
		until(t, fmt.Sprint("there are ", n), func() bool { return len(h.residents()) == n })
		return h.residents()[n-1]
	}
	a := h.submit(h.tunes("llama", awaits("enough")))
	one := await(1)
	if err := h.Drain(background, h.me, api.Drain{Devices: []string{"slot0"}}); err != nil {
		t.Fatal(err)
	}
	if !lives(one[0]) {
		t.Error("it was ended under its job")
	}
	h.make("enough")
	h.until(a, api.Done)
	until(t, "it ends on a drained device", func() bool { return !lives(one[0]) })
	if err := h.Drain(background, h.me, api.Drain{Devices: []string{"slot0"}, Undo: true}); err != nil {
		t.Fatal(err)
	}
	h.until(h.submit(h.tunes("llama", "true")), api.Done)
	two := await(2)
	if pid := 0; true {
		fmt.Sscan(two[0], &pid)
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "it is gone", func() bool { return !lives(two[0]) })
	h.until(h.submit(h.tunes("llama", "while [ $(wc -l < residents) -lt 3 ]; do sleep 0.05; done")), api.Done)
	three := await(3)
	h.down()
	h.setup.Edit = idle(time.Millisecond)
	h.up()
	until(t, "it has been idle for long enough", func() bool { return !lives(three[0]) })
}

// The needs of a resident are checked on the job.
func TestResidentRefused(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 2, nil)
	for words, edit := range map[string]func(*api.JobSpec){
		"that tell their backbone": func(s *api.JobSpec) { s.Backbone = "" },
		"jobs of one task":         func(s *api.JobSpec) { s.GPUs, s.Tasks = api.Fixed(2), api.Tasks{PerGPU: true} },
		"cannot be frozen":         func(s *api.JobSpec) { s.Stop.Mode = "freeze" },
	} {
		spec := h.tunes("llama", "true")
		edit(&spec)
		_, err := h.Submit(background, h.me, spec)
		refused(t, err, api.Invalid, words)
	}
}
