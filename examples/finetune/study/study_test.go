package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestForetell: where gains lie on a line over similarities, they are foretold
// exactly, with the right signs.
func TestForetell(t *testing.T) {
	f := family{Family: "f", Profile: 100}
	for i, e := range [][]float64{{1, 1, 1, 1}, {1, 1, 1, 2}, {9, 1, 1, 9}, {4, 1, 2, 9}} {
		name := string(rune('a' + i))
		f.Tasks = append(f.Tasks, task{Task: name, K: []float64{100}, Accuracy: []float64{0.5}, Embedding: [][]float64{e}, Loss: [][][2]float64{{{1, 1}, {2, 0.5}, {3, 0.4}}}})
	}
	for _, a := range f.Tasks {
		for _, b := range f.Tasks {
			p := pair{From: a.Task, To: b.Task, K: []float64{50}}
			p.Accuracy = []float64{0.5 * (1 + 2*(f.similarity(p, after)-0.9))}
			f.After = append(f.After, p)
		}
	}
	got := f.foretell(after, f.After)
	if len(got.Pairs) != 12 || math.Abs(got.Pearson-1) > 1e-9 || got.Error > 1e-9 || math.Abs(got.Signs-1) > 1e-9 {
		t.Errorf("%+v", got)
	}
	for _, p := range got.Pairs {
		if p.SpeedUp != 2 {
			t.Errorf("%s to %s needs 50 steps instead of 100: %v times fewer", p.From, p.To, p.SpeedUp)
		}
	}
}

