package synergy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// runRows runs a policy and returns number and end of each job, by number.
func runRows(t *testing.T, policy, cluster string, lines ...string) string {
	t.Helper()
	m, err := readMachine(cluster)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readText("t", strings.Join(lines, "\n"), m)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.run(context.Background(), m, w)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.Rows, func(a, b harness.Row) int { return strings.Compare(a.Key, b.Key) })
	var out []string
	for i := range r.Rows {
		out = append(out, fmt.Sprintf("%s %v", r.Rows[i].Key, r.Rows[i].End))
	}
	return strings.Join(out, "; ")
}

// Each case was run by the published simulator, too.
func TestQuirks(t *testing.T) {
	const one, small = "1x8 GPU, 24 CPU, 500 GB", "1x4 GPU, 12 CPU, 250 GB"
	for _, c := range []struct {
		name, policy, cluster string
		jobs                  []string // number, model, arrival, iterations, GPUs
		want                  string   // number end
	}{
		{
			// 450 iterations of 0.64 s are 288 s, 480 are 307.2 s.
			"a job ends with its lease, and begins with a round", "FIFO-fair", one,
			[]string{"0,res18,100,450,1", "1,res18,299,480,1", "2,res18,300,450,1", "3,res18,301,450,1"},
			"0 600; 1 900; 2 600; 3 900",
		},
		{"all there at the start: the first round begins after one second", "FIFO-fair", one, []string{"0,res18,0.0,450,1", "1,res18,0.001,450,1"}, "0 301; 1 301"},
		{
			// 1000 x 0.64 s / 2.4 = 266.7 s; 469 iterations in 300.16 s do not fit into a
			// round, since a part of an iteration is lost.
			"what it wants, in one round; parts of iterations are lost", "FIFO-tune", one,
			[]string{"0,res18,100,1000,1", "1,lstm,100,27273,1", "2,res50,100,768,2"},
			"0 600; 1 900; 2 900",
		},
		{
			// 1470 iterations at 2.94 would take 300 s; the server is full, and alexnet is
			// left its share: 500 an each round.
			"who has more than its share gives it back, and its round counts anew", "FIFO-tune", small,
			[]string{"0,alexnet,0.0,1470,1", "1,gnmt,0.001,100,1", "2,lstm,0.002,100,1", "3,transformer,0.003,100,1"},
			"0 601; 1 301; 2 301; 3 301",
		},
		{"greedy leaves GPUs idle instead", "FIFO-greedy", small, []string{"0,alexnet,0.0,1470,1", "1,gnmt,0.001,100,1"}, "0 301; 1 601"},
		{
			// Both wait 600 s in the end; 1 has less to do: it is later by its ratio, and goes
			// behind.
			"who is least late goes first under FTF", "FTF-fair", "1x1 GPU, 3 CPU, 63 GB",
			[]string{"0,gnmt,100,5000,1", "1,gnmt,100,2500,1"},
			"0 900; 1 1200",
		},
		{
			// In the first round 0 is left its share for 1. Then it has 340 s to go at that
			// speed and 200 s at that with what it wants; 2 has 300 s.
			"SRTF goes by the speeds of the round before", "SRTF-tune", "1x2 GPU, 6 CPU, 125 GB",
			[]string{"0,res18,100,1000,1", "1,gnmt,100,4167,1", "2,gnmt,400,2500,1"},
			"0 1200; 1 900; 2 900",
		},
		{
			"an unknown model is alexnet", "FIFO-fair", one,
			[]string{"0,vgg16,100,500,1", "1,alexnet,100,500,1", "2,vgg16,100,501,1"},
			"0 600; 1 600; 2 900",
		},
		{
			"it stops when nobody is there at the beginning of a round", "FIFO-fair", one,
			[]string{"0,res18,100,450,1", "1,res18,700,450,1"},
			"0 600",
		},
		{
			// For 4 GPUs it wants 36 of 24 cores, and is 1.7 times as fast: 796 iterations.
			"a demand is cut to the server, and its speed on a straight line", "FIFO-tune", "2x8 GPU, 24 CPU, 500 GB",
			[]string{"0,res18,100,796,4", "1,res18,100,797,4"},
			"0 600; 1 900",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runRows(t, c.policy, c.cluster, c.jobs...); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Acceptance C of the spec: a demand is cut to a server, and its speed with it.
func TestDemand(t *testing.T) {
	m, _ := readMachine("4x8 GPU, 24 CPU, 500 GB")
	for _, c := range []struct {
		model                     string
		gpus                      int
		cpus, memory, disk, speed float64
	}{
		{"res18", 4, 24, 250, 250, 1.7}, {"alexnet", 2, 24, 250, 125, 2.94}, {"alexnet", 4, 24, 500, 250, 1.646_667}, {"res18", 16, 48, 1000, 1000, 1},
		{"m5", 4, 24, 500, 250, 2.5}, {"m5", 8, 24, 500, 500, 1}, {"gnmt", 16, 16, 320, 1000, 1}, {"res50", 1, 4, 62.5, 62.5, 1.15},
	} {
		task, err := readTask(fmt.Sprintf("0,%s,0,1,%d", c.model, c.gpus), m)
		if err != nil {
			t.Fatal(err)
		}
		if want := (vector{float64(c.gpus), c.cpus, c.memory, c.disk}); task.want != want || math.Abs(task.best-c.speed) > 1e-6 {
			t.Errorf("%s on %d GPUs wants %v at %v, want %v at %v", c.model, c.gpus, task.want, task.best, want, c.speed)
		}
	}
}

func TestReadErrors(t *testing.T) {
	m, _ := readMachine("4x8 GPU, 24 CPU, 500 GB")
	for text, want := range map[string]string{
		"":                         "line 1: 1 fields",
		"0,gnmt,0,5,1\n1,gnmt,0,5": "t, line 2: 4 fields",
		"x,gnmt,0,5,1":             `"x" is not a number of a job`,
		"0,gnmt,-1,5,1":            `"-1" is not a time`,
		"0,gnmt,NaN,5,1":           `"NaN" is not a time`,
		"0,gnmt,0,5.5,1":           `"5.5" is not a number of iterations`,
		"0,gnmt,0,5,3":             "job 0 asks for \"3\" GPUs; the simulator knows models on 1, 2, 4, 8 and 16",
	} {
		if _, err := readText("t", text, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %s", text, err, want)
		}
	}
	for _, name := range []string{"", "4x8", "4x8 GPU, 24 CPU, 500 GB, 9", "0x8 GPU, 24 CPU, 500 GB", "4x8 GPU, -24 CPU, 500 GB"} {
		if _, err := readMachine(name); err == nil || !strings.Contains(err.Error(), "4x8 GPU, 24 CPU, 500 GB") {
			t.Errorf("cluster %q: error %v", name, err)
		}
	}
	if _, err := Find("FIFO"); err == nil || !strings.Contains(err.Error(), "FIFO-tune") {
		t.Errorf("the error %v does not list the known policies", err)
	}
}

// The queue hands out the earliest event, and of equal ones those that a heap would: as
// Python's heapq does with the same calls, of which the order below was noted.
func TestEvents(t *testing.T) {
	var q events
	times := []float64{5, 1, 5, 3, 5, 1, 5, 3, 1, 5}
	tasks := make([]task, len(times))
	for i, at := range times {
		tasks[i].key = fmt.Sprint(i)
		q.push(event{at, arrives, &tasks[i]})
	}
	var got []string
	for len(q) > 0 {
		got = append(got, q.pop().task.key)
	}
	if want := "1 5 8 3 7 6 2 9 4 0"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	last := -1.0
	for range 1000 {
		if len(q) == 0 || rng.IntN(3) > 0 {
			q.push(event{last + float64(rng.IntN(5)), kind(rng.IntN(3)), nil})
			continue
		}
		e := q.pop()
		if e.at < last {
			t.Fatalf("%v after %v", e.at, last)
		}
		last = e.at
	}
}

func FuzzReadText(f *testing.F) {
	f.Add("0,gnmt,0.0,5,1\n1,res18,1e3,7,16\n")
	f.Add("0,m5,.5,0,8,9\r\n")
	m, _ := readMachine("4x8 GPU, 24 CPU, 500 GB")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := readText("t", text, m)
		if err != nil {
			return
		}
		for i, task := range w.tasks {
			if task.want[0] < 1 || task.best < 1 || i > 0 && w.jobs[i].Job.Submit < w.jobs[i-1].Job.Submit {
				t.Errorf("job %d: %+v", i, task)
			}
		}
	})
}
