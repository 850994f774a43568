package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// grown is a policy on a cluster of so many GPUs.
func grown(policy, growth string, gpus int, ran []int, waits ...int) Run {
	return Run{Name: policy, Policy: policy, Growth: growth, GPUs: gpus, Fates: fates(ran, waits...)}
}

// TestGrowths: times are of the jobs that end everywhere, what is saved is told beside the
// cluster as it is, and the sentence names the least cluster that is worth its GPUs.
func TestGrowths(t *testing.T) {
	ones, ran := []int{1, 1, 1, 1}, []int{10, 10, 10, 10}
	as := func(waits ...int) []Run { return []Run{grown("fifo", "", 16, ran, waits...)} }
	for _, x := range []struct {
		what  string
		runs  []Run
		grown []Run
		want  string
	}{
		{"the first step is worth most", as(0, 20, 20, 40), []Run{grown("fifo", "+1 node", 24, ran, 0, 0, 0, 8), grown("fifo", "+2 nodes", 32, ran, 0, 0, 0, 6)},
			"fifo: +1 node (8 GPUs more) would save 90% of the waiting: mean wait 2m instead of 20m; more than that saves less than another 5%."},
		{"the last step is worth its GPUs", as(0, 20, 20, 40), []Run{grown("fifo", "+1 node", 24, ran, 0, 0, 0, 40), grown("fifo", "+2 nodes", 32, ran, 0, 0, 0, 0)},
			"fifo: +2 nodes (16 GPUs more) would save 100% of the waiting: mean wait 0s instead of 20m."},
		{"small steps that come to something", as(0, 20, 20, 60), []Run{grown("fifo", "+1 node", 24, ran, 0, 20, 20, 57), grown("fifo", "+2 nodes", 32, ran, 0, 20, 20, 54)},
			"fifo: +2 nodes (16 GPUs more) would save 6% of the waiting: mean wait 23m30s instead of 25m."},
		{"none helps", as(0, 20, 20, 40), []Run{grown("fifo", "+1 node", 24, ran, 0, 20, 20, 40)}, "fifo: none of the larger clusters saves as much as 5% of the waiting."},
		{"nobody waits", as(0, 0, 0, 0), []Run{grown("fifo", "-1 node", 8, ran, 0, 0, 0, 20)},
			"fifo: no job waits on the cluster as it is, so more GPUs save nothing. With -1 node the mean wait is 5m instead of 0s."},
		{"fewer leave a job", as(0, 20, 20, 40), []Run{grown("fifo", "-1 node", 8, ran, 0, 50, 50, -1)},
			"fifo: more GPUs were not tried. With -1 node the mean wait is 33m20s instead of 13m20s, and 1 job never ends."},
		{"nothing to compare", as(0, 20, 20, 40), []Run{grown("fifo", "-1 node", 8, ran, -1, -1, -1, -1)}, "fifo: no job has ended on clusters of all these sizes, so there is nothing to compare."},
	} {
		c := compared(ones, ran, x.runs...)
		c.Grown = x.grown
		all := c.Growths()
		if len(all) != 1 {
			t.Fatalf("%s: %d policies", x.what, len(all))
		}
		if got := all[0].Sentence(); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.what, got, x.want)
		}
	}
	long := []int{6000, 6000, 6000, 6000}
	c := compared(ones, long, grown("fifo", "", 16, long, 0, 0, 0, 40))
	c.Grown = []Run{grown("fifo", "+1 node", 24, long, 0, 0, 0, 0)}
	if got := c.Growths()[0].Sentence(); !strings.HasPrefix(got, "fifo: waits are 0.17% of completion times on the cluster as it is, so more GPUs save little.") {
		t.Error(got)
	}
	c.Grown = nil
	if all := c.Growths(); len(all) > 0 {
		t.Errorf("without another cluster there is %v", all)
	}
}

// policiesGrown is two policies on clusters of three sizes, a job of which never ends on the
// smallest one.
func policiesGrown() *Comparison {
	ones, ran := []int{1, 1, 1, 1}, []int{10, 10, 10, 10}
	c := compared(ones, ran, grown("fifo", "", 16, ran, 0, 20, 40, 60), grown("srtf", "", 16, ran, 0, 5, 10, 15))
	c.Grown = []Run{
		grown("fifo", "+1 node", 24, ran, 0, 10, 20, 30), grown("srtf", "+1 node", 24, ran, 0, 0, 0, 0),
		grown("fifo", "-1 node", 8, ran, 0, 60, 90, -1), grown("srtf", "-1 node", 8, ran, 0, 40, 40, 40),
	}
	return c
}

// TestGrowthFigures: points stand in order of GPUs with exact figures, in CSV and JSON as well,
// and what another policy does without more nodes is said.
func TestGrowthFigures(t *testing.T) {
	c := policiesGrown()
	all := c.Growths()
	fifo := all[0].Points
	if len(all) != 2 || len(fifo) != 3 || fifo[0].Growth != "-1 node" || fifo[0].Left != 1 || fifo[1].Growth != "" || fifo[2].GPUs != 24 {
		t.Fatalf("%+v", all)
	}
	if p := fifo[2]; p.Jobs != 3 || p.Wait.Mean.Minutes() != 10 || p.Saved != 0.5 || p.Hours != 0.5 || p.Makespan.Minutes() != 30 {
		t.Errorf("%+v", p) // of three jobs: they wait for 0, 10 and 20 minutes instead of 0, 20 and 40
	}
	want := "On the cluster as it is, jobs wait no longer under srtf (7m30s) than under fifo with +1 node (10m)."
	if got := Instead(all); got != want {
		t.Error(got)
	}
	if got := Instead(all[:1]); got != "" {
		t.Errorf("alone: %s", got)
	}
	var b bytes.Buffer
	if err := c.WriteGrowths(&b, 100); err != nil || !strings.Contains(b.String(), want) || strings.Count(b.String(), "as it is  ") != 2 {
		t.Errorf("%v\n%s", err, &b)
	}
	b.Reset()
	if err := c.WriteGrowthsCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 7 || strings.Join(rows[2], " ") != "fifo  16 3 0 1200.000 2160.000 2376.000 1800.000 0.000000 0.000" {
		t.Errorf("%q, %v", rows, err)
	}
	b.Reset()
	if err := c.WriteGrowthsJSON(&b); err != nil {
		t.Fatal(err)
	}
	var read []GrowthJSON
	if err := json.Unmarshal(b.Bytes(), &read); err != nil || len(read) != 2 || read[0].Points[2].Saved != 0.5 || read[1].Sentence != all[1].Sentence() {
		t.Errorf("%+v, %v", read, err)
	}
}

// TestGrowthPage: the page draws the curve of each policy and says the same.
func TestGrowthPage(t *testing.T) {
	longtest.Skip(t)
	c, s := play(t, setup{jobs: 20, seed: 1})
	r := c.Result(s)
	b := open(t, writePage(t, Meta{Title: "Grown", Comparison: policiesGrown()}, []Named{{"fifo", r}, {"srtf", r}}), 1100, 800, false)
	b.Check()
	if n := b.colours("#plot-grown canvas"); n < 3 {
		t.Errorf("the curve shows %d colours", n)
	}
	if text := b.Text("#growths"); !strings.Contains(text, "srtf: +1 node (8 GPUs more) would save 100% of the waiting") || !strings.Contains(text, "On the cluster as it is") {
		t.Error(text)
	}
	if got := eval[string](b, `JSON.stringify(JSON.parse(document.getElementById('data').textContent).runs.map((r) => r.grown))`); got != "[[3000,1200,600],[1800,450,0]]" {
		t.Error(got)
	}
}
