package tiresias

import (
	"context"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// small is a cluster of one node.
func small(gpus int) yarn.Spec {
	return yarn.Spec{Switches: 1, Nodes: 1, GPUs: gpus, CPUs: 128, Memory: 256}
}

// runLines runs a policy on jobs "GPUs submit duration", numbered from 0, and
// returns the lines of its result, with the columns GPUs, submission and JCT
// left out: job, start, end, duration, pending, preempt, resume, promote.
func runLines(t *testing.T, policy string, spec yarn.Spec, jobs ...string) string {
	t.Helper()
	text := "job_id,num_gpu,submit_time,duration\n"
	for i, j := range jobs {
		text += string(rune('0'+i)) + "," + strings.Join(strings.Fields(j), ",") + "\n"
	}
	table, err := harness.NewTable("trace.csv", text)
	if err != nil {
		t.Fatal(err)
	}
	read, err := readJobs(table)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(context.Background(), spec, read)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.Rows {
		f := strings.Split(string(r.Append(nil, &r.Rows[i])), ",")
		out = append(out, strings.Join([]string{f[0], f[3], f[4], f[6], f[7], f[8], f[9], f[10]}, " "))
	}
	return strings.Join(out, "; ")
}

func TestQuirks(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		spec         yarn.Spec
		jobs         []string
		want         string // job start end duration pending preempt resume promote
	}{
		{
			"fifo stalls for ever behind a job that is too large", "fifo-count", small(4),
			[]string{"1 0 10", "8 1 10", "1 2 10"},
			"0 0 10 10 0 0 0 0",
		},
		{
			"fjf skips it", "fjf-count", small(4),
			[]string{"1 0 10", "8 1 10", "1 2 10"},
			"0 0 10 10 0 0 0 0; 2 2 12 10 0 0 0 0",
		},
		{
			"lpjf overlooks every second job until the next event", "lpjf-count", small(4),
			[]string{"1 0 10", "1 0 10", "1 0 10"},
			"0 0 10 10 0 0 0 0; 1 10 20 10 10 0 0 0; 2 0 10 10 0 0 0 0",
		},
		{
			"a job of no duration never ends where nothing is preempted", "fjf-count", small(4),
			[]string{"3 0 0", "1 5 10", "2 6 10"},
			"1 5 15 10 0 0 0 0",
		},
		{
			"it ends at once where jobs are preempted", "shortest-count", small(4),
			[]string{"3 0 0", "1 5 10", "2 6 10"},
			"0 0 0 0 0 0 1 0; 1 5 15 10 0 0 1 0; 2 6 16 10 0 0 1 0",
		},
		{
			// At 10, 0 has 10 left, 1 as many: it came later and waits. At 20 they
			// are still equal, since only running jobs come down: 1 is preempted by 2.
			"jobs of equal key keep their order", "shortest-count", small(1),
			[]string{"1 0 20", "1 10 10", "1 25 3"},
			"0 0 20 20 0 0 1 0; 1 20 33 10 13 1 2 0; 2 25 28 3 0 0 1 0",
		},
		{
			// Service 2 x 1625 meets the limit at 1625. But at 1000, an arrival, the
			// next look is set to 1000 + (3250 - 1000) / 2 = 2125.
			"dlas-gpu notices late that a job of several GPUs has sunk", "dlas-gpu-count", small(2),
			[]string{"2 0 5000", "2 1000 100"},
			"0 0 5100 5000 100 1 2 0; 1 2125 2225 100 1125 0 1 0",
		},
		{
			"without an arrival it notices in time", "dlas-gpu-count", small(2),
			[]string{"2 0 5000", "2 0 100"},
			"0 0 5100 5000 100 1 2 0; 1 1625 1725 100 1625 0 1 0",
		},
		{
			// 0 sinks at 3250; 1 runs until it sinks at 6500. Half as long as it has
			// run, 1625 s later, 0 is back in the first queue.
			"a job that waits rises", "dlas-gpu-05-count", small(1),
			[]string{"1 0 4000", "1 100 4000"},
			"0 0 7250 4000 3250 1 2 1; 1 3250 8000 4000 3900 1 2 0",
		},
		{
			// At 10 the loop sees that 0 ends at 4000, with the arrival of 2, and
			// writes it into that event; but 0 sinks first, at 3250, and is preempted
			// by 1. At 4000 it ends with 750 s of work left.
			"a job ends at a moment foretold, whatever became of it", "dlas-count", small(1),
			[]string{"1 0 4000", "1 10 5000", "1 4000 10"},
			"0 0 4000 4000 0 1 1 0; 1 3250 8260 5000 3250 1 2 0; 2 6500 6510 10 2500 0 1 0",
		},
		{
			"dlas-gpu-gittins-2 never looks at an index", "dlas-gpu-gittins-2-count", small(2),
			[]string{"2 0 5000", "2 1000 100"},
			"0 0 5100 5000 100 1 2 0; 1 2125 2225 100 1125 0 1 0",
		},
		{
			// The index of little service is the largest, and the smallest goes
			// first: who runs keeps running, however long.
			"gittins sorts the wrong way round", "gittins-count", small(1),
			[]string{"1 0 9000", "1 100 10"},
			"0 0 9000 9000 0 0 1 0; 1 9000 9010 10 8900 0 1 0",
		},
		{
			"dlas-gpu-gittins sorts the right way round", "dlas-gpu-gittins-count", small(1),
			[]string{"1 0 9000", "1 200 10"},
			"0 0 9010 9000 10 1 2 0; 1 200 210 10 0 0 1 0",
		},
		{
			"yarn keeps a job of one node's size on one node", "fjf-yarn", yarn.Spec{Switches: 1, Nodes: 2, GPUs: 4, CPUs: 128, Memory: 256},
			[]string{"3 0 10", "3 0 20", "2 0 5"},
			"0 0 10 10 0 0  0; 1 0 20 20 0 0  0; 2 10 15 5 10 0  0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runLines(t, c.policy, c.spec, c.jobs...); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// The published simulator prints these when it learns from its samples.
func TestGittinsIndex(t *testing.T) {
	h := learn()
	if len(h.values) != 1001 {
		t.Fatalf("learnt from %d samples, the simulator has 1001", len(h.values))
	}
	for at, want := range map[int]float64{
		0: 299.701, 1: 299.2165, 10: 295.3786, 100: 260.423, 500: 119.263, 700: 50.0408, 900: 4.2029, 990: 0.4345, 999: 0.0881, 1000: 0,
	} {
		if h.index[at] != want {
			t.Errorf("sample %d: index %v, want %v", at, h.index[at], want)
		}
	}
	for service, want := range map[int64]float64{0: 97695.37, 3250: 246649.35, 100_000: 1026599.44, 53_294_623: 53_294_624, 53_294_624: 0} {
		if got := h.expected(service); got != want {
			t.Errorf("after %d s: %v more are expected, want %v", service, got, want)
		}
	}
	for _, service := range []int64{0, 121, 3250, 100_000, 53_294_623, 53_294_624, 1 << 40} {
		if a, b := h.rankOf(service), h.rankOf(service+5000); a > b && slowIndex(h, service) > slowIndex(h, service+5000) {
			t.Errorf("service %d has rank %d, but the larger index", service, a)
		}
	}
}

func TestRound(t *testing.T) {
	for _, c := range []struct {
		v        float64
		decimals int
		want     float64
	}{{0.125, 2, 0.13}, {0.375, 2, 0.38}, {2.675, 2, 2.67}, {1.5, 0, 2}, {2.5, 0, 3}, {0.00001, 4, 0}, {7, 2, 7}} {
		if got := round(c.v, c.decimals); got != c.want {
			t.Errorf("round(%v, %d) = %v, want %v", c.v, c.decimals, got, c.want)
		}
	}
}

func TestAgenda(t *testing.T) {
	var a agenda
	a.add(1, 50)
	a.add(2, 50)
	a.add(3, 49)
	a.add(4, turn+60) // in the heap
	a.add(5, 70)
	a.remove(5, 70)
	if got := a.next(); got != 49 {
		t.Fatalf("the first moment is %d, want 49", got)
	}
	if got := a.take(50, nil); len(got) != 3 || got[0] != 3 || got[1]+got[2] != 3 {
		t.Errorf("took %v up to 50, want 3 and then 1 and 2", got)
	}
	a.add(6, turn+50) // wraps around to the slot of 50
	if got := a.next(); got != turn+50 {
		t.Errorf("the next moment is %d, want %d", got, turn+50)
	}
	a.remove(6, turn+50)
	if got := a.take(turn+60, nil); len(got) != 1 || got[0] != 4 {
		t.Errorf("took %v, want 4", got)
	}
	if got := a.next(); got != never {
		t.Errorf("an empty agenda has %d next", got)
	}
}

func TestReadJobs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"job_id,num_gpu,submit_time\n", `no column "duration"`},
		{"job_id,num_gpu,submit_time,duration\n7,1.5,0,3\n", `line 2, column 2 (num_gpu): found "1.5"`},
		{"job_id,num_gpu,submit_time,duration\n7,1,-3,3\n", "line 2, column 3 (submit_time)"},
		{"job_id,num_gpu,submit_time,duration\n\n7,0,1,3\n", "line 3: job 7 asks for 0 GPUs"},
		{"job_id,num_gpu,submit_time,duration\n7,1,1,-3\n", "job 7: a time is out of range"},
		{"job_id,num_gpu,submit_time,duration\n7,1,1,nan\n", `(duration): found "nan"`},
		{"", "empty"},
	} {
		table, err := harness.NewTable("t.csv", c.text)
		if err == nil {
			_, err = readJobs(table)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that says %s", c.text, err, c.want)
		}
	}
	table, _ := harness.NewTable("t.csv", "duration,job_id,submit_time,num_gpu\n3.9,b,5,2\n1,a,4,1\n2,c,5,1\n")
	jobs, err := readJobs(table)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range jobs {
		got = append(got, jobs[i].Job.Key+" "+jobs[i].Job.Submit.String()+" "+jobs[i].Truth.Work.String())
	}
	if want := "a 4s 1s, b 5s 3s, c 5s 2s"; strings.Join(got, ", ") != want {
		t.Errorf("read %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestFindUnknown(t *testing.T) {
	_, err := Find("dlas-gpu-3-count")
	if err == nil || !strings.Contains(err.Error(), "dlas-gpu-2-count") {
		t.Errorf("the error %v does not list the known policies", err)
	}
}

func FuzzReadJobs(f *testing.F) {
	f.Add("job_id,num_gpu,submit_time,duration\n0,1,0,164\n1,8,30,147.5\n")
	f.Add("job_id,num_gpu,submit_time,duration\n\"a,b\",1,0,1e3\r\n")
	f.Add("duration,num_gpu,submit_time,job_id\n1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("t.csv", text)
		if err != nil {
			return
		}
		jobs, err := readJobs(table)
		for i := range jobs {
			if j := &jobs[i]; err == nil && (int(j.Job.ID) != i || j.Truth.Work < 0 || j.Job.Demand.GPUs() < 1 || i > 0 && j.Job.Submit < jobs[i-1].Job.Submit) {
				t.Errorf("job %d: %+v", i, j.Job)
			}
		}
	})
}
