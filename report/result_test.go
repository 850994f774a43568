package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
)

// small is a run of three jobs on four GPUs that can be followed by hand:
//
//	job 0: 4 GPUs, submitted at  0 s, runs from   0 s to 100 s
//	job 1: 2 GPUs, submitted at 10 s, runs from 100 s to 150 s
//	job 2: 4 GPUs, submitted at 20 s, runs from 150 s to 250 s
func small(t *testing.T) (*Collector, *state.State) {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
		t.Fatal(err)
	}
	s := state.New(c, tenant.NewTree(0))
	col := NewCollector(Options{Series: true, Intervals: true})
	four, two := job.GPUs(4), job.GPUs(2)
	jobs := []job.Job{
		{ID: 0, Key: "zero", Tenant: "a", User: "ann", Name: "bert, large", Model: "bert", Demand: &four},
		{ID: 1, Key: "one", Tenant: "b", Demand: &two, Submit: 10 * time.Second},
		{ID: 2, Key: "two", Tenant: "a", Demand: &four, Submit: 20 * time.Second},
	}
	hold := func(n int32) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: n, Shares: n}}}
		for d := range cluster.DeviceID(n) {
			a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 1000})
		}
		return a
	}
	submit := func(at int, id job.ID) eventlog.Event {
		return eventlog.Event{Time: time.Duration(at) * time.Second, Kind: eventlog.Submit, Job: id, Spec: &jobs[id], Estimate: -1}
	}
	start := func(at int, id job.ID, n int32) eventlog.Event {
		return eventlog.Event{Time: time.Duration(at) * time.Second, Kind: eventlog.Start, Job: id, Alloc: hold(n), Speed: 1}
	}
	end := func(at int, id job.ID) eventlog.Event {
		return eventlog.Event{Time: time.Duration(at) * time.Second, Kind: eventlog.End, Job: id, Outcome: job.Done}
	}
	wait := func(at int, id job.ID, why job.ReasonCode) eventlog.Event {
		return eventlog.Event{Time: time.Duration(at) * time.Second, Kind: eventlog.Wait, Job: id, Reason: job.Reason{Code: why}}
	}
	for _, ev := range []eventlog.Event{
		submit(0, 0), start(0, 0, 4), submit(10, 1), wait(10, 1, job.Quota), submit(20, 2), wait(20, 2, job.NeedOneNode),
		end(100, 0), start(100, 1, 2), wait(110, 2, job.NeedGPUs), end(150, 1), start(150, 2, 4), end(250, 2),
	} {
		if err := engine.Apply(s, &ev); err != nil {
			t.Fatal(err)
		}
		col.Event(&ev, s)
	}
	return col, s
}

func TestSmallRun(t *testing.T) {
	c, s := small(t)
	r := c.Result(s)
	if want := describe(seconds(100, 140, 230)); r.JCT != want || r.JCT.P90 != 212*time.Second || r.JCT.P99 != seconds(228.2)[0] {
		t.Errorf("JCT %+v", r.JCT)
	}
	if want := describe(seconds(0, 90, 130)); r.Wait != want || r.FirstStart != want {
		t.Errorf("wait %+v, first start %+v, want %+v", r.Wait, r.FirstStart, want)
	}
	close := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	close("makespan", r.Makespan.Seconds(), 250)
	close("utilisation", r.Utilisation, 0.9)
	close("utilisation until the last arrival", r.UtilisationArrivals, 1)
	close("GPU-hours available", r.GPU.Available, 1000.0/3600)
	close("GPU-hours held", r.GPU.Held, 900.0/3600)
	// Load: 1 until 10 s, 1.5 until 20 s, 2.5 until 100 s, 1.5 until 150 s, then 1.
	rhos := []float64{100 / (100 * 2.25), 140 / (50 * 290.0 / 140), 230 / (100 * 375.0 / 230)}
	close("mean rho", r.Fairness.Mean, (rhos[0]+rhos[1]+rhos[2])/3)
	close("worst rho", r.Fairness.Worst, rhos[2])
	close("share above 1", r.Fairness.Unfair, 2.0/3)
	close("Jain's index", r.Fairness.Jain, jain([]float64{(rhos[0] + rhos[2]) / 2, rhos[1]}))
	close("fairness delay", r.Waiting.Fairness, 90.0/3600)
	close("fragmentation delay", r.Waiting.Fragmentation, 90.0/3600)
	close("other delay", r.Waiting.Other, 40.0/3600)
	if r.Fairness.WorstJob != "two" || r.Jobs != (Counts{Submitted: 3, Finished: 3}) {
		t.Errorf("%+v %+v", r.Fairness, r.Jobs)
	}
	if len(r.Tenants) != 2 || r.Tenants[0].Name != "a" || r.Tenants[0].JCT != 165*time.Second || r.Tenants[1].Wait != 90*time.Second {
		t.Errorf("%+v", r.Tenants)
	}
	if len(r.Sizes) != 1 || r.Sizes[0].Name != "2-4" || r.Sizes[0].Jobs != 3 {
		t.Errorf("%+v", r.Sizes)
	}
}

