package main

import (
	"math"
	"sort"

	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

// span is a range of GPU counts, both ends included.
type span struct{ least, most int }

func (s span) has(gpus int) bool { return gpus >= s.least && gpus <= s.most }

// filter returns the jobs for which keep holds.
func filter(jobs []logs.Job, keep func(*logs.Job) bool) []logs.Job {
	var out []logs.Job
	for i := range jobs {
		if keep(&jobs[i]) {
			out = append(out, jobs[i])
		}
	}
	return out
}

// runs are the run times of jobs.
func runs(jobs []logs.Job) []float64 {
	out := make([]float64, len(jobs))
	for i := range jobs {
		out[i] = jobs[i].Run
	}
	return out
}

// sizesOf counts the jobs of each gang size, smallest first.
func sizesOf(jobs []logs.Job) (sizes, counts []int) {
	n := map[int]int{}
	for i := range jobs {
		n[jobs[i].GPUs]++
	}
	for s := range n {
		sizes = append(sizes, s)
	}
	sort.Ints(sizes)
	for _, s := range sizes {
		counts = append(counts, n[s])
	}
	return sizes, counts
}

// clock counts submissions by hour of the day and by day of the week, relative
// to the mean.
func clock(jobs []logs.Job, hours, days int) (byHour, byDay []float64) {
	byHour, byDay = make([]float64, hours), make([]float64, days)
	for i := range jobs {
		hour := int(math.Floor(jobs[i].Submit / 3600))
		byHour[hour%hours] += float64(hours) / float64(len(jobs))
		byDay[hour/hours%days] += float64(days) / float64(len(jobs))
	}
	return byHour, byDay
}

// quantiles are n equally spaced ones, least and greatest included.
func quantiles(values []float64, n int) []float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	out := make([]float64, n)
	for i := range out {
		if len(sorted) > 0 {
			out[i] = sorted[i*(len(sorted)-1)/(n-1)]
		}
	}
	return out
}

// activity is what share of the jobs comes from the 1, 2, 3, 5, ... most active
// users, up to all of them.
func activity(jobs []logs.Job) (users []int, shares []float64) {
	count := map[string]int{}
	for i := range jobs {
		count[jobs[i].User]++
	}
	var counts []int
	for _, n := range count {
		counts = append(counts, n)
	}
	sort.Sort(sort.Reverse(sort.IntSlice(counts)))
	sum, marks := 0, []int{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}
	for i, n := range counts {
		sum += n
		if len(marks) > 0 && i+1 == marks[0] || i+1 == len(counts) {
			users, shares = append(users, i+1), append(shares, float64(sum)/float64(len(jobs)))
			if len(marks) > 0 && i+1 == marks[0] {
				marks = marks[1:]
			}
		}
	}
	return users, shares
}
