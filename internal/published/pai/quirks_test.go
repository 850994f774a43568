package pai

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// TestQuirks runs a few jobs on one node, or on two of which the second has
// V100s, and tells job, start, end and node of each instance.
func TestQuirks(t *testing.T) {
	one := &machine{nodes: []node{{gpus: 400, cpus: 1600}}, first: 1}
	two := &machine{nodes: []node{{gpus: 200, cpus: 800}, {gpus: 200, cpus: 800, v100: true}}, matching: true}
	for _, c := range []struct {
		name, policy string
		machine      *machine
		jobs         []string // job_id, gpu_type, num_gpu, num_cpu, submit_time, num_inst, duration, user, group and group-GPU estimate
		want         string
	}{
		{
			"FIFO backfills: who fits goes ahead of who does not", "FIFO", one,
			[]string{"0,T4,3,1,0,1,10,0,0,0", "1,T4,2,1,1,1,10,0,0,0", "2,T4,1,1,2,1,10,0,0,0"},
			"0 0 10 0; 1 10 20 0; 2 2 12 0",
		},
		{
			"SJF starts the shortest first", "SJF", one,
			[]string{"0,T4,4,1,0,1,10,0,0,0", "1,T4,4,1,0,1,5,0,0,0"},
			"0 5 15 0; 1 0 5 0",
		},
		{
			"SJU, SJG and SJGG go by their estimate, ties by job_id", "SJG", one,
			[]string{"2,T4,4,1,0,1,1,9,3,9", "1,T4,4,1,0,1,2,9,3,9", "0,T4,4,1,0,1,3,1,4,1"},
			"0 3 6 0; 1 0 2 0; 2 2 3 0",
		},
		{
			"every instance of a gang is a finished job", "FIFO-pack", two,
			[]string{"7,T4,1,1,0,3,10,0,0,0"},
			"7 0 10 0; 7 0 10 0; 7 0 10 1",
		},
		{
			"a job for a V100 takes nothing else, any other one takes a V100 too", "FIFO-pack", two,
			[]string{"0,V100,2,1,0,1,10,0,0,0", "1,V100,1,1,1,1,10,0,0,0", "2,P100,2,1,1,1,10,0,0,0"},
			"0 0 10 1; 1 10 20 1; 2 1 11 0",
		},
		{
			"balance looks at the least used node first", "FIFO-balance", two,
			[]string{"0,T4,1,1,0,1,10,0,0,0", "1,T4,1,1,1,1,10,0,0,0"},
			"0 0 10 0; 1 1 11 1",
		},
		{
			"a duration below one is one", "SJF", one,
			[]string{"0,T4,1,1,3,1,0,0,0,0"},
			"0 3 4 0",
		},
		{
			"what an instance asks for beyond the cluster is cut off", "SJF", one,
			[]string{"0,T4,9,99,0,1,5,0,0,0"},
			"0 0 5 0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Find(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			w := read(t, head+strings.Join(c.jobs, "\n")+"\n", p.column)
			got, err := finished(p, c.machine, w)
			if err != nil {
				t.Fatal(err)
			}
			if joined := strings.Join(got, "; "); joined != c.want {
				t.Errorf("\n got %s\nwant %s", joined, c.want)
			}
		})
	}
}

func TestRate(t *testing.T) {
	w := read(t, head+"0,T4,1,1,500,1,5,0,0,0\n1,T4,1,1,700,1,5,0,0,0\n2,T4,1,1,600,1,5,0,0,0\n", "submit_time")
	w.setRate(2, true)
	got := ""
	for _, f := range w.facts {
		got += f.name + " " + string(harness.AppendInts(nil, f.submit, int64(f.key)))[1:] + "; "
	}
	if want := "0 0,0; 2 0,0; 1 60,60; "; got != want {
		t.Errorf("two a minute: %s, want %s", got, want)
	}
}

func TestReadDefaults(t *testing.T) {
	w := read(t, "job_id,duration\nb,7.9\na,-3\n", "submit_time")
	got := ""
	for _, f := range w.facts {
		got += f.name + string(harness.AppendInts(nil, f.submit, f.duration, int64(f.gpus), int64(f.cpus), int64(f.instances))) + "; "
	}
	if want := "a,1,1,0,0,1; b,1,7,0,0,1; "; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ by, text, want string }{
		{"duration", "job_id\n1\n", `no column "duration"`},
		{"user_dur", "job_id,duration\n1,2\n", `no column "user_dur"`},
		{"user_dur", "job_id,duration,user_dur\n1,2,\n", "line 2, column 3 (user_dur): found nothing"},
		{"duration", head + "1,T4,x,1,0,1,5,0,0,0\n", `line 2, column 3 (num_gpu): found "x"`},
		{"duration", head + "1,T4,-1,1,0,1,5,0,0,0\n", `line 2, column 3 (num_gpu): found "-1"`},
		{"duration", head + "1,T4,1,1,0,0,5,0,0,0\n", "in 0 instances is out of range"},
		{"duration", head + "1,T4,1,1,0,1,1e30,0,0,0\n", "is out of range"},
		{"duration", head + "1,T4,1,1,0,1,5,0,0,0\nx,T4,1,1,0,1,5,0,0,0\n", "which the simulator cannot sort"},
	} {
		table, err := harness.NewTable("trace.csv", c.text)
		if err == nil {
			_, err = readTable(table, c.by)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that says %s", c.text, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	if _, err := Find("LIFO"); err == nil || !strings.Contains(err.Error(), "SJGG-balance") {
		t.Errorf("the error %v does not list the known policies", err)
	}
	for _, bad := range []string{"", "g", "g0", "300", "n2g8", "g9999999", "homo"} {
		if _, err := nodesOf(bad); err == nil || !strings.Contains(err.Error(), "hetero") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	m, err := nodesOf("g300")
	if err != nil || len(m.nodes) != 1 || m.nodes[0] != (node{gpus: 30000, cpus: 696600}) {
		t.Errorf("g300 is %+v, %v", m, err)
	}
	// The list of the simulator's run_simulator_fifo: 380 nodes, 1,352 GPUs.
	m, err = nodesOf("hetero")
	if err != nil {
		t.Fatal(err)
	}
	if gpus, cpus := m.totals(); len(m.nodes) != 380 || gpus != 135200 || cpus != 100*(16*96+56*96+100*96+160*64+48*96) {
		t.Errorf("hetero has %d nodes with %d %% of a GPU and %d %% of a CPU", len(m.nodes), gpus, cpus)
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(head + "0,V100,0.5,6,3,2,100,1,2,3\n")
	f.Add("job_id,duration\na,1\nb,2\n")
	f.Add(head + "1,,,,,,-1e9,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("trace.csv", text)
		if err != nil {
			return
		}
		w, err := readTable(table, "duration")
		if err != nil {
			return
		}
		for i := range w.facts {
			f := &w.facts[i]
			if f.duration < 1 || f.gpus < 0 || f.cpus < 0 || f.instances < 1 || f.submit < 0 || i > 0 && f.submit < w.facts[i-1].submit {
				t.Errorf("job %d: %+v", i, *f)
			}
		}
	})
}
