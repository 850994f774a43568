package local_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
)

// deciderMain is a policy as a program: the job that came last goes first. It writes its
// number to a file, a line for each process, and reads what else it shall do before each
// decision from another one: nothing, hang, or die.
func deciderMain(mode, file string) int {
	pids, err := os.OpenFile(file+".pids", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(pids, os.Getpid())
	pids.Close()
	waiting := map[int]bool{}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		switch {
		case err != nil && mode == "stays":
			time.Sleep(time.Hour)
		case err != nil:
			return 0
		case n == 0:
			fmt.Println(`{"hello":1}`)
			continue
		}
		var m struct {
			Decision int
			First    bool
			Jobs     []struct {
				Job   int
				Phase string
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if m.First {
			clear(waiting)
		}
		for _, j := range m.Jobs {
			if waiting[j.Job] = true; j.Phase != "waiting" {
				delete(waiting, j.Job)
			}
		}
		switch order, _ := os.ReadFile(file); string(order) { // there may be none
		case "hang":
			time.Sleep(time.Hour)
		case "die":
			return 7
		}
		var acts []string
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(waiting))) {
			acts = append(acts, fmt.Sprintf(`{"start":%d}`, id))
		}
		fmt.Printf(`{"decision":%d,"plan":[%s]}`+"\n", m.Decision, strings.Join(acts, ","))
	}
}

// decider is the policy of such a program, the file of its orders, and the numbers of its
// processes so far.
func decider(t *testing.T, mode, more string) (policy, file string, pids func() []int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "orders")
	return "exec(" + exe + " decide " + mode + " " + file + more + ")", file, func() (out []int) {
		data, _ := os.ReadFile(file + ".pids") // there may be none yet
		for word := range strings.FieldsSeq(string(data)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
		return out
	}
}

// processLives tells whether a process is there, and is no zombie.
func processLives(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(rest, "Z")
}

// last is the number of the last process, which there must be.
func last(t *testing.T, pids func() []int) int {
	t.Helper()
	all := pids()
	if len(all) == 0 {
		t.Fatal("the program was never started")
	}
	return all[len(all)-1]
}

// TestProgram: a program decides for a live machine, also after the daemon has ended and was
// started again, and after the program was killed; forecasts ask a process of their own.
func TestProgram(t *testing.T) {
	t.Parallel()
	policy, _, pids := decider(t, "well", ",budget=15s,begin=9s,tries=2")
	h := newHere(t, policy, 1, nil)
	spec := func(name string) api.JobSpec {
		s := h.sh(1, "touch "+name+"-up; "+awaits(name))
		s.Estimate = 1
		return s
	}
	a := h.submit(spec("a"))
	h.made("a-up")
	b := h.submit(spec("b"))
	c := h.submit(spec("c"))
	if early, late := h.why(c).Expected, h.why(b).Expected; early.IsZero() || !early.Before(late) {
		t.Errorf("c is expected to start %v, b %v: c came last, so it goes first", early, late)
	}
	if n := len(pids()); n < 2 {
		t.Errorf("%d processes were started, one of them for forecasts", n)
	}
	oneForecast(t, h, c, pids)
	first := pids()[0]
	h.down()
	if processLives(first) {
		t.Errorf("process %d outlives the daemon", first)
	}
	h.up()
	if s, err := h.Status(background); err != nil || s.Policy != policy || len(s.Trouble) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	h.make("a")
	h.until(a, api.Done)
	h.made("c-up")
	if got := h.job(b).State; got != api.Waiting {
		t.Errorf("b is %s: c goes first", got)
	}
	second := last(t, pids)
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d := h.submit(spec("d"))
	for _, step := range []struct{ id, name, next string }{{c, "c", "d"}, {d, "d", "b"}, {b, "b", ""}} {
		h.make(step.name)
		h.until(step.id, api.Done)
		if step.next != "" {
			h.made(step.next + "-up")
		}
	}
	if third := last(t, pids); third == second {
		t.Error("no other process was started")
	}
	s, err := h.Status(background)
	if err != nil || s.Policy != policy || len(s.Trouble) != 1 || !strings.Contains(s.Trouble[0], "was started again once, and told the whole state; the last failure: it ended: signal: killed") {
		t.Errorf("%s, %q, %v", s.Policy, s.Trouble, err)
	}
}

