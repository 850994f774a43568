package gavel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// The numbers are those of Python 3.11.
func TestPython(t *testing.T) {
	for seed, want := range map[uint32]string{0: "[1 1 0 4 988 2 3 0 2]", 5: "[2 1 1 8 29 1 6 0 0]"} {
		p := newPython(seed)
		var got []int
		for _, n := range []int{3, 3, 2, 10, 1000, 3, 7, 1, 5} {
			got = append(got, p.below(n))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("seed %d: %v, want %s", seed, got, want)
		}
	}
	p := newPython(5)
	var got []string
	for range 6 {
		types := []string{"v100", "p100", "k80"}
		shuffle(p, types)
		got = append(got, strings.Join(types, " "))
	}
	if want := "v100 p100 k80,v100 p100 k80,p100 v100 k80,k80 v100 p100,p100 v100 k80,p100 k80 v100"; strings.Join(got, ",") != want {
		t.Errorf("shuffled to %v", got)
	}
	p = newPython(0)
	last := uint32(0)
	for range 700 {
		last = p.next()
	}
	if last != 3579999110 {
		t.Errorf("number 700 is %d", last)
	}
}

// world is files for a run: each job is "model steps gpus arrival", each speed
// "model gpus type steps/s".
func world(t *testing.T, jobs, speeds []string) (trace, table string) {
	t.Helper()
	folder := t.TempDir()
	var lines []string
	for _, j := range jobs {
		f := strings.Fields(j)
		lines = append(lines, strings.Join([]string{f[0], "run", "dir", "-n", "1", f[1], f[2], "1", "-1", f[3]}, "\t"))
	}
	byType := map[string][]string{}
	for _, s := range speeds {
		f := strings.Fields(s)
		byType[f[2]] = append(byType[f[2]], fmt.Sprintf(`"('%s', %s)": {"null": %s}`, f[0], f[1], f[3]))
	}
	var types []string
	for name, rows := range byType {
		types = append(types, fmt.Sprintf("%q: {%s}", name, strings.Join(rows, ", ")))
	}
	trace, table = filepath.Join(folder, "jobs.trace"), filepath.Join(folder, "speeds.json")
	for path, text := range map[string]string{trace: strings.Join(lines, "\n") + "\n", table: "{" + strings.Join(types, ", ") + "}"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return trace, table
}

func result(t *testing.T, policy, cluster string, jobs, speeds []string) map[string]harness.Row {
	t.Helper()
	trace, table := world(t, jobs, speeds)
	r, err := Run(context.Background(), trace, cluster, policy, Options{Speeds: table})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]harness.Row{}
	for _, row := range r.Rows {
		rows[row.Key] = row
	}
	return rows
}

// Rounds last as long as the longest of their jobs: who comes inside one waits for
// its end, also where GPUs are idle.
func TestRounds(t *testing.T) {
	got := result(t, "fifo_perf", "V100=2", []string{"a 36 1 0", "b 1000 1 0", "c 10 1 50"}, []string{"a 1 v100 1", "b 1 v100 1", "c 1 v100 1"})
	for key, want := range map[string][2]float64{"0": {0, 36}, "1": {0, 1000}, "2": {360, 370}} {
		if r := got[key]; r.Start != want[0] || r.End != want[1] {
			t.Errorf("job %s runs from %v to %v, want %v", key, r.Start, r.End, want)
		}
	}
}

// Steps are whole: a job of 0.3 steps per second does 108 in a round, and what does
// not fill the round is lost from it.
func TestWholeSteps(t *testing.T) {
	got := result(t, "fifo_perf", "V100=1", []string{"a 200 1 0"}, []string{"a 1 v100 0.301"})
	// 108 steps end at 358.804 s, the other 92 305.648 s later.
	if r := got["0"]; r.End != 664.452 {
		t.Errorf("ends at %v", r.End)
	}
}

// A job that gets no whole step in a round has failed, and is given up after the
// fifth time.
func TestGivenUp(t *testing.T) {
	got := result(t, "fifo_perf", "V100=2", []string{"a 10 1 0", "b 5000 1 0"}, []string{"a 1 v100 0.001", "b 1 v100 1"})
	if _, ended := got["0"]; ended || len(got) != 1 {
		t.Errorf("%v end", got)
	}
}

// FIFO draws a type, and gives another one: the last of those with a free GPU.
func TestDrawnInVain(t *testing.T) {
	speeds := []string{"a 1 v100 1", "a 1 k80 1"}
	trace, table := world(t, []string{"a 10 1 0", "a 10 1 0"}, speeds)
	m, err := readMachine("V100:K80=2:2")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := Find("fifo")
	tab, err := readSpeeds(table)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readTrace(trace, tab, m)
	if err != nil {
		t.Fatal(err)
	}
	s := newScheduler(p, m, w, &harness.Clock{})
	s.now = 0
	s.arrive()
	if got := fmt.Sprint(s.fifo.allocate()); got != "[[0 1] [0 1]]" { // k80, v100
		t.Errorf("allocation %s", got)
	}
}

// The errors name the line and what is wrong.
func TestErrors(t *testing.T) {
	trace, table := world(t, []string{"a 10 1 0", "b 10 1 5"}, []string{"a 1 v100 1"})
	if _, err := Run(context.Background(), trace, "V100=1", "isolated", Options{Speeds: table}); err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a job that was not measured: %v", err)
	}
	for _, cluster := range []string{"", "V100", "V100=", "V100:K80=1", "V100=x", "V100=0"} {
		if err := Check(cluster, "isolated"); err == nil || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("cluster %q: %v", cluster, err)
		}
	}
	if err := os.WriteFile(trace, []byte("a\tb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), trace, "V100=1", "isolated", Options{Speeds: table}); err == nil || !strings.Contains(err.Error(), "2 fields") {
		t.Errorf("a short line: %v", err)
	}
}
