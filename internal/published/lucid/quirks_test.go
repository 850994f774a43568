package lucid

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

func setPriority(e *trace.Entry, gpuTime float64) {
	e.Job.Hints = &job.Hints{Rank: gpuTime, HasRank: true}
}

// TestQuirks runs jobs "GPUs at duration [priority]" in one virtual cluster of
// two nodes; at counts from the beginning of the window. The answer is job,
// start, end and preemptions.
func TestQuirks(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		jobs         []string
		want         string
	}{
		{
			"fifo stops at the first job that has no room", "fifo",
			[]string{"10 0 100", "8 1 10", "2 2 10"},
			"1 0 100 0; 2 100 110 0; 3 100 110 0",
		},
		{
			"sjf does so too", "sjf",
			[]string{"12 0 100", "8 1 10", "1 2 20"},
			"1 0 100 0; 2 100 110 0; 3 100 120 0",
		},
		{
			// 1 and 2 come to an empty line, which is sorted by size: 1 starts, 2
			// has no room. A second later 2 and 3 are sorted by prediction.
			"qssf looks at predictions only when jobs wait", "qssf",
			[]string{"8 0 100 900", "12 0 50 1", "16 0 10 0"},
			"1 0 100 0; 2 110 160 0; 3 100 110 0",
		},
		{
			"a second later another job may start", "qssf",
			[]string{"2 0 100 5", "16 0 10 9", "14 0 30 1"},
			"1 0 100 0; 2 100 110 0; 3 0 30 0",
		},
		{
			// By size 9 goes before 10 and has room for neither whole nodes nor one
			// node; 8 is tried first a second later.
			"jobs that count down end one second late", "srtf",
			[]string{"1 0 100"},
			"1 0 101 0",
		},
		{
			// At 10, 1 has 90 left. It is preempted and has 130 left, and a second.
			"a preemption adds 40 s to the work", "srtf",
			[]string{"8 0 100", "16 10 20"},
			"1 0 162 1; 2 10 31 0",
		},
		{
			"or 60 s for more than one node", "srtf",
			[]string{"16 0 100", "16 10 20"},
			"1 0 182 1; 2 10 31 0",
		},
		{
			// The overhead is work like any other: of the 40 s, 9 are done when 1 is
			// preempted again at 40, and 40 more are added.
			"what is done of it counts", "srtf",
			[]string{"16 0 100", "16 10 20", "16 40 5"},
			"1 0 248 2; 2 10 31 0; 3 40 46 0",
		},
		{
			"tiresias decides once a minute", "tiresias",
			[]string{"8 0 30", "8 1 30"},
			"1 0 31 0; 2 60 91 0",
		},
		{
			// 16 GPUs for 1126 s are more than 18000: at 1140, the next minute, 2
			// goes first.
			"a job with much service goes behind", "tiresias",
			[]string{"16 0 2000", "16 100 30"},
			"1 0 2121 1; 2 1140 1171 0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runJobs(t, c.policy, c.jobs); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func runJobs(t *testing.T, policy string, rows []string) string {
	t.Helper()
	text := anchor
	priorities := map[string]float64{}
	for i, r := range rows {
		var gpus int
		var at, duration int64
		var priority float64
		n, _ := fmt.Sscan(r, &gpus, &at, &duration, &priority)
		if n < 3 {
			t.Fatal(r)
		}
		text += row(i+1, "a", gpus, at, duration)
		priorities[fmt.Sprint(i+1)] = priority
	}
	vcs := []vc{{"a", 2}}
	jobs := readText(t, text, vcs)
	for i := range jobs {
		setPriority(&jobs[i], priorities[jobs[i].Job.Key])
	}
	p, err := Find(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.run(context.Background(), vcs, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, row := range r.Rows {
		out = append(out, fmt.Sprintf("%s %d %d %d", row.Key, int64(row.Start)-windowBegin, int64(row.End)-windowBegin, row.Preempt))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// TestConsolidate places jobs one after the other on three nodes and tells what
// they leave free.
func TestConsolidate(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []int
		want string // free GPUs of each node; "-" for a job without room
	}{
		{"the fullest node that has room", []int{5, 6, 2, 1}, "2 0 8"},
		{"the first of equal ones", []int{4, 5, 4}, "0 3 8"},
		{"two whole nodes", []int{1, 16}, "7 0 0"},
		{"not without two whole nodes", []int{1, 1, 8, 16}, "- 6 0 8"},
		{"the rest opens a new node", []int{2, 10}, "6 0 6"},
		{"or goes to the node with the most free", []int{5, 1, 12}, "2 0 4"},
		{"which has to have enough", []int{6, 6, 12}, "- 2 2 8"},
	} {
		cl, err := build([]vc{{"a", 3}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, gpus := range c.jobs {
			var a cluster.Alloc
			if !consolidate(cl, 1, gpus, &a) {
				got += "- "
				continue
			}
			if err := cl.Allocate(&a); err != nil {
				t.Fatal(err)
			}
		}
		got += fmt.Sprintf("%d %d %d", cl.NodeFreeGPUs(0, 0), cl.NodeFreeGPUs(1, 0), cl.NodeFreeGPUs(2, 0))
		if got != c.want {
			t.Errorf("%s: %v leave %s, want %s", c.name, c.jobs, got, c.want)
		}
	}
}

// NumPy 1.24 says so.
func TestNumpyOrder(t *testing.T) {
	zeros := make([]int64, 17)
	for _, c := range []struct {
		v    []int64
		want []int32
	}{
		{nil, []int32{}},
		{[]int64{3, 1, 3, 1}, []int32{1, 3, 0, 2}},
		{zeros[:16], []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{zeros, []int32{0, 14, 13, 12, 11, 10, 9, 15, 8, 6, 5, 4, 3, 2, 1, 7, 16}},
		{[]int64{201, 205, 201, 200, 201, 203, 203, 204, 201, 205, 201, 203, 203, 200, 202, 200, 201, 0}, []int32{17, 15, 13, 3, 10, 16, 0, 4, 2, 8, 14, 5, 11, 12, 6, 7, 9, 1}},
	} {
		if got := numpyOrder(c.v); !slices.Equal(got, c.want) {
			t.Errorf("%v is ordered %v, want %v", c.v, got, c.want)
		}
	}
}

// Numbers that make every median of three a bad one end in the heapsort.
func TestNumpyOrderBadCase(t *testing.T) {
	const n = 4000
	v := make([]int64, n)
	for i := 1; i <= n/2; i++ {
		if i%2 == 1 {
			v[i-1], v[i] = int64(i), int64(n/2+i)
		}
		v[n/2+i-1] = int64(2 * i)
	}
	order := numpyOrder(v)
	for i := 1; i < n; i++ {
		if v[order[i-1]] > v[order[i]] {
			t.Fatalf("place %d holds %d, the next one %d", i-1, v[order[i-1]], v[order[i]])
		}
	}
}

func TestReadLog(t *testing.T) {
	vcs := []vc{{"a", 1}, {"b", 1}}
	text := row("x", "a", 1, 3, 5) + // before the first job of the window's origin is sorted away
		"y,u,a,1,2020-03-31 23:59:59,5\n" + // before the origin
		"w,u,a,1,2020-04-01 00:00:10,5\n" + // before the window; times count from it
		row("c", "c", 1, 3, 5) + // another virtual cluster
		row("n", "a", 0, 3, 5) + // no GPUs
		row("z", "b", 2, 11, 7) + "late,u,a,1,2020-09-27 00:00:00,5\n"
	jobs := readText(t, text, vcs)
	// x is 7 s before the window, counted from w.
	if len(jobs) != 1 || jobs[0].Job.Key != "z" || secs(jobs[0].Job.Submit) != windowBegin+1 || jobs[0].Job.Tenant != "b" || secs(jobs[0].Truth.Work) != 7 {
		t.Errorf("read %+v", jobs)
	}
	for _, c := range []struct{ text, want string }{
		{"1,u,a,x,2020-09-01 00:00:00,5\n", "line 2, column 4 (gpu_num)"},
		{"1,u,a,1,2020-09-01,5\n", "line 2, column 5 (submit_time)"},
		{"1,u,a,1,2020-13-01 00:00:00,5\n", "line 2, column 5 (submit_time)"},
		{"1,u,a,1,2020-09-01 00:00:00,-5\n", "line 2, column 6 (duration)"},
		{"1,u,a,999999,2020-09-01 00:00:00,5\n", "job 1: 999999 GPUs"},
	} {
		table, err := harness.NewTable("log.csv", head+c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = readLog(table, vcs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that says %s", c.text, err, c.want)
		}
	}
}

func TestReadVCs(t *testing.T) {
	vcs, err := readVCs("venus-15vc")
	nodes := 0
	for _, v := range vcs {
		nodes += v.nodes
	}
	if err != nil || len(vcs) != 15 || nodes != 135 {
		t.Errorf("%d virtual clusters with %d nodes, %v", len(vcs), nodes, err)
	}
	file := filepath.Join(t.TempDir(), "vc.csv")
	for text, want := range map[string]string{",num\na,2\nb,1\n": "", ",n\na,2\n": `"num"`, ",num\na,x\n": "line 2", ",num\na,999999999\n": "nodes"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		vcs, err := readVCs(file)
		if want == "" && (err != nil || !slices.Equal(vcs, []vc{{"a", 2}, {"b", 1}})) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v", text, vcs, err)
		}
	}
	if _, err := readVCs("earth"); err == nil || !strings.Contains(err.Error(), "venus-15vc") {
		t.Errorf("error %v", err)
	}
}

func TestReadPriorities(t *testing.T) {
	vcs := []vc{{"a", 1}}
	jobs := readText(t, anchor+row("x", "a", 4, 3, 5), vcs)
	if err := readPriorities("", jobs); err == nil || !strings.Contains(err.Error(), "qssf") {
		t.Errorf("error %v", err)
	}
	file := filepath.Join(t.TempDir(), "p.csv")
	for text, want := range map[string]string{"job_id,priority\nx,2.5\nx,7\n": "", "job_id,priority\ny,1\n": "job x", "job_id\n": "priority", "job_id,priority\nx,?\n": "line 2"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := readPriorities(file, jobs)
		if want == "" && (err != nil || jobs[0].Job.Hints.Rank != 10) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add(head + anchor + row(1, "a", 8, 45, 989) + row(2, "b", 12, 45, 0))
	f.Add(head + "1,u,a,1,2020-09-01T00:00:00+00:00,5\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("log.csv", text)
		if err != nil {
			return
		}
		jobs, err := readLog(table, []vc{{"a", 1}, {"b", 1}})
		for i := range jobs {
			if j := &jobs[i]; err == nil && (secs(j.Job.Submit) < windowBegin || secs(j.Job.Submit) > windowEnd || i > 0 && j.Job.Submit < jobs[i-1].Job.Submit || j.Job.Demand.GPUs() < 1) {
				t.Errorf("job %d: %+v", i, j.Job)
			}
		}
	})
}

func FuzzVCs(f *testing.F) {
	f.Add(",num\na,2\nb,1\n")
	f.Add(",num\na,99999\nb,99999\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("vc.csv", text)
		if err != nil {
			return
		}
		vcs, err := vcsOf(table)
		nodes := 0
		for _, v := range vcs {
			if nodes += v.nodes; v.nodes < 0 || err == nil && nodes > maxNodes {
				t.Errorf("%+v", vcs)
			}
		}
	})
}

func FuzzPriorities(f *testing.F) {
	f.Add("job_id,priority\nx,2.5\n")
	f.Add("job_id,priority\nx,-1e308\nx,nan\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("p.csv", text)
		if err != nil {
			return
		}
		jobs := readText(t, anchor+row("x", "a", 4, 3, 5), []vc{{"a", 1}})
		if err := setPriorities(table, jobs); err == nil && (jobs[0].Job.Hints == nil || jobs[0].Job.Hints.Rank != jobs[0].Job.Hints.Rank) {
			t.Errorf("%+v", jobs[0].Job.Hints)
		}
	})
}
