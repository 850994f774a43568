package iadeep

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// rows are those of a published table, without its header.
func rows(t testing.TB, name string) (header []string, body [][]string) {
	t.Helper()
	all := shared.Rows(t, "data/iadeep/"+name)
	return all[0], all[1:]
}

// measured are the published sums of crowds. Counts are written in binary digits; the
// one crowd that was measured as faster than alone is left out.
func measured(t testing.TB) map[perf.Crowd]float64 {
	header, body := rows(t, "online_interference.csv")
	out := map[perf.Crowd]float64{}
	for _, r := range body {
		var sorts []string
		for i := range 8 {
			n, err := strconv.ParseInt(r[8+i], 2, 8)
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				sorts = append(sorts, header[i])
			}
		}
		sum, err := strconv.ParseFloat(r[16], 64)
		if err != nil {
			t.Fatal(err)
		}
		if sum > 0 {
			out[perf.NewCrowd(sorts)] = sum
		}
	}
	return out
}

// kind is a model of the workload: its share, its own batch, a step, its run time alone
// (the published ones, an hour at most), its use of a GPU, the memory it asks for.
type kind struct {
	name  string
	part  float64
	batch int
	step  float64
	run   float64
	use   float64
	gib   int
}

var kinds = []kind{
	{"vgg16", .14, 512, .0813, 259, .53, 9}, {"squeezenet", .14, 512, .0315, 358, .10, 5}, {"resnet50", .14, 1024, .1201, 215, .30, 10}, {"neumf", .12, 1024, .0032, 507, .03, 3},
	{"adgcl", .12, 32, .06, 3536, .11, 5}, {"lstm", .12, 256, .0122, 2068, .57, 5}, {"bert", .10, 8, .31, 3600, .40, 8}, {"yolov5", .10, 32, .17, 3600, .35, 6},
}

// workload is the published arrivals, a thousand times as fast, of jobs drawn from the
// published mix, with what they really take of memory: 70 % of what they ask for.
func workload(t testing.TB, seed uint64) []simtest.Job {
	_, body := rows(t, "microsoft_trace_task_rate.csv")
	rng := rand.New(rand.NewPCG(seed, 1))
	var jobs []simtest.Job
	for i, r := range body {
		at, err := strconv.ParseFloat(r[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		x, k := rng.Float64(), 0
		for ; k < len(kinds)-1 && x >= kinds[k].part; k++ {
			x -= kinds[k].part
		}
		m := kinds[k]
		memory := unit.Bytes(0.7 * float64(m.gib) * float64(unit.GiB))
		jobs = append(jobs, simtest.Job{
			Key: strconv.Itoa(i), At: at / 1000, GPUs: 1, Run: m.run, Model: m.name, GPUMemory: memory,
			Spec: func(j *job.Job) {
				d := *j.Demand
				d.Roles[0].GPUMemory = unit.Bytes(m.gib) * unit.GiB
				j.Demand, j.Batch = &d, m.batch
				j.Hints = &job.Hints{GPUUse: m.use, GPUMemory: memory, Iteration: time.Duration(m.step * float64(time.Second))}
			},
		})
	}
	return jobs
}

// world is how jobs slow each other down: as was measured, and where a crowd was not, by
// pressures fitted to those that were; their batches are those of the spec's section 4.
func world(t testing.TB) perf.Rebatched {
	return perf.Rebatched{
		Of: perf.Crowds{Sum: measured(t), Pressure: map[string]float64{"vgg16": .31, "squeezenet": .39, "resnet50": .06, "neumf": .04, "adgcl": .62, "lstm": .34, "bert": .05, "yolov5": .14}},
		Steps: func(j *job.Job) *perf.Stepping {
			return &perf.Stepping{Own: j.Batch, Steady: 0.3, Noise: 4 * float64(j.Batch), Sample: j.Hints.GPUMemory / 2 / unit.Bytes(j.Batch)}
		},
	}
}

// play is the experiment of the spec's section 6: twenty nodes of one GPU of 24 GiB, 300
// jobs. It returns the mean JCT and the makespan, in seconds.
func play(t testing.TB, seed uint64, truth perf.Sharing, change func(*Config)) (jct, makespan float64) {
	cfg := node(1, nil, nil)
	cfg.Cluster = twenty(t)
	cfg.Sharing, cfg.World = truth, func(c *sim.Config) { c.Sharing, c.Measure = truth, true }
	cfg.Make = func() (sched.Policy, error) {
		c := NewConfig()
		if change != nil {
			change(c)
		}
		return c.Policy()
	}
	cfg.Unchecked = true
	jobs := workload(t, seed)
	run := simtest.Go(t, cfg, jobs...)
	for _, j := range jobs {
		makespan = max(makespan, run.End(j.Key))
	}
	return run.MeanJCT(), makespan
}

// TestRelative compares them with those whose batches are left alone, and with the first
// GPU that holds a job.
func TestRelative(t *testing.T) {
	longtest.Skip(t)
	mean := map[string]float64{}
	for name, change := range map[string]func(*Config){
		"iadeep": nil, "untuned": func(c *Config) { c.Tune = false },
		"first-fit": func(c *Config) { c.Choice, c.Tune = FirstFit, false }, // the code's AntMan mode
	} {
		jct, makespan := play(t, 0, world(t), change)
		t.Logf("%s: mean JCT %.0f s, makespan %.0f s", name, jct, makespan)
		mean[name] = jct
	}
	// The spec hopes for 10 and 15 % less, which is what the best batches would give: TestOracle.
	if !(mean["iadeep"] < 0.94*mean["untuned"] && mean["iadeep"] < 0.9*mean["first-fit"]) {
		t.Errorf("iadeep %v, untuned %v, first fit %v", mean["iadeep"], mean["untuned"], mean["first-fit"])
	}
}

func twenty(t testing.TB) *cluster.Cluster {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "3090", Memory: 24 * unit.GiB})
	for range 20 {
		if err == nil {
			_, err = c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 1}}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
