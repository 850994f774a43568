package lucid

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowPacked is Lucid's loop once more, slow and plain: every second looks at every
// job of a virtual cluster, and takes its progress away.
func slowPacked(in *packedInput, nodes int, jobs []*packedJob, ticks int64) {
	free := slices.Repeat([]int{nodeGPUs}, nodes)
	var line, running []*packedJob
	holds := map[*packedJob][]int{} // nodes
	shared := map[*packedJob]bool{}
	host, guest := map[*packedJob]*packedJob{}, map[*packedJob]*packedJob{}
	left := map[*packedJob]float64{}
	rate := map[*packedJob]float64{}
	packs := false
	begin := func(j *packedJob, now int64, r float64) {
		j.start, left[j], rate[j] = now, float64(j.duration), r
		running = append(running, j)
	}
	place := func(j *packedJob) bool {
		var on []int
		for need := j.gpus; need > 0; need -= nodeGPUs {
			best := -1
			for n, f := range free {
				if f >= min(need, nodeGPUs) && !slices.Contains(on, n) && (best < 0 || f < free[best]) {
					best = n
				}
			}
			if best < 0 {
				return false
			}
			on = append(on, best)
		}
		for _, n := range on {
			free[n] -= min(j.gpus, nodeGPUs)
		}
		holds[j] = on
		return true
	}
	for now := windowBegin; now < windowBegin+ticks; now++ {
		for _, j := range slices.Clone(running) {
			if left[j] > 0 {
				left[j] -= rate[j]
				continue
			}
			j.end = now
			running = slices.DeleteFunc(running, func(o *packedJob) bool { return o == j })
			if h := host[j]; h != nil { // the host is there still: it has its speed back
				shared[h], rate[h] = false, 1
				delete(guest, h)
				continue
			}
			if g := guest[j]; g != nil { // the guest keeps the GPUs, and its speed
				delete(host, g)
				holds[g] = holds[j]
				continue
			}
			for _, n := range holds[j] {
				free[n] += min(j.gpus, nodeGPUs)
			}
		}
		for _, j := range jobs {
			if j.submit == now {
				line = append(line, j)
			}
		}
		slices.SortStableFunc(line, func(a, b *packedJob) int { return int(a.rank - b.rank) })
		if now%100 == 0 {
			packs = in.forecast.packs(now)
		}
		for _, j := range slices.Clone(line) {
			started := false
			for _, h := range running {
				if packs && !shared[h] && h.gpus == j.gpus && j.gpus <= nodeGPUs && h.traits.memory < cardMemory-j.traits.memory &&
					j.traits.score+h.traits.score <= 2 && j.rank <= 2*h.rank {
					r, _ := in.pairs.of(j, h)
					shared[h], shared[j], rate[h] = true, true, r[1]
					host[j], guest[h] = h, j
					begin(j, now, r[0])
					started = true
					break
				}
			}
			if !started && place(j) {
				begin(j, now, 1)
				started = true
			}
			if started {
				line = slices.DeleteFunc(line, func(o *packedJob) bool { return o == j })
			} else if !packs {
				break
			}
		}
	}
}

// TestPackedDifferential holds Lucid's own policy against the slow version on small
// random logs of one virtual cluster, without the profiler.
func TestPackedDifferential(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		in := &packedInput{pairs: pairs{}, forecast: make(forecast, 40)}
		for i := range in.forecast {
			in.forecast[i].jobs = float64(r.IntN(6))
		}
		names := []string{"a", "b", "BERT"}
		for _, a := range names {
			for _, b := range names {
				in.pairs[[2]string{a, b}] = [2]float64{float64(400+r.IntN(700)) / 1000, float64(400+r.IntN(700)) / 1000}
			}
		}
		nodes := 1 + r.IntN(3)
		var fast, slow []*packedJob
		at := windowBegin
		for i := range 5 + r.IntN(40) {
			at += int64(r.IntN(1 + r.IntN(200)))
			name := names[r.IntN(len(names))]
			j := packedJob{
				key: fmt.Sprint(i), gpus: []int{1, 1, 2, 4, 8, 8 * nodes}[r.IntN(6)], submit: at, duration: int64(r.IntN(900)),
				traits: traits{name, name, r.IntN(3), float64(1000 * r.IntN(24))},
			}
			j.rank = float64(r.IntN(8) * j.gpus)
			again := j
			fast, slow = append(fast, &j), append(slow, &again)
		}
		v := &packedVC{in: in, idle: nodes * nodeGPUs, free: slices.Repeat([]int{nodeGPUs}, nodes), names: make([]int, nodes), arrivals: slices.Clone(fast)}
		if err := v.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		slowPacked(in, nodes, slow, 60_000)
		for i := range fast {
			if fast[i].start != slow[i].start || fast[i].end != slow[i].end {
				t.Fatalf("seed %d, job %d: from %d to %d, slow from %d to %d", seed, i, fast[i].start, fast[i].end, slow[i].start, slow[i].end)
			}
		}
	}
}

// TestCountDown: the progress of many seconds at once is that of one after the other,
// to the last bit.
func TestCountDown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		left, rate := float64(r.IntN(20_000)), float64(1+r.IntN(1100))/1000
		if r.IntN(2) == 0 {
			left *= r.Float64()
		}
		most := int64(r.IntN(30_000))
		want, n := left, int64(0)
		for want > 0 && n < most {
			want -= rate
			n++
		}
		if got, m := countDown(left, rate, most); got != want || m != n {
			t.Fatalf("%v less %v, %d times: %v after %d, want %v after %d", left, rate, most, got, m, want, n)
		}
		if math.IsNaN(want) {
			t.Fatal(want)
		}
	}
}
