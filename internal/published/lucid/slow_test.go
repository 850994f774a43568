package lucid

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// This is the published loop once more, slow and plain: every second looks at
// every job of a virtual cluster. The policies of this package are held against
// it.

type slowJob struct {
	key              string
	gpus             int
	submit, duration int64
	priority         float64 // predicted GPU time

	remain, service      int64
	start, end           int64
	queue, stopped       int64 // time waited, and when it was last preempted
	preempt              int
	begun, running, over bool
	on                   map[int]int // node -> GPUs
}

// slowVC is a virtual cluster.
type slowVC struct {
	free     []int // of each node
	line     []*slowJob
	running  []*slowJob
	arrivals []*slowJob
	open     int // jobs that have not ended
}

func (v *slowVC) idle() int {
	n := 0
	for _, f := range v.free {
		n += f
	}
	return n
}

// place is the consolidating placer.
func (v *slowVC) place(j *slowJob) bool {
	if v.idle() < j.gpus {
		return false
	}
	var nodes []int
	for i, f := range v.free {
		if f > 0 {
			nodes = append(nodes, i)
		}
	}
	take := map[int]int{}
	if j.gpus <= 8 {
		sort.SliceStable(nodes, func(a, b int) bool { return v.free[nodes[a]] < v.free[nodes[b]] })
		for _, n := range nodes {
			if v.free[n] >= j.gpus {
				take[n] = j.gpus
				return v.give(j, take)
			}
		}
		return false
	}
	sort.SliceStable(nodes, func(a, b int) bool { return v.free[nodes[a]] > v.free[nodes[b]] })
	whole, rest := j.gpus/8, j.gpus%8
	for _, n := range nodes {
		switch {
		case whole > 0 && v.free[n] == 8:
			take[n] = 8
			if whole--; whole == 0 && rest == 0 {
				return v.give(j, take)
			}
		case whole == 0 && v.free[n] >= rest:
			take[n] = rest
			return v.give(j, take)
		default:
			return false
		}
	}
	return false
}

func (v *slowVC) give(j *slowJob, take map[int]int) bool {
	for n, g := range take {
		v.free[n] -= g
	}
	j.on = take
	return true
}

func (v *slowVC) leave(j *slowJob) {
	for n, g := range j.on {
		v.free[n] += g
	}
	j.on = nil
	v.running = slices.DeleteFunc(v.running, func(r *slowJob) bool { return r == j })
}

func (v *slowVC) end(j *slowJob, now int64) {
	v.leave(j)
	j.over, j.running, j.end = true, false, now
	v.open--
}

// arrive appends who comes now and returns how many.
func (v *slowVC) arrive(now int64) int {
	n := 0
	for len(v.arrivals) > 0 && v.arrivals[0].submit == now {
		j := v.arrivals[0]
		j.remain = j.duration
		v.line, v.arrivals = append(v.line, j), v.arrivals[1:]
		n++
	}
	return n
}

func (v *slowVC) begin(j *slowJob, now int64) {
	if !j.begun {
		j.begun, j.start, j.queue = true, now, now-j.submit
	} else {
		j.queue += now - j.stopped
	}
	j.running = true
	v.line = slices.DeleteFunc(v.line, func(r *slowJob) bool { return r == j })
	v.running = append(v.running, j)
}

// inLine is a tick of fifo, sjf and qssf.
func (v *slowVC) inLine(policy string, now int64) {
	for _, j := range slices.Clone(v.running) {
		if j.end == now {
			v.end(j, now)
		}
	}
	fresh := v.arrive(now)
	by := func(less func(a, b *slowJob) bool) {
		sort.SliceStable(v.line, func(a, b int) bool { return less(v.line[a], v.line[b]) })
	}
	switch policy {
	case "fifo":
		by(func(a, b *slowJob) bool { return a.submit < b.submit })
	case "sjf":
		by(func(a, b *slowJob) bool { return a.duration < b.duration })
	case "qssf":
		by(func(a, b *slowJob) bool { return a.gpus < b.gpus })
		if len(v.line) > fresh {
			by(func(a, b *slowJob) bool { return a.priority < b.priority })
		}
	}
	for _, j := range slices.Clone(v.line) {
		if !v.place(j) {
			break
		}
		v.begin(j, now)
		j.end = now + j.duration
	}
}

