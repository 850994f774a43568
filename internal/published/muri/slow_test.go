package muri

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/yarn"
)

// This is the published loop once more, slow and plain: every event looks at
// every job. The policies of this package are held against it.

type slowJob struct {
	gpus                   int
	submit                 float64
	iteration, left        float64
	overhead               float64
	start, end             float64
	checked, executed      float64
	queue                  int
	running, started, over bool
}

func (j *slowJob) remaining() float64 { return j.left * j.iteration }

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

type slowEvent struct {
	at   float64
	jobs []*slowJob
}

// slowArrivals lets a job arrive with the first event that is close.
func slowArrivals(jobs []*slowJob) []*slowEvent {
	sorted := slices.Clone(jobs)
	sort.SliceStable(sorted, func(a, b int) bool { return sorted[a].submit < sorted[b].submit })
	var events []*slowEvent
next:
	for _, j := range sorted {
		for _, e := range events {
			if close9(e.at, j.submit) {
				e.jobs = append(e.jobs, j)
				continue next
			}
		}
		events = append(events, &slowEvent{j.submit, []*slowJob{j}})
	}
	return events
}

// slowRun runs a policy.
func slowRun(policy string, jobs []*slowJob, spec yarn.Spec) {
	events := slowArrivals(jobs)
	var runnable []*slowJob
	queues := make([][]*slowJob, 3)
	var ends []*slowJob
	endAt, jump := math.Inf(1), math.Inf(1)
	for len(events) > 0 || len(ends) > 0 {
		now := endAt
		if len(events) > 0 {
			now = min(now, events[0].at)
		}
		var ended, came []*slowJob
		if now > jump {
			now = jump
		} else {
			if now == endAt {
				ended = ends
			}
			if len(events) > 0 && now == events[0].at {
				came, events = events[0].jobs, events[1:]
			}
		}
		for _, j := range ended {
			j.end, j.over, j.running = now, true, false
			gone := func(r *slowJob) bool { return r == j }
			runnable, queues[j.queue] = slices.DeleteFunc(runnable, gone), slices.DeleteFunc(queues[j.queue], gone)
		}
		for _, j := range came {
			j.checked = j.submit
			runnable, queues[0] = append(runnable, j), append(queues[0], j)
		}
		slowLook(policy, now, runnable, queues)
		if policy == "dlas-gpu" {
			slowWalk(now, spec.Total(), queues)
		} else {
			slowSort(policy, now, runnable, spec)
		}
		ends, endAt = slowEnds(policy, now, runnable)
		jump = slowJump(policy, now, runnable)
	}
}

// slowLook takes the overhead from every running job, and lets jobs sink.
func slowLook(policy string, now float64, runnable []*slowJob, queues [][]*slowJob) {
	for _, j := range runnable {
		if j.running {
			j.left -= max(now-j.checked-j.overhead, 0) / j.iteration
			j.executed = j.executed + now - j.checked
		}
		j.checked = now
		if policy == "dlas-gpu" && j.running && j.queue < 2 && j.executed*float64(j.gpus) >= []float64{3250, 7200}[j.queue] {
			queues[j.queue] = slices.DeleteFunc(queues[j.queue], func(r *slowJob) bool { return r == j })
			j.queue++
			queues[j.queue] = append(queues[j.queue], j)
		}
	}
}

func (j *slowJob) set(runs bool, now float64) {
	if j.running = runs; runs && !j.started {
		j.started, j.start = true, now
	}
}

func slowSort(policy string, now float64, runnable []*slowJob, spec yarn.Spec) {
	key := func(j *slowJob) float64 {
		if policy == "shortest-gpu" {
			return j.remaining() * float64(j.gpus)
		}
		return j.remaining()
	}
	sort.SliceStable(runnable, func(a, b int) bool { return key(runnable[a]) < key(runnable[b]) })
	place := yarn.New(spec)
	for _, j := range runnable {
		j.set(place.Fit(j.gpus), now)
	}
}

func slowWalk(now float64, free int, queues [][]*slowJob) {
	for _, q := range queues {
		for _, j := range q {
			fits := j.gpus <= free
			if fits {
				free -= j.gpus
			}
			j.set(fits, now)
		}
		sort.SliceStable(q, func(a, b int) bool { return q[a].running && !q[b].running })
	}
}

