package backlog

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// plain is a List as the published code keeps it: a slice that is sorted
// stably.
type plain struct {
	jobs []plainJob
}

type plainJob struct {
	id      int32
	gpus    int
	key     int64
	running bool
}

func (p *plain) scan(free int) (stops, starts []int32) {
	sort.SliceStable(p.jobs, func(a, b int) bool { return p.jobs[a].key < p.jobs[b].key })
	for i := range p.jobs {
		j := &p.jobs[i]
		fits := j.gpus <= free
		if fits {
			free -= j.gpus
		}
		switch {
		case fits && !j.running:
			starts = append(starts, j.id)
		case !fits && j.running:
			stops = append(stops, j.id)
		}
		j.running = fits
	}
	return stops, starts
}

// TestList holds a List against a slice that is sorted anew: jobs come, leave
// and change their keys at random, with many ties.
func TestList(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var l List
		var p plain
		for next, step := int32(0), 0; step < 60; step++ {
			if len(p.jobs) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(p.jobs))
				l.Remove(p.jobs[i].id)
				p.jobs = slices.Delete(p.jobs, i, i+1)
			}
			keys := map[int32]int64{}
			var ids []int32
			for i := range p.jobs {
				if j := &p.jobs[i]; r.IntN(3) == 0 {
					j.key = int64(r.IntN(6))
					keys[j.id] = j.key
					ids = append(ids, j.id)
				}
			}
			l.Rekey(ids, func(id int32) int64 { return keys[id] })
			for range r.IntN(3) {
				j := plainJob{id: next, gpus: 1 + r.IntN(4), key: int64(r.IntN(6))}
				p.jobs = append(p.jobs, j)
				l.Add(j.id, j.gpus, j.key, l.Back())
				next++
			}
			free := r.IntN(12)
			wantStops, wantStarts := p.scan(free)
			stops, starts := l.Scan(func(_ int32, gpus int) bool {
				if gpus > free {
					return false
				}
				free -= gpus
				return true
			})
			if !slices.Equal(stops, wantStops) || !slices.Equal(starts, wantStarts) {
				t.Fatalf("seed %d step %d: stops %v and starts %v, want %v and %v", seed, step, stops, starts, wantStops, wantStarts)
			}
			for _, id := range stops {
				l.Stop(id)
			}
			for _, id := range starts {
				l.Start(id)
			}
		}
	}
}

// TestQueues holds Queues against lists of jobs, in which the running ones are
// put first after each walk.
func TestQueues(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var q Queues
		var lists [NumQueues][]plainJob
		for next, step := int32(0), 0; step < 60; step++ {
			for i := range lists {
				if n := len(lists[i]); n > 0 && r.IntN(4) == 0 {
					at := r.IntN(n)
					q.Remove(lists[i][at].id)
					lists[i] = slices.Delete(lists[i], at, at+1)
				}
			}
			for range r.IntN(3) {
				j := plainJob{id: next, gpus: 1 + r.IntN(4)}
				lists[0] = append(lists[0], j)
				q.Arrive(j.id, j.gpus)
				next++
			}
			moveSome(r, &q, &lists)
			free := r.IntN(12)
			compareWalk(t, &q, &lists, free)
		}
	}
}

// moveSome sinks some running jobs and raises some pending ones.
func moveSome(r *rand.Rand, q *Queues, lists *[NumQueues][]plainJob) {
	var movers []plainJob
	for i := range lists {
		lists[i] = slices.DeleteFunc(lists[i], func(j plainJob) bool {
			moves := r.IntN(4) == 0 && (j.running && i < NumQueues-1 || !j.running && i > 0)
			if moves {
				j.key = 0
				if j.running {
					j.key = int64(i + 1)
				}
				movers = append(movers, j)
			}
			return moves
		})
	}
	for _, j := range movers {
		if j.running {
			q.Leave(j.id)
			q.Sink(j.id)
		} else {
			q.Rise(j.id)
		}
		lists[j.key] = append(lists[j.key], j)
	}
}

func compareWalk(t *testing.T, q *Queues, lists *[NumQueues][]plainJob, free int) {
	t.Helper()
	var wantStops, wantStarts []int32
	left := free
	for i := range lists {
		for k := range lists[i] {
			j := &lists[i][k]
			fits := j.gpus <= left
			if fits {
				left -= j.gpus
			}
			switch {
			case fits && !j.running:
				wantStarts = append(wantStarts, j.id)
			case !fits && j.running:
				wantStops = append(wantStops, j.id)
			}
			j.running = fits
		}
		sort.SliceStable(lists[i], func(a, b int) bool { return lists[i][a].running && !lists[i][b].running })
	}
	stops, starts := q.Walk(int64(free), func(id int32, queue int, starts bool) (mark, due int64) {
		if starts != slices.Contains(wantStarts, id) {
			t.Fatalf("job %d enters queue %d and is said to start: %v", id, queue, starts)
		}
		return int64(id), math.MaxInt64
	})
	slices.Sort(wantStops)
	sorted := slices.Clone(stops)
	slices.Sort(sorted)
	if !slices.Equal(sorted, wantStops) || !slices.Equal(starts, wantStarts) {
		t.Fatalf("stops %v and starts %v, want %v and %v", stops, starts, wantStops, wantStarts)
	}
	for i := range lists {
		var running []int32
		for _, j := range lists[i] {
			if j.running {
				running = append(running, j.id)
			}
			if q.Queue(j.id) != i || q.GPUs(j.id) != j.gpus || q.Waits(j.id) == j.running {
				t.Fatalf("job %d: is in queue %d with %d GPUs and waits: %v", j.id, q.Queue(j.id), q.GPUs(j.id), q.Waits(j.id))
			}
		}
		var got []int32
		for _, r := range q.Runners(i) {
			got = append(got, r.ID)
			if r.Mark != int64(r.ID) {
				t.Fatalf("runner %d has the mark %d", r.ID, r.Mark)
			}
		}
		if !slices.Equal(got, running) {
			t.Fatalf("queue %d runs %v, want %v", i, got, running)
		}
	}
}

func TestLeaveDue(t *testing.T) {
	var q Queues
	for id := range int32(4) {
		q.Arrive(id, 1)
	}
	q.Walk(4, func(id int32, _ int, _ bool) (mark, due int64) { return 0, 10 * int64(id) })
	if got := q.LeaveDue(0, -1, nil); len(got) != 0 {
		t.Errorf("%v leave before any is due", got)
	}
	if got := q.LeaveDue(0, 15, nil); !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("at 15, %v leave, want 0 and 1", got)
	}
	if got := q.LeaveDue(0, 19, nil); len(got) != 0 {
		t.Errorf("at 19, %v leave, want none", got)
	}
	if got := q.LeaveDue(0, 30, nil); !slices.Equal(got, []int32{2, 3}) {
		t.Errorf("at 30, %v leave, want 2 and 3", got)
	}
}

func TestFloatKey(t *testing.T) {
	values := []float64{math.Inf(-1), -3, -2.5, -1e-300, 0, 1e-300, 1, math.Nextafter(1, 2), 3e9, math.Inf(1)}
	for i, a := range values {
		for k, b := range values {
			if (FloatKey(a) < FloatKey(b)) != (i < k) {
				t.Errorf("keys of %v and %v: %d and %d", a, b, FloatKey(a), FloatKey(b))
			}
		}
	}
	if FloatKey(math.Copysign(0, -1)) != FloatKey(0) {
		t.Error("the zeros have different keys")
	}
}
