package topoaware

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestGolden: starts and ends of every job in the published runs, and the run times that they came to.
func TestGolden(t *testing.T) {
	trace, profile := shared.Path(t, "data/gpu_topo_aware/workloads-100.json"), shared.Path(t, "data/gpu_topo_aware/profiles/prof_from_experiments.json")
	for _, policy := range []string{"fcfs", "bf", "utilityaware-postpone"} {
		path := shared.Path(t, "golden/gpu-topo-aware/workloads-100-m5-"+policy+".csv")
		want, err := harness.ReadResult(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), trace, "m5", policy, profile)
		if err != nil {
			t.Fatal(err)
		}
		if c := harness.Compare(r, want); !c.Exact() || c.Jobs != 100 {
			t.Errorf("%s: %d of %d jobs are equal, mean JCT %+.2f %%, makespan %+.2f %%; %s", policy, c.Equal, c.Jobs, 100*c.MeanJCT, 100*c.Makespan, c.First)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i := range r.Rows {
			if got := string(r.Append(nil, &r.Rows[i])); i+1 >= len(lines) || got != strings.TrimSpace(lines[i+1]) {
				t.Errorf("%s: line %d is %s", policy, i+2, got)
				break
			}
		}
	}
}

// TestAddresses: in one place the published code walks the sockets of a machine in the order of their addresses, so
// that utilityaware has several outcomes. Eight runs of it had two, of mean JCTs of 200.08 s, the published one, and of
// 198.08 s, which is the one with the sockets in order. With random orders the published one comes, too, to every job;
// postponing has but one.
func TestAddresses(t *testing.T) {
	trace, profile := shared.Path(t, "data/gpu_topo_aware/workloads-100.json"), shared.Path(t, "data/gpu_topo_aware/profiles/prof_from_experiments.json")
	r, err := Run(t.Context(), trace, "m5", "utilityaware", profile)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.MeanJCT(); got < 198.075 || got > 198.085 || len(r.Rows) != 100 {
		t.Errorf("with the sockets in order the mean JCT of %d jobs is %.3f", len(r.Rows), got)
	}
	for policy, others := range map[string]bool{"utilityaware": true, "utilityaware-postpone": false} {
		want, err := harness.ReadResult(shared.Path(t, "golden/gpu-topo-aware/workloads-100-m5-"+policy+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		exact := 0
		const draws = 40
		for seed := range uint64(draws) {
			p, err := Find(policy)
			if err != nil {
				t.Fatal(err)
			}
			w, err := readFiles(trace, profile)
			if err != nil {
				t.Fatal(err)
			}
			s, coin := newScheduler(p, w, 5), rand.New(rand.NewPCG(seed, 0))
			s.backwards = func() bool { return coin.IntN(2) == 0 }
			r, err := p.play(t.Context(), s, w)
			if err != nil {
				t.Fatal(err)
			}
			if c := harness.Compare(r, want); c.Exact() {
				exact++
			} else if math.Abs(c.MeanJCT) > 0.015 {
				t.Errorf("%s, draw %d: mean JCT %+.2f %%", policy, seed, 100*c.MeanJCT)
			}
		}
		if exact == 0 || exact < draws != others {
			t.Errorf("%s: the published outcome comes in %d of %d draws", policy, exact, draws)
		}
	}
}

// TestDict: the order of keys of a dict of Python 2.7: {8, 3} and {9, 8}, one that has grown, and one of which keys
// were taken out.
func TestDict(t *testing.T) {
	for _, c := range []struct {
		put, gone []int
		want      string
	}{
		{put: []int{8, 3}, want: "8 3"},
		{put: []int{8, 0}, want: "8 0"},
		{put: []int{0, 8}, want: "0 8"},
		{put: []int{10, 11, 12, 13, 14, 15, 16, 17}, want: "10 11 12 13 14 15 16 17"},
		{put: []int{40, 8, 33, 1, 99, 2, 7, 64}, want: "64 1 2 99 33 40 7 8"},
		{put: []int{5, 13, 21, 29}, gone: []int{5, 21}, want: "29 13"},
	} {
		var d dict
		for _, k := range c.put {
			d.put(k)
		}
		for _, k := range c.gone {
			d.remove(k)
		}
		if got := strings.Trim(fmt.Sprint(d.keys()), "[]"); got != c.want {
			t.Errorf("%v without %v: %s, want %s", c.put, c.gone, got, c.want)
		}
	}
}