// slowEnds is who ends next.
func slowEnds(policy string, now float64, runnable []*slowJob) (ends []*slowJob, at float64) {
	type bucket struct {
		at   float64
		jobs []*slowJob
	}
	var buckets []*bucket
next:
	for _, j := range runnable {
		if !j.running {
			continue
		}
		end := now + j.remaining()
		for _, b := range buckets {
			if policy != "dlas-gpu" && close9(b.at, end) || b.at == end {
				b.jobs = append(b.jobs, j)
				continue next
			}
		}
		buckets = append(buckets, &bucket{end, []*slowJob{j}})
	}
	at = math.Inf(1)
	for _, b := range buckets {
		if b.at < at {
			at, ends = b.at, b.jobs
		}
	}
	return ends, at
}

func slowJump(policy string, now float64, runnable []*slowJob) float64 {
	jump := math.Inf(1)
	for _, j := range runnable {
		if policy == "dlas-gpu" && j.running && j.queue < 2 {
			jump = min(jump, math.Ceil([]float64{3250, 7200}[j.queue]/float64(j.gpus))-j.executed+now)
		}
	}
	return jump
}

// randomRows makes a small trace with many ties, and many near ones late in
// time.
func randomRows(r *rand.Rand) []string {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	origin, span := pick(0, 0, 1_000_000_000, 3_000_000_000), pick(50_000, 500_000, 5_000_000)
	models := []string{"vgg16", "vgg19", "resnet18", "shufflenet_v2_x1_0", "bert", "gpt2", "a2c", "dqn", "other"}
	sizes := [][]int{{1, 2, 4, 8}, {1, 1, 1, 2}, {4, 8, 16, 32}, {8}}[r.IntN(4)]
	times, counts := [][]int{{100}, {100, 50, 886}, {190, 921, 1000, 63}}[r.IntN(3)], [][]int{{1000, 2000}, {0, 10, 20, 30}, {50_000}}[r.IntN(3)]
	moments := []int{origin + r.IntN(span), origin + r.IntN(span), origin + r.IntN(span)}
	tied := r.IntN(3) > 0
	rows := make([]string, 3+r.IntN(30))
	for i := range rows {
		at := origin + r.IntN(span)
		if tied {
			at = pick(moments...) + pick(0, 0, 1, 2)
		}
		rows[i] = fmt.Sprintf("%d,%d,%d,%d,%s,%d,%d", i, pick(sizes...), at, pick(counts...), models[r.IntN(1+r.IntN(len(models)))], 1, pick(times...))
	}
	return rows
}

const head = "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time\n"

// read reads rows, and makes the slow jobs of them, by number.
func read(t *testing.T, rows []string) (*workload, []*slowJob) {
	t.Helper()
	table, err := harness.NewTable("trace.csv", head+strings.Join(rows, "\n")+"\n")
	if err != nil {
		t.Fatal(err)
	}
	w, err := readTable(table)
	if err != nil {
		t.Fatal(err)
	}
	slow := make([]*slowJob, len(w.facts))
	for i, f := range w.facts {
		slow[i] = &slowJob{gpus: f.gpus, submit: f.submit, iteration: f.iteration, left: f.left, overhead: f.overhead}
	}
	return w, slow
}

// TestDifferential holds every policy against the slow version on small random
// traces. Events that follow each other within less than a nanosecond, as they
// do when the last bits differ, are a nanosecond apart in the engine.
func TestDifferential(t *testing.T) {
	for _, p := range Policies() {
		if p.groups || p.Name == "themis" { // which the slow version does not know; the golden results do
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(150) {
				r := rand.New(rand.NewPCG(seed, 4))
				w, slow := read(t, randomRows(r))
				spec := []yarn.Spec{{Switches: 1, Nodes: 1, GPUs: 8, CPUs: 92, Memory: 520}, {Switches: 1, Nodes: 4, GPUs: 4, CPUs: 92, Memory: 520},
					{Switches: 2, Nodes: 2, GPUs: 8, CPUs: 50, Memory: 100}, {Switches: 1, Nodes: 8, GPUs: 8, CPUs: 92, Memory: 520}}[r.IntN(4)]
				got, err := p.run(context.Background(), spec, w)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				slowRun(p.Name, slow, spec)
				rows := map[int32]harness.Row{}
				for _, row := range got.Rows {
					rows[row.Job] = row
				}
				for i, j := range slow {
					row, ends := rows[int32(i)]
					if ends != j.over || ends && (math.Abs(row.Start-j.start) > 1e-7 || math.Abs(row.End-j.end) > 1e-7) {
						t.Fatalf("seed %d: job %s runs from %v to %v (ends: %v), want %v to %v (%v)", seed, w.jobs[i].Job.Key, row.Start, row.End, ends, j.start, j.end, j.over)
					}
				}
			}
		})
	}
}