func TestSmallJobsCSV(t *testing.T) {
	c, s := small(t)
	truths := []trace.Truth{{Work: 100 * time.Second}, {Work: 30 * time.Second, Attempts: []time.Duration{20 * time.Second}}, {Work: 100 * time.Second}}
	var b strings.Builder
	if err := c.Result(s).WriteJobs(&b, s, func(id job.ID) *trace.Truth { return &truths[id] }); err != nil {
		t.Fatal(err)
	}
	want := `job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state,user,name,model,true_s,type,rho,lost_gpu_s,first_reason,kind,latency_kept
zero,a,4,0,0,100,100,0,100,0,0,done,ann,"bert, large",bert,100,V100,0.444444,0,,training,
one,b,2,10,100,150,140,90,50,0,0,done,,,,50,V100,1.351724,0,quota,training,
two,a,4,20,150,250,230,130,100,0,0,done,,,,100,V100,1.410667,0,need-one-node,training,
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}

// TestJobsCSV reads the lines of a large run again and compares them with the
// records.
func TestJobsCSV(t *testing.T) {
	name := func(i int) string { return fmt.Sprint(hostile[i%len(hostile)], i) }
	c, s := play(t, setup{jobs: 300, seed: 9, name: name})
	var b bytes.Buffer
	if err := c.Result(s).WriteJobs(&b, s, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 301 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	known := func(d time.Duration) string {
		if d < 0 {
			return ""
		}
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second), "0"), ".")
	}
	empty := 0
	for id := range job.ID(s.Jobs()) {
		r, row := s.Record(id), rows[id+1]
		jct := time.Duration(-1)
		if r.End >= 0 {
			jct = r.End - r.Job.Submit
		} else {
			empty++
		}
		// A reader of CSV takes \r\n for \n, in quotes too.
		want := []string{strings.ReplaceAll(r.Job.Key, "\r\n", "\n"), r.Job.Tenant, "", known(r.Job.Submit), known(r.FirstStart), known(r.End), known(jct),
			known(r.WaitAt(s.Now)), known(r.AllocatedAt(s.Now)), fmt.Sprint(r.Preemptions), fmt.Sprint(r.Migrations), r.Phase.String()}
		want[2] = fmt.Sprint(float64(r.Job.Demand.Milli(r.Job.Demand.Roles[0].Tasks)) / 1000)
		want = append(want, r.Job.User, r.Job.Name, r.Job.Model, "")
		if strings.Join(row[:len(want)], "|") != strings.Join(want, "|") {
			t.Fatalf("%q, want %q", row, want)
		}
	}
	if empty == 0 {
		t.Error("every job has ended: nothing is empty")
	}
}

// TestSmallSeriesCSV: from 100 s on job 1 has two of the four GPUs, and job 2 asks for four. Job 1 waits
// for its quota, job 2 for one node, and from 110 s on for GPUs.
func TestSmallSeriesCSV(t *testing.T) {
	c, s := small(t)
	r := c.Result(s)
	var b strings.Builder
	if err := r.WriteSeries(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 252 || lines[0]+"\n" != seriesHeader() {
		t.Fatalf("%d lines, the first is %s", len(lines), lines[0])
	}
	for second, want := range map[int]string{
		0: "0,1,1,1,1,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", 10: "10,11,1,1,1,1,1,1,4,2,0,0,0,0,0,0,0,0,1,0,0,0,0,0", 99: "99,100,1,1,1,2,2,2,4,6,0,0,0,0,0,0,0,1,1,0,0,0,0,0",
		100: "100,101,0.5,0.5,0.5,1,1,1,4,4,2,2,0,2,0,0,0,1,0,0,0,0,0,0", 149: "149,150,0.5,0.5,0.5,1,1,1,4,4,2,2,0,2,1,0,0,0,0,0,0,0,0,0", 249: "249,250,1,1,1,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
	} {
		if lines[1+second] != want {
			t.Errorf("second %d: %s, want %s", second, lines[1+second], want)
		}
	}
	// The last part is shorter than the others.
	r.series.double()
	r.series.double()
	b.Reset()
	if err := r.WriteSeries(&b); err != nil || !strings.HasSuffix(b.String(), "\n248,250,1,1,1,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n") || !strings.Contains(b.String(), "\n100,104,0.5,") {
		t.Errorf("%v: %s", err, b.String())
	}
	b.Reset()
	if err := new(Result).WriteSeries(&b); err != nil || b.String() != seriesHeader() {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestSummaryJSON fixes the names of the fields, which others rely on.
func TestSummaryJSON(t *testing.T) {
	c, s := small(t)
	var b bytes.Buffer
	if err := c.Result(s).WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"energy [jobs_kwh kwh nodes_busy_share]", "failed_attempts", "fairness [jain_tenants rated_jobs rho_above_1_share rho_mean rho_worst rho_worst_job]",
		"first_start_s [max mean median p90 p99]", "gpu_hours [available held lost lost_to_failures]", "gpu_utilisation", "gpu_utilisation_until_last_arrival",
		"jct_s [max mean median p90 p99]", "jobs [cancelled failed finished held impossible never_started refused running submitted waiting]",
		"lacks", "makespan_s", "migrations", "preemptions", "resizes", "shares", "sizes", "starts", "tenants",
		"wait_causes_job_hours [behind_the_head fragmentation handover held never no_gpu_free node_constraints other policy_order quota]",
		"wait_job_hours [fairness fragmentation other]", "wait_reasons", "wait_s [max mean median p90 p99]",
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if m, ok := got[name].(map[string]any); ok {
			name += fmt.Sprint(" ", slices.Sorted(maps.Keys(m)))
		}
		names = append(names, name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("the fields are\n%q, want\n%q", names, want)
	}
	group := slices.Sorted(maps.Keys(got["tenants"].([]any)[0].(map[string]any)))
	if fmt.Sprint(group) != "[ended gpu_hours jct_mean_s jobs name rated_jobs rho_mean wait_causes_job_hours wait_job_hours wait_mean_s]" {
		t.Errorf("the fields of a tenant are %v", group)
	}
	if got["makespan_s"] != 250.0 || got["jct_s"].(map[string]any)["p99"] != 228.2 {
		t.Errorf("%v %v", got["makespan_s"], got["jct_s"])
	}
}

// FuzzField checks that any text comes back from its CSV field.
func FuzzField(f *testing.F) {
	for _, s := range append(hostile, "a,b", `a"b`, " a", "a ", "\r\n", "#") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := append(appendField(nil, s), ",x\n"...)
		row, err := csv.NewReader(bytes.NewReader(line)).Read()
		if err != nil || len(row) != 2 || row[0] != strings.ReplaceAll(s, "\r\n", "\n") {
			t.Fatalf("%q is written %q and read %q: %v", s, line, row, err)
		}
	})
}

