package muri

import (
	"context"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// runRows runs a policy on one node of 8 GPUs and returns job, start and end of
// each job.
func runRows(t *testing.T, policy string, rows ...string) string {
	t.Helper()
	w, _ := read(t, rows)
	p, err := Find(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.run(context.Background(), yarn.Spec{Switches: 1, Nodes: 1, GPUs: 8, CPUs: 92, Memory: 520}, w)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.Rows {
		row := &r.Rows[i]
		line := append([]byte(row.Key), ' ')
		line = harness.AppendFloat(append(harness.AppendFloat(line, row.Start), ' '), row.End)
		out = append(out, string(line))
	}
	return strings.Join(out, "; ")
}

func TestQuirks(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		rows         []string
		want         string // job start end
	}{
		{
			// 1000 iterations of 1.015 x 100 ms.
			"a job takes 1.5 % longer than the trace says", "shortest",
			[]string{"0,1,0,1000,vgg16,100000,100"},
			"0 0 101.5",
		},
		{
			// vgg16 on 1 GPU: 7 s at the arrival at 50 s, though it runs on.
			"an event costs every running job its overhead", "shortest",
			[]string{"0,1,0,1000,vgg16,100000,100", "1,1,50000,1000,resnet18,100000,100"},
			"0 0 108.5; 1 50 155.5", // 1 pays 4 s when 0 ends
		},
		{
			// 7 s at 50 s; then 0 waits for 1 until 51.015 s, and the arrival at 53 s
			// costs it the 1.985 s that it has run since.
			"it costs no more than the time since the event before", "shortest",
			[]string{"0,1,0,1000,vgg16,100000,100", "1,8,50000,10,bert,1000,100", "2,8,53000,10,bert,1000,100"},
			"0 0 112.515; 1 50 51.015; 2 53 54.015",
		},
		{
			"an unknown model costs 10 s", "shortest",
			[]string{"0,1,0,1000,other,100000,100", "1,8,50000,10,bert,1000,100"},
			"0 0 112.515; 1 50 51.015",
		},
		{
			// a2c on 8 GPUs: 46 s each. Both end at 101.5 s, and together.
			"jobs that end at the same moment pay nothing for each other", "shortest",
			[]string{"0,4,0,1000,a2c,100000,100", "1,4,0,1000,a2c,100000,100"},
			"0 0 101.5; 1 0 101.5",
		},
		{
			// 0 sinks at 3250/8 = 407 s and at 7200/8 = 900 s, which costs it 10 s
			// each time; 1 starts at once, costs it 10 s more and takes 10.15 s.
			"dlas-gpu sinks in time, and pays for it", "dlas-gpu",
			[]string{"0,8,0,50000,bert,5000000,100", "1,8,1000000,100,bert,10000,100"},
			"0 0 5115.15; 1 1000 1010.15",
		},
		{
			"jobs that arrive within a part in 10^9 arrive together", "shortest",
			[]string{"0,8,2000000000,1000,bert,100000,100", "1,8,2000000001,10,bert,1000,100"},
			"0 2000001.015 2000102.515; 1 2000000 2000001.015",
		},
		{
			"earlier in time they do not", "shortest",
			[]string{"0,8,2000,1000,bert,100000,100", "1,8,2001,10,bert,1000,100"},
			"0 2 104.516; 1 2.001 3.016",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runRows(t, c.policy, c.rows...); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"job_id,num_gpu\n", `"submit_time"`},
		{head + "7,3,0,10,bert,1,100\n", "line 2: job 7 asks for 3 GPUs"},
		{head + "7,1,0.5,10,bert,1,100\n", "(submit_time)"},
		{head + "7,1,0,x,bert,1,100\n", "(iterations)"},
		{head + "7,1,0,10,bert,1,0\n", "job 7: a time is out of range"},
		{head + "7,1,0,-10,bert,1,100\n", "job 7: a time is out of range"},
		{head + "7,1,0,10,bert,y,100\n", "(duration)"},
	} {
		table, err := harness.NewTable("t.csv", c.text)
		if err == nil {
			_, err = readTable(table)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that says %s", c.text, err, c.want)
		}
	}
	if _, err := Find("nobody"); err == nil || !strings.Contains(err.Error(), "shortest-gpu") {
		t.Errorf("the error %v does not list the known policies", err)
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(head + "0,4,0,1046811,shufflenet_v2_x1_0,927475000,886\n")
	f.Add(head + "\"a\",32,1456000,1e3,bert,0.5,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("t.csv", text)
		if err != nil {
			return
		}
		w, err := readTable(table)
		if err != nil {
			return
		}
		for i := range w.jobs {
			j, fact := &w.jobs[i], &w.facts[i]
			if j.Truth.Work < grace || fact.arrives > fact.submit || i > 0 && j.Job.Submit < w.jobs[i-1].Job.Submit || !(fact.iteration > 0) {
				t.Errorf("job %d: %+v, %+v", i, j.Job, fact)
			}
		}
	})
}