// counting is a tick of srtf and tiresias.
func (v *slowVC) counting(policy string, now int64) {
	for _, j := range slices.Clone(v.running) {
		if j.remain == 0 {
			v.end(j, now)
		} else {
			j.remain--
			j.service += int64(j.gpus)
		}
	}
	v.arrive(now)
	var jobs []*slowJob
	if policy == "srtf" {
		jobs = append(slices.Clone(v.line), v.running...)
		sort.SliceStable(jobs, func(a, b int) bool { return jobs[a].remain < jobs[b].remain })
	} else if now%60 == 0 {
		jobs = append(slices.Clone(v.running), v.line...)
		sort.SliceStable(jobs, func(a, b int) bool {
			x, y := jobs[a], jobs[b]
			if low := x.service > 18000; low != (y.service > 18000) {
				return !low
			}
			return x.submit < y.submit
		})
	}
	quota := 8 * len(v.free)
	var out, in []*slowJob
	for _, j := range jobs {
		switch {
		case j.gpus <= quota:
			quota -= j.gpus
			if !j.running {
				in = append(in, j)
			}
		case j.running:
			out = append(out, j)
		}
	}
	for _, j := range out {
		v.leave(j)
		j.running, j.stopped = false, now
		j.preempt++
		if j.remain += 40; j.gpus > 8 {
			j.remain += 20
		}
		v.line = append(v.line, j)
	}
	for _, j := range in {
		if v.place(j) {
			v.begin(j, now)
		}
	}
}

// slowRun runs a policy on the jobs of a virtual cluster, in order of
// submission, and gives up after so many seconds.
func slowRun(policy string, nodes int, jobs []*slowJob, ticks int64) {
	v := &slowVC{free: make([]int, nodes), arrivals: jobs, open: len(jobs)}
	for i := range v.free {
		v.free[i] = 8
	}
	for now := windowBegin; v.open > 0 && now < windowBegin+ticks; now++ {
		if policy == "srtf" || policy == "tiresias" {
			v.counting(policy, now)
		} else {
			v.inLine(policy, now)
		}
	}
}

const head = "job_id,user,vc,gpu_num,submit_time,duration\n"

// row is a line of a job log; at counts from the beginning of the window.
func row(key any, vc string, gpus int, at, duration int64) string {
	return fmt.Sprintf("%v,u,%s,%d,2020-09-01 %02d:%02d:%02d,%d\n", key, vc, gpus, at/3600, at/60%60, at%60, duration)
}

// anchor is a job at the origin, so that times count from there.
const anchor = "0,u,a,1,2020-04-01 00:00:00,60\n"

func readText(t *testing.T, text string, vcs []vc) harness.Jobs {
	t.Helper()
	table, err := harness.NewTable("log.csv", head+text)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := readLog(table, vcs)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func randomLog(r *rand.Rand, vcs []vc, zeros bool) string {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	span := pick(1, 5, 60, 600)
	durations := [][]int{{1, 2, 3}, {5, 50, 300}, {100, 200, 300}, {30, 61, 119}, {600, 1500}}[r.IntN(5)]
	var b strings.Builder
	b.WriteString(anchor)
	for key := 1; key < 4+r.IntN(30); key++ {
		v := vcs[r.IntN(len(vcs))]
		gpus := pick(1, 2, 3, 4, 8, 8, 10, 12, 16, 20)
		for gpus > 8*v.nodes {
			gpus /= 2
		}
		duration := pick(durations...)
		if zeros && r.IntN(20) == 0 {
			duration = 0
		}
		b.WriteString(row(key, v.name, gpus, int64(r.IntN(span)), int64(duration)))
	}
	return b.String()
}

// TestDifferential holds every policy against the slow version on small random
// logs: every column of every job must be equal.
func TestDifferential(t *testing.T) {
	for _, p := range Policies() {
		if p.make == nil {
			continue // see TestPackedDifferential
		}
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 5))
				vcs := []vc{{"a", 1 + r.IntN(3)}, {"b", 1 + r.IntN(4)}}
				jobs := readText(t, randomLog(r, vcs, p.counts), vcs)
				slow := map[string]*slowJob{}
				for _, v := range vcs {
					var mine []*slowJob
					for i := range jobs {
						j := &jobs[i]
						if j.Job.Tenant != v.name {
							continue
						}
						s := &slowJob{key: j.Job.Key, gpus: j.Job.Demand.GPUs(), submit: secs(j.Job.Submit), duration: secs(j.Truth.Work)}
						s.priority = float64(r.IntN(5) * s.gpus)
						setPriority(j, s.priority)
						slow[s.key], mine = s, append(mine, s)
					}
					slowRun(p.Name, v.nodes, mine, 200_000)
				}
				got, err := p.run(context.Background(), vcs, jobs)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				compareSlow(t, seed, got, slow)
			}
		})
	}
}

func compareSlow(t *testing.T, seed uint64, got *harness.Result, slow map[string]*slowJob) {
	t.Helper()
	ended := 0
	for i := range got.Rows {
		row := &got.Rows[i]
		j := slow[row.Key]
		line := string(got.Append(nil, row))
		f := strings.Split(line, ",")
		want := fmt.Sprintf("%s,%s,%d,%d,%d,%d,%d,%d,%d,%d", j.key, f[1], j.gpus, j.submit, j.start, j.end, j.end-j.submit, j.duration, j.queue, j.preempt)
		if !j.over || line != want {
			t.Fatalf("seed %d:\n got %s\nwant %s (ended: %v)", seed, line, want, j.over)
		}
		ended++
	}
	for _, j := range slow {
		if j.over {
			ended--
		}
	}
	if ended != 0 {
		t.Fatalf("seed %d: %d jobs more have ended than should", seed, ended)
	}
}