// TestCauses: every reason has a cause and a meaning, and the causes of all waits, by size and
// by tenant, add up to the time that was waited.
func TestCauses(t *testing.T) {
	for code := job.NoReason; ; code++ {
		name := code.String()
		if strings.HasPrefix(name, "reason-") {
			break
		}
		if reasonMeanings[name] == "" || causeOf(code).String() == "" {
			t.Errorf("%s means nothing", name)
		}
	}
	for code, want := range map[job.ReasonCode]Cause{
		job.NeedGPUs: NoGPU, job.Behind: BehindHead, job.Reserved: BehindHead, job.Outranked: Order, job.NeedRack: Fragmented, job.Quota: ByQuota,
		job.NeedWhere: Nodes, job.OnHold: ByPeople, job.TooLarge: ForEver, job.NodeLost: Elsewise,
	} {
		if got := causeOf(code); got != want {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
	}
	c, s := play(t, setup{jobs: 200, seed: 3})
	r := c.Result(s)
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, b) }
	for _, groups := range [][]Group{r.Sizes, r.Tenants} {
		var sum Causes
		for i := range groups {
			for k, h := range groups[i].Causes {
				sum[k] += h
			}
			if !near(groups[i].Causes.Total(), groups[i].Waiting.Total()) {
				t.Errorf("%s: %v of %v hours", groups[i].Name, groups[i].Causes.Total(), groups[i].Waiting.Total())
			}
		}
		for k := range sum {
			if !near(sum[k], r.Causes[k]) {
				t.Errorf("%s: %v of %v hours", Cause(k), sum[k], r.Causes[k])
			}
		}
	}
	if r.Causes.Total() <= 0 || !strings.HasPrefix(r.Waits("x"), "Why jobs waited under x, ") {
		t.Errorf("%v: %s", r.Causes, r.Waits("x"))
	}
	some := Result{Summary: Summary{Causes: Causes{NoGPU: 2, BehindHead: 97.5, ByQuota: 0.6}}}
	if got := some.Waits("fifo"); got != "Why jobs waited under fifo, 100 job-hours: behind the head of the line 97%, no GPU free 2%, quota <1%." {
		t.Error(got)
	}
}
