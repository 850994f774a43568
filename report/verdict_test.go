package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// fates are those of jobs that ran for so many minutes and waited for so many; a negative
// wait: it never ended.
func fates(ran []int, waits ...int) []Fate {
	out := make([]Fate, len(waits))
	for i, w := range waits {
		if w >= 0 {
			wait := time.Duration(w) * time.Minute
			out[i] = Fate{JCT: wait + time.Duration(ran[i])*time.Minute, Wait: wait, Ended: true}
		}
	}
	return out
}

// compared is a comparison of jobs with so many GPUs and run times in minutes, of users a
// and b in turn. The wait of a run stands behind its name.
func compared(gpus, ran []int, runs ...Run) *Comparison {
	c := &Comparison{Runs: runs}
	for i := range gpus {
		c.Jobs = append(c.Jobs, Job{Tenant: "t", User: string(rune('a' + i%2)), GPUs: int32(gpus[i]), Length: time.Duration(ran[i]) * time.Minute})
	}
	return c
}

// TestVerdict: the sentence says what the figures say, on comparisons made for it.
func TestVerdict(t *testing.T) {
	gpus, ran := []int{1, 1, 1, 16}, []int{10, 10, 10, 10}
	run := func(name string, waits ...int) Run { return Run{Name: name, Fates: fates(ran, waits...)} }
	knew := func(r Run) Run { r.Informed = true; return r }
	real := func(r Run) Run { r.Real = true; return r }
	check := func(r Run) Run { r.Check = true; return r }
	fifo := run("fifo", 30, 30, 30, 10)
	for _, x := range []struct {
		what string
		base int
		runs []Run
		want string
	}{
		{"helps all", 0, []Run{fifo, knew(run("srtf", 0, 0, 0, 10))}, "srtf (knew true run times): mean completion time -64% from fifo (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"starves a class", 0, []Run{fifo, run("las", 0, 0, 0, 90)}, "las: mean completion time -7.1% from fifo (32m30s instead of 35m); 1 job of 9 to 16 GPUs waits 9 times as long."},
		{"starves who never waited", 0, []Run{run("fifo", 30, 30, 30, 0), run("las", 0, 0, 0, 20)}, "las: mean completion time -54% from fifo (15m instead of 32m30s); 1 job of 9 to 16 GPUs waits for 20m instead of 0s."},
		{"a little more for one user", 0, []Run{run("fifo", 30, 30, 30, 30), run("las", 36, 0, 36, 0)}, "las: mean completion time -30% from fifo (28m instead of 40m)."},
		{"leaves a job", 0, []Run{fifo, run("las", 0, 0, 0, -1)}, "las: mean completion time -75% from fifo (10m instead of 40m); 1 job that ended there does not end here; the mean wait grows for no size, length, tenant or user."},
		{"one that leaves none goes first", 0, []Run{fifo, run("las", 0, 0, 0, -1), run("drf", 20, 20, 20, 10)}, "drf: mean completion time -21% from fifo (27m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"nothing helps", 0, []Run{fifo, run("las", 40, 40, 40, 10), run("drf", 30, 30, 35, 10)}, "None of las and drf helps: the best, drf, changes the mean completion time by +3.6% from fifo."},
		{"it does not help", 0, []Run{fifo, run("las", 40, 40, 40, 10)}, "las does not help: it changes the mean completion time by +21% from fifo."},
		{"no difference", 0, []Run{fifo, run("las", 30, 30, 30, 10)}, "las makes no difference: each job ends when it does under fifo."},
		{"others differ by no more than a hair", 0, []Run{fifo, run("las", 30, 29, 31, 10)}, "las does not help: it changes the mean completion time by 0% from fifo."},
		{"ties that are alike", 0, []Run{fifo, run("las", 0, 0, 0, 10), run("drf", 0, 0, 0, 10)}, "las and drf: mean completion time -64% from fifo (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"ties: the gentler one", 0, []Run{fifo, run("las", 0, 0, 0, 70), run("drf", 20, 20, 20, 10)}, "drf: mean completion time -21% from fifo (27m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"not short", 0, []Run{run("fifo", 0, 0, 0, 0), run("las", 0, 0, 0, 0)}, "This cluster is not short of GPUs: under fifo no job waits, and no order of jobs could help."},
		{"one run", 0, []Run{fifo}, "Under fifo jobs wait for 25m on average, 71% of their completion times; no other policy was tried."},
		{"nothing ended", 0, []Run{run("fifo", -1, -1, -1, -1), run("las", 0, 0, 0, 0)}, "No job has ended, so there is nothing to compare."},
		{"other jobs ended", 0, []Run{run("fifo", 30, -1, -1, -1), run("las", -1, 0, 0, 0)}, "No job that ended under fifo ended otherwise, so there is nothing to compare."},
		{"as simulated", 1, []Run{real(run(AsItWas, 31, 30, 30, 10)), fifo, run("las", 0, 0, 0, 10)}, "las: mean completion time -64% from fifo (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"far from what was", 1, []Run{real(run(AsItWas, 90, 90, 90, 90)), fifo, run("las", 0, 0, 0, 10)}, "las: mean completion time -64% from fifo (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user; but simulated fifo is off by -65% from what really happened."},
		{"beside what was", 0, []Run{real(run(AsItWas, 30, 30, 30, 10)), fifo, run("las", 0, 0, 0, 10)}, "las: mean completion time -64% from as it was (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user."},
		{"beside what was, far off", 0, []Run{real(run(AsItWas, 90, 90, 90, 90)), fifo, run("las", 20, 20, 20, 10)}, "Simulated fifo is off by -65% from what really happened, so how others compare with that tells nothing of policies."},
		{"beside what was, unchecked", 0, []Run{real(run(AsItWas, 30, 30, 30, 10)), run("las", 0, 0, 0, 10)}, "las: mean completion time -64% from as it was (12m30s instead of 35m); the mean wait grows for no size, length, tenant or user; no simulation of fifo shows how far that is off."},
		{"a check is no policy that is tried", 0, []Run{real(run(AsItWas, 30, 30, 30, 10)), check(run("las, simulated", 28, 30, 30, 10)), run("fifo", 30, 30, 30, 11)}, "fifo does not help: it changes the mean completion time by +0.7% from as it was."},
	} {
		c := compared(gpus, ran, x.runs...)
		c.Base = x.base
		if got := c.Verdict(); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.what, got, x.want)
		}
	}
}

// TestVerdictOfPlenty: where waits are a small part of all completion times, the sentence
// says what part, unless the jobs of one size wait for long, or a run helps all the same.
func TestVerdictOfPlenty(t *testing.T) {
	gpus, ran, waits := make([]int, 400), make([]int, 400), make([]int, 400)
	for i := range gpus {
		gpus[i], ran[i] = 1, 600
	}
	for i := range 8 {
		waits[i] = 60
	}
	fifo := Run{Name: "fifo", Fates: fates(ran, waits...)}
	want := "This cluster is not short of GPUs: under fifo waits are 0.2% of completion times, and no order of jobs could save more than that; one job in 100 waits longer than 1h."
	if got := compared(gpus, ran, fifo, Run{Name: "las", Fates: fates(ran, make([]int, 400)...)}).Verdict(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	faster := slices.Clone(fifo.Fates)
	for i := range faster {
		faster[i].JCT -= 30 * time.Minute
	}
	if got := compared(gpus, ran, fifo, Run{Name: "afs", Fates: faster}).Verdict(); !strings.HasPrefix(got, "afs: mean completion time -5.0% from fifo") {
		t.Errorf("a run that makes jobs faster: %s", got)
	}
	for i := range 8 {
		gpus[i] = 64
	}
	if got := compared(gpus, ran, fifo).Verdict(); got != "Under fifo jobs wait for 1m12s on average, 0.2% of their completion times; no other policy was tried." {
		t.Errorf("large jobs wait a tenth of their time: %s", got)
	}
}

// TestHappened: what a trace tells of waits is known of the jobs that had ended, and nothing
// but times is known of them.
func TestHappened(t *testing.T) {
	entry := func(tenant string, submit, wait, work time.Duration, has, cut bool) Job {
		e := trace.Entry{Job: job.Job{Tenant: tenant, Submit: submit}, Truth: trace.Truth{Work: work, Attempts: []time.Duration{time.Minute}, Wait: wait, HasWait: has, AtLeast: cut}}
		demand := job.GPUs(2)
		e.Job.Demand = &demand
		return JobOf(&e)
	}
	jobs := []Job{
		entry("a", 0, 10*time.Minute, 9*time.Minute, true, false), entry("b", time.Hour, 0, 19*time.Minute, true, false),
		entry("a", time.Hour, time.Hour, time.Hour, true, true), entry("b", time.Hour, 0, time.Hour, false, false),
	}
	r := Happened(jobs, Options{})
	if r == nil || r.JCT.N != 2 || r.JCT.Mean != 20*time.Minute || r.Wait.Mean != 5*time.Minute || r.Makespan != 80*time.Minute || len(r.Tenants) != 2 || r.Sizes[0].Name != "2-4" {
		t.Fatalf("%+v", r)
	}
	if Happened(jobs[2:], Options{}) != nil {
		t.Error("of a job that was cut short, and of one whose wait is not told, nothing is known")
	}
	var out strings.Builder
	table := Compare([]Named{{AsItWas, r}, {"fifo", &Result{Summary: Summary{JCT: r.JCT, Wait: Stats{N: 2, Mean: time.Hour}}}}})
	if err := table.WriteText(&out, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(out.String(), "\n")[1]; !strings.HasPrefix(line, "as it was") || strings.Count(line, " -") < 5 {
		t.Errorf("%s", out.String())
	}
}

// TestChecks: simulations are held against what really happened over the jobs of which it is
// known.
func TestChecks(t *testing.T) {
	gpus, ran := []int{1, 1}, []int{10, 10}
	c := compared(gpus, ran, Run{Name: AsItWas, Real: true, Fates: fates(ran, 20, -1)}, Run{Name: "las", Fates: fates(ran, 5, 99)}, Run{Name: "fifo", Fates: fates(ran, 21, 99)})
	c.Base = 1
	want := []string{
		"As it was: the trace tells when 1 of 2 jobs started.",
		"Simulated las waits for 5m on average, your cluster for 20m; its mean completion time is off by -50%.",
		"Simulated fifo waits for 21m on average, your cluster for 20m; its mean completion time is off by +3.3%.",
		"What was simulated is not what you had, in GPUs, limits, failures or order: compare runs with each other, and take no smaller change for a gain.",
	}
	if got := c.Checks(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if c := compared(gpus, ran, c.Runs[1:]...); c.Checks() != nil {
		t.Errorf("nobody knows what happened: %q", c.Checks())
	}
}

// TestAgainst: a table beside a baseline has changes in per cent of the jobs that ended in
// both, and the figures themselves where there is no such part.
func TestAgainst(t *testing.T) {
	ran := []int{10, 10}
	c := compared([]int{1, 1}, ran, Run{Name: "fifo", Fates: fates(ran, 10, 0)}, Run{Name: "las", Fates: fates(ran, 5, -1)})
	var runs []Named
	for _, r := range c.Runs {
		v := c.Versus(1)
		runs = append(runs, Named{r.Name, &Result{Summary: Summary{JCT: v.Here.JCT, Wait: v.Here.Wait, Preemptions: 3}}})
	}
	table := Compare(runs)
	table.Against(c, true)
	var text, csv strings.Builder
	if err := table.WriteText(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := table.WriteCSV(&csv); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(text.String(), "\n"); !strings.Contains(lines[2], "-25%") || !strings.Contains(lines[2], "-50%") || strings.Contains(lines[1], "%  -") {
		t.Errorf("%s", text.String())
	}
	if !strings.Contains(csv.String(), ",fifo,-0.25,-0.5,") {
		t.Errorf("%s", csv.String())
	}
	for by, want := range map[Grouping]string{BySize: "1 2", ByLength: "10m-1h 2", ByTenant: "t 2", ByUser: "a 1 b 1"} {
		var got []string
		for _, x := range c.Classes(by) {
			got = append(got, x.Name, fmt.Sprint(x.Jobs))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %q, want %s", by, got, want)
		}
	}
	many := []Class{{Name: "a", Jobs: 1, Runs: make([]ClassRun, 1)}, {Name: "b", Jobs: 5, Runs: make([]ClassRun, 1)}, {Name: "c", Jobs: 2, Runs: make([]ClassRun, 1)}}
	if got := Largest(many, 1); len(got) != 2 || got[0].Name != "b" || got[1].Name != "2 more" || got[1].Jobs != 3 {
		t.Errorf("%+v", got)
	}
}
