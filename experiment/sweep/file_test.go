package sweep

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
)

// testWords know a few flags; a value of no is wrong.
func testWords() Words {
	check := func(s Setting) error {
		if s.Value == "no" {
			return fmt.Errorf("%s says no", s.Name)
		}
		return nil
	}
	return Words{Sim: []string{"cluster", "load", "estimates"}, Like: []string{"like", "jobs", "seed"}, Check: check, CheckLike: func(all []Setting) error {
		for _, s := range all {
			if err := check(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// TestRead: everything that can stand in a file.
func TestRead(t *testing.T) {
	p, err := Read("exp.yaml", []byte(`# a sweep
trace:
  - jobs.csv
  - {file: long.csv, window: 7d, name: week}
  - like: philly
    jobs: [100, 200]
cluster: 8x8
load: [0.8, 1]
policy:
  - fifo,srtf
  - tiresias(limits=3600,36000)
  - tiresias: {limits: ["500", "500,5000"], promote: 2}
  - 'tiresias(promote=4|8)'
baseline: srtf
seed: [1-3, 7]
estimates: oracle+50%
`), testWords())
	if err != nil {
		t.Fatal(err)
	}
	want := []Trace{
		{Name: "jobs.csv", File: "jobs.csv"}, {Name: "week", File: "long.csv", Window: 7 * 24 * time.Hour},
		{Name: "philly(jobs=100)", Like: []Setting{{Name: "like", Value: "philly"}, {Name: "jobs", Value: "100"}}},
		{Name: "philly(jobs=200)", Like: []Setting{{Name: "like", Value: "philly"}, {Name: "jobs", Value: "200"}}},
	}
	if !reflect.DeepEqual(p.Traces, want) {
		t.Errorf("traces %+v", p.Traces)
	}
	var names []string
	for _, c := range p.Policies {
		names = append(names, c.String())
	}
	if got := strings.Join(names, " "); got != "fifo srtf tiresias(limits=3600,36000) tiresias(limits=500,promote=2) tiresias(limits=500,5000,promote=2) tiresias(promote=4) tiresias(promote=8)" {
		t.Errorf("policies %s", got)
	}
	if p.Baseline != 1 || !slices.Equal(p.Seeds, []uint64{1, 2, 3, 7}) {
		t.Errorf("baseline %d, seeds %v", p.Baseline, p.Seeds)
	}
	worlds := p.Worlds()
	if len(worlds) != 4*2*4 || worlds[0].Value("load") != "0.8" || worlds[0].Seed != 1 || worlds[1].Seed != 2 || worlds[4].Value("load") != "1" || worlds[31].Trace.Name != "philly(jobs=200)" {
		t.Errorf("%d worlds", len(worlds))
	}
	if len(p.Varied()) != 0 {
		t.Errorf("varied %v", p.Varied())
	}
}

// TestAlone: what is left out, and a baseline that is not among the policies.
func TestAlone(t *testing.T) {
	p, err := Read("exp.yaml", []byte("policy: srtf\nbaseline: fifo\nestimates: [oracle, user]"), testWords())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Policies) != 2 || p.Policies[p.Baseline].String() != "fifo" || !slices.Equal(p.Seeds, []uint64{1}) || len(p.Worlds()) != 2 || !slices.Equal(p.Varied(), []string{"estimates"}) {
		t.Errorf("%+v", p)
	}
	if _, err := experiment.ParseChoice("fifo"); err != nil {
		t.Error(err)
	}
}

// TestReadErrors: each error names its place, and what is wrong.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "exp.yaml: nothing stands in it",
		"seed: 1":                                    "exp.yaml: no policy is named",
		"policy: fifo\nsede: 1":                      `exp.yaml:2:1: a sweep has no key "sede"; known are: baseline, cluster, estimates, load, policy, seed, trace; did you mean seed?`,
		"policy: fofo":                               `exp.yaml:1:9: `,
		"policy: [fifo, fifo]":                       "exp.yaml:1:16: policy fifo is named twice",
		"policy:\n  - tiresias: {promot: 2}":         "exp.yaml:2:5: ",
		"policy:\n  - tiresias: 2":                   "exp.yaml:2:5: the parameters of tiresias are written as keys and values",
		"policy:\n  - tiresias: {promote: []}":       "exp.yaml:2:25: the list is empty",
		"policy: fifo\nbaseline: fofo":               "exp.yaml:2:11: ",
		"policy: fifo\nseed: 3-1":                    "exp.yaml:2:7: 3-1: write at most",
		"policy: fifo\nseed: 0-18446744073709551615": "exp.yaml:2:7: ",
		"policy: fifo\nseed: [1, 1-2]":               "exp.yaml:2:11: seed 1 is named twice",
		"policy: fifo\nseed: x":                      `exp.yaml:2:7: "x" is no seed`,
		"policy: fifo\ncluster: [a, no]":             "exp.yaml:2:14: cluster says no",
		"policy: fifo\nload: [1, 1.0]":               "exp.yaml:2:11: 1 is named twice",
		"policy: fifo\ntrace: [a, a]":                "exp.yaml:2:12: two traces are called a",
		"policy: fifo\ntrace: {name: a}":             "a trace is a file, or is generated",
		"policy: fifo\ntrace: {file: a, jobs: 1}":    "leave out file, or jobs",
		"policy: fifo\ntrace: {jobs: 1, window: 1d}": "a trace that is generated has no window",
		"policy: fifo\ntrace: {jobs: no}":            "jobs says no",
		"policy: fifo\ntrace: {file: a, window: -1}": "a window of -1s",
		"policy: fifo\ntrace: {flie: a}":             "did you mean file?",
		"policy: 'tiresias(promote=1|2|3|4|5|6|7|8|9|10,limits=1|2|3|4|5|6|7|8|9|10,starve=1|2|3|4|5|6|7|8|9|10|11|12)'": "",
		"policy: fifo\nseed: 1-100000\nload: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99,100,101]": "runs: 1000000 are the most",
	} {
		_, err := Read("exp.yaml", []byte(text), testWords())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\n have %v\n want %s", text, err, want)
		}
	}
}

// FuzzRead: no file is read as more than there may be, and none makes the reader panic.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"policy: [fifo, srtf]\nseed: 1-3\n", "trace: {like: philly, jobs: [1, 2]}\npolicy:\n- tiresias: {promote: [2, 4]}\nload: 1\nbaseline: fifo", "policy: 'tiresias(promote=2|8)'\ncluster: [a, b]\ntrace: {file: x, window: 7d}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read("f", text, testWords())
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("an error that does not name the file: %v", err)
			}
			return
		}
		if len(p.Policies) == 0 || len(p.Seeds) == 0 || len(p.Seeds) > mostSeeds || p.Baseline < 0 || p.Baseline >= len(p.Policies) {
			t.Fatalf("%+v", p)
		}
		if err := experiment.CheckChoices(p.Policies); err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Axes {
			if len(a.Values) == 0 {
				t.Fatalf("nothing on axis %s", a.Name)
			}
		}
	})
}
