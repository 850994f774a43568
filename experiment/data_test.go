package experiment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// regional is three regions of two nodes of eight GPUs.
func regional(t *testing.T) *clusterspec.Spec {
	t.Helper()
	s, err := clusterspec.ParseYAML("t", []byte("topology: [region]\nnodes: [{count: 2, gpus: 8, place: eu}, {count: 2, gpus: 8, place: us}, {count: 2, gpus: 8, place: ap}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reader is a job that reads data.
func reader(key, data string, gpus int, submit, work time.Duration) trace.Entry {
	d := job.GPUs(gpus)
	return trace.Entry{Job: job.Job{Key: key, Dataset: data, Demand: &d, Submit: submit}, Truth: trace.Truth{Work: work}}
}

// TestReadData: catalogues that make no sense are refused, with what they are about.
func TestReadData(t *testing.T) {
	for text, want := range map[string]string{
		`{"data":[{"name":"a","size":"3TB","in":["eu"]}],"storage":{"eu":"5TB"},"copy_gbps":2}`: "",
		`{}`: "",
		`{"data":[{"name":"a b","size":"3TB","in":["eu"]}]}`:                                   `data "a b"`,
		`{"data":[{"name":"a|b","size":"3TB","in":["eu"]}]}`:                                   `data "a|b"`,
		`{"data":[{"name":"a","size":"much","in":["eu"]}]}`:                                    `data "a": size`,
		`{"data":[{"name":"a","size":"3TB"}]}`:                                                 `data "a" is in no region`,
		`{"data":[{"name":"a","size":"3TB","in":["x"]},{"name":"a","size":"3TB","in":["x"]}]}`: `data "a" is told twice`,
		`{"storage":{"eu":"-"}}`:                                                               `storage of region "eu"`,
		`{"copy_gbps":-1}`:                                                                     "copies at -1 GB/s",
		`{"speed":1}`:                                                                          `unknown field "speed"`,
		`data`:                                                                                 "is no catalogue of data",
	} {
		_, err := experiment.ReadData(strings.NewReader(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestCopies: what two jobs read is copied one after the other, at the speed that is told, and they begin when it is
// there; without copies they never do. A job whose data nobody knows runs anywhere.
func TestCopies(t *testing.T) {
	jobs := experiment.Jobs{
		reader("a", "x|y", 8, 0, 100*time.Second), reader("b", "x|z", 8, time.Second, 100*time.Second), reader("c", "x", 8, 2*time.Second, 10*time.Second),
		reader("d", "unknown", 8, 3*time.Second, 10*time.Second),
	}
	data := &replica.Catalogue{Data: []replica.Data{{Name: "x", Size: 100e9, In: []string{"eu"}}, {Name: "y", Size: 20e9, In: []string{"us"}}, {Name: "z", Size: 30e9, In: []string{"ap"}}}, GBps: 0.5}
	x := &experiment.Experiment{Spec: regional(t), Seed: 1, Data: data}
	for move, want := range map[string]string{"": "-1ns -1ns 12s 13s", "on-demand": "2m20s 3m20s 12s 13s"} {
		if x.Move = nil; move != "" {
			var err error
			if x.Move, err = replica.Parse(move); err != nil {
				t.Fatal(err)
			}
		}
		for _, policy := range []string{"mast", "fifo(mode=skip)", "srtf"} {
			ends, o := lives(t, x, policy, jobs)
			if got := fmt.Sprint(ends[0], " ", ends[2], " ", ends[4], " ", ends[6]); got != want {
				t.Errorf("%s, moved %q: they end at %s, want %s", policy, move, got, want)
			}
			if told := strings.Join(o.Remarks(), "\n"); move != "" && !strings.Contains(told, "copied to another region 2 times, 46.57GiB in all") {
				t.Errorf("%s: %s", policy, told)
			}
		}
	}
}

// present fails a test where a job begins in a place without its data.
type present struct{ t *testing.T }

// Event implements engine.Sink.
func (w present) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind != eventlog.Start && ev.Kind != eventlog.Move {
		return
	}
	j := s.Record(ev.Job).Job
	for name := range strings.SplitSeq(j.Dataset, "|") {
		for _, at := range s.Alloc(ev.Job).Pieces {
			n := s.Cluster.Node(at.Node)
			if _, has := n.Label(sched.DataLabel + name); name != "" && !has {
				w.t.Errorf("at %v job %s begins on %s, which lacks %s", ev.Time, j.Key, n.Name, name)
			}
		}
	}
}

// TestDataIsThere: acceptance 5 of MAST. Whatever moves data and under whatever policy, no job begins where what it
// reads is not, and all end.
func TestDataIsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	regions := []string{"eu", "us", "ap"}
	for i := range 40 {
		data := &replica.Catalogue{GBps: []float64{0, 0.01}[r.IntN(2)], Storage: map[string]unit.Bytes{}}
		for _, name := range regions {
			data.Storage[name] = unit.Bytes(9+r.IntN(9)) * 1e9
		}
		for k := range 6 {
			data.Data = append(data.Data, replica.Data{Name: fmt.Sprint("d", k), Size: unit.Bytes(1+r.IntN(3)) * 1e9, In: []string{regions[(k*k+i)%3]}})
		}
		var jobs experiment.Jobs
		at := time.Duration(0)
		for k := range 30 {
			reads := fmt.Sprint("d", r.IntN(6))
			at += time.Duration(r.IntN(9)) * time.Minute
			if r.IntN(4) == 0 {
				reads = ""
			}
			jobs = append(jobs, reader(fmt.Sprint(k), reads, 1+r.IntN(16), at, time.Duration(r.IntN(90))*time.Minute))
		}
		x := &experiment.Experiment{Spec: regional(t), Seed: 1, Data: data, Watch: func(string) engine.Sink { return present{t} }}
		for _, move := range []string{"on-demand", "tetris(period=20m,move=0)", "tetris(period=45m,keep=0.01)"} {
			var err error
			if x.Move, err = replica.Parse(move); err != nil {
				t.Fatal(err)
			}
			for _, policy := range []string{"mast", "srsf"} {
				ends, o := lives(t, x, policy, jobs)
				for k := 0; k < len(ends); k += 2 {
					if ends[k] < 0 {
						t.Fatalf("world %d, %s, %s: job %s does not end: %v", i, policy, move, jobs[k/2].Job.Key, o.State.Record(job.ID(k/2)).Reason)
					}
				}
			}
		}
	}
}