// TestRecorded: the tables of docs/policies/ymir.md follow from the recorded matrix.
func TestRecorded(t *testing.T) {
	var m measured
	read(t, "testdata/matrix.json", &m)
	s := fleet{policies: policies, slots: 4, jobs: 3, step: 10 * time.Millisecond, every: time.Second, cold: 3 * time.Second, warm: 200 * time.Millisecond, seed: 1}
	f, err := m.figures(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Gains {
		if g.How == after && (g.Pearson < 0.44 || g.Error > 0.155 || g.Clear < 0.8) {
			t.Errorf("%s: r %.2f, error %.3f, signs of clear gains %.2f", g.Family, g.Pearson, g.Error, g.Clear)
		}
	}
	jct := map[string]float64{}
	for _, o := range f.Simulated {
		jct[o.Policy+" "+o.Gains+" "+o.Starts] = o.JCT
	}
	names := strings.SplitAfter(policies, "),")
	ymir, alone, optimus := strings.TrimSuffix(names[0], ","), strings.TrimSuffix(names[1], ","), names[2]
	for _, c := range []struct{ better, worse string }{
		{ymir + " measured warm", alone + " measured warm"},
		{ymir + " foretold warm", alone + " measured warm"},
		{ymir + " measured warm", ymir + " measured cold"},
		{alone + " measured warm", optimus + " measured warm"},
	} {
		if !(jct[c.better] > 0 && jct[c.better] < jct[c.worse]) {
			t.Errorf("%s: %.1f s; %s: %.1f s", c.better, jct[c.better], c.worse, jct[c.worse])
		}
	}
}

// TestIncomplete: what cannot be computed with is refused.
func TestIncomplete(t *testing.T) {
	for name, f := range map[string]family{
		"no seed":         {Tasks: []task{{Task: "a"}}},
		"no such task":    {After: []pair{{From: "a", To: "b", K: []float64{1}, Accuracy: []float64{1}}}},
		"seeds that lack": {Tasks: []task{{Task: "a", K: []float64{1, 2}, Accuracy: []float64{1}}}},
	} {
		m := measured{Families: []family{f}}
		if _, err := m.figures(fleet{}); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}

// TestMeasure does the quick form of measure.py: real training, and real jobs under a
// daemon of its own, on two slots.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	const python = "/usr/bin/python3" // that of the distribution has its PyTorch
	if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("PyTorch is missing: continuous integration needs it")
		}
		t.Skip("PyTorch is missing")
	}
	dir := t.TempDir()
	norn := filepath.Join(dir, "norn")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", norn, "../../../cmd/norn").CombinedOutput(); err != nil {
		t.Fatalf("building norn: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), python, "../measure.py", "--quick", "--norn", norn, "--out", dir)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("measure.py: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	t.Run("gains", func(t *testing.T) { testGains(t, dir) })
	t.Run("live", func(t *testing.T) { testLive(t, dir) })
	for _, name := range []string{"matrix.csv", "live.csv", "study.json"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testGains holds gains against how the tasks were made: two questions about the same
// thing help each other, and more than a question about another thing does.
func testGains(t *testing.T, dir string) {
	var m measured
	read(t, filepath.Join(dir, "matrix.json"), &m)
	near := map[string]string{"stripes": "turned", "turned": "stripes", "topic": "shelf", "shelf": "topic"}
	seen := 0
	for i := range m.Families {
		f := &m.Families[i]
		for _, p := range f.After {
			g := f.gain(p)
			switch {
			case near[p.To] == p.From:
				seen++
				if g <= 0 || f.speedUp(p) <= 1 {
					t.Errorf("%s gives %s a gain of %.3f and %.2f times fewer steps, though both are about the same", p.From, p.To, g, f.speedUp(p))
				}
			case near[p.To] != "" && p.From != p.To:
				seen++
				if best := f.gain(*f.find(near[p.To], p.To)); g >= best {
					t.Errorf("%s gives %s a gain of %.3f, though they have less in common than %s, which gives %.3f", p.From, p.To, g, near[p.To], best)
				}
			}
		}
	}
	if seen != 8 {
		t.Errorf("%d pairs were looked at, want 8", seen)
	}
}

func (f *family) find(from, to string) *pair {
	for i, p := range f.After {
		if p.From == from && p.To == to {
			return &f.After[i]
		}
	}
	return nil
}

// run is what live.py tells of a job.
type run struct {
	Job, Name, How, With, From, Checkpoint string
	Accuracy, Target                       float64
	Trainer                                int
	Embedding                              bool
}

// testLive looks at what has come of the jobs under each policy.
func testLive(t *testing.T, dir string) {
	var live struct{ Policies map[string][]run }
	read(t, filepath.Join(dir, "live.json"), &live)
	if len(live.Policies) < 2 {
		t.Fatalf("%d policies", len(live.Policies))
	}
	const noise = 0.02 // two standard deviations of an accuracy on 2,000 samples
	for policy, jobs := range live.Policies {
		var trainers []int
		merged, embedded := 0, 0
		for _, j := range jobs {
			if j.Accuracy < j.Target-noise {
				t.Errorf("%s: %s (%s) has an accuracy of %.3f, less than %.3f, which it has alone", policy, j.Name, j.How, j.Accuracy, j.Target)
			}
			if !slices.Contains(trainers, j.Trainer) {
				trainers = append(trainers, j.Trainer)
			}
			if j.How != "alone" {
				merged++
			}
			if j.Embedding {
				embedded++
			}
			first := slices.IndexFunc(jobs, func(k run) bool { return k.Job == j.With })
			if j.How == after && (first < 0 || j.From != jobs[first].Checkpoint) {
				t.Errorf("%s: %s went on from %q, which is not the checkpoint of job %s", policy, j.Name, j.From, j.With)
			}
		}
		if len(trainers) >= len(jobs) {
			t.Errorf("%s: %d trainers for %d jobs: none was found warm", policy, len(trainers), len(jobs))
		}
		// How many ymir merges depends on when jobs come and end.
		if strings.Contains(policy, "merge=none") && merged > 0 {
			t.Errorf("%s: %d jobs were merged", policy, merged)
		}
		if embedded == 0 {
			t.Errorf("%s: no job has told of its task", policy)
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