// oneForecast has many ask for forecasts at once: never more than one process works on them,
// beside that which decides.
func oneForecast(t *testing.T, h *here, id string, pids func() []int) {
	t.Helper()
	const askers = 8
	asked := make(chan error, askers)
	for range askers {
		go func() {
			_, err := h.Why(background, h.me, id)
			asked <- err
		}()
	}
	for left := askers; left > 0; {
		select {
		case err := <-asked:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
			alive := 0
			for _, pid := range pids() {
				if processLives(pid) {
					alive++
				}
			}
			if alive > 2 {
				t.Errorf("%d processes of the program are there at once", alive)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until(t, "the processes of forecasts have ended", func() bool {
		all := pids()
		return !slices.ContainsFunc(all[1:], processLives)
	})
}

// TestProgramFails: where a program answers too late, or ends, time after time, fifo takes
// over, and says so; whoever runs this Norn may have it decide again.
func TestProgramFails(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]string{"hang": "it did not answer within 100ms", "die": "it ended: exit status 7"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			budget := "15s"
			if order == "hang" {
				budget = "100ms"
			}
			policy, file, pids := decider(t, "well", ",budget="+budget+",begin=9s,tries=2")
			if err := os.WriteFile(file, []byte(order), 0o600); err != nil {
				t.Fatal(err)
			}
			h := newHere(t, policy, 1, nil)
			h.until(h.submit(h.sh(1, "true")), api.Done)
			s, err := h.Status(background)
			if err != nil || s.Policy != "fifo" || len(s.Trouble) != 1 || !strings.Contains(s.Trouble[0], "was replaced by fifo") ||
				!strings.Contains(s.Trouble[0], "the program failed 2 times in a row: "+want) {
				t.Errorf("%s, %q, %v", s.Policy, s.Trouble, err)
			}
			if n := len(pids()); n != 2 {
				t.Errorf("%d processes were started, want 2", n)
			}
			if pid := last(t, pids); processLives(pid) {
				t.Errorf("process %d is there still", pid)
			}
			if order == "hang" {
				return // with so short a time it may fail on a busy machine
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := h.SetPolicy(background, h.me, "exec"); err != nil {
				t.Fatal(err)
			}
			until(t, "the program decides again", func() bool {
				s, err := h.Status(background)
				return err == nil && s.Policy == policy && len(s.Trouble) == 0
			})
			h.until(h.submit(h.sh(1, "true")), api.Done)
			pid := last(t, pids)
			if err := h.SetPolicy(background, h.me, "fifo"); err != nil {
				t.Fatal(err)
			}
			until(t, "the program has ended", func() bool { return !processLives(pid) })
		})
	}
}

// TestProgramIsNamedByOwner: nobody has the daemon start a program over the API: not an
// operator, not by other words for the one that was named, and not for a forecast of the past.
func TestProgramIsNamedByOwner(t *testing.T) {
	t.Parallel()
	policy, file, _ := decider(t, "well", ",budget=20s,begin=9s,tries=1")
	ran := filepath.Join(filepath.Dir(file), "ran")
	other := "exec(touch " + ran + ")"
	h := newHere(t, policy, 1, nil)
	user := h.me
	user.Operator = false
	refused(t, h.SetPolicy(background, user, "exec"), api.Denied, "only an operator")
	for _, text := range []string{other, " " + other, "exec(command=touch " + ran + ")", "exec()", strings.TrimSuffix(policy, ")") + ",tries=2)"} {
		refused(t, h.SetPolicy(background, h.me, text), api.Denied, "started only where a command line names it")
		_, err := h.Plan(soon(t), h.me, api.WhatIf{Policies: []string{text}})
		refused(t, err, api.Invalid, "started only where a command line names it")
	}
	plain := newHere(t, "fifo", 1, nil)
	for _, text := range []string{"exec", other} {
		refused(t, plain.SetPolicy(background, plain.me, text), api.Denied, "started only where a command line names it")
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program ran: %v", err)
	}
}

// TestProgramOfOthers: a program that somebody else may write is not started, also where that
// has come about since the last process was.
func TestProgramOfOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bin")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "mine")
	orders := filepath.Join(dir, "orders")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' decide well '%s'\n", exe, orders)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(script, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
	policy := "exec(" + script + ",budget=20s,begin=9s,tries=1)"
	try := func() error {
		c, err := experiment.ParseChoice(policy, foreign.Live())
		if err == nil {
			_, err = c.Make()
		}
		return err
	}
	mode := func(path string, m os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{script, dir} {
		mode(path, 0o757)
		if err := try(); err == nil || !strings.Contains(err.Error(), path+" may be written by others (mode 757)") {
			t.Errorf("%s: %v", path, err)
		}
		mode(path, 0o755)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(script, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if err := try(); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Error(err)
		}
		if err := os.Chown(script, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	h := newHere(t, policy, 1, nil)
	h.until(h.submit(h.sh(1, "true")), api.Done)
	mode(script, 0o757)
	if err := os.WriteFile(orders, []byte("die"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.until(h.submit(h.sh(1, "true")), api.Done)
	s, err := h.Status(background)
	if err != nil || s.Policy != "fifo" || len(s.Trouble) != 1 || !strings.Contains(s.Trouble[0], "it ended: exit status 7") {
		t.Errorf("%s, %q, %v", s.Policy, s.Trouble, err)
	}
	refused(t, h.SetPolicy(background, h.me, "exec"), api.Invalid, script+" may be written by others")
}

// TestProgramDiesWithDaemon: a daemon that is killed leaves no program behind, also none that
// does not see its standard input end.
func TestProgramDiesWithDaemon(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with the one that has started it")
	}
	t.Parallel()
	policy, _, pids := decider(t, "stays", ",budget=20s,begin=9s,tries=1")
	h := newHere(t, "fifo", 1, nil)
	h.submit(h.sh(1, "touch up; "+awaits("enough")))
	waits := h.submit(h.sh(1, "true"))
	h.made("up")
	h.down() // a daemon of its own goes on with these
	h.setup.Policy = policy
	arg, err := json.Marshal(h.setup)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(exe, "daemon", string(arg))
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill() // it is dead by then, unless the test has failed
	h.make("enough")
	until(t, "the program is started", func() bool { return len(pids()) > 0 })
	pid := last(t, pids)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	until(t, "the program has ended", func() bool { return !processLives(pid) })
	h.setup.Policy = "fifo"
	h.up()
	h.until(waits, api.Done)
}
